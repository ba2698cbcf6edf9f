"""Read and write layers: tar archives of changes to a file system.

OCI image specification, "Image Layer Filesystem Changeset":
https://github.com/opencontainers/image-spec/blob/main/layer.md
"""

import contextlib
import hashlib
import io
import itertools
import posixpath
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Annotated, Final, Self, cast

import zstandard
from isal import isal_zlib
from msgspec import Meta

from pkgtools.blob import LIMIT
from pkgtools.errors import MalformedError
from pkgtools.image.streams import decompressed

# https://github.com/opencontainers/image-spec/blob/main/layer.md#whiteouts
WHITEOUT: Final = ".wh."
"""Prefix of an entry that removes a path of the layers below."""
OPAQUE: Final = ".wh..wh..opq"
"""Name of an entry that removes all that the layers below have in its folder."""

_ID_LIMIT: Final = 2**63
"""Go's archive/tar, which engines use, keeps an owner in a signed 64-bit number."""
_MTIME_LIMIT: Final = 2**63 // 10**9
"""Seconds; a later time, as one before the epoch, is the epoch to engines (containerd's and
moby's ``boundTime``)."""
_DAMAGE: Final = (
    *(tarfile.TarError, OSError, EOFError, isal_zlib.error, zstandard.ZstdError),
    *(ValueError, OverflowError),  # of a number in a header, which tarfile takes as it is
    RecursionError,  # tarfile calls itself for each extended header before an entry
)
_PATH_LIMIT: Final = 4096
"""Linux' PATH_MAX: no engine can unpack a longer path."""
_HEADER_LIMIT: Final = 1024 * 1024
"""Bytes of an extended header (GNU long name, pax): tarfile reads one whole into memory."""
_GLOBAL_LIMIT: Final = 1000
"""Keys of global pax headers, which tarfile keeps for the whole archive."""
_PART: Final = 256 * 1024
_EXTENDED: Final = (
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
)

_Owner = Annotated[int, Meta(ge=1 - _ID_LIMIT, le=_ID_LIMIT - 1)]


class FileKind(Enum):
    """What a path of an image is."""

    FILE = "file"
    LINK = "link"
    FOLDER = "folder"
    OTHER = "other"
    """A device, FIFO or socket, which is neither read nor written here."""


_TYPES: Final = {
    FileKind.FILE: tarfile.REGTYPE,
    FileKind.LINK: tarfile.SYMTYPE,
    FileKind.FOLDER: tarfile.DIRTYPE,
}


@dataclass(frozen=True)
class Member:
    """One path of an image, as a layer has it; facts from elsewhere are held to these bounds."""

    path: str
    """Relative to the image's root, without ``..``."""
    kind: FileKind
    permissions: Annotated[int, Meta(ge=0, le=0o7777)] = 0o644
    uid: _Owner = 0
    gid: _Owner = 0
    mtime: Annotated[int, Meta(ge=0, le=_MTIME_LIMIT)] = 0
    """Seconds since the epoch: Python's bytecode counts no finer, and not every tar does."""
    data: bytes = b""
    """A file's content, or a link's target."""


class _Header(tarfile.TarInfo):
    """A tar header whose sizes are checked before tarfile allocates memory for them."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Parse a header block.

        Raises:
            tarfile.ReadError: a size is negative (many a Python goes back by it, CVE-2025-8194)
                or an extended header too large; the header is damaged, which tarfile takes for
                the end of the archive; or the file is sparse in GNU's form, whose map tarfile
                reads without a bound (Go's archive/tar, which engines use, writes none).
        """
        try:
            info = super().frombuf(buf, encoding, errors)
        except tarfile.InvalidHeaderError as error:  # type: ignore[attr-defined]
            raise tarfile.ReadError(str(error)) from None
        if info.size < 0:
            raise tarfile.ReadError(f"{info.name} has a size of {info.size}")
        if info.type in _EXTENDED and info.size > _HEADER_LIMIT:
            raise tarfile.ReadError(f"an extended header has a size of {info.size}")
        if info.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError("it has a sparse file")
        return info

    def _proc_gnusparse_10(self, *_: object) -> None:
        raise tarfile.ReadError("it has a sparse file")


def open_tar(file: IO[bytes] | Path) -> tarfile.TarFile:
    """Open an uncompressed archive whose headers are bounded."""
    name, stream = (file, None) if isinstance(file, Path) else (None, file)
    return tarfile.open(name, mode="r:", fileobj=stream, tarinfo=_Header)


def damaged(what: str) -> MalformedError:
    """Return the error for a malformed image."""
    return MalformedError(
        what, remedy="copy the image again, as with skopeo copy or docker save, or build it anew"
    )


@dataclass(frozen=True, slots=True)
class LayerEntry:
    """An entry of a layer."""

    info: tarfile.TarInfo
    path: str
    """See `relative`."""
    read: Callable[[], bytes]
    """Returns a file's content; only until the next entry is read."""


def layer_entry(info: tarfile.TarInfo, read: Callable[[], bytes], label: str) -> LayerEntry | None:
    """Return an entry with its path; None for the image's root itself."""
    path = relative(info.name, label)
    if max(abs(info.uid), abs(info.gid)) >= _ID_LIMIT:
        raise damaged(f"{label}: {info.name} has an owner that no system has")
    return LayerEntry(info, path, read) if path else None


