"""Parse the bytes of a patch file into a `Patch`.

Accepts what ``git apply`` accepts of git's own output and of plain unified diffs. What git
would pass over in silence (surplus hunk lines, a section that changes nothing, a mail behind
the first one) is an error here.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from pkgtools.blob import blob_id
from pkgtools.patch.encoding import is_converted, without_marks
from pkgtools.patch.hunks import read_hunk, starts_property
from pkgtools.patch.level import Level, LevelError, find_level, level_of_move, same_file
from pkgtools.patch.lines import Lines, text
from pkgtools.patch.mail import decoded, header_length, split_mails
from pkgtools.patch.model import FilePatch, Kind, Patch, is_same_id
from pkgtools.patch.paths import PathError, git_pairs, safe_path, strip, strip_or_none
from pkgtools.patch.prose import check_above, check_behind, check_between, check_text
from pkgtools.patch.section import GIT, Section, read_headers, starts_plain_section

_FOLDERS: Final = re.compile(rb"^diff -\w*[rN]\w*[ -].* .*$", re.MULTILINE)
"""What diff(1) writes above each section where it compares two folders."""
_MOVES: Final = {Kind.RENAME, Kind.COPY}
_STRIP: Final = (
    "give the number of folders to strip: -p1 behind its name in the series file, or "
    "`pkgtools import -p 1`"
)
_EMPTY: Final = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
"""The blob id of an empty file."""


# Several series name the same shared patch.
@lru_cache(maxsize=256)
def parse_patch(name: str, data: bytes, level: int | None = None) -> Patch:
    """Read one patch file.

    Args:
        name: what to call it in errors.
        data: its bytes.
        level: how many folders to strip from its names; by default what the names show.

    Raises:
        MalformedError: with the file, the line and what is wrong there.
    """
    mails = split_mails(data)
    if len(mails) > 1:
        Lines(name, data).fail(
            f"the file holds {len(mails)} patches, of one commit each",
            remedy=f"make a file of each: pkgtools import {name} -o DIR",
        )
    lines, was_converted = _decoded_lines(name, data)
    sections = _read_sections(lines)
    if not sections:
        lines.fail("there is no diff in this file", line=1)
    if level is None:
        level = _certain_level(lines, sections)
    files = tuple(_finish(lines, section, level) for section in sections)
    _refuse_second_change(lines, files)
    if was_converted:
        files = tuple(_without_line_ends(lines, file) for file in files)
    return Patch(name, data, files, decoded=lines.data, level=level)


def shown_level(name: str, data: bytes) -> Level | None:
    """Return how many folders a patch's names show before them, or None if they do not.

    Raises:
        MalformedError: it cannot be read, or its sections contradict each other.
    """
    lines, _ = _decoded_lines(name, data)
    return _level(lines, _read_sections(lines))


def _decoded_lines(name: str, data: bytes) -> tuple[Lines, bool]:
    """Return the lines of a patch file as its author wrote them, and whether it had CRLF ends."""
    said = decoded(name, without_marks(name, data))
    without_marks(name, said[header_length(said) :].lstrip(b"\n"))  # of a mail's body
    was_converted = is_converted(said)
    said = said.replace(b"\r\n", b"\n") if was_converted else said
    return Lines(name if said == data else f"{name} (decoded)", said), was_converted


def _level(lines: Lines, sections: list[Section]) -> Level | None:
    try:
        return find_level(sections)
    except LevelError as error:
        lines.fail(str(error), line=sections[0].line, remedy=_STRIP)


def _certain_level(lines: Lines, sections: list[Section]) -> int:
    level = _level(lines, sections)
    if level is None or not level.is_certain:
        lines.fail(
            "the names in the patch have no a/ or b/ before them, so that their place is not "
            "certain",
            line=sections[0].line,
            remedy=_STRIP.replace("p1", "p0").replace("-p 1", "-p 0"),
        )
    return level.number


def _read_sections(lines: Lines) -> list[Section]:
    sections: list[Section] = []
    compares_folders = _FOLDERS.search(lines.data) is not None
    in_message = header_length(lines.data) > 0
    while not lines.at_end:
        is_git = lines.peek().startswith(GIT)
        if is_git or starts_plain_section(lines):
            if sections:
                check_between(lines, sections[-1].end, of_git=is_git and sections[-1].is_git)
            sections.append(_read_section(lines))
            in_message = False
        elif starts_property(lines):
            read_hunk(lines)
        else:
            in_message = in_message and lines.peek() != b"---\n"
            check_text(lines, is_lenient=in_message, in_head=not sections)
            if compares_folders and not sections:
                check_above(lines)
            elif compares_folders and lines.number == sections[-1].end:
                check_behind(lines)
            lines.take()
    return sections


def _read_section(lines: Lines) -> Section:
    section = read_headers(lines)
    while lines.peek().startswith(b"@@ "):
        section.hunks.append(read_hunk(lines))
    if section.has_names and not (section.hunks or section.binary):
        lines.fail("the content of this section is missing", line=section.line)
    section.end = lines.number
    return section


def _refuse_second_change(lines: Lines, files: Sequence[FilePatch]) -> None:
    """Refuse a section that does not start from what one above it makes of its file."""
    made: dict[str, str | None] = {}
    for file in files:
        if file.kind is Kind.MODIFY and not is_same_id(made.get(file.new_path), file.old_id):
            lines.fail(
                f"{file.new_path} changes again, from another content than the change above makes",
                line=file.line,
                remedy="make a file of each patch, or write them again with `git format-patch`",
            )
        made[file.new_path] = file.new_id


def _without_line_ends(lines: Lines, file: FilePatch) -> FilePatch:
    """Mark a section whose line ends were converted; a new file's are told by its blob id."""
    if all(hunk.old_count for hunk in file.hunks):
        return replace(file, lost_line_ends=True)
    known = file.new_id or ""
    readings = (file.hunks, tuple(hunk.with_crlf() for hunk in file.hunks))
    fitting = [h for h in readings if known.strip("0") and blob_id(h[0].new).startswith(known)]
    if not fitting:
        lines.fail(
            f"the patch file was converted to CRLF: the line ends of the new file {file.new_path} "
            "are unclear",
            line=file.line,
            remedy="convert the patch back (`dos2unix`), if the file's lines end in LF",
        )
    return replace(file, hunks=fitting[0])


