"""Write a zip file that copies most members of another one as compressed bytes.

`zipfile` can only copy a member by inflating and deflating it, which is most of
the time that repacking a wheel takes. The format is PKWARE's APPNOTE, without
zip64: a wheel that needed it would be over 4 GiB.
"""

import os
import struct
import zipfile
import zlib
from types import TracebackType
from typing import BinaryIO, Final, NamedTuple, Self

from pkgtools.errors import UsageError
from pkgtools.source.wheel import FETCH_AGAIN

_LOCAL: Final = struct.Struct("<4s5H3L2H")
_CENTRAL: Final = struct.Struct("<4s6H3L5H2L")
_END: Final = struct.Struct("<4s4H2LH")
_UTF8: Final = 0x0800
_UNIX: Final = 3
_VERSION: Final = 20
_MAX_32: Final = 0xFFFFFFFF
_MAX_16: Final = 0xFFFF
_CHUNK: Final = 1 << 20

DosTime = tuple[int, int]
"""A member's time and date, as a zip file packs them."""


class _ZipMember(NamedTuple):
    """The fields that both headers of a member share."""

    method: int
    crc: int
    size: int
    """Of the content, in bytes."""
    when: DosTime
    attributes: int
    system: int = _UNIX
    """The system whose attributes they are; DOS (0) lacks permissions."""


class ZipCopy:
    """A new zip file. Members are written in the order of the calls."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._entries: list[bytes] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._finish()

    def copy(self, source: BinaryIO, info: zipfile.ZipInfo, name: str) -> None:
        """Copy a member of another zip file under a name, without inflating it."""
        if info.flag_bits & 0x1:
            raise UsageError(f"the member {info.filename} is encrypted", remedy=FETCH_AGAIN)
        descriptor = source.fileno()
        header = os.pread(descriptor, _LOCAL.size, info.header_offset)
        if len(header) != _LOCAL.size or not header.startswith(b"PK\x03\x04"):
            raise UsageError(
                f"the member {info.filename} is not where the archive says it is",
                remedy=FETCH_AGAIN,
            )
        *_, name_length, extra_length = _LOCAL.unpack(header)
        start = info.header_offset + _LOCAL.size + name_length + extra_length
        member = _ZipMember(
            method=info.compress_type,
            crc=info.CRC,
            size=info.file_size,
            when=dos_time(info),
            attributes=info.external_attr,
            system=info.create_system,
        )
        self._start(name, info.compress_size, member)
        # The size is what the archive claims: no more than a piece is allocated on trust.
        end = start + info.compress_size
        while start < end and (data := os.pread(descriptor, min(end - start, _CHUNK), start)):
            start += self._file.write(data)
        if start < end:
            raise UsageError(f"the member {info.filename} is cut short", remedy=FETCH_AGAIN)

    def write(self, name: str, content: bytes, when: DosTime, mode: int) -> None:
        """Write a new member: its content, time, and git mode.

        The content is stored uncompressed: deflate's output depends on the zlib version.
        """
        size, crc = len(content), zlib.crc32(content)
        self._start(name, size, _ZipMember(zipfile.ZIP_STORED, crc, size, when, mode << 16))
        self._file.write(content)

    def _start(self, name: str, stored: int, member: _ZipMember) -> None:
        """Write a member's header; `stored` bytes have to follow."""
        offset = self._file.tell()
        raw = name.encode()
        if max(offset, member.size, stored) > _MAX_32 or len(self._entries) >= _MAX_16:
            raise UsageError(
                "the wheel is over 4 GiB or 65,535 members: zip64 is not supported",
                remedy="install it, and patch what is installed with `pkgtools apply`",
            )
        flags = 0 if raw.isascii() else _UTF8
        sizes = (member.crc, stored, member.size, len(raw), 0)
        common = (_VERSION, flags, member.method, *member.when, *sizes)
        self._file.write(_LOCAL.pack(b"PK\x03\x04", *common) + raw)
        rest = (0, 0, 0, member.attributes, offset)
        central = _CENTRAL.pack(b"PK\x01\x02", member.system << 8 | _VERSION, *common, *rest)
        self._entries.append(central + raw)

    def _finish(self) -> None:
        offset = self._file.tell()
        directory = b"".join(self._entries)
        count = len(self._entries)
        self._file.write(directory)
        counts = (0, 0, count, count)
        self._file.write(_END.pack(b"PK\x05\x06", *counts, len(directory), offset, 0))


def dos_time(info: zipfile.ZipInfo) -> DosTime:
    """Return a member's time in the wheel in DOS format."""
    year, month, day, hour, minute, second = info.date_time
    # Two-second steps since 1980, as MS-DOS packs them (APPNOTE.TXT 4.4.6,
    # https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT).
    return hour << 11 | minute << 5 | second // 2, (year - 1980) << 9 | month << 5 | day
