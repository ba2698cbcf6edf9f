"""``pkgtools reverse``."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from pkgtools.catalog import Catalog
from pkgtools.cli import common
from pkgtools.cli.apply import recovered_lines
from pkgtools.cli.common import Output
from pkgtools.source import Tree
from pkgtools.source.choose import open_trees
from pkgtools.tree.apply import TreeChange
from pkgtools.tree.choose import patched_tree
from pkgtools.tree.reverse import reverse_trees


@click.command(cls=common.Command)
@common.targets_option
@common.tree_options
@common.catalog_option
@common.command
def reverse(
    targets: tuple[str, ...], tree: Path | None, python: str | None, catalog: Catalog
) -> Output:
    """Remove the series that was applied last from a tree, and restore its files to the byte.

    The receipt in the tree has the series and the original files. If a file was edited
    since, the command names it and changes nothing. --target names a series below the top;
    it is refused if a later series changed the same files. Several targets, or a set from
    targets.toml, are one transaction.

    \b
    Examples:
      pkgtools reverse
      pkgtools reverse --target v0.5.23
      pkgtools reverse --tree ~/src/sglang
    """
    trees = open_trees(catalog, catalog.upstreams, tree, python)
    if targets:
        names = [catalog.canonical(name) for name in catalog.expanded(targets)]
        done = reverse_trees(
            catalog, [(name, patched_tree(trees, name)) for name in names], common.Progress()
        )
    else:
        done = [_reverse_top(catalog, trees)]
    lines = (line for each in done for line in _lines(each))
    return Output(done if len(done) > 1 else done[0], lines)


def _reverse_top(catalog: Catalog, trees: Sequence[Tree]) -> TreeChange:
    where = patched_tree(trees, None)
    # Without a receipt, a tree that was patched by other means is refused.
    for each in [where, *(each for each in trees if each.home != where.home)]:
        (outcome,) = reverse_trees(catalog, [(None, each)], common.Progress())
        if outcome.changed or outcome.recovered:
            break
    return outcome


def _lines(outcome: TreeChange) -> Iterator[str]:
    yield from recovered_lines(outcome)
    if not outcome.changed:
        yield f"no series is applied to {outcome.tree}: nothing to do"
        return
    yield f"reversed {outcome.target} ({common.short(outcome.revisions)}) in {outcome.tree}"
    yield from (f"  {path}" for path in outcome.changed)
