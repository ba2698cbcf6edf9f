"""``pkgtools apply``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pkgtools.catalog import load_catalog
from pkgtools.cli import common
from pkgtools.cli.output import say
from pkgtools.source.choose import open_tree
from pkgtools.tree.apply import TreeChange, apply_target

if TYPE_CHECKING:
    from pathlib import Path


@click.command(short_help="Apply a target's series to a tree.")
@common.target_option
@common.tree_option
@common.python_option
@common.catalog_option
@common.json_option
@common.command
def apply(
    target: str | None, tree: Path | None, python: str | None, catalog: Path, as_json: bool
) -> int:
    """Apply a target's series to a tree, exactly or not at all.

    Without --target, the catalog's default is applied. Applying twice does
    nothing the second time. A series of ours that changed since is reversed
    first, in the same transaction.

    \b
    Examples:
      pkgtools apply --target v0.5.23
      pkgtools apply --target kimi-k3-ee560a2 --tree ~/src/sglang
      pkgtools apply --python .venv/bin/python
    """
    table = load_catalog(catalog)
    chosen = table.target(target)
    if target is not None and chosen.revision_of(target) is None:
        say(
            f"note: {target} was not validated; its files decide whether {chosen.name} fits",
            err=True,
        )
    where = open_tree(table, chosen, tree, python)
    outcome = apply_target(table, chosen, where, common.Progress())
    if as_json:
        common.print_json(outcome)
        return 0
    show_recovered(outcome)
    if not outcome.changed:
        how = "" if outcome.has_receipt else ", by other means (there is no receipt)"
        say(f"{outcome.tree} is patched with {outcome.target} already{how}: nothing to do")
        return 0
    if outcome.replaced:
        say(f"replaced the older series {outcome.replaced[:19]}")
    say(f"applied {outcome.target} ({common.short(outcome.revisions)}) to {outcome.tree}")
    show_changed(outcome)
    return 0


def show_recovered(outcome: TreeChange) -> None:
    """Say what became of an earlier run."""
    if outcome.recovered:
        say(f"an earlier run had been killed: {outcome.recovered} it first")


def show_changed(outcome: TreeChange) -> None:
    """List the changed paths."""
    for path in outcome.changed:
        say(f"  {path}")
