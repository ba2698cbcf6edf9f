"""What becomes of a patch's hunks, as the report says it and as a person gets a conflict."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pkgtools.authoring.gitdiff import FileChange
from pkgtools.blob import EXECUTABLE, SYMLINK, Blob
from pkgtools.merge import Merge
from pkgtools.merge.comparison import syntax_error
from pkgtools.merge.lines import Chunk
from pkgtools.merge.markers import Markers, conflicts_in, count_markers, mark, mark_whole
from pkgtools.patch.lines import text
from pkgtools.port.model import Decision, HunkOutcome, HunkReport, ProposedText, Sides

_CONTEXT: Final = 3


def describe(change: FileChange, merged: Merge, path: str, *, renamed: bool) -> list[HunkReport]:
    """Return what became of each hunk of a file."""
    assert change.before is not None  # noqa: S101 - only what both have is merged
    assert change.after is not None  # noqa: S101
    found = []
    sides = _sides(change, merged)
    proposals = {
        chunk: ProposedText(number, proposal.rule, text(proposal.text))
        for number, proposal in enumerate(merged.proposals, 1)
        for chunk in proposal.chunks
    }
    rules = ("moved-file",) if renamed else ()
    number, end = 0, -2 * _CONTEXT - 1
    for one in merged.chunks:
        number += one.chunk.old - end > 2 * _CONTEXT  # nearer changes are one hunk in a diff
        line, end, proposal = one.chunk.old + 1, one.chunk.old_end, proposals.get(one.chunk)
        kind = HunkOutcome(one.how.value)
        if kind is HunkOutcome.MOVED and one.line == line and not renamed:
            kind = HunkOutcome.UNCHANGED
        of_conflict = sides.get(one.chunk) if kind is HunkOutcome.CONFLICT else None
        found.append(
            HunkReport(
                change.path,
                kind,
                hunk=number,
                line=line,
                to=f"{path}:{one.line}" if kind is HunkOutcome.MOVED else None,
                rules=(*rules, *one.rules),
                reason=one.reason,
                absorbed_by=tuple(f"{path}:{at}" for at in one.lines),
                sides=of_conflict,
                proposal=proposal,
                drops=bool(proposal and of_conflict and proposal.text == of_conflict.theirs),
            )
        )
    return found


def _sides(change: FileChange, merged: Merge) -> dict[Chunk, Sides]:
    assert change.before is not None  # noqa: S101 - see `describe`
    assert change.after is not None  # noqa: S101
    return {
        chunk: Sides(text(conflict.base), text(conflict.ours), text(conflict.theirs))
        for conflict in conflicts_in(change.before.data, change.after.data, merged)
        for chunk in conflict.chunks
    }


def whole_file(change: FileChange, reason: str) -> list[HunkReport]:
    """Return the conflict of a file that cannot be merged in parts."""
    return [HunkReport(change.path, HunkOutcome.CONFLICT, reason=reason)]


def decided(report: HunkReport, decision: Decision) -> HunkReport:
    """Return the report of a conflict that a person has decided."""
    proposal, merged = report.proposal, replace(report, outcome=HunkOutcome.MERGED, proposal=None)
    if proposal is None or proposal.number not in decision.accepted:
        return replace(merged, rules=("by-hand",), drops=False)
    return replace(merged, rules=("accepted-proposal", proposal.rule))


_RANK: Final = (
    HunkOutcome.CONFLICT,
    HunkOutcome.BLOCKED,
    HunkOutcome.MERGED,
    HunkOutcome.MOVED,
    HunkOutcome.UNCHANGED,
    HunkOutcome.ABSORBED,
    HunkOutcome.EMPTY,
)


def worst(hunks: Sequence[HunkReport], changes: Sequence[FileChange]) -> HunkOutcome:
    """Return a patch's outcome: that of the hunk which needed most."""
    outcomes = {hunk.outcome for hunk in hunks}
    if not changes and not outcomes & {HunkOutcome.CONFLICT, HunkOutcome.BLOCKED}:
        return HunkOutcome.ABSORBED if HunkOutcome.ABSORBED in outcomes else HunkOutcome.EMPTY
    # A rename or another mode alone has no hunk.
    return next((outcome for outcome in _RANK if outcome in outcomes), HunkOutcome.UNCHANGED)


def marked_file(
    change: FileChange, theirs: Blob | None, merged: Merge | None, markers: Markers
) -> Blob | None:
    """Return the file as a person gets it."""
    ours = change.after or Blob(b"", (theirs or change.before or Blob(b"")).mode)
    if merged is None:
        blobs = [b for b in (change.before, change.after, theirs) if b is not None]
        if not is_text(*blobs):
            return theirs
        base, other = change.before or Blob(b""), theirs or Blob(b"")
        return Blob(mark_whole(base.data, ours.data, other.data, markers), ours.mode)
    assert change.before is not None  # noqa: S101 - see `describe`
    marked = mark(change.before.data, ours.data, merged, markers)
    return Blob(marked, theirs.mode if theirs else ours.mode)


def markers_in(*blobs: Blob | None) -> int | None:
    """Return how many lines like markers some files have; None if one is not text."""
    files = [blob for blob in blobs if blob is not None]
    return sum(count_markers(file.data) for file in files) if is_text(*files) else None


def mode_of(answer: Blob, *sides: Blob | None) -> int:
    """Return the mode of an answer, which `conflicts/` has without that of links and programs."""
    before, ours, theirs = (blob.mode if blob is not None else None for blob in sides)
    links = (b for b in sides if b is not None and b.mode == SYMLINK and b.data == answer.data)
    merged = ours if before == theirs else theirs
    if any(links):
        return SYMLINK
    return EXECUTABLE if EXECUTABLE in (answer.mode, merged) else answer.mode


def is_text(*blobs: Blob) -> bool:
    """Whether all are text files, which can have conflict markers."""
    return all(blob.mode != SYMLINK and b"\0" not in blob.data for blob in blobs)


def compile_all(*blobs: Blob | None) -> bool:
    """Whether Python compiles each of the files that are there."""
    return all(syntax_error(blob.data) is None for blob in blobs if blob is not None)


def digest_of(*blobs: Blob | None) -> str:
    """Return a digest of the three versions: an answer belongs to no others."""
    ids = " ".join(f"{b.mode:o}:{b.id}" if b is not None else "none" for b in blobs)
    return hashlib.sha256(ids.encode()).hexdigest()


def combined(changes: Sequence[FileChange]) -> list[FileChange]:
    """Return one change for each file, and none for a file that stays as it is.

    A definition can move into a file that the patch changes as well.
    """
    found: dict[str, FileChange] = {}
    for change in changes:
        first = found.get(change.old_path)
        if first is None or (first.old_path != first.path and change.old_path != change.path):
            found[change.path] = change  # new here, or the other half of an exchange of names
            continue
        del found[change.old_path]
        found[change.path] = FileChange(first.old_path, change.path, first.before, change.after)
    return [c for c in found.values() if c.before != c.after or c.old_path != c.path]
