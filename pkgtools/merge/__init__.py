"""Structural three-way merge of Python source."""
