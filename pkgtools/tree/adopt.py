"""Giving a receipt to a tree that is patched exactly, by whatever means."""

from collections.abc import Sequence

from pkgtools.blob import Blob
from pkgtools.catalog import Target
from pkgtools.errors import ForeignError
from pkgtools.plan.inverse import plan_inverse
from pkgtools.source import Source, Tree
from pkgtools.source.receipt import Original, StackEntry
from pkgtools.tree.draft import TreeDraft
from pkgtools.tree.state import FileState, Identity, entry_id


def originals_of(
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
    originals: dict[str, Original | None] = {}
    lost = []
    for file in identity.files:
        if file.before == file.after:
            continue
        if not file.before:
            originals[file.path] = None
            continue
        kept = next((f.original for f in own.files if f.path == file.path), None) if own else None
        if kept is not None and _is(file, kept.blob()):
            originals[file.path] = kept
            continue
        blobs = [source.read(file.path) for source in sources] + [made.get(file.path)]
        blob = next((blob for blob in blobs if blob is not None and _is(file, blob)), None)
        if blob is None:
            lost.append(file.path)
        else:
            originals[file.path] = _original(draft.tree, file.path, blob)
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
        return Original.pack(blob, blob.permissions, tree.root.stat().st_mtime_ns)
    status = place.stat()
    found = tree.read(path)
    same = found is not None and found.mode == blob.mode
    return Original.pack(
        blob, status.st_mode & 0o7777 if same else blob.permissions, status.st_mtime_ns
    )
