"""Giving a receipt to a tree that is patched exactly, by whatever means."""

from collections.abc import Sequence

from msgspec.structs import replace

from pkgtools.blob import Blob
from pkgtools.catalog import Catalog, Target
from pkgtools.errors import ForeignError
from pkgtools.plan.series import plan_inverse
from pkgtools.source import Source, Tree
from pkgtools.source.receipt import Original, StackEntry
from pkgtools.tree.draft import TreeDraft
from pkgtools.tree.stack import entry_of
from pkgtools.tree.state import FileState, Identity, State, entry_id, match_target, revisions_of


def adopt(
    catalog: Catalog,
    target: Target,
    draft: TreeDraft,
    own: StackEntry | None,
    sources: Sequence[Source] = (),
) -> StackEntry:
    """Give a tree that is what a target makes its receipt, in place of an older one (`own`)."""
    matches = match_target(target, draft)
    originals = _originals(target, draft, matches[0], own, sources)
    entry = entry_of(catalog, target, revisions_of(matches, State.PATCHED), draft.tree)
    at = len(draft.stack.entries)
    if own is not None:
        at = draft.stack.entries.index(own)
        draft.forget(own)
        entry = replace(entry, bytecode=own.bytecode)
    draft.adopt(entry, originals, at)
    return draft.stack.entries[at]


def renew(catalog: Catalog, target: Target, draft: TreeDraft, own: StackEntry) -> StackEntry | None:
    """Give a tree that is what the target makes the receipt of that, in place of an older one.

    Its author edited the tree, and took the edits into the series with `refresh` or `new`.
    None where the tree is something else, or what it was before cannot be had.
    """
    matches = match_target(target, draft)
    if not target.series.patches or not draft.applied.is_made(matches[0], own):
        return None
    if draft.stack.covering(own, target.series.paths):  # a later entry's content is not its own
        return None
    try:
        return adopt(catalog, target, draft, own)
    except ForeignError:
        return None


def _originals(
    target: Target,
    draft: TreeDraft,
    identity: Identity,
    own: StackEntry | None,
    sources: Sequence[Source],
) -> dict[str, Original | None]:
    """Return what a patched tree was before, by path.

    A file comes from an older receipt of the same target (`own`), from a source, or from the
    patches read backwards; its blob id says whether it is the right one.
    """
    made = plan_inverse(target.series.patches, draft.read)
    kept = {file.path: file.original for file in own.files} if own is not None else {}
    originals: dict[str, Original | None] = {}
    lost = []
    for file in identity.files:
        path, original = file.path, kept.get(file.path)
        if file.before == file.after:
            continue
        if not file.before:
            originals[path] = None
        elif original is not None and _is(file, original.blob()):
            originals[path] = original
        else:
            blobs = [source.read(path) for source in sources] + [made.get(path)]
            blob = next((each for each in blobs if each is not None and _is(file, each)), None)
            if blob is None:
                lost.append(path)
            else:
                originals[path] = _original(draft.tree, path, blob)
    if lost:
        raise ForeignError(
            f"{draft.label} is patched with {target.name}, and what these files were before is "
            f"in no receipt, source or patch: {', '.join(lost)}",
            remedy=f"give the package as it was: pkgtools adopt --target {target.name} "
            "--wheel WHEEL, or --git REPOSITORY",
        )
    return originals


def _is(file: FileState, blob: Blob) -> bool:
    return entry_id(blob, with_mode=":" in file.before) == file.before


def _original(tree: Tree, path: str, blob: Blob) -> Original:
    """Return a file that is not there any more, with the permissions and time of what is."""
    place = tree.file(path)
    if not place.exists() or place.is_symlink():
        return Original.pack(blob, tree.root.stat(), None)
    return Original.pack(blob, place.stat(), tree.read(path))
