"""Packages that were found in images before: several builds read a base once."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, Final, Protocol

from pkgtools.errors import PkgtoolsError
from pkgtools.image.facts import decode_facts, encode_facts, facts_key
from pkgtools.image.stored import LayeredImage
from pkgtools.util.cache import cache_folder
from pkgtools.util.files import replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from pkgtools.image.model import Image
    from pkgtools.image.package import FoundPackage, PackageQuery

_MOST: Final = 32
"""How many entries are kept; each has the size of the files that the series touch."""
_OWN: Final = re.compile(r"[0-9a-f]{64}|\.[0-9a-f]{64}\.pkgtools-new")
"""The names of entries, and of those that are being written."""


class KnownFacts(Protocol):
    """A place that the user trusts to say what is in an image."""

    def package(self, image: Image, query: PackageQuery) -> FoundPackage | None:
        """Return the package in an image; None if the place has no facts of it.

        Raises:
            PkgtoolsError: the place cannot be read, or its facts are damaged.

        """
        ...


def known_package(image: Image, query: PackageQuery) -> FoundPackage:
    """Return the location of the package in an image, as `Image.find` does.

    A cached answer saves reading the image. A damaged or read-only cache only costs time.
    Facts from elsewhere stay out of the cache: the next build need not trust their author.

    Raises:
        PkgtoolsError: as `Image.find`, or the given facts are damaged.

    """
    folder = cache_folder("images")
    if image.identity is None:
        return image.find(query)
    key = facts_key(image.identity, query)
    path = folder / key if folder else None
    if path is not None:
        with contextlib.suppress(OSError, ValueError, PkgtoolsError):
            cached = decode_facts(_read_own(path), key, query, str(path))
            if cached is not None:
                return cached
    trusted = image.facts if isinstance(image, LayeredImage) else None
    given = trusted.package(image, query) if trusted else None
    if given is not None:
        return given
    package = image.find(query)
    if folder is not None and path is not None:
        with contextlib.suppress(OSError, UnicodeEncodeError):  # a name may be no text
            folder.mkdir(parents=True, exist_ok=True)
            replace_file(path, encode_facts({key: package}))
            _forget_oldest(folder)
    return package


def _read_own(path: Path) -> bytes:
    """Read a file of this user; files of other users are not trusted.

    Several users can share a cache, by XDG_CACHE_HOME.

    Raises:
        ValueError: another user owns it.

    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:  # noqa: PTH123
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise ValueError(f"{path} is another user's")
        return file.read()


def _forget_oldest(folder: Path) -> None:
    """Remove all but the newest entries, and leftovers of interrupted writes with them."""
    made = (path for path in folder.iterdir() if _OWN.fullmatch(path.name))
    entries = sorted(made, key=lambda path: path.stat().st_mtime_ns)
    for path in entries[:-_MOST]:
        path.unlink()
