"""Choosing what is meant where a user does not say: a tree, and the target that it is."""

from collections.abc import Sequence

from pkgtools.catalog import Catalog, Target
from pkgtools.catalog.marker import holds
from pkgtools.errors import UsageError
from pkgtools.source import Tree
from pkgtools.transaction.journal import load_journal
from pkgtools.tree.stack import load_stack
from pkgtools.tree.state import identify


def patched_trees(trees: Sequence[Tree]) -> list[Tree]:
    """Return the trees that something is applied to or a killed run left; else the first."""
    places = {tree.home: tree for tree in reversed(trees)}  # a checkout can hold several packages
    found = [
        tree
        for tree in reversed(places.values())
        if load_stack(tree).entries or load_journal(tree.home) is not None
    ]
    return found or [trees[0]]


def patched_tree(trees: Sequence[Tree], target: str | None) -> Tree:
    """Return the one tree that something, or `target`, is applied to; else the first."""
    found = patched_trees(trees)
    there = [(tree, entry.target) for tree in found for entry in load_stack(tree).entries]
    if target is not None:
        found = list({tree.home: tree for tree, name in there if name == target}.values()) or found
    if len(found) > 1:
        told = ", ".join(f"{name} to {tree.label}" for tree, name in there) or "by a killed run"
        name = there[-1][1] if there else "TARGET"
        raise UsageError(
            f"several packages are patched: {told}",
            remedy=f"say which is meant: --target {name}, or its own folder with --tree",
        )
    return found[0]


def target_of(catalog: Catalog, trees: Sequence[Tree]) -> tuple[Target, Tree]:
    """Return the target that one of the trees is, by content.

    That is the target of this catalog that is applied last, else the one whose
    revision the files are and whose marker holds. The catalog's default decides between several.
    """
    found = [
        (target, tree)
        for tree in trees
        for target in _fitting(catalog, tree)
        if target.marker is None or holds(target.marker, tree.environment)
    ]
    preferred = [pair for pair in found if pair[0] == catalog.default]
    if len(found) > 1 and not preferred:
        told = " or ".join(target.name for target, _ in found)
        raise UsageError(
            f"several targets fit: {told}", remedy=f"name one: --target {found[0][0].name}"
        )
    if found:
        return (preferred or found)[0]
    nearest = identify(catalog, trees[0])[0].target  # its refusal says what differs
    return catalog.target(nearest), trees[0]


def edited_target(catalog: Catalog, tree: Tree) -> Target | None:
    """Return the target of this catalog that is applied last to a tree, edited since or not."""
    if (target := load_stack(tree).own_top(catalog)) is not None:
        return target
    known = {match.target for match in identify(catalog, tree) if match.is_patched}
    return catalog.target(known.pop()) if len(known) == 1 else None


def _fitting(catalog: Catalog, tree: Tree) -> list[Target]:
    stack = load_stack(tree)
    standing = stack.standing(tree)
    if owned := standing.owned(catalog):
        return [target for entry, target in owned if entry is owned[-1][0]]
    matches = [match for match in identify(catalog, standing.pristine(tree)) if match.is_known]
    return [catalog.target(name) for name in dict.fromkeys(match.target for match in matches)]
