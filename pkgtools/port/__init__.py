"""Porting a series to another revision: by lines, then by Python's structure, or not at all."""
