"""``pkgtools recover``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pkgtools.catalog import load_catalog
from pkgtools.cli import common
from pkgtools.cli.output import say
from pkgtools.source.choose import open_tree
from pkgtools.tree.apply import recover_tree

if TYPE_CHECKING:
    from pathlib import Path


@click.command(short_help="Finish or undo what a killed run left.")
@common.tree_option
@common.python_option
@common.catalog_option
@common.json_option
@common.command
def recover(tree: Path | None, python: str | None, catalog: Path, as_json: bool) -> int:
    """Finish or undo what a killed run left half done.

    `apply` and `reverse` do this first by themselves; this does only this.

    \b
    Examples:
      pkgtools recover
      pkgtools recover --tree ~/src/sglang
    """
    table = load_catalog(catalog)
    where = open_tree(table, None, tree, python)
    outcome = recover_tree(where, common.Progress())
    if as_json:
        common.print_json(outcome)
    elif outcome.recovered:
        say(f"{outcome.recovered} the run that was killed on {outcome.tree}")
    else:
        say(f"no run was killed on {outcome.tree}: nothing to do")
    return 0
