"""``pkgtools apply``."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from pkgtools.catalog import Catalog, Target
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.next_step import next_line
from pkgtools.cli.output import say
from pkgtools.source import Tree
from pkgtools.source.choose import open_tree, open_trees
from pkgtools.transaction import reading
from pkgtools.tree.apply import TreeChange, apply_targets
from pkgtools.tree.choose import target_of
from pkgtools.tree.shadow import shadowed


@click.command(cls=common.Command)
@common.targets_option
@common.tree_options
@common.catalog_option
@common.command
def apply(
    targets: tuple[str, ...], tree: Path | None, python: str | None, catalog: Catalog
) -> Output:
    """Apply a target's series to a tree, exactly or not at all.

    Without --target, the tree's files identify the target. A tree can hold series of
    several targets, catalogs and upstreams, each with its receipt. Applying a series
    again does nothing; an older series of the same target is undone in the same
    transaction. Several targets, or a set from targets.toml, are one transaction: all
    are applied, or none.

    \b
    Examples:
      pkgtools apply
      pkgtools apply --target kimi-k3-ee560a2 --tree ~/src/sglang
      pkgtools apply --python .venv/bin/python
      pkgtools apply -t v0.5.23 -t kernel-0.3.1
    """
    wanted = [_choose(catalog, name, tree, python) for name in catalog.expanded(targets)]
    if not wanted:
        trees = open_trees(catalog, catalog.upstreams, tree, python)
        with reading(trees, common.Progress()):
            chosen, where = target_of(catalog, trees)
        if catalog.default not in (None, chosen):
            say(f"note: {where.label} is {chosen.name} by its files", err=True)
        wanted = [(chosen, where)]
    done = apply_targets(catalog, wanted, common.Progress())
    return Output(done if len(done) > 1 else done[0], _lines(wanted, done))


def _lines(wanted: Sequence[tuple[Target, Tree]], done: Sequence[TreeChange]) -> Iterator[str]:
    for (chosen, where), each in zip(wanted, done, strict=True):
        yield from _change_lines(chosen, each)
        for path, module in shadowed(where, each.changed).items():
            say(f"note: {path} is compiled into {module}: build that again", err=True)
        if each.changed and where.is_of_conda:
            say(
                "note: conda lists the files as they were (conda-meta): `pkgtools reverse` before "
                f"it updates or removes {chosen.upstream.distribution}",
                err=True,
            )


def _choose(
    catalog: Catalog, name: str, tree: Path | None, python: str | None
) -> tuple[Target, Tree]:
    chosen = catalog.target(name)
    if chosen.revision_of(name) is None:
        say(
            f"note: {name} was not validated; its files decide whether {chosen.name} fits", err=True
        )
    return chosen, open_tree(catalog, chosen, tree, python)


def _change_lines(target: Target, outcome: TreeChange) -> Iterator[str]:
    yield from recovered_lines(outcome)
    if not outcome.changed and not target.series.patches:
        yield f"{target.name} has no patches yet: nothing to do"
        yield next_line(
            f"edit {outcome.tree}, then "
            f"`pkgtools new fix.patch -m 'What it does' --series {target.name}`"
        )
        return
    if not outcome.changed:
        how = "" if outcome.has_receipt else ", by other means (without a receipt)"
        yield f"{outcome.tree} is patched with {outcome.target} already{how}: nothing to do"
        if not outcome.has_receipt:
            yield next_line(f"`pkgtools adopt --target {target.name}` gives it one")
        return
    if outcome.replaced:
        yield f"replaced the older series {outcome.replaced[:19]}"
    yield f"applied {outcome.target} ({common.short(outcome.revisions)}) to {outcome.tree}"
    yield from (f"  {path}" for path in outcome.changed)
    for requirement in outcome.requires:
        yield f"  requires {requirement}, which the package's METADATA does not say: install it"


def recovered_lines(outcome: TreeChange) -> Iterator[str]:
    """Yield what became of an earlier run."""
    if outcome.recovered:
        yield f"an earlier run had been killed: {outcome.recovered} it first"
