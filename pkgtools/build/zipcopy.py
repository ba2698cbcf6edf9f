"""Write a zip file that copies most members of another one as compressed bytes.

`zipfile` can only copy a member by inflating and deflating it, which is most of the time that
repacking a wheel takes.
"""

import os
import struct
import zipfile
from typing import BinaryIO, Final

from pkgtools.errors import UsageError
from pkgtools.source.wheel import FETCH_AGAIN

_HEADER_SIZE: Final = 30
"""Bytes of a local file header without the name and the extra field (APPNOTE.TXT 4.3.7,
https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT)."""
_CHUNK: Final = 1 << 20


class ZipCopy(zipfile.ZipFile):
    """A new zip file. Members are written in the order of the calls."""

    def copy_member(self, source: BinaryIO, info: zipfile.ZipInfo, name: str) -> None:
        """Copy a member of another zip file under a name, without inflating it."""
        if info.flag_bits & 0x1:
            raise UsageError(f"the member {info.filename} is encrypted", remedy=FETCH_AGAIN)
        source.seek(info.header_offset)
        header = source.read(_HEADER_SIZE)
        if len(header) != _HEADER_SIZE or not header.startswith(b"PK\x03\x04"):
            raise UsageError(
                f"the member {info.filename} is not where the archive says it is",
                remedy=FETCH_AGAIN,
            )
        name_length, extra_length = struct.unpack_from("<2H", header, 26)
        source.seek(name_length + extra_length, os.SEEK_CUR)
        new = zipfile.ZipInfo(name, info.date_time)
        new.compress_type, new.CRC = info.compress_type, info.CRC
        new.compress_size, new.file_size = info.compress_size, info.file_size
        new.external_attr, new.create_system = info.external_attr, info.create_system
        assert self.fp is not None  # noqa: S101 - it is open
        new.header_offset = self.fp.tell()
        self.fp.write(new.FileHeader())
        # The size is what the archive claims: no more than a chunk is allocated on trust.
        left = info.compress_size
        while left and (data := source.read(min(left, _CHUNK))):
            left -= self.fp.write(data)
        if left:
            raise UsageError(f"the member {info.filename} is cut short", remedy=FETCH_AGAIN)
        self.filelist.append(new)
        self.start_dir = self.fp.tell()  # where the next member starts

    def write_member(self, name: str, content: bytes, like: zipfile.ZipInfo, mode: int) -> None:
        """Write a new member: its content, the member whose time it gets, and its git mode.

        The content is stored uncompressed: deflate's output depends on the zlib version.
        """
        new = zipfile.ZipInfo(name, like.date_time)
        new.create_system, new.external_attr = 3, mode << 16  # Unix, for any system that builds
        self.writestr(new, content)