def read_layer(raw: IO[bytes], label: str) -> Iterator[LayerEntry]:
    """Yield each entry of a layer, in the archive's order.

    The layer is tar, plain or compressed with gzip or zstd, and only read forwards. An entry is
    forgotten once the next is read: a layer has hundreds of thousands.
    """
    with readable(label), open_tar(decompressed(raw)) as archive:
        for info in entries(archive):
            archive.members.clear()  # type: ignore[attr-defined]
            if entry := layer_entry(info, partial(content, archive, info, label), label):
                yield entry


def entries(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the entries of an archive, in its order."""
    while (info := archive.next()) is not None:
        if info.size < 0:
            raise tarfile.ReadError(f"{info.name} has a size of {info.size}")
        # tarfile keeps every global pax header until the archive ends.
        if len(archive.pax_headers) > _GLOBAL_LIMIT:
            raise tarfile.ReadError(f"it has more than {_GLOBAL_LIMIT} global pax headers")
        yield info


@contextlib.contextmanager
def readable(label: str) -> Iterator[None]:
    """Convert the exceptions of all archive formats into a `MalformedError`."""
    try:
        yield
    except _DAMAGE as error:
        raise damaged(f"{label} cannot be read: {error}") from None


def to_member(info: tarfile.TarInfo, path: str, data: bytes = b"") -> Member:
    """Convert a tar entry into a member, with a file's content."""
    if info.issym():
        kind, data = FileKind.LINK, info.linkname.encode("utf-8", "surrogateescape")
    elif info.isdir():
        kind = FileKind.FOLDER
    else:
        kind = FileKind.FILE if info.isreg() or info.islnk() else FileKind.OTHER
    # pax times are decimal text: they can be negative, huge or fractions.
    mtime = int(info.mtime) if 0 <= info.mtime < _MTIME_LIMIT else 0
    return Member(path, kind, info.mode & 0o7777, info.uid, info.gid, mtime=mtime, data=data)


def content(archive: tarfile.TarFile, info: tarfile.TarInfo, label: str) -> bytes:
    """Return a file's content."""
    if info.size > LIMIT:
        raise damaged(f"{label}: {info.name} is larger than {LIMIT} bytes")
    file = archive.extractfile(info) if info.isreg() else None
    if file is None:
        raise damaged(f"{label}: {info.name} is not a regular file")
    with readable(label), file:
        return file.read()


@dataclass(frozen=True)
class Layer:
    """A new layer: an uncompressed tar archive.

    The bytes of a compressed one would depend on the version of zlib.
    """

    data: bytes

    @cached_property
    def diff_id(self) -> str:
        """The digest of the archive, and of the blob: they are the same bytes."""
        return digest_of(self.data)


def digest_of(data: bytes | bytearray) -> str:
    """Return the digest of a blob, as the OCI image specification writes it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@contextlib.contextmanager
def verified(raw: IO[bytes], digest: str, label: str) -> Iterator[IO[bytes]]:
    """Yield a stream whose end raises if its digest is another; on leaving, read it to its end."""
    stream = _VerifiedStream(raw, digest, label)
    yield cast("IO[bytes]", stream)
    while stream.read(_PART):
        pass


class _VerifiedStream:
    def __init__(self, raw: IO[bytes], digest: str, label: str) -> None:
        self._raw, self._digest, self._label = raw, digest, label
        self._hash = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        part = self._raw.read(size)
        self._hash.update(part)
        # Only at the end: a stream cannot be verified before its last byte.
        if not part and size and f"sha256:{self._hash.hexdigest()}" != self._digest:
            raise damaged(f"{self._label} does not have the digest {self._digest}")
        return part


def write_layer(members: Iterable[Member], removed: Iterable[str]) -> Layer:
    """Return a layer of files, links and folders, with whiteouts for what is removed.

    The same members give the same bytes.
    """
    out = io.BytesIO()
    gone = [
        # OCI image specification, "Whiteouts": an empty file removes its sibling.
        Member(posixpath.join(folder, WHITEOUT + name), FileKind.FILE)
        for folder, name in map(posixpath.split, removed)
    ]
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        # Sorted, and pax headers only where a value needs one, so that the digest is reproducible.
        for member in sorted([*members, *gone], key=lambda m: m.path):
            info = tarfile.TarInfo(member.path)
            info.type, info.mode = _TYPES[member.kind], member.permissions
            info.uid, info.gid, info.mtime = member.uid, member.gid, member.mtime
            if member.kind is FileKind.LINK:
                info.linkname = member.data.decode("utf-8", "surrogateescape")
                archive.addfile(info)
            else:
                info.size = len(member.data)
                archive.addfile(info, io.BytesIO(member.data))
    return Layer(out.getvalue())


def relative(name: str, label: str) -> str:
    """Return an entry's path without a leading ``./`` or ``/``; empty for the root itself."""
    if len(name) > _PATH_LIMIT:
        raise damaged(f"{label} has a path of {len(name)} characters: {name[:80]!r}...")
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
    """Return all parent folders of the paths; some layers have no entries for them."""
    folders: set[str] = set()
    for path in paths:
        # Above a known folder, all are known.
        folders.update(itertools.takewhile(lambda p: p not in folders, parents(path)))
    return folders
