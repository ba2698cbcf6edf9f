"""What was read of images before, by their digests: a base is read once for all its builds."""

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
    """Return where the package lies in an image, as `Image.find` does.

    What is known of an image's digest is not read again. A cache that is damaged, or
    cannot be written, costs time and nothing else.

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
    """Return the name that an answer is kept by: the digest of all that it follows from."""
    upstream = query.upstream
    asked = (upstream.distribution, upstream.package, upstream.prefix, sorted(query.files))
    # What a user typed need not be UTF-8, which msgspec does not take.
    return hashlib.sha256(json.dumps((_FORMAT, identity, asked)).encode()).hexdigest()


def _read_own(path: Path) -> bytes:
    """Return the content of a file of this user: what another wrote is that one's word.

    Several users can share a cache, by XDG_CACHE_HOME.

    Raises:
        ValueError: it is another's.

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
    """Return what an entry holds.

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
    """Keep the newest entries; what an interrupted write left is among the others."""
    made = (path for path in folder.iterdir() if _OWN.fullmatch(path.name))
    entries = sorted(made, key=lambda path: path.stat().st_mtime_ns)
    for path in entries[:-_MOST]:
        path.unlink()
