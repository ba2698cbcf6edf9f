"""Taking a series out of a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pkgtools.errors import ForeignError, PartialError, UsageError
from pkgtools.transaction import Draft, locked, recover
from pkgtools.tree.apply import TreeChange, edited_error, refuse_covered, write_drafts
from pkgtools.tree.identify import identify
from pkgtools.tree.receipt import PROVENANCE
from pkgtools.tree.stack import is_of
from pkgtools.tree.state import Identity, State

if TYPE_CHECKING:
    from pkgtools.catalog import Catalog
    from pkgtools.source import Tree
    from pkgtools.tree.receipt import Entry
    from pkgtools.util.progress import Reporter


def reverse_tree(
    catalog: Catalog, tree: Tree, reporter: Reporter, target: str | None = None
) -> TreeChange:
    """Take one entry out of the stack: the top, or the one of a target.

    Raises:
        DoesNotApplyError: a later entry changed the same files.
        ForeignError: files were edited since, or pkgtools did not patch them.
        TreeError: the tree cannot be written.
        UsageError: the target is not in the stack.

    """
    with locked(tree, reporter):
        recovered = recover(tree)
        draft = Draft(tree)
        if not draft.stack.entries:
            _refuse_patched_otherwise(catalog, tree)
            return TreeChange(tree.label, tree.place, None, recovered=recovered)
        entry = _named(catalog, draft, target)
        refuse_covered(draft, entry, (), f"reverse {entry.target}")
        edited = draft.stack.drifted(entry, draft)
        if edited and not entry.is_undone(draft):
            raise edited_error(entry, edited)
        if edited:  # the files were checked out again: only the receipt was left
            draft.forget(entry)
        else:
            draft.undo(entry)
        write_drafts([draft])
    if edited:
        return TreeChange(tree.label, tree.place, None, recovered=recovered)
    return TreeChange(
        tree=tree.label,
        path=tree.place,
        target=entry.target,
        revisions=tuple(entry.revisions),
        changed=tuple(file.path for file in entry.files),
        recovered=recovered,
    )


def _named(catalog: Catalog, draft: Draft, name: str | None) -> Entry:
    """Return the entry that is meant: the top, or the topmost of a target, this catalog's first."""
    entries = draft.stack.entries[::-1]
    if name is None:
        return entries[0]
    found = [entry for entry in entries if entry.target == name]
    own = [
        e for e in found for t in catalog.sound_targets if t.name == name and is_of(e, catalog, t)
    ]
    if not found:
        there = ", ".join(entry.target for entry in draft.stack.entries)
        raise UsageError(
            f"{name} is not applied to {draft.label}: {there} is",
            remedy="see `pkgtools status`, and name one that is",
        )
    return (own or found)[0]


def _refuse_patched_otherwise(catalog: Catalog, tree: Tree) -> None:
    """Raise where there is something to reverse and no receipt to do it with."""
    best = identify(catalog, tree)[0]
    state = best.state
    if state is State.PARTIAL:
        raise PartialError(
            f"some of {best.target} is in {tree.label}, but there is no receipt: it was patched "
            "by other means",
            remedy="reinstall the package, or check its files out again",
        )
    if state is not State.PATCHED:
        return
    if tree.dist_info is not None and (tree.dist_info / PROVENANCE).is_file():
        raise ForeignError(
            f"{tree.label} was installed from a wheel that has {best.target} in it",
            remedy=_reinstall(catalog, tree, best),
        )
    raise ForeignError(
        f"{tree.label} is patched with {best.target}, but there is no receipt: it was patched "
        "by other means",
        remedy=f"give it one, then reverse: pkgtools adopt --target {best.target} "
        f"--tree {tree.root}",
    )


def _reinstall(catalog: Catalog, tree: Tree, match: Identity) -> str:
    """Return how to get the upstream's own package back in place of a patched wheel."""
    version = next(
        (r.version for r in catalog.target(match.target).revisions if r.name == match.revision),
        None,
    )
    if version is None:
        return f"install the wheel again that it was built from ({PROVENANCE} names it)"
    # The installed version has a local part, which pip takes for the same one.
    requirement = f"{tree.upstream.distribution}=={version}"
    return f"install the upstream's own: pip install --force-reinstall --no-deps {requirement}"
