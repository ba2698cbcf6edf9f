"""``pkgtools reverse``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pkgtools.catalog import load_catalog
from pkgtools.cli import common
from pkgtools.cli.apply import show_changed, show_recovered
from pkgtools.cli.output import say
from pkgtools.source.choose import open_trees
from pkgtools.tree.choose import patched_tree
from pkgtools.tree.reverse import reverse_tree

if TYPE_CHECKING:
    from pathlib import Path


@click.command(short_help="Take a series out of a tree again.")
@click.option("-t", "--target", type=common.TargetName(), help="The series.  [default: the top]")
@common.tree_option
@common.python_option
@common.catalog_option
@common.json_option
@common.command
def reverse(
    target: str | None, tree: Path | None, python: str | None, catalog: Path, as_json: bool
) -> int:
    """Take the series that was applied last out of a tree again, to the byte.

    The receipt in the tree says what was applied and what was there before. A
    file that was edited since is named, and nothing is touched. --target names a series
    below the top; it is refused where a later one changed the same files.

    \b
    Examples:
      pkgtools reverse
      pkgtools reverse --target v0.5.23
      pkgtools reverse --tree ~/src/sglang
    """
    table = load_catalog(catalog)
    name = table.canonical(target) if target is not None else None
    trees = open_trees(table, table.upstreams, tree, python)
    where = patched_tree(trees, name)
    # Where nothing is applied, one of the others can be patched by other means: that is refused.
    for each in [where, *(each for each in trees if each.home != where.home)]:
        outcome = reverse_tree(table, each, common.Progress(), name)
        if outcome.changed or outcome.recovered:
            break
    if as_json:
        common.print_json(outcome)
        return 0
    show_recovered(outcome)
    if not outcome.changed:
        say(f"nothing is applied to {outcome.tree}: nothing to do")
        return 0
    say(f"reversed {outcome.target} ({common.short(outcome.revisions)}) in {outcome.tree}")
    show_changed(outcome)
    return 0
