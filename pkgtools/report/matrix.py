"""The outcome of each patch, and of its hunks, on each revision."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from packaging.version import Version

from pkgtools.catalog import Catalog, Revision, Target, load_patch
from pkgtools.patch import FilePatch, Patch, bare_name
from pkgtools.patch.headers import headers_of
from pkgtools.plan import Rejection
from pkgtools.source.at_hand import AtHand
from pkgtools.tree.dry_run import DryRun, Outcome, dry_run

_Key = tuple[str, int]
"""A patch's change id, and how many patches of its series have the same before it."""

_FOLDERS: Final = re.compile(r"(?<![\w.:/])/(?:[^\s/:'\"]+/)+")
"""The folders of an absolute path; a URL has none."""


class CellState(StrEnum):
    """The outcome of one patch on one revision."""

    APPLIES = "applies"
    MOVED = "moved"
    """It applies, with a hunk at another line than stated."""
    ABSORBED = "absorbed"
    """The revision holds it already."""
    CONFLICT = "conflict"
    UNVERIFIED = "unverified"
    """The source is not available."""


@dataclass(frozen=True)
class ShownHunk:
    """One hunk, and its place in the revision."""

    header: str
    lines: tuple[str, ...]
    """With their sign, without line ends."""
    where: str
    """``at line 12``, ``at line 14, moved by 2``, or why it does not apply."""


@dataclass(frozen=True)
class ShownFile:
    """One file of a patch."""

    path: str
    kind: str
    hunks: tuple[ShownHunk, ...]
    message: str = ""
    """The fault of the file itself."""


@dataclass(frozen=True)
class Cell:
    """One patch on one revision."""

    state: CellState
    patch: str
    subject: str
    message: str
    files: tuple[ShownFile, ...]
    headers: tuple[tuple[str, str], ...] = ()
    """The patch's headers, such as ``Upstream-Status``, with their values."""


@dataclass(frozen=True)
class Column:
    """One revision of one target."""

    name: str
    """The target, or the alias that was validated on it."""
    target: str
    revision: str
    source: str
    """The source that it was compared with; empty if none was available."""


@dataclass(frozen=True)
class PatchRow:
    """One patch: a shared file, or the same change in the files of several series."""

    name: str
    subject: str
    cells: tuple[Cell | None, ...]
    """By column; None where the target's series lacks the patch."""


@dataclass(frozen=True)
class Matrix:
    """All patches on all revisions, in the catalog's order."""

    columns: tuple[Column, ...]
    rows: tuple[PatchRow, ...]
    problems: tuple[str, ...]
    """Targets whose series or lock cannot be read."""


def build_matrix(catalog: Catalog, at_hand: AtHand) -> Matrix:
    """Check the patches of every sound target on every revision that is at hand."""
    columns: list[Column] = []
    cells: list[dict[_Key, Cell]] = []
    for target in catalog.sound_targets:
        names = [(target.name, target.revision), *((a.name, a.revision) for a in target.aliases)]
        for name, revision in names:
            verdict = _verdict(catalog, target, revision, at_hand)
            full = revision.name if revision else "not known in full"
            source = Path(verdict.source or "").name  # the page is for others too
            columns.append(Column(name, target.name, full, source))
            cells.append(_by_key(_cells(target, revision, verdict)))
    _keep_absorbed(catalog, columns, cells)
    first = {key: cell for column in reversed(cells) for key, cell in column.items()}
    order = dict.fromkeys(key for column in cells for key in column)
    rows = tuple(
        PatchRow(bare_name(first[key].patch), first[key].subject, tuple(c.get(key) for c in cells))
        for key in order
    )
    problems = tuple(f"{name}: {_public(e.message)}" for name, e in catalog.problems.items())
    return Matrix(tuple(columns), rows, problems)


def _keep_absorbed(
    catalog: Catalog, columns: Sequence[Column], cells: Sequence[dict[_Key, Cell]]
) -> None:
    """Add the patches that an earlier release absorbed to the columns of later ones."""
    versions: dict[str, list[tuple[Version, int]]] = {}
    for number, column in enumerate(columns):
        target = catalog.target(column.target)
        if target.revision.version is not None:
            version = Version(target.revision.version)
            versions.setdefault(target.upstream.name, []).append((version, number))
    for releases in versions.values():
        since: dict[_Key, tuple[str, Cell]] = {}
        for version, number in sorted(releases):
            for key, cell in cells[number].items():
                if cell.state is CellState.ABSORBED:
                    since.setdefault(key, (str(version), cell))
                else:
                    since.pop(key, None)  # a later series has it again
            for key, (first, cell) in since.items():
                message = f"upstream holds it since {first}"
                later = replace(cell, message=message, files=())
                cells[number].setdefault(key, later)


