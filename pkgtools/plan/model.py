"""A plan: the changes, the place of each hunk, and the rejections."""

from dataclasses import dataclass
from enum import StrEnum

from pkgtools.blob import Blob
from pkgtools.patch import Kind
from pkgtools.plan.match import Placement


class Reason(StrEnum):
    """Why a part of a patch does not apply."""

    NO_MATCH = "no-match"
    AMBIGUOUS = "ambiguous"
    OVERLAP = "overlap"
    MISSING = "missing"
    EXISTS = "exists"
    WRONG_TYPE = "wrong-type"
    NOT_EMPTIED = "not-emptied"
    WRONG_CONTENT = "wrong-content"
    UNSAFE = "unsafe"
    DEPENDS = "depends"


@dataclass(frozen=True)
class Nearest:
    """The place in a file that resembles a pre-image most."""

    line: int
    similarity: float
    """The similarity of the lines, 0 to 1 (`difflib.SequenceMatcher.ratio`)."""
    diff: tuple[str, ...]
    """The difference from the expected lines (``-``) to the found ones (``+``)."""


@dataclass(frozen=True)
class Rejection:
    """One hunk, or one file, of one patch that does not apply."""

    patch: str
    path: str
    reason: Reason
    message: str
    patch_line: int
    """The place in the patch file."""
    hunk: int | None = None
    """The hunk's 1-based number in its file; None where the file itself is the matter."""
    stated: int | None = None
    """The line of the file at which the hunk's header puts it."""
    places: tuple[int, ...] = ()
    """For an ambiguous hunk, every line where it matches."""
    expected: tuple[str, ...] = ()
    """The pre-image's lines."""
    nearest: Nearest | None = None
    absorbed: int | None = None
    """The line at which the source already holds what the hunk makes."""


@dataclass(frozen=True)
class Step:
    """The step of one patch on one file."""

    patch: str
    path: str
    kind: Kind
    placements: tuple[Placement, ...]
    rejected: bool


@dataclass(frozen=True)
class Change:
    """A path before and after the whole series."""

    path: str
    before: Blob | None
    after: Blob | None
    between: tuple[Blob | None, ...]
    """The states that patches in the middle of the series leave, in order."""
    patches: tuple[str, ...]
    """The patches that change it, in order: one more than `between`."""
    sets_mode: bool
    """Whether the series changes its executable bit, which ids alone would not show."""


@dataclass(frozen=True)
class Plan:
    """The result of a series on a source."""

    changes: tuple[Change, ...]
    """By path; incomplete if the plan has rejections."""
    steps: tuple[Step, ...]
    rejections: tuple[Rejection, ...]

    @property
    def ok(self) -> bool:
        """Whether the whole series applies."""
        return not self.rejections

    @property
    def absorbed(self) -> bool:
        """Whether the source already has everything that was rejected."""
        return bool(self.rejections) and all(
            r.absorbed is not None or r.reason is Reason.DEPENDS for r in self.rejections
        )
