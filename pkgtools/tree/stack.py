"""The stack: the series that are applied to one tree, in order, the last one at the top.

Each entry keeps what it found (its originals), so the content of a path at any height
is known: it is what the next entry above found there, or what lies in the tree.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import asdict

from pkgtools import __version__
from pkgtools.blob import Blob
from pkgtools.catalog import Catalog, Target, Upstream
from pkgtools.patch import bare_name
from pkgtools.source import Source, Tree
from pkgtools.source.receipt import Receipt, StackEntry, load_receipt
from pkgtools.source.record import RecordEdit


@dataclass(frozen=True)
class Stack:
    """The entries, the first at the bottom."""

    entries: tuple[StackEntry, ...] = ()
    record: RecordEdit | None = None

    def above(self, entry: StackEntry) -> tuple[StackEntry, ...]:
        """Return the entries that came after one."""
        return self.entries[self._place(entry) + 1 :]

    def below(self, entry: StackEntry) -> tuple[StackEntry, ...]:
        """Return the entries that came before one."""
        return self.entries[: self._place(entry)]

    def without(self, entries: Collection[StackEntry]) -> Stack:
        """Return the stack without some entries."""
        # By identity: an entry has lists, so it is not hashable.
        gone = {id(entry) for entry in entries}
        return Stack(tuple(each for each in self.entries if id(each) not in gone), self.record)

    def _place(self, entry: StackEntry) -> int:
        return next(i for i, each in enumerate(self.entries) if each is entry)

    def covering(self, entry: StackEntry, paths: Iterable[str] = ()) -> dict[str, list[str]]:
        """Return the paths of one, and of `paths`, that later entries changed, by their target."""
        wanted = {*entry.paths, *paths}
        found = {later.target: sorted(wanted & later.paths) for later in self.above(entry)}
        return {target: shared for target, shared in found.items() if shared}

    def at(self, entry: StackEntry, source: Source) -> View:
        """Return the tree as it was while `entry` was the top."""
        return View(source, self.above(entry), f"{source.label}, with {entry.target}")

    def before(self, entry: StackEntry, source: Source) -> View:
        """Return the tree as `entry` found it."""
        label = f"{source.label}, as it was before {entry.target}"
        return View(source, (entry, *self.above(entry)), label)

    def pristine(self, source: Source) -> Source:
        """Return the tree as the whole stack found it."""
        names = " and ".join(entry.target for entry in self.entries)
        label = f"{source.label}, as it was before {names}"
        return View(source, self.entries, label) if self.entries else source

    def owned(self, catalog: Catalog) -> list[tuple[StackEntry, Target]]:
        """Return the entries that are of targets of a catalog, each with its target."""
        return [(e, t) for e in self.entries for t in catalog.sound_targets if is_of(e, catalog, t)]

    def find(self, catalog: Catalog, target: Target) -> StackEntry | None:
        """Return the entry of a target, or None; see `is_of`."""
        return next((e for e in self.entries if is_of(e, catalog, target)), None)

    def own_top(self, catalog: Catalog) -> Target | None:
        """Return the target of a catalog that was applied last, also one to be locked again."""
        found = (t for e in reversed(self.entries) for t in catalog.targets if is_of(e, catalog, t))
        return next(found, None)

    def drifted(self, entry: StackEntry, source: Source) -> list[str]:
        """Return the paths that are no longer as `entry` wrote them, later entries apart."""
        read = self.at(entry, source).read
        found = {file.path for file in entry.files if not file.is_as_written(read(file.path))}
        covered = entry.paths & {path for each in self.above(entry) for path in each.paths}
        return sorted(found | {p for p in covered - found if self.is_put_back(entry, p, source)})

    def is_put_back(self, entry: StackEntry, path: str, source: Source) -> bool:
        """Whether a path is again what `entry`, or one below it, found there."""
        now = source.read(path)
        later = (file for each in self.above(entry) for file in each.files if file.path == path)
        if any(file.is_as_written(now) for file in later):
            return False
        entries = (*self.below(entry), entry)
        return any(f.before() == now for each in entries for f in each.files if f.path == path)

    def is_undone(self, entry: StackEntry, source: Source) -> bool:
        """Whether every path of `entry` was put back."""
        return all(self.is_put_back(entry, path, source) for path in entry.paths)

    def is_whole(self, entry: StackEntry, source: Source) -> bool:
        """Whether `entry` stands, or was put back but for files that it added.

        Git leaves those, as untracked: `git checkout --force`, `git reset --hard`, `git stash`.
        """
        drifted = self.drifted(entry, source)
        left = (f for f in entry.files if not self.is_put_back(entry, f.path, source))
        return not drifted or all(not f.original and f.path not in drifted for f in left)

    def standing(self, source: Source) -> Stack:
        """Return the stack without entries that were put back; nothing where one was edited."""
        if not self.edited(source):
            return self
        left = self.without([entry for entry in self.entries if self.is_undone(entry, source)])
        return left if not left.edited(source) else NOTHING_APPLIED

    def edited(self, source: Source) -> list[str]:
        """Return every path that is no longer as the stack wrote it."""
        found = {path for entry in self.entries for path in self.drifted(entry, source)}
        return sorted(found)


NOTHING_APPLIED: Final = Stack()


class View:
    """A tree without its topmost entries: what they found, over the files."""

    def __init__(self, source: Source, undone: Sequence[StackEntry], label: str) -> None:
        self._source = source
        self._originals: dict[str, Blob | None] = {}
        for entry in reversed(undone):
            self._originals |= {file.path: file.before() for file in entry.files}
        self.tree = source if isinstance(source, Tree) else getattr(source, "tree", None)
        self.upstream: Upstream | None = None  # a checkout can hold several packages
        self.label = label
        self.version = getattr(source, "version", None)

    def read(self, path: str) -> Blob | None:
        """Return the content of `path`."""
        return self._originals[path] if path in self._originals else self._source.read(path)


def load_stack(tree: Tree) -> Stack:
    """Return the stack of a tree."""
    receipt = load_receipt(tree.home)
    return Stack(receipt.entries, receipt.record) if receipt is not None else NOTHING_APPLIED


def is_of(entry: StackEntry, catalog: Catalog, target: Target) -> bool:
    """Whether an entry is a series of this target of this catalog, an older one or its own.

    A receipt says by its catalog's identity whose it is. One of an image, which is the same
    wherever it was built, can only say it by what was applied: the series of the same target
    that has a patch of the same name, but for its number. A receipt of before there were
    stacks says no more than the target.
    """
    if (entry.upstream, entry.target) != (target.upstream.name, target.name):
        return False
    if entry.catalog in catalog.identities:
        return True
    if entry.catalog and not (is_unnamed(entry) and not catalog.name):
        return False
    if entry.catalog is None or entry.series == target.series.digest:
        return True
    if entry.catalog:
        return False
    now = {bare_name(patch.name) for patch in target.series.patches}
    return not now.isdisjoint(map(bare_name, entry.patches))


def is_unnamed(entry: StackEntry) -> bool:
    """Whether the catalog of an entry had no name."""
    return not entry.catalog or ":" in entry.catalog


def entry_of(catalog: Catalog, target: Target, revisions: Sequence[str], tree: Tree) -> StackEntry:
    """Return what the receipt says of a target, as yet without files."""
    return StackEntry(
        format=1,
        pkgtools=__version__,
        upstream=target.upstream.name,
        target=target.name,
        revisions=list(revisions),
        series=target.series.digest,
        patches=[patch.name for patch in target.series.patches],
        files=[],
        catalog=catalog.name or "" if tree.is_of_image else catalog.identity,
    )


def as_receipt(entries: Sequence[StackEntry], record: RecordEdit | None) -> Receipt:
    """Return the receipt of a stack that is not empty."""
    first, *above = entries
    return Receipt(**asdict(first), record=record, above=above)
