"""``pkgtools apply``."""

from __future__ import annotations

from pathlib import Path

import click

from pkgtools.catalog import Catalog, Target, load_catalog
from pkgtools.cli import common
from pkgtools.cli.next_step import say_next
from pkgtools.cli.output import say
from pkgtools.source import Tree
from pkgtools.source.choose import open_tree, open_trees
from pkgtools.transaction import reading
from pkgtools.tree.apply import TreeChange, apply_targets
from pkgtools.tree.choose import target_of
from pkgtools.tree.shadow import shadowed


@click.command(short_help="Apply a target's series to a tree.")
@common.targets_option
@common.tree_option
@common.python_option
@common.catalog_option
@common.json_option
@common.command
def apply(
    targets: tuple[str, ...], tree: Path | None, python: str | None, catalog: Path, as_json: bool
) -> int:
    """Apply a target's series to a tree, exactly or not at all.

    Without --target, the files say which target the tree is. Series of several targets,
    catalogs and upstreams stack, each with its receipt. Applying twice does nothing the
    second time; an older series of the same target is undone in the same transaction.
    Several targets, or a set that targets.toml names, are one transaction: all are
    applied, or none.

    \b
    Examples:
      pkgtools apply
      pkgtools apply --target kimi-k3-ee560a2 --tree ~/src/sglang
      pkgtools apply --python .venv/bin/python
      pkgtools apply -t v0.5.23 -t kernel-0.3.1
    """
    table = load_catalog(catalog)
    wanted = [_choose(table, name, tree, python) for name in table.expanded(targets)]
    if not wanted:
        trees = open_trees(table, table.upstreams, tree, python)
        with reading(trees, common.Progress()):
            chosen, where = target_of(table, trees)
        if table.default not in (None, chosen):
            say(f"note: {where.label} is {chosen.name} by its files", err=True)
        wanted = [(chosen, where)]
    done = apply_targets(table, wanted, common.Progress())
    if as_json:
        common.print_json(done if len(done) > 1 else done[0])
        return 0
    for (chosen, where), each in zip(wanted, done, strict=True):
        _show(chosen, each)
        for path, module in shadowed(where, each.changed).items():
            say(f"note: {path} is compiled into {module}: build that again", err=True)
    return 0


def _choose(
    table: Catalog, name: str, tree: Path | None, python: str | None
) -> tuple[Target, Tree]:
    chosen = table.target(name)
    if chosen.revision_of(name) is None:
        say(
            f"note: {name} was not validated; its files decide whether {chosen.name} fits",
            err=True,
        )
    return chosen, open_tree(table, chosen, tree, python)


def _show(target: Target, outcome: TreeChange) -> None:
    show_recovered(outcome)
    if not outcome.changed and not target.series.patches:
        say(f"{target.name} has no patches yet: nothing to do")
        say_next(
            f"edit {outcome.tree}, then "
            f"`pkgtools new fix.patch -m 'What it does' --series {target.name}`"
        )
        return
    if not outcome.changed:
        how = "" if outcome.has_receipt else ", by other means (without a receipt)"
        say(f"{outcome.tree} is patched with {outcome.target} already{how}: nothing to do")
        if not outcome.has_receipt:
            say_next(f"`pkgtools adopt --target {target.name}` gives it one")
        return
    if outcome.replaced:
        say(f"replaced the older series {outcome.replaced[:19]}")
    say(f"applied {outcome.target} ({common.short(outcome.revisions)}) to {outcome.tree}")
    show_changed(outcome)
    for requirement in outcome.requires:
        say(f"  requires {requirement}, which the package's METADATA does not say: install it")


def show_recovered(outcome: TreeChange) -> None:
    """Say what became of an earlier run."""
    if outcome.recovered:
        say(f"an earlier run had been killed: {outcome.recovered} it first")


def show_changed(outcome: TreeChange) -> None:
    """List the changed paths."""
    for path in outcome.changed:
        say(f"  {path}")
