"""Which known revision a source is."""

from pkgtools.catalog import Catalog
from pkgtools.errors import ForeignError
from pkgtools.source import Source
from pkgtools.tree.state import Identity, match_all


def identify(catalog: Catalog, source: Source) -> tuple[Identity, ...]:
    """Return every revision that `source` is, from blob ids alone; for a foreign one the nearest.

    Two revisions whose touched files are the same cannot be told apart, and need not be.
    """
    found = match_all(catalog.sound_targets, source)
    if not found:
        problem = next(iter(catalog.problems.values()), None)
        raise ForeignError(
            f"no target of {catalog.path} can be held against {source.label}"
            + (f": {problem.message}" if problem else ""),
            remedy=problem.remedy if problem and problem.remedy else "see `pkgtools targets`",
        )
    if not found[0].is_known:
        return (found[0],)
    return tuple(each for each in found if each.state is found[0].state)