def _public(message: str) -> str:
    """Return a message without folders of this machine: the page is for others."""
    return _FOLDERS.sub("", message)


def _by_key(cells: Iterable[tuple[Patch, Cell]]) -> dict[_Key, Cell]:
    """Key cells by what the patch changes; a series may make one change more than once."""
    keyed: dict[_Key, Cell] = {}
    seen: Counter[str] = Counter()
    for patch, cell in cells:
        keyed[patch.change_id, seen[patch.change_id]] = cell
        seen[patch.change_id] += 1
    return keyed


def _verdict(
    catalog: Catalog, target: Target, revision: Revision | None, at_hand: AtHand
) -> DryRun:
    """Return the worst verdict over the sources that are at hand."""
    if revision is None:
        message = "known by its short name alone: no revision was validated"
        return DryRun(target.name, "", None, Outcome.UNVERIFIED, message=message)
    verdicts = list(dry_run(catalog, [(target, revision)], at_hand))
    return max(verdicts, key=lambda verdict: verdict.exit_code)


def _cells(
    target: Target, revision: Revision | None, verdict: DryRun
) -> Iterator[tuple[Patch, Cell]]:
    for patch in target.series.patches:
        yield patch, _checked(patch, verdict)
    locked = target.lock.find(revision.name) if revision else None
    at = {a.patch: a.at for a in locked.absorbed} if locked else {}
    for path in target.absorbed:
        patch, name = load_patch(path), target.absorbed_name(path)
        yield patch, _absorbed(patch, name, at.get(name, []))


def _absorbed(patch: Patch, name: str, at: list[str]) -> Cell:
    where = f" at {', '.join(at)}" if at else ""
    files = [_shown(file, {}, "the revision holds it") for file in patch.files]
    return _cell(patch, CellState.ABSORBED, f"the revision holds {name}{where}", files)


def _cell(patch: Patch, state: CellState, message: str, files: Iterable[ShownFile]) -> Cell:
    headers = tuple(headers_of(patch).shown())
    return Cell(state, patch.name, patch.subject, message, tuple(files), headers)


def _checked(patch: Patch, verdict: DryRun) -> Cell:
    rejections = verdict.refusal.rejections if verdict.refusal else ()
    own = [rejection for rejection in rejections if rejection.patch == patch.name]
    offsets = {place.path: place.offsets for place in verdict.places if place.patch == patch.name}
    if verdict.outcome is Outcome.UNVERIFIED:
        state = CellState.UNVERIFIED
    elif verdict.outcome is not Outcome.REFUSED:
        moved = any(any(each) for each in offsets.values())
        state = CellState.MOVED if moved else CellState.APPLIES
    elif own or not rejections:
        held = bool(own) and all(rejection.absorbed is not None for rejection in own)
        state = CellState.ABSORBED if held else CellState.CONFLICT
    else:
        state = CellState.APPLIES  # its own part fits; the series is refused for another's
    files = []
    for file in patch.files:
        notes = {
            rejection.hunk: _reason(rejection)
            for rejection in own
            if rejection.path == file.new_path
        }
        for number, offset in enumerate(offsets.get(file.new_path, ()), 1):
            line = file.hunks[number - 1].first_old_line + offset
            notes[number] = f"at line {line}" + (f", moved by {offset}" if offset else "")
        files.append(_shown(file, notes, ""))
    return _cell(patch, state, _public(verdict.message or ""), files)


def _reason(rejection: Rejection) -> str:
    line = rejection.absorbed
    return rejection.message + ("" if line is None else f"; already there at line {line}")


def _shown(file: FilePatch, notes: dict[int | None, str], default: str) -> ShownFile:
    hunks = []
    for number, hunk in enumerate(file.hunks, 1):
        old, new = f"{hunk.old_start},{hunk.old_count}", f"{hunk.new_start},{hunk.new_count}"
        lines = ((tag + text).decode(errors="replace").rstrip("\n") for tag, text in hunk.lines)
        where = notes.get(number, default)
        hunks.append(ShownHunk(f"@@ -{old} +{new} @@", tuple(lines), where))
    return ShownFile(file.new_path, file.kind, tuple(hunks), notes.get(None, ""))
