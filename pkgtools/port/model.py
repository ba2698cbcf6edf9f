"""The parts of a port, and its report."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from pkgtools.blob import Blob


class HunkOutcome(StrEnum):
    """The outcome for a patch, or for one of its hunks, in one step."""

    UNCHANGED = "unchanged"
    MOVED = "moved"
    MERGED = "merged"
    ABSORBED = "absorbed"
    CONFLICT = "conflict"
    BLOCKED = "blocked"
    """It changes a file with an open conflict."""
    EMPTY = "empty"
    """Nothing of it is left, and not because upstream has it."""


@dataclass(frozen=True)
class Sides:
    """The three texts of a conflict."""

    base: str
    ours: str
    theirs: str


@dataclass(frozen=True)
class ProposedText:
    """A likely answer to a conflict, for a person to take."""

    number: int
    """In the file with conflict markers, counted from 1."""
    rule: str
    text: str
    """The text that replaces theirs."""


@dataclass(frozen=True)
class HunkReport:
    """One hunk of one patch in one step; a hunk without a number means a whole file."""

    path: str
    outcome: HunkOutcome
    hunk: int | None = None
    """Counted from 1 in the file."""
    line: int | None = None
    """In the old source, 1-based."""
    to: str | None = None
    """``path:line`` in the new source, where it is another one."""
    rules: tuple[str, ...] = ()
    reason: str | None = None
    absorbed_by: tuple[str, ...] = ()
    """``path:line`` of the upstream lines that are the hunk's own."""
    sides: Sides | None = None
    proposal: ProposedText | None = None
    drops: bool = False
    """Whether the proposal, or the accepted one, has upstream's lines in place of the patch's."""

    @property
    def lost(self) -> str:
        """What its proposal drops, for a report to put after the rule."""
        if self.drops:
            return ", drops the patch's change"
        is_ours = self.proposal is not None and self.proposal.rule == "as-patched"
        return ", drops upstream's change" if is_ours else ""


@dataclass(frozen=True)
class PatchReport:
    """One patch in one step."""

    patch: str
    outcome: HunkOutcome
    hunks: tuple[HunkReport, ...]


@dataclass(frozen=True)
class StepReport:
    """One step from a source to the next."""

    base: str
    theirs: str
    patches: tuple[PatchReport, ...]


@dataclass(frozen=True)
class ConflictedFile:
    """A file that waits for a person."""

    step: int
    patch: str
    path: str
    """In the new source."""
    key: str
    """A digest of the three versions: an answer belongs to no others."""
    marked: Blob | None
    """The file with conflict markers."""
    hunks: tuple[HunkReport, ...]
    """The decisions in it, with reasons."""
    compiles: bool
    """Whether both sides are Python that compiles."""
    markers: int | None
    """The lines of the sides that look like markers; None if a side is not text."""
    is_removed: bool
    """Whether a side does not have the file."""
    is_emptied: bool
    """Whether nothing is in the file of a side."""


@dataclass(frozen=True)
class Decision:
    """A person's resolution of a conflict."""

    file: Blob | None
    """None where the person removed the file."""
    accepted: Collection[int] = ()
    """The numbers of the proposals that the person took."""
