"""Layers: tar archives, as the OCI image specification's "Filesystem Changeset" has them."""

from __future__ import annotations

import contextlib
import hashlib
import io
import tarfile
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import IO, TYPE_CHECKING, Final, cast

import zstandard
from isal import igzip, isal_zlib

from pkgtools.blob import LIMIT
from pkgtools.errors import MalformedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

WHITEOUT: Final = ".wh."
"""Before a name: what the layers below have there is gone."""
OPAQUE: Final = ".wh..wh..opq"
"""In a folder: all that the layers below have in it is gone."""

_ID_LIMIT: Final = 2**63
"""Readers of tar keep an owner in 64 bits with a sign."""
_MTIME_LIMIT: Final = 2**63 // 10**9
"""Seconds; a later time, as one before the epoch, is the epoch to engines (containerd's and
moby's ``boundTime``)."""
_DAMAGE: Final = (
    *(tarfile.TarError, OSError, EOFError, isal_zlib.error, zstandard.ZstdError),
    *(ValueError, OverflowError),  # of a number in a header, which tarfile takes as it is
)
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"


class Kind(Enum):
    """What a path of an image is."""

    FILE = "file"
    LINK = "link"
    FOLDER = "folder"
    OTHER = "other"
    """A device, a FIFO: nothing that is read or written here."""


_TYPES: Final = {
    Kind.FILE: tarfile.REGTYPE,
    Kind.LINK: tarfile.SYMTYPE,
    Kind.FOLDER: tarfile.DIRTYPE,
}


@dataclass(frozen=True)
class Member:
    """One path of an image, with what a layer says of it."""

    path: str
    """Relative to the image's root: no ``..``, no ``/`` in front."""
    kind: Kind
    permissions: int = 0o644
    uid: int = 0
    gid: int = 0
    mtime: int = 0
    """Seconds since the epoch: Python's bytecode counts no finer, and not every tar does."""
    data: bytes = b""
    """A file's content, or a link's target."""


def damaged(what: str) -> MalformedError:
    """Return the refusal of an image that is not as one is made."""
    return MalformedError(what, remedy="pull or save the image again, or build it anew")


def read_layer(
    raw: IO[bytes], label: str
) -> Iterator[tuple[tarfile.TarInfo, str, tarfile.TarFile]]:
    """Yield each entry of a layer with its path, in the archive's order.

    Args:
        raw: the layer: tar, plain or compressed with gzip or zstd.
        label: what to call it in an error.

    Raises:
        MalformedError: it is no tar archive, a path leads out of the image, or an owner is
            beyond 64 bits.

    """
    with (
        readable(label),
        tarfile.open(fileobj=_decompressed(raw), mode="r:") as archive,
    ):
        for info in entries(archive):
            path = relative(info.name, label)
            if max(abs(info.uid), abs(info.gid)) >= _ID_LIMIT:
                raise damaged(f"{label}: {info.name} has an owner that no system has")
            if path:
                yield info, path, archive


def entries(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the entries of an archive, in its order.

    Raises:
        tarfile.ReadError: one has a size below zero: many a Python goes back by it, and never
            comes to an end (CVE-2025-8194).

    """
    for info in archive:
        if info.size < 0:
            raise tarfile.ReadError(f"{info.name} has a size of {info.size}")
        yield info


@contextlib.contextmanager
def readable(label: str) -> Iterator[None]:
    """Turn what a damaged archive raises, in any of its formats, into a refusal."""
    try:
        yield
    except _DAMAGE as error:
        raise damaged(f"{label} cannot be read: {error}") from None


def to_member(info: tarfile.TarInfo, path: str, data: bytes = b"") -> Member:
    """Return an entry as a member, with a file's content."""
    if info.issym():
        kind, data = Kind.LINK, info.linkname.encode("utf-8", "surrogateescape")
    elif info.isdir():
        kind = Kind.FOLDER
    else:
        kind = Kind.FILE if info.isreg() or info.islnk() else Kind.OTHER
    mtime = int(info.mtime) if 0 <= info.mtime < _MTIME_LIMIT else 0
    return Member(path, kind, info.mode & 0o7777, info.uid, info.gid, mtime, data)


def content(archive: tarfile.TarFile, info: tarfile.TarInfo, label: str) -> bytes:
    """Return a file's content.

    Raises:
        MalformedError: it is larger than `LIMIT`, no file, or damaged.

    """
    if info.size > LIMIT:
        raise damaged(f"{label}: {info.name} is larger than {LIMIT} bytes")
    file = archive.extractfile(info) if info.isreg() else None
    if file is None:
        raise damaged(f"{label}: {info.name} is no file")
    with readable(label), file:
        return file.read()


@dataclass(frozen=True)
class Layer:
    """A layer that was made here: an uncompressed tar archive.

    Compressed, its bytes would depend on the version of zlib.
    """

    data: bytes

    @cached_property
    def diff_id(self) -> str:
        """The digest of the archive, and of the blob: they are the same bytes."""
        return digest_of(self.data)


def digest_of(data: bytes) -> str:
    """Return the digest of a blob, as the OCI image specification writes it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def write_layer(members: Iterable[Member], removed: Iterable[str]) -> Layer:
    """Return a layer of files, links and folders, with whiteouts for what is removed.

    The same members give the same bytes.
    """
    out = io.BytesIO()
    gone = (Member(_whiteout(path), Kind.FILE) for path in removed)
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member in sorted([*members, *gone], key=lambda m: m.path):
            info = tarfile.TarInfo(member.path)
            info.type, info.mode = _TYPES[member.kind], member.permissions
            info.uid, info.gid, info.mtime = member.uid, member.gid, member.mtime
            if member.kind is Kind.LINK:
                info.linkname = member.data.decode("utf-8", "surrogateescape")
                archive.addfile(info)
            else:
                info.size = len(member.data)
                archive.addfile(info, io.BytesIO(member.data))
    return Layer(out.getvalue())


def _whiteout(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{WHITEOUT}{name}"


def relative(name: str, label: str) -> str:
    """Return an entry's path without what tools put in front; empty for the root itself.

    Raises:
        MalformedError: it leads out of the image.

    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise MalformedError(
            f"{label} has an entry that leads out of the image: {name!r}",
            remedy="do not use this image",
        )
    return "/".join(parts)


def parents(path: str) -> Iterator[str]:
    """Yield the folders above a path, the image's root last."""
    while path:
        path = path.rpartition("/")[0]
        yield path


def folders_above(paths: Iterable[str]) -> set[str]:
    """Return every folder above one of the paths; not every layer has entries for them."""
    folders: set[str] = set()
    for path in paths:
        for parent in parents(path):
            if parent in folders:  # and so are those above it
                break
            folders.add(parent)
    return folders


def _decompressed(raw: IO[bytes]) -> IO[bytes]:
    start = raw.read(4)
    raw.seek(0)
    if start.startswith(_GZIP):
        # Two to three times as quick as zlib, and this is most of the time that a build takes.
        return cast("IO[bytes]", igzip.GzipFile(fileobj=raw))
    if start != _ZSTD:
        return raw
    # zstd:chunked, and whatever compresses on several threads, makes more frames than one.
    reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
    return cast("IO[bytes]", reader)
