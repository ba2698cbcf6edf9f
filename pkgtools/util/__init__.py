"""General helpers: files, lines, the cache folder, progress."""
