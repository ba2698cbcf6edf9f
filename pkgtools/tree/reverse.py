"""Taking a series out of a tree."""

from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from pkgtools.catalog import Catalog
from pkgtools.errors import ForeignError, PartialError, UsageError
from pkgtools.source import Tree
from pkgtools.source.receipt import PROVENANCE, StackEntry
from pkgtools.tree.adopt import renew
from pkgtools.tree.apply import TreeChange, open_drafts, unchanged
from pkgtools.tree.check import refuse_covered
from pkgtools.tree.draft import TreeDraft
from pkgtools.tree.state import Identity, State, identify
from pkgtools.tree.void import edited_error
from pkgtools.util.progress import Reporter


def reverse_trees(
    catalog: Catalog, wanted: Sequence[tuple[str | None, Tree]], reporter: Reporter
) -> list[TreeChange]:
    """Take entries out of stacks in one transaction: all of them, or none.

    An entry is that of a target, or without one the top.
    """
    with open_drafts([tree for _, tree in wanted], reporter) as drafts:
        opened = [(drafts[tree.home], name) for name, tree in wanted]
        named = [(draft, _named(catalog, draft, name)) for draft, name in opened]
        # The later ones first, whatever order they were given in.
        named.sort(key=lambda pair: -len(pair[0].stack.below(pair[1])) if pair[1] else 0)
        return [_reverse(catalog, draft, entry) for draft, entry in named]


def _reverse(catalog: Catalog, draft: TreeDraft, entry: StackEntry | None) -> TreeChange:
    if entry is None:
        return unchanged(draft)
    refuse_covered(draft.stack, entry, (), f"reverse {entry.target}")
    if not draft.stack.is_whole(entry, draft):
        entry = _renewed(catalog, draft, entry)
    rest = entry if draft.stack.is_whole(entry, draft) else _rest(catalog, draft, entry)
    if rest is None:
        raise edited_error(entry, draft.stack.drifted(entry, draft), draft.tree)
    if not rest.files or (rest is entry and draft.stack.is_undone(entry, draft)):
        draft.forget(entry)  # by git or by hand: only the receipt was left
        return unchanged(draft)
    draft.undo(rest)
    draft.forget(entry)
    return replace(
        unchanged(draft),
        target=entry.target,
        revisions=tuple(entry.revisions),
        changed=tuple(file.path for file in rest.files),
    )


def _rest(catalog: Catalog, draft: TreeDraft, entry: StackEntry) -> StackEntry | None:
    """Return an entry without the files that are another, unpatched revision's.

    Git leaves files that it added (`git checkout --force TAG`). None if more is left.
    """
    drifted = draft.stack.drifted(entry, draft)
    for match in identify(catalog, draft):
        own = draft.stack.find(catalog, catalog.target(match.target))
        held = draft.applied.held(entry, match, own)
        left = [file for file in entry.files if file.path in held]
        is_pristine = all(f.state is State.PRISTINE or f.path in held for f in match.files)
        if is_pristine and not any(f.original or f.path in drifted for f in left):
            return structs.replace(entry, files=left, bytecode=[])
    return None


def _named(catalog: Catalog, draft: TreeDraft, name: str | None) -> StackEntry | None:
    """Return the entry that is meant: the top, or the topmost of a target, this catalog's first.

    None where nothing is applied.
    """
    entries = draft.stack.entries[::-1]
    if not entries:
        _refuse_patched_otherwise(catalog, draft.tree)
        return None
    if name is None:
        return entries[0]
    found = [entry for entry in entries if entry.target == name]
    own = [e for e, target in reversed(draft.stack.owned(catalog)) if target.name == name]
    if not found:
        there = ", ".join(entry.target for entry in draft.stack.entries)
        raise UsageError(
            f"{name} is not applied to {draft.label}: {there} is",
            remedy="see `pkgtools status`, and name one that is",
        )
    return (own or found)[0]


def _renewed(catalog: Catalog, draft: TreeDraft, entry: StackEntry) -> StackEntry:
    """Return the entry of the series that the tree was edited into, as its author does."""
    for each, target in draft.stack.owned(catalog):
        if each is entry and (newer := renew(catalog, target, draft, entry)):
            return newer
    return entry


def _refuse_patched_otherwise(catalog: Catalog, tree: Tree) -> None:
    """Raise where there is something to reverse and no receipt to do it with."""
    # Exit 0 would claim that the tree is pristine.
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
    if tree.is_from_patched_wheel:
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
    revisions = catalog.target(match.target).revisions
    version = next((each.version for each in revisions if each.name == match.revision), None)
    if version is None:
        return f"install the wheel again that it was built from ({PROVENANCE} names it)"
    # The installed version has a local part, which pip takes for the same one.
    requirement = f"{tree.upstream.distribution}=={version}"
    return f"install the upstream's own: pip install --force-reinstall --no-deps {requirement}"
