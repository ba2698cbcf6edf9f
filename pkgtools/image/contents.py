"""Read single files of layers that have a table of contents.

eStargz (https://github.com/containerd/stargz-snapshotter/blob/main/docs/estargz.md) and
zstd:chunked (https://github.com/containers/storage/blob/main/docs/containers-storage-zstd-chunked.md)
are tar archives in frames, with a table at the end. Annotations of the layer's descriptor have the
table's digest, and the table has the files' digests. A table without such a digest is not used.

Some engines unpack the archive and others go by the table, and nothing makes the two agree: podman
reads zstd:chunked layers whole unless ``insecure_allow_unpredictable_image_contents`` is set. So
around each file that is read, the archive's headers are compared with the table's entries. Where
they differ, or a digest does, the layer is read whole. A table that leaves out an entry elsewhere,
or places a file inside another file, can only be found by reading the layer whole: what was read by
a table is said wherever it is used.
"""

from __future__ import annotations

import bisect
import contextlib
import io
import itertools
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from typing import IO, Annotated, Any, Final, Literal

import msgspec

from pkgtools.blob import LIMIT
from pkgtools.errors import MalformedError
from pkgtools.image.layer import (
    LayerEntry,
    damaged,
    digest_of,
    layer_entry,
    open_tar,
    readable,
    relative,
    to_member,
)
from pkgtools.image.streams import decompressed

ReadRange = Callable[[int, int], bytes | None]
"""Reads a part of a blob; returns None if the registry sends only all of it."""

_STARGZ: Final = "containerd.io/snapshot/stargz/toc.digest"
_FOOTER_BYTES: Final = 51
_FOOTER: Final = b"\x1a\x00SG\x16\x00"
_CHUNKED: Final = (
    "io.github.containers.zstd-chunked.manifest-",
    "io.containers.zstd-chunked.manifest-",  # the older name, which writers of today use, too
)
_CRFS: Final = "1"
"""The only type of table that zstd:chunked defines."""
_TABLE_LIMIT: Final = 48 * 1024 * 1024
"""Bytes of a table, which is held in memory: about 120,000 files. Larger ones are not used."""
_WINDOW: Final = 1024 * 1024
"""Bytes to read at once, as a package's files are next to each other."""
_TYPES: Final = {
    "dir": tarfile.DIRTYPE,
    "reg": tarfile.REGTYPE,
    "symlink": tarfile.SYMTYPE,
    "hardlink": tarfile.LNKTYPE,
    "char": tarfile.CHRTYPE,
    "block": tarfile.BLKTYPE,
    "fifo": tarfile.FIFOTYPE,
}

_Natural = Annotated[int, msgspec.Meta(ge=0)]


class _TableEntry(msgspec.Struct, rename="camel", gc=False):
    """A file, or another chunk of the previous file."""

    type: Literal["dir", "reg", "symlink", "hardlink", "char", "block", "fifo", "chunk"]
    name: str
    link_name: str = ""
    mode: int = 0
    size: _Natural = 0
    uid: int = 0
    gid: int = 0
    modtime: str = ""
    digest: str = ""
    offset: _Natural = 0
    end_offset: _Natural = 0
    chunk_offset: _Natural = 0
    chunk_size: _Natural = 0
    chunk_digest: str = ""
    inner_offset: _Natural = 0
    """The file's offset in the uncompressed frame, which small files can share."""

    @property
    def has_content(self) -> bool:
        """Whether there are bytes of a file at the offset."""
        return self.type == "chunk" or (self.type == "reg" and self.size > 0)


class _Table(msgspec.Struct):
    version: int
    entries: list[msgspec.Raw]
    """Views of the table, each a `_TableEntry`: decoded at once, they would take twice its size."""


@dataclass(frozen=True)
class _Chunk:
    """The position of a part of a file."""

    start: int
    end: int
    skipped: int
    size: int
    digest: str
    is_whole: bool = False
    """Whether its frames must end with it."""


def table_of(
    descriptor: Mapping[str, Any], read_range: ReadRange | None, label: str
) -> TableOfContents | None:
    """Return a layer's table of contents; None if it has none with a valid digest.

    A layer whose table is damaged is read whole, and its digest checked.
    """
    with contextlib.suppress(MalformedError, msgspec.DecodeError, ValueError), readable(label):
        found = _read_table(descriptor, read_range) if read_range else None
        if read_range and found:
            table = msgspec.json.decode(found[0], type=_Table)
            return TableOfContents(table.entries, found[1], read_range, label)
    return None


def _read_table(
    descriptor: Mapping[str, Any], read_range: ReadRange
) -> tuple[bytearray, int] | None:
    """Return the table whose digest is in the annotations, and its offset."""
    said = descriptor.get("annotations") or {}
    for prefix in _CHUNKED:  # first: stargz-snapshotter's zstd:chunked has all annotations
        if digest := said.get(f"{prefix}checksum"):
            return _chunked(read_range, said.get(f"{prefix}position", ""), digest)
    digest = said.get(_STARGZ)
    return _stargz(read_range, descriptor.get("size", 0), digest) if digest else None


