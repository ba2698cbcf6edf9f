"""Cache of package locations by image digest: several builds read a base once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from typing import TYPE_CHECKING, Final

import msgspec

from pkgtools.image.layer import Member  # noqa: TC001 - msgspec reads the annotation
from pkgtools.image.package import FoundPackage
from pkgtools.util.cache import cache_folder
from pkgtools.util.files import replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from pkgtools.image.model import Image
    from pkgtools.image.package import PackageQuery

_FORMAT: Final = 2
"""Of an entry, and of what `Image.find` puts into it; a new one for a change of either."""
_MOST: Final = 32
"""How many entries are kept; each has the size of the files that the series touch."""
_OWN: Final = re.compile(r"[0-9a-f]{64}|\.[0-9a-f]{64}\.pkgtools-new")
"""The names of entries, and of those that are being written."""
_DIGEST_BYTES: Final = hashlib.sha256().digest_size


class _Entry(msgspec.Struct):
    """A `FoundPackage`."""

    folder: str
    members: list[Member]
    names: list[str]


def known_package(image: Image, query: PackageQuery) -> FoundPackage:
    """Return the location of the package in an image, as `Image.find` does.

    A cached answer saves reading the image. A damaged or read-only cache only costs time.

    Raises:
        PkgtoolsError: as `Image.find`.

    """
    folder = cache_folder("images")
    if image.identity is None or folder is None:
        return image.find(query)
    path = folder / _key(image.identity, query)
    with contextlib.suppress(OSError, ValueError, msgspec.DecodeError):
        return _decoded(_read_own(path))
    package = image.find(query)
    with contextlib.suppress(OSError, UnicodeEncodeError):  # a name may be no text
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(path, _encoded(package))
        _forget_oldest(folder)
    return package


def _key(identity: tuple[str, ...], query: PackageQuery) -> str:
    """Return the cache key of an answer: the digest of its inputs."""
    upstream = query.upstream
    asked = (upstream.distribution, upstream.package, upstream.prefix, sorted(query.files))
    # What a user typed need not be UTF-8, which msgspec does not take.
    return hashlib.sha256(json.dumps((_FORMAT, identity, asked)).encode()).hexdigest()


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


def _encoded(package: FoundPackage) -> bytes:
    entry = _Entry(package.folder, list(package.members.values()), sorted(package.names))
    raw = msgspec.msgpack.encode(entry)
    return hashlib.sha256(raw).digest() + raw


def _decoded(raw: bytes) -> FoundPackage:
    """Decode an entry.

    Raises:
        ValueError: it is damaged.

    """
    digest, content = raw[:_DIGEST_BYTES], raw[_DIGEST_BYTES:]
    if hashlib.sha256(content).digest() != digest:
        raise ValueError("an entry is not what was written")
    entry = msgspec.msgpack.decode(content, type=_Entry)
    members = {member.path: member for member in entry.members}
    return FoundPackage(entry.folder, members, frozenset(entry.names))


def _forget_oldest(folder: Path) -> None:
    """Remove all but the newest entries, and leftovers of interrupted writes with them."""
    made = (path for path in folder.iterdir() if _OWN.fullmatch(path.name))
    entries = sorted(made, key=lambda path: path.stat().st_mtime_ns)
    for path in entries[:-_MOST]:
        path.unlink()
