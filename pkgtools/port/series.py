"""Porting a whole series step by step."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pkgtools.authoring.applied import AppliedPatch
from pkgtools.authoring.lock import prove_absorbed
from pkgtools.catalog import Upstream
from pkgtools.errors import CheckFailedError
from pkgtools.patch import Patch
from pkgtools.port.ahead import Ahead
from pkgtools.port.finished import Finished
from pkgtools.port.memory import StepMemory
from pkgtools.port.model import ConflictedFile, StepReport
from pkgtools.port.step import Decide, PortStep
from pkgtools.source import Source
from pkgtools.util.progress import Reporter


@dataclass(frozen=True)
class Ported:
    """A series as far as it was ported."""

    patches: tuple[AppliedPatch, ...]
    steps: tuple[StepReport, ...]
    conflicts: tuple[ConflictedFile, ...]
    """The conflicts of the last step, which a person must resolve."""
    finished: Finished
    """The steps before the one with conflicts, and the series behind them."""


def port_series(
    finished: Finished,
    upstream: Upstream,
    sources: Sequence[Source],
    decide: Decide,
    reporter: Reporter,
) -> Ported:
    """Port a series along `sources`.

    It stops behind the first step that leaves something to a person.

    Args:
        finished: the steps that were made before, and the series behind them.
        upstream: whose it is.
        sources: from the one that the series was made for to the one that it shall be for.
        decide: returns what a person made of a conflict; None for an open conflict.
        reporter: hears of each step.

    """
    memory = StepMemory()
    changed = (change.after for applied in finished.patches for change in applied.changes)
    with Ahead(sum(len(blob.data) for blob in changed if blob)) as ahead:
        for number, (old, new) in enumerate(pairwise(sources), 1):
            if number <= len(finished.steps):
                continue
            step = PortStep(number, old, new, upstream, decide, memory=memory, ahead=ahead)
            with reporter.task(f"porting to {new.label}, step {number} of {len(sources) - 1}"):
                before = finished.steps[-1] if finished.steps else None
                patches, report = step.run(finished.patches, before)
            steps = (*finished.steps, report)
            if step.conflicts:
                return Ported(tuple(patches), steps, tuple(step.conflicts), finished)
            finished = Finished(tuple(patches), steps)
    return Ported(finished.patches, finished.steps, (), finished)


def is_absorbed(patch: Patch, source: Source) -> bool:
    """Whether a source already has a patch, as `pkgtools lock` proves it."""
    try:
        prove_absorbed(patch, source)
    except CheckFailedError:
        return False
    return True