def _stargz(read_range: ReadRange, size: int, digest: str) -> tuple[bytearray, int] | None:
    """Return the table of an eStargz layer, and its offset."""
    footer = read_range(size - _FOOTER_BYTES, size) if size > _FOOTER_BYTES else None
    if not footer or footer[10:16] != _FOOTER or footer[32:38] != b"STARGZ":
        return None
    start = int(footer[16:32], 16)
    packed = _bounded(read_range, start, size - _FOOTER_BYTES)
    if packed is None:
        return None
    with open_tar(decompressed(io.BytesIO(packed))) as archive:
        info = archive.next()
        file = archive.extractfile(info) if info and info.size <= _TABLE_LIMIT else None
        raw = _read_exactly(file, info.size) if info and file else bytearray()
    return (raw, start) if digest_of(raw) == digest else None


def _chunked(read_range: ReadRange, position: str, digest: str) -> tuple[bytearray, int] | None:
    """Return the table of a zstd:chunked layer, and its offset."""
    start, packed_size, size, kind = position.split(":")
    if kind != _CRFS or int(size) > _TABLE_LIMIT:
        return None
    packed = _bounded(read_range, int(start), int(start) + int(packed_size))
    if packed is None or digest_of(packed) != digest:
        return None
    return _read_exactly(decompressed(io.BytesIO(packed)), int(size)), int(start)


def _read_exactly(stream: IO[bytes], size: int) -> bytearray:
    """Read a table without a second copy of it in memory."""
    data = bytearray()
    while len(data) < size and (part := stream.read(min(size - len(data), _WINDOW))):
        data += part
    return data


def _bounded(read_range: ReadRange, start: int, end: int) -> bytes | None:
    return read_range(start, end) if 0 <= start < end <= start + _TABLE_LIMIT else None


