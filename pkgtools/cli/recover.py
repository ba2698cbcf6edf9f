"""``pkgtools recover``."""

from pathlib import Path

import click

from pkgtools.catalog import Catalog
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.source.choose import open_trees
from pkgtools.tree.apply import recover_tree
from pkgtools.tree.choose import patched_trees


@click.command(cls=common.Command)
@common.tree_options
@common.catalog_option
@common.command
def recover(tree: Path | None, python: str | None, catalog: Catalog) -> Output:
    """Finish or undo a run that was killed.

    `apply` and `reverse` do this before their own work.

    \b
    Examples:
      pkgtools recover
      pkgtools recover --tree ~/src/sglang
    """
    trees = patched_trees(open_trees(catalog, catalog.upstreams, tree, python))
    done = [recover_tree(each, common.Progress()) for each in trees]
    killed = [outcome for outcome in done if outcome.recovered]
    lines = [f"{each.recovered} the run that was killed on {each.tree}" for each in killed]
    return Output(
        (killed or done)[0], lines or [f"{done[0].tree} has no unfinished run: nothing to do"]
    )
