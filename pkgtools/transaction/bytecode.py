"""Compiled files that go stale when their source changes.

Python trusts a ``.pyc`` whose recorded size and whole-second mtime are those of
the source (PEP 552 has modes that trust it always), so a same-size edit with a
clamped mtime leaves one that is imported. So they are removed.
"""

import glob
from collections.abc import Iterator
from pathlib import Path


def bytecode_of(source: Path) -> Iterator[Path]:
    """Yield the compiled files of one module, of every Python that compiled it."""
    if source.suffix != ".py":
        return
    cache = source.parent / "__pycache__"
    if not cache.is_symlink():
        found = sorted(cache.glob(f"{glob.escape(source.stem)}.*.pyc"))
        # The tag of a Python is text; what has another name is imported by none, nor is a
        # journal or RECORD able to list it.
        yield from (path for path in found if path.name.isprintable())
    legacy = source.with_suffix(".pyc")
    if legacy.exists():
        yield legacy
