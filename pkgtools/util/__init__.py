"""Helpers that know nothing of patches: files, the cache folder, progress."""
