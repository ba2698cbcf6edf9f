"""From the bytes of a patch file to a `Patch`.

Accepts what ``git apply`` accepts of git's own output and of plain unified
diffs, with strip level 1. What git would pass over in silence (surplus hunk
lines, a section that changes nothing) is an error here.
"""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass, field
from typing import Final

from pkgtools.blob import SUBMODULE, canonical_mode
from pkgtools.patch.binary import BinaryChange, read_binary
from pkgtools.patch.hunks import Hunk, is_hunk_header, read_hunk
from pkgtools.patch.lines import Lines, text
from pkgtools.patch.model import FilePatch, Kind, Patch
from pkgtools.patch.paths import (
    DEV_NULL,
    PathError,
    git_header_name,
    header_name,
    is_epoch,
    rest_name,
    safe_path,
    strip_first,
)

_INDEX: Final = re.compile(rb"([0-9a-f]{4,40})\.\.([0-9a-f]{4,40})(?: ([0-7]{6}))?\n")
_MODE: Final = re.compile(rb"[0-7]{6}\n?")
_EMPTY: Final = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
"""The blob id of an empty file."""


def parse_patch(name: str, data: bytes) -> Patch:
    """Read one patch file.

    Args:
        name: what to call it in errors.
        data: its bytes.

    Raises:
        MalformedError: with the file, the line and what is wrong there.

    """
    lines = Lines(name, data)
    files: list[FilePatch] = []
    while not lines.at_end:
        if lines.peek().startswith(b"diff --git "):
            section = _git_section(lines)
        elif _starts_plain_section(lines):
            section = _Section(lines.number)
            _read_names(lines, section)
        else:
            _check_text(lines)
            lines.take()
            continue
        while lines.peek().startswith(b"@@ "):
            section.hunks.append(read_hunk(lines))
        files.append(_finish(lines, section))
    if not files:
        lines.fail("there is no diff in this file", line=1)
    return Patch(name, data, tuple(files))


@dataclass
class _Section:
    """A file's section while it is read; names are raw and without ``a/`` or ``b/``."""

    line: int
    has_names: bool = False
    common: bytes | None = None
    """The name in ``diff --git``, when both sides agree."""
    is_git: bool = False
    old: bytes | None = None
    new: bytes | None = None
    created: bool = False
    deleted: bool = False
    renamed: bool = False
    copied: bool = False
    old_mode: int | None = None
    new_mode: int | None = None
    old_id: str | None = None
    new_id: str | None = None
    binary: BinaryChange | None = None
    hunks: list[Hunk] = field(default_factory=list)


def _check_text(lines: Lines) -> None:
    """Refuse what is a change, but not one that can be made; text would be passed over."""
    line = lines.peek()
    if is_hunk_header(line):
        lines.fail("a hunk stands behind no file header")
    if line.startswith(b"Binary files ") and line.rstrip().endswith(b" differ"):
        lines.fail(
            "a binary file differs, but the patch does not hold its data",
            remedy="write the patch again with `git diff --binary` or `git format-patch`",
        )
    if line.startswith((b"diff --cc ", b"diff --combined ")):
        lines.fail(
            "the combined diff of a merge cannot be applied",
            remedy="write the patch again against one parent (`git diff HEAD^ HEAD`)",
        )


def _starts_plain_section(lines: Lines) -> bool:
    return (
        lines.peek().startswith(b"--- ")
        and lines.peek(1).startswith(b"+++ ")
        and lines.peek(2).startswith(b"@@ -")
    )


def _git_section(lines: Lines) -> _Section:
    """Read ``diff --git`` and git's extended headers, up to the first hunk."""
    section = _Section(lines.number, is_git=True)
    _check_line_end(lines)
    try:
        section.common = git_header_name(lines.peek().removeprefix(b"diff --git "))
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


def _extended_header(lines: Lines, section: _Section) -> bool:
    """Take one extended header line; False where they end."""
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
    _check_text(lines)
    for prefix, take in _HEADERS.items():
        if line.startswith(prefix):
            _check_line_end(lines)
            try:
                take(section, line[len(prefix) :])
            except (PathError, ValueError) as error:
                lines.fail(f"{text(line.strip())!r}: {error}")
            lines.take()
            return True
    return False


def _mode(value: bytes) -> int:
    raw = int(value, 8) if _MODE.fullmatch(value) else 0
    if stat.S_IFMT(raw) == SUBMODULE:
        raise ValueError("submodules are not supported")
    if not (stat.S_ISREG(raw) or stat.S_ISLNK(raw)):
        raise ValueError("this is no mode of a file")
    return canonical_mode(raw)


def _take_old_mode(section: _Section, value: bytes) -> None:
    section.old_mode = _mode(value)


def _take_new_mode(section: _Section, value: bytes) -> None:
    section.new_mode = _mode(value)


def _take_created(section: _Section, value: bytes) -> None:
    section.created = True
    section.new_mode = _mode(value)


def _take_deleted(section: _Section, value: bytes) -> None:
    section.deleted = True
    section.old_mode = _mode(value)


def _take_rename_from(section: _Section, value: bytes) -> None:
    section.renamed = True
    section.old = rest_name(value)


def _take_rename_to(section: _Section, value: bytes) -> None:
    section.renamed = True
    section.new = rest_name(value)


def _take_copy_from(section: _Section, value: bytes) -> None:
    section.copied = True
    section.old = rest_name(value)


def _take_copy_to(section: _Section, value: bytes) -> None:
    section.copied = True
    section.new = rest_name(value)