def _finish(lines: Lines, section: Section, level: int) -> FilePatch:
    if section.kinds & _MOVES and None in (section.moved_from, section.moved_to):
        lines.fail("a rename or copy names only one side", line=section.line)
    if section.is_git:
        _check_null(lines, section)
    else:
        _take_dates(lines, section)
    try:
        old_path, new_path = map(safe_path, _names(lines, section, level))
    except PathError as error:
        lines.fail(
            str(error), line=section.line, remedy="paths in a patch stay inside the source tree"
        )
    kind = _kind(lines, section, same=old_path == new_path)
    _check_content(lines, section, kind)
    return FilePatch(
        kind=kind,
        old_path=old_path,
        new_path=new_path,
        old_mode=section.old_mode,
        new_mode=section.new_mode,
        old_id=section.old_id,
        new_id=section.new_id,
        hunks=tuple(section.hunks),
        binary=section.binary,
        line=section.line,
        end=section.end,
    )


def _check_null(lines: Lines, section: Section) -> None:
    if not section.has_names:
        return
    for kind, missing, header in (
        (Kind.CREATE, section.old_missing, "new"),
        (Kind.DELETE, section.new_missing, "deleted"),
    ):
        if (kind in section.kinds) != missing:
            lines.fail(
                f"/dev/null and a `{header} file mode` line go together, one is missing",
                line=section.line,
            )


def _take_dates(lines: Lines, section: Section) -> None:
    """Decide whether a plain diff makes or removes its file.

    diff(1) -N names a missing file too, and dates it at the start of 1970. Files of some
    archives are dated so as well: one with lines is there.
    """
    has_old = any(hunk.old_count for hunk in section.hunks)
    has_new = any(hunk.new_count for hunk in section.hunks)
    first = section.hunks[0]
    is_there = section.old_name is not None and has_old
    if (section.old_missing and not is_there) or first.old_start == first.old_count == 0:
        section.kinds.add(Kind.CREATE)
    if section.new_missing and not (section.new_name is not None and has_new):
        section.kinds.add(Kind.DELETE)
    if Kind.DELETE in section.kinds and is_there and section.old_missing:
        lines.fail(
            "both sides are dated 1970: it is unclear whether the file is emptied or removed",
            line=section.line,
            remedy="write /dev/null in the +++ line if it is removed",
        )


