"""``pkgtools apply``, ``reverse`` and ``recover``: commands that change a tree."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pkgtools.catalog import Catalog, Target
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.next_step import next_line
from pkgtools.cli.output import note
from pkgtools.source import Tree
from pkgtools.source.choose import open_tree, open_trees
from pkgtools.transaction import reading
from pkgtools.tree.apply import TreeChange, apply_targets, recover_tree
from pkgtools.tree.choose import patched_tree, patched_trees, target_of
from pkgtools.tree.reverse import reverse_trees
from pkgtools.tree.shadow import shadowed


@common.command()
@common.targets_option
@common.tree_options
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
            note(f"{where.label} is {chosen.name} by its files")
        wanted = [(chosen, where)]
    done = apply_targets(catalog, wanted, common.Progress())
    pairs = zip(wanted, done, strict=True)
    lines = (line for chosen, each in pairs for line in _applied_lines(*chosen, each))
    return Output(done if len(done) > 1 else done[0], lines)


def _choose(
    catalog: Catalog, name: str, tree: Path | None, python: str | None
) -> tuple[Target, Tree]:
    chosen = catalog.target(name)
    if chosen.revision_of(name) is None:
        note(f"{name} was not validated; its files decide whether {chosen.name} fits")
    return chosen, open_tree(catalog, chosen, tree, python)


def _applied_lines(target: Target, where: Tree, done: TreeChange) -> Iterator[str]:
    yield from _recovered_lines(done)
    if done.changed:
        if done.replaced:
            yield f"replaced the older series {done.replaced[:19]}"
        yield f"applied {done.target} ({common.short(done.revisions)}) to {done.tree}"
        yield from (f"  {path}" for path in done.changed)
        for requirement in done.requires:
            yield f"  requires {requirement}, which the package's METADATA does not say: install it"
    elif not target.series.patches:
        yield f"{target.name} has no patches yet: nothing to do"
        new = f"`pkgtools new fix.patch -m 'What it does' --series {target.name}`"
        yield next_line(f"edit {done.tree}, then {new}")
    elif done.has_receipt:
        yield f"{done.tree} is patched with {done.target} already: nothing to do"
    else:
        how = "by other means (without a receipt)"
        yield f"{done.tree} is patched with {done.target} already, {how}: nothing to do"
        yield next_line(f"`pkgtools adopt --target {target.name}` gives it one")
    yield from common.release_note(target.name, done.revisions, done.other_version)
    for path, module in shadowed(where, done.changed).items():
        note(f"{path} is compiled into {module}: build that again")
    if done.changed and where.is_of_conda:
        note(
            "conda lists the files as they were (conda-meta): `pkgtools reverse` before it updates "
            f"or removes {target.upstream.distribution}"
        )


def _recovered_lines(done: TreeChange) -> Iterator[str]:
    if done.recovered:
        yield f"an earlier run had been killed: {done.recovered} it first"


@common.command()
@common.targets_option
@common.tree_options
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
        named = [(name, patched_tree(trees, name)) for name in names]
        done = reverse_trees(catalog, named, common.Progress())
    else:
        done = [_reverse_top(catalog, trees)]
    lines = (line for each in done for line in _reversed_lines(each))
    return Output(done if len(done) > 1 else done[0], lines)


def _reverse_top(catalog: Catalog, trees: Sequence[Tree]) -> TreeChange:
    where = patched_tree(trees, None)
    # Without a receipt, a tree that was patched by other means is refused.
    for each in [where, *(each for each in trees if each.home != where.home)]:
        (outcome,) = reverse_trees(catalog, [(None, each)], common.Progress())
        if outcome.changed or outcome.recovered:
            break
    return outcome


def _reversed_lines(done: TreeChange) -> Iterator[str]:
    yield from _recovered_lines(done)
    if done.changed:
        yield f"reversed {done.target} ({common.short(done.revisions)}) in {done.tree}"
        yield from (f"  {path}" for path in done.changed)
    else:
        yield f"no series is applied to {done.tree}: nothing to do"


@common.command()
@common.tree_options
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
    none = f"{done[0].tree} has no unfinished run: nothing to do"
    return Output((killed or done)[0], lines or [none])
