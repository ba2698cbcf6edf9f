"""One file's section while it is read: its headers as they stand, names with their prefixes."""

import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pkgtools.blob import SUBMODULE, canonical_mode
from pkgtools.patch.binary import BinaryChange, read_binary
from pkgtools.patch.hunks import Hunk
from pkgtools.patch.lines import Lines, text
from pkgtools.patch.model import Kind
from pkgtools.patch.paths import DEV_NULL, PathError, git_pairs, header_name, is_epoch, rest_name
from pkgtools.patch.prose import check_text

_INDEX: Final = re.compile(rb"([0-9a-f]{4,40})\.\.([0-9a-f]{4,40})(?: ([0-7]{6}))?\n")
_MODE: Final = re.compile(rb"[0-7]{6}\n?")
GIT: Final = b"diff --git "
BELONGS_BELOW: Final = re.compile(rb"(?:Index: |IDEA add|Subsystem: |<\+>|=+$|diff (?!--git ))")
"""A line that a program writes above a section."""


@dataclass
class Section:
    """The headers of one file's part of a patch."""

    line: int
    git_line: bytes | None = None
    """The text after ``diff --git``; None in a plain diff."""
    has_names: bool = False
    old_name: bytes | None = None
    """The name in the ``---`` line, with its prefix; None for ``/dev/null`` or without the line."""
    new_name: bytes | None = None
    old_missing: bool = False
    """Whether the ``---`` line says that the file is missing: ``/dev/null``, or dated 1970."""
    new_missing: bool = False
    kinds: set[Kind] = field(default_factory=set)
    """What its headers say; a well-formed section has one at most."""
    moved_from: bytes | None = None
    moved_to: bytes | None = None
    old_mode: int | None = None
    new_mode: int | None = None
    old_id: str | None = None
    new_id: str | None = None
    binary: BinaryChange | None = None
    hunks: list[Hunk] = field(default_factory=list)
    end: int = 0
    """The line behind it."""

    @property
    def is_git(self) -> bool:
        """Whether git wrote it."""
        return self.git_line is not None


def starts_plain_section(lines: Lines) -> bool:
    """Whether a plain diff's section starts at the next line."""
    return (
        lines.peek().startswith(b"--- ")
        and lines.peek(1).startswith(b"+++ ")
        and lines.peek(2).startswith(b"@@ -")
    )


def read_headers(lines: Lines) -> Section:
    """Read ``diff --git`` and git's extended headers, or the two names of a plain diff."""
    section = Section(lines.number)
    if not lines.peek().startswith(GIT):
        _read_names(lines, section)
        return section
    _check_line_end(lines)
    section.git_line = lines.peek().removeprefix(GIT).removesuffix(b"\n")
    try:
        list(git_pairs(section.git_line))
    except PathError as error:
        lines.fail(str(error))
    lines.take()
    while _extended_header(lines, section):
        pass
    return section


def _check_line_end(lines: Lines) -> None:
    """Refuse a header line that was converted, or cut off where the file ends."""
    if lines.peek().endswith(b"\r\n"):
        lines.fail(
            "the patch's own header lines end in CRLF: the file was converted on its way",
            remedy="store patches as they are (`*.patch -text` in .gitattributes)",
        )
    if not lines.peek().endswith(b"\n"):
        lines.fail("the file ends in the middle of a line")


def _extended_header(lines: Lines, section: Section) -> bool:
    line = lines.peek()
    if line.startswith(b"--- ") and lines.peek(1).startswith(b"+++ "):
        _read_names(lines, section)
        return False
    if line.startswith((b"--- ", b"+++ ")):
        lines.fail("of the --- and +++ lines, one is missing")
    if line == b"GIT binary patch\n":
        lines.take()
        section.binary = read_binary(lines)
        return False
    try:
        is_header = _take(section, line)
    except (PathError, ValueError) as error:
        _check_line_end(lines)
        lines.fail(f"{text(line.strip())!r}: {error}")
    if is_header:
        _check_line_end(lines)
        lines.take()
        return True
    check_text(lines, is_lenient=True)
    return False


def _mode(value: bytes) -> int:
    raw = int(value, 8) if _MODE.fullmatch(value) else 0
    if stat.S_IFMT(raw) == SUBMODULE:
        raise ValueError("submodules are not supported")
    if not (stat.S_ISREG(raw) or stat.S_ISLNK(raw)):
        raise ValueError("this is not the mode of a file")
    return canonical_mode(raw)


def _take_index(section: Section, value: bytes) -> None:
    match = _INDEX.fullmatch(value)
    if match is None:
        raise ValueError("this index line is malformed")
    section.old_id, section.new_id = match[1].decode(), match[2].decode()
    if match[3]:
        section.old_mode = _mode(match[3])


# https://git-scm.com/docs/diff-format#generate_patch_text_with_p
_HEADERS: Final[dict[bytes, tuple[str, Callable[[bytes], object], Kind | None]]] = {
    # what the line starts with: (the field that it gives, how it is read, the kind that it says)
    b"old mode ": ("old_mode", _mode, None),
    b"new mode ": ("new_mode", _mode, None),
    b"new file mode ": ("new_mode", _mode, Kind.CREATE),
    b"deleted file mode ": ("old_mode", _mode, Kind.DELETE),
    b"rename from ": ("moved_from", rest_name, Kind.RENAME),
    b"rename to ": ("moved_to", rest_name, Kind.RENAME),
    b"copy from ": ("moved_from", rest_name, Kind.COPY),
    b"copy to ": ("moved_to", rest_name, Kind.COPY),
}


def _take(section: Section, line: bytes) -> bool:
    if line.startswith(b"index "):
        _take_index(section, line.removeprefix(b"index "))
        return True
    for start, (name, read, kind) in _HEADERS.items():
        if line.startswith(start):
            setattr(section, name, read(line.removeprefix(start)))
            section.kinds |= {kind} if kind else set()
            return True
    return line.startswith((b"similarity index ", b"dissimilarity index "))  # for people


def _read_names(lines: Lines, section: Section) -> None:
    section.has_names = True
    section.old_name, section.old_missing = _read_name(lines, section)
    section.new_name, section.new_missing = _read_name(lines, section)


def _read_name(lines: Lines, section: Section) -> tuple[bytes | None, bool]:
    _check_line_end(lines)
    line = lines.peek()
    try:
        name = header_name(line[4:])
    except PathError as error:
        lines.fail(str(error))
    lines.take()
    if name == DEV_NULL:
        return None, True
    # diff(1) -N names a missing file too, and dates it at the start of 1970.
    return name, not section.is_git and is_epoch(line)
