"""Decode a patch file: byte order marks and encodings that editors add."""

import codecs
import re
from typing import Final

from pkgtools.patch.lines import Lines

_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SAMPLE: Final = 64
_DIFF: Final = re.compile(rb"^(?:diff --git |--- \S)", re.MULTILINE)
_SIGNATURE: Final = re.compile(rb"^-- \r?\n[^\n]*\s*\Z", re.MULTILINE)
_COLOURED: Final = re.compile(rb"^\x1b\[[0-9;]*m(?:diff |@@ |--- |\+\+\+ )", re.MULTILINE)


def without_marks(name: str, data: bytes) -> bytes:
    """Return the patch without a UTF-8 byte order mark at its start.

    Editors write the mark; diffs start without it. A file's own mark stays, behind the first
    column of a hunk. UTF-16 and a terminal's colours are refused: what writes them can change
    line ends and characters as well.
    """
    if data.startswith(_UTF16) or _alternates(data):
        Lines(name, data).fail(
            "the file is UTF-16 text, as PowerShell writes what it redirects",
            remedy="write the patch again with `git diff --output=FILE` or `git format-patch`",
        )
    data = data.removeprefix(codecs.BOM_UTF8)
    coloured = _COLOURED.search(data)
    if coloured is not None:
        Lines(name, data).fail(
            "the patch holds a terminal's colour codes",
            line=data.count(b"\n", 0, coloured.start()) + 1,
            remedy="write the patch again with `git diff --no-color`",
        )
    return data


def is_converted(data: bytes) -> bool:
    """Whether every line of the diff ends in CRLF, git's own header lines too.

    A diff of CRLF files has LF in its headers. After a conversion (unix2dos, an editor, a shell
    of Windows, a mail server) the patch file alone does not show how the files' lines end.
    """
    start = _DIFF.search(data)
    end = _SIGNATURE.search(data)
    diff = data[start.start() : end.start() if end else len(data)] if start else b""
    return b"\r\n" in diff and diff.count(b"\r\n") == diff.count(b"\n")


def _alternates(data: bytes) -> bool:
    """Whether every second byte at the start is zero, as in UTF-16 without its mark."""
    sample = data[:_SAMPLE]
    pairs = len(sample) // 2
    return pairs > 1 and pairs in (sample[::2].count(0), sample[1::2].count(0))
