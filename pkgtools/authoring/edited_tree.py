"""Refuse to read edits from a tree that a series is not applied to: they would undo it.

Of a checkout, git says which commit the edits are on. A receipt says that the series is in the
tree. Without one the contents decide: the lines that the series adds, and the files that the
catalog's lockfiles know of other revisions.
"""

from collections.abc import Collection, Mapping, Sequence

from pkgtools.authoring.work import SeriesWork
from pkgtools.blob import Blob
from pkgtools.catalog import LockedRevision
from pkgtools.errors import ForeignError, UsageError
from pkgtools.source import Tree, WheelSource
from pkgtools.source.receipt import StackEntry
from pkgtools.tree.release import base_commit, is_release
from pkgtools.tree.stack import Stack
from pkgtools.tree.state import Identity, State, entry_id, match_all
from pkgtools.tree.void import AppliedStack

Made = Mapping[str, Blob | None]
"""What a series makes of each path that it changes."""


def refuse_other_commit(work: SeriesWork, tree: Tree, made: Made, beyond: Collection[str]) -> None:
    """Raise where the commit that a checkout is of has edited files otherwise than the source.

    Args:
        work: the series.
        tree: the tree.
        made: what the series makes of the source.
        beyond: paths to look at besides those that the series changes.
    """
    base = base_commit(work.catalog, tree)
    if base is None or base.commit == getattr(work.source, "commit", None):
        return
    other = []
    for path in sorted({*beyond, *made}):
        before = work.source.read(path)
        ours = (before, made.get(path, before))
        if tree.read(path) in ours or (there := base.read(path)) in ours:
            continue
        # A build generates files for a wheel, and leaves some of the source tree out.
        if not (isinstance(work.source, WheelSource) and None in (before, there)):
            other.append(path)
    if other:
        raise ForeignError(
            f"{tree.label} is a checkout of {base.commit[:12]}, and the series is made for "
            f"{work.source.label}, which has other content of {', '.join(other)}: a patch would "
            "turn one into the other",
            remedy="name a series for this commit (--series); or put the edits aside (git stash) "
            "and check the revision of the series out; or give this commit as the source: "
            f"--git {tree.root} --from {base.commit[:12]}",
        )


def refuse_other_tree(
    work: SeriesWork, tree: Tree, made: Made, stack: Stack, own: Sequence[StackEntry]
) -> None:
    """Raise unless a tree is the source with the series and edits.

    Args:
        work: the series.
        tree: the tree.
        made: what the series makes of the source.
        stack: of the tree.
        own: its entries that are of the series.
    """
    unknown = Identity("", "", State.FOREIGN, ())
    match = next(iter(match_all(work.catalog.sound_targets, tree)), unknown)
    stands = any(_stands(stack, entry, tree, match) for entry in own)
    if tree.is_from_patched_wheel or (stands and tree.dist_info is not None):
        return
    # A file that the series added stays in any revision.
    changed = {file.path for each in own for file in each.files if file.original is not None}
    written = changed.difference(*(stack.drifted(each, tree) for each in own))
    if (other := _other_revision(work, tree, made, written)) is not None:
        raise ForeignError(
            f"{tree.label} is nearest to {other}, and the series is made for {work.source.label}: "
            "a patch would turn one into the other",
            remedy="name the tree with the series (--tree, --python), or its source (--from)",
        )
    if stands:
        return
    source = work.source
    telling = {path: blob for path, blob in made.items() if blob != source.read(path)}
    found = [_is_in(blob, source.read(path), tree.read(path)) for path, blob in telling.items()]
    if 2 * sum(found) >= len(found):
        return
    name = work.named.source or "TARGET"
    raise UsageError(
        f"{work.named.directory} is not applied to {tree.label}: a patch of its edits would undo "
        "the series",
        remedy="put edits of the same files aside, and apply it: "
        f"pkgtools apply --target {name} --tree {tree.root}",
    )


def _stands(stack: Stack, entry: StackEntry, tree: Tree, match: Identity) -> bool:
    """Whether files of an entry are as written or edited, and none is another revision's."""
    held = AppliedStack(stack, tree, tree).held(entry, match, None)
    others = set(stack.drifted(entry, tree)).difference(held)
    return bool(held) and all(stack.is_put_back(entry, path, tree) for path in others)


def _is_in(made: Blob | None, before: Blob | None, now: Blob | None) -> bool:
    """Whether a line that a series adds to a file is in it, or what it removes is not."""
    if now is None or now in (made, before):
        return now == made
    lines, new, old = (set(b.data.splitlines()) if b else set() for b in (now, made, before))
    removed = old - new
    return not lines.isdisjoint(new - old) or (bool(removed) and lines.isdisjoint(removed))


def _other_revision(
    work: SeriesWork, tree: Tree, made: Made, written: Collection[str]
) -> str | None:
    """Return the other revision that a tree is nearer to than to the source, by name."""
    if is_release(tree.version, work.version) is False:
        return f"release {tree.version}"
    found = {
        f"{target.name} ({revision.name})": _nearness(work, tree, made, written, revision)
        for target in work.catalog.sound_targets
        if target.upstream == work.named.upstream
        for revision in target.lock.revision
    }
    best = max(found, key=lambda name: found[name], default=None)
    return best if best is not None and found[best] > 0 else None


def _nearness(
    work: SeriesWork, tree: Tree, made: Made, written: Collection[str], revision: LockedRevision
) -> int:
    """Return how many more files are a locked revision's than the source's, where they differ.

    Files that are as a receipt says (`written`) are the source's.
    """
    nearness, others = 0, set(written)
    for file in revision.file:
        before = work.source.read(file.path)
        ours = {
            entry_id(blob, with_mode=file.has_mode)
            for blob in (before, made.get(file.path, before))
        }
        now = entry_id(tree.read(file.path), with_mode=file.has_mode)
        if now in file.chain:
            others.discard(file.path)
        if ours.isdisjoint(file.chain):
            nearness += (now in file.chain) - (now in ours)
    return nearness - len(others)