def _take_index(section: _Section, value: bytes) -> None:
    match = _INDEX.fullmatch(value)
    if match is None:
        raise ValueError("this index line is malformed")
    section.old_id, section.new_id = match[1].decode(), match[2].decode()
    if match[3]:
        section.old_mode = _mode(match[3])


def _ignore(section: _Section, value: bytes) -> None:
    """Similarity is for people."""


_HEADERS: Final = {
    b"old mode ": _take_old_mode,
    b"new mode ": _take_new_mode,
    b"new file mode ": _take_created,
    b"deleted file mode ": _take_deleted,
    b"rename from ": _take_rename_from,
    b"rename to ": _take_rename_to,
    b"copy from ": _take_copy_from,
    b"copy to ": _take_copy_to,
    b"similarity index ": _ignore,
    b"dissimilarity index ": _ignore,
    b"index ": _take_index,
}


def _read_names(lines: Lines, section: _Section) -> None:
    """Read the ``---`` and ``+++`` lines and hold them against what is known."""
    section.has_names = True
    for side, flag, header in (("old", "created", "new"), ("new", "deleted", "deleted")):
        known = getattr(section, side) or section.common
        _check_line_end(lines)
        try:
            raw = header_name(lines.peek()[4:])
            name = None if raw == DEV_NULL else strip_first(raw)
        except PathError as error:
            lines.fail(str(error))
        if section.is_git and getattr(section, flag) != (name is None):
            lines.fail(f"/dev/null and a `{header} file mode` line go together, one is missing")
        if name is None:
            setattr(section, flag, True)
        elif known is not None and name != known:
            lines.fail(
                f"the name {text(name)!r} differs from {text(known)!r} in the header above it"
            )
        else:
            setattr(section, side, name)
            # diff(1) -N names a missing file too, and dates it 1970
            if not (section.is_git or section.created) and is_epoch(lines.peek()):
                setattr(section, flag, True)
        lines.take()


def _finish(lines: Lines, section: _Section) -> FilePatch:
    """Turn a section into a `FilePatch`, or say what it lacks."""
    at = section.line
    if (section.renamed or section.copied) and not (section.old and section.new):
        lines.fail("a rename or copy names only one side", line=at)
    old, new = section.old or section.common, section.new or section.common
    if not section.is_git and section.hunks[0].old_start == section.hunks[0].old_count == 0:
        section.created = True  # diff(1) -N names both sides; an empty old side is a new file
    if section.deleted and not section.created:
        new = old
    elif section.created and not section.deleted:
        old = new
    if old is None or new is None:
        lines.fail("the name of this file cannot be told from the patch", line=at)
    try:
        old_path, new_path = safe_path(old), safe_path(new)
    except PathError as error:
        lines.fail(str(error), line=at, remedy="paths in a patch stay inside the source tree")
    kind = _kind(lines, section, same=old_path == new_path)
    _check_content(lines, section, kind)
    return FilePatch(
        kind,
        old_path,
        new_path,
        section.old_mode,
        section.new_mode,
        section.old_id,
        section.new_id,
        tuple(section.hunks),
        section.binary,
        at,
    )


def _kind(lines: Lines, section: _Section, *, same: bool) -> Kind:
    flags = {
        Kind.CREATE: section.created,
        Kind.DELETE: section.deleted,
        Kind.RENAME: section.renamed,
        Kind.COPY: section.copied,
    }
    kinds = [kind for kind, flag in flags.items() if flag]
    if len(kinds) > 1:
        lines.fail(f"this section says both {kinds[0]} and {kinds[1]}", line=section.line)
    if not kinds and not same:
        lines.fail(
            "the old and the new name differ and the patch says neither rename nor copy",
            line=section.line,
        )
    return kinds[0] if kinds else Kind.MODIFY


def _promises_content(section: _Section) -> bool:
    """Whether the ``index`` line says that a content changes; an empty file has no hunk."""
    ids = {i for i in (section.old_id, section.new_id) if i and i.strip("0")}
    if section.created or section.deleted:
        return any(not _EMPTY.startswith(i) for i in ids)
    return len(ids) > 1


def _check_content(lines: Lines, section: _Section, kind: Kind) -> None:
    """Refuse sections that say nothing, or more than their kind can."""
    at = section.line
    hunks = section.hunks
    if kind is Kind.CREATE and any(hunk.old_count for hunk in hunks):
        lines.fail("a new file's hunk has old lines", line=at)
    if kind is Kind.DELETE and any(hunk.new_count for hunk in hunks):
        lines.fail("a deleted file's hunk has new lines", line=at)
    if kind in (Kind.CREATE, Kind.DELETE) and len(hunks) > 1:
        lines.fail("a new or deleted file has one hunk at most", line=at)
    if not (hunks or section.binary) and (section.has_names or _promises_content(section)):
        lines.fail("the content of this section is missing", line=at)
    mode_changes = None not in (section.old_mode, section.new_mode) and (
        section.old_mode != section.new_mode
    )
    if kind is Kind.MODIFY and not (hunks or section.binary or mode_changes):
        lines.fail("this section changes nothing", line=at)
    if section.binary and not (
        section.old_id and section.new_id and len(section.old_id) == len(section.new_id) == 40
    ):
        lines.fail(
            "a binary change needs an index line with full blob ids",
            line=at,
            remedy="write the patch again with `git format-patch --full-index --binary`",
        )
    if kind in (Kind.MODIFY, Kind.RENAME, Kind.COPY):
        for hunk in hunks:
            if hunk.old_count == 0 and hunk.old_start:
                lines.fail(
                    "this hunk has no context, so its place cannot be verified",
                    line=hunk.line,
                    remedy="write the patch again with context (`git diff -U3`)",
                )
