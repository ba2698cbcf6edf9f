"""Which known revision a source is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pkgtools.errors import ForeignError
from pkgtools.tree.state import Match, State, match_all

if TYPE_CHECKING:
    from pkgtools.catalog import Catalog
    from pkgtools.source import Source


@dataclass(frozen=True)
class Identity:
    """What a source is to a catalog."""

    source: str
    state: State
    matches: tuple[Match, ...]
    """Every revision that the source is, or, for a foreign one, the nearest alone.

    Two revisions whose touched files are the same cannot be told apart, and need not be.
    """

    @property
    def best(self) -> Match:
        """The first match."""
        return self.matches[0]


def identify(catalog: Catalog, source: Source) -> Identity:
    """Return which revision of which target `source` is, from blob ids alone.

    Raises:
        ForeignError: the catalog has no sound target to hold it against.

    """
    matches = match_all(catalog.sound_targets, source)
    if not matches:
        problem = next(iter(catalog.problems.values()), None)
        raise ForeignError(
            f"no target of {catalog.path} can be held against {source.label}"
            + (f": {problem.message}" if problem else ""),
            remedy=problem.remedy if problem and problem.remedy else "see `pkgtools targets`",
        )
    best = matches[0]
    if not best.is_known:
        return Identity(source.label, best.state, (best,))
    same = tuple(m for m in matches if m.state is best.state)
    return Identity(source.label, best.state, same)