def _names(lines: Lines, section: Section, level: int) -> tuple[bytes, bytes]:
    known: bytes | None = None
    if section.git_line is not None:
        pairs = ([strip_or_none(n, level) for n in pair] for pair in git_pairs(section.git_line))
        known = next((a for a, b in pairs if a == b and a is not None), None)
    # Rename lines have the name without the prefix: with -p2 one folder goes from it.
    fewer = level_of_move(section)
    more = max(level - (1 if fewer is None else fewer), 0)
    old, new = (
        known if name is None else strip(name, more)
        for name in (section.moved_from, section.moved_to)
    )
    said = [None if n is None else strip(n, level) for n in (section.old_name, section.new_name)]
    if said[0] is not None and said[0] == said[1] and not section.kinds & _MOVES:
        old, new = said  # as in git apply, whatever `diff --git` says
    sides = []
    for name, above in zip(said, (old, new), strict=True):
        if None not in (name, above) and name != above:
            lines.fail(
                f"the name {text(name or b'')!r} differs from {text(above or b'')!r} in the header "
                "above it",
                line=section.line,
            )
        sides.append(name or above)
    old, new = sides
    if section.kinds - _MOVES == {Kind.DELETE}:
        new = old or new
        old = new
    elif section.kinds - _MOVES == {Kind.CREATE}:
        old = new = new or old
    if old is None or new is None:
        lines.fail("the patch does not say the name of this file", line=section.line)
    if not section.is_git:
        old = new = same_file(old, new) or _two_files(lines, section)
    return old, new


def _two_files(lines: Lines, section: Section) -> bytes:
    lines.fail(
        "the old and the new name differ and the patch says neither rename nor copy",
        line=section.line,
        remedy="write the patch again with `git diff`, or give both lines the file's name",
    )


def _kind(lines: Lines, section: Section, *, same: bool) -> Kind:
    kinds = [kind for kind in Kind if kind in section.kinds]
    if len(kinds) > 1:
        lines.fail(f"this section says both {kinds[0]} and {kinds[1]}", line=section.line)
    if not kinds and not same:
        _two_files(lines, section)
    return kinds[0] if kinds else Kind.MODIFY


def _promises_content(section: Section) -> bool:
    """Whether the ``index`` line says that a content changes; an empty file has no hunk."""
    ids = {i for i in (section.old_id, section.new_id) if i and i.strip("0")}
    if section.kinds & {Kind.CREATE, Kind.DELETE}:
        return any(not _EMPTY.startswith(i) for i in ids)
    return len(ids) > 1


def _check_content(lines: Lines, section: Section, kind: Kind) -> None:
    at, hunks = section.line, section.hunks
    if kind is Kind.CREATE and any(hunk.old_count for hunk in hunks):
        lines.fail("a new file's hunk has old lines", line=at)
    if kind is Kind.DELETE and any(hunk.new_count for hunk in hunks):
        lines.fail("a deleted file's hunk has new lines", line=at)
    if kind in (Kind.CREATE, Kind.DELETE) and len(hunks) > 1:
        lines.fail("a new or deleted file has one hunk at most", line=at)
    if not (hunks or section.binary) and _promises_content(section):
        lines.fail("the content of this section is missing", line=at)
    modes = {section.old_mode, section.new_mode} - {None}
    if kind is Kind.MODIFY and not (hunks or section.binary or len(modes) > 1):
        lines.fail("this section changes nothing", line=at)
    if section.binary and not len(section.old_id or "") == len(section.new_id or "") == 40:
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
            if all(line.startswith(b"Subproject commit ") for _, line in hunk.lines):
                lines.fail("submodules are not supported", line=hunk.line)