class TableOfContents:
    """The entries of a layer, and the positions of its files."""

    def __init__(
        self, entries: list[msgspec.Raw], end: int, read_range: ReadRange, label: str
    ) -> None:
        """Take the entries in the archive's order, and an upper bound of the files' frames."""
        self._entries = entries
        self._end = end
        self._read_range = read_range
        self._label = label
        self._window = (0, b"")
        self._checked: set[int] = set()
        """The files whose headers were compared."""
        self._decode = msgspec.json.Decoder(_TableEntry).decode
        file = None
        for entry in map(self._decode, entries):
            if entry.type != "chunk":
                file = entry.name if entry.has_content else None
            elif entry.name != file:
                raise ValueError(f"{entry.name} has a chunk, and is not the file before it")
            has_digest = bool(entry.chunk_digest or entry.digest)
            if entry.has_content and not (has_digest and relative(entry.name, label)):
                raise ValueError("a file has no name or digest")

    def entries(self) -> Iterator[LayerEntry]:
        """Yield each entry of the layer; see `read_layer`."""
        for number, entry in enumerate(map(self._decode, self._entries)):
            if entry.type != "chunk":
                read = partial(self._content, number)
                if found := layer_entry(_header(entry), read, self._label):
                    yield found

    def _content(self, number: int) -> bytes:
        """Return a file's content after a check of its digest and of the headers around it."""
        entry = self._entry(number)
        if entry.size > LIMIT:
            raise damaged(f"{self._label}: {entry.name} is larger than {LIMIT} bytes")
        if not entry.size:
            return b""
        self._check_headers(number)
        chunks = self._chunks(entry, number)
        for here, then in itertools.pairwise(chunks):
            inside = (here.start, here.skipped + here.size)
            if (then.start, then.skipped) not in ((here.end, 0), inside):
                raise damaged(f"{self._label}: {entry.name} is not in one piece")
        data = b"".join(map(self._chunk, chunks))
        if len(data) != entry.size:
            raise damaged(f"{self._label}: {entry.name} is cut short")
        following = enumerate(self._after(number), number + 1)
        files = (at for at, after in following if after.type == "reg" and after.size)
        self._check_headers(next(files, len(self._entries)))
        return data

    def _entry(self, number: int) -> _TableEntry:
        return self._decode(self._entries[number])

    def _after(self, number: int) -> Iterator[_TableEntry]:
        return map(self._decode, itertools.islice(self._entries, number + 1, None))

    def _check_headers(self, number: int) -> None:
        """Compare the table with the archive's headers before a file's content, or at the end."""
        if number in self._checked:
            return
        start = number
        while start and not self._entry(start - 1).has_content:
            start -= 1
        expected = [_header(self._decode(raw)) for raw in self._entries[start : number + 1]]
        at_end = number == len(self._entries)
        with readable(self._label):
            blocks = self._between(start - 1, number) + bytes(1024 if at_end else 0)
            with open_tar(io.BytesIO(blocks)) as archive:
                # At the end, there must not be one more.
                every = (archive.next() for _ in range(len(expected) + at_end))
                found = [info for info in every if info is not None]
            is_same = [_signature(info, self._label) for info in found] == [
                _signature(info, self._label) for info in expected
            ]
            if not is_same or not (at_end or found[-1].offset_data == len(blocks)):
                raise damaged(f"{self._label}: its table of contents differs from its archive")
        self._checked.add(number)

    def _between(self, before: int, number: int) -> bytes:
        """Return the uncompressed bytes between the contents of two files.

        They are from the first one's last entry, or the start (-1), to the second one's or the end.
        """
        at, skipped, size = 0, 0, 0
        if before >= 0:
            last = first = self._entry(before)
            while first.type == "chunk" and before:
                before -= 1
                first = self._entry(before)
            at, size = first.end_offset, first.size
            if not at:
                length = last.chunk_size or first.size - last.chunk_offset
                at, skipped = last.offset, last.inner_offset + length
        skipped += -size % tarfile.BLOCKSIZE
        if number == len(self._entries):
            return self._plain(at, self._end)[skipped:]
        to = self._entry(number)
        plain = self._plain(at, to.offset) if at != to.offset else b""
        if to.inner_offset:
            plain += self._plain(to.offset, self._next_offset(to.offset), to.inner_offset)
        return plain[skipped:]

    def _chunks(self, first: _TableEntry, number: int) -> list[_Chunk]:
        """Return the positions of the parts of a file, whose entry has a number."""
        if first.end_offset:  # zstd:chunked: all chunks of a file, whose digest is the file's
            place = (first.offset, first.end_offset, 0, first.size, first.digest)
            return [_Chunk(*place, is_whole=True)]
        parts = [first, *itertools.takewhile(lambda e: e.type == "chunk", self._after(number))]
        nexts = [part.offset for part in parts[1:]] + [first.offset]
        return [
            _Chunk(
                entry.offset,
                self._next_offset(entry.offset),
                entry.inner_offset,
                entry.chunk_size or first.size - entry.chunk_offset,
                entry.chunk_digest or entry.digest,
                is_whole=entry is not parts[-1] and after != entry.offset,
            )
            for entry, after in zip(parts, nexts, strict=True)
        ]

    def _chunk(self, chunk: _Chunk) -> bytes:
        wanted = chunk.skipped + chunk.size
        data = self._plain(chunk.start, chunk.end, wanted + 1)
        if len(data) > wanted and chunk.is_whole:
            raise damaged(f"{self._label}: its table of contents has a file with a gap")
        data = data[chunk.skipped : wanted]
        if digest_of(data) != chunk.digest:
            raise damaged(f"{self._label}: a file does not have the digest {chunk.digest[:71]!r}")
        return data

    def _plain(self, start: int, end: int, size: int = 2 * LIMIT) -> bytes:
        """Return the start of some uncompressed frames."""
        if not 0 <= start < end <= start + 2 * LIMIT or size > 2 * LIMIT + 1:
            raise damaged(f"{self._label}: its table of contents has a chunk of {size} bytes")
        with readable(self._label):
            return decompressed(io.BytesIO(self._at(start, end))).read(size)

    def _at(self, start: int, end: int) -> bytes:
        """Return a part of the blob, through a window that is kept."""
        at, kept = self._window
        if not at <= start <= end <= at + len(kept):
            to = max(end, min(start + _WINDOW, self._end))
            found = self._read_range(start, to)
            if found is None:
                raise damaged(f"{self._label} has no bytes {start} to {to}")
            at, kept = self._window = start, found
        return kept[start - at : end - at]

    def _next_offset(self, offset: int) -> int:
        """Return an upper bound of the frame at an offset."""
        at = bisect.bisect_right(self._offsets, offset)
        return self._offsets[at] if at < len(self._offsets) else self._end

    @cached_property
    def _offsets(self) -> list[int]:
        return sorted({entry.offset for entry in map(self._decode, self._entries)})


def _header(entry: _TableEntry) -> tarfile.TarInfo:
    """Return an entry of a table as the archive should have it."""
    info = tarfile.TarInfo(entry.name)
    info.type, info.mode = _TYPES[entry.type], entry.mode
    info.size = entry.size if entry.type == "reg" else 0
    info.uid, info.gid = entry.uid, entry.gid
    info.linkname = entry.link_name
    info.mtime = _seconds(entry.modtime)
    return info


def _signature(info: tarfile.TarInfo, label: str) -> tuple[object, ...]:
    """Return what is read of a header."""
    link = relative(info.linkname, label) if info.islnk() else ""
    size = info.size if info.isreg() else 0
    return to_member(info, relative(info.name, label)), link, size


def _seconds(modtime: str) -> int:
    """Return a time as tar has it; the epoch if it is missing or invalid."""
    try:
        return int(datetime.fromisoformat(modtime).timestamp())
    except (ValueError, OverflowError):
        return 0
