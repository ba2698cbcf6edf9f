"""``pkgtools recover``."""

from __future__ import annotations

from pathlib import Path

import click

from pkgtools.catalog import load_catalog
from pkgtools.cli import common
from pkgtools.cli.output import say
from pkgtools.source.choose import open_trees
from pkgtools.tree.apply import recover_tree
from pkgtools.tree.choose import patched_trees


@click.command(short_help="Finish or undo a run that was killed.")
@common.tree_option
@common.python_option
@common.catalog_option
@common.json_option
@common.command
def recover(tree: Path | None, python: str | None, catalog: Path, as_json: bool) -> int:
    """Finish or undo a run that was killed.

    `apply` and `reverse` do this before their own work.

    \b
    Examples:
      pkgtools recover
      pkgtools recover --tree ~/src/sglang
    """
    table = load_catalog(catalog)
    trees = patched_trees(open_trees(table, table.upstreams, tree, python))
    done = [recover_tree(each, common.Progress()) for each in trees]
    killed = [outcome for outcome in done if outcome.recovered]
    if as_json:
        common.print_json((killed or done)[0])
        return 0
    for outcome in killed:
        say(f"{outcome.recovered} the run that was killed on {outcome.tree}")
    if not killed:
        say(f"{done[0].tree} has no unfinished run: nothing to do")
    return 0
