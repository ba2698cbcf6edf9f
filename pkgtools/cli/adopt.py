"""``pkgtools adopt``."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from pkgtools.catalog import Catalog
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.output import note
from pkgtools.cli.sources import source_options
from pkgtools.source.at_hand import Sources
from pkgtools.source.choose import open_tree, open_trees
from pkgtools.transaction import reading
from pkgtools.tree.apply import TreeChange, adopt_target
from pkgtools.tree.choose import target_of
from pkgtools.tree.shadow import shadowed


@common.command()
@common.target_option
@common.tree_options
@source_options
def adopt(
    target: str | None, tree: Path | None, python: str | None, sources: Sources, catalog: Catalog
) -> Output:
    """Write a receipt for a tree that was patched exactly by other means, to reverse it later.

    No file of the package changes. The original files come from the reversed patches or, if
    that is not enough, from --wheel or --git, and must match the lockfile.

    \b
    Examples:
      pkgtools adopt
      pkgtools adopt --target v0.5.23 --tree ~/src/sglang --git ~/src/sglang
    """
    if target is not None:
        chosen = catalog.target(target)
        where = open_tree(catalog, chosen, tree, python)
    else:
        trees = open_trees(catalog, catalog.upstreams, tree, python)
        with reading(trees, common.Progress()):
            chosen, where = target_of(catalog, trees)
    originals = sources.at_hand(catalog, common.Progress(), download=False).find_any(chosen)
    done = adopt_target(catalog, chosen, where, originals, common.Progress())
    return Output(done, _lines(done, shadowed(where, chosen.series.paths)))


def _lines(done: TreeChange, hidden: Mapping[str, str]) -> Iterator[str]:
    yield f"{done.tree} has a receipt of {done.target} ({common.short(done.revisions)})"
    for path, module in hidden.items():
        note(f"{path} is compiled into {module}, which Python imports instead")
