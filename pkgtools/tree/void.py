"""Decide whether a receipt is void: its files changed since they were patched.

Only the receipt has what a series found, so it stands while a file of it is as written, or was
edited. It is void where each file was put back, or is another revision's:

- in a git checkout, HEAD has the file as it is;
- in a folder without git, a known file shows that the folder is another revision;
- a package manager that replaces a package removes the receipt, so there each change is an edit.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from pkgtools.blob import Blob
from pkgtools.catalog import Catalog, Target
from pkgtools.errors import ForeignError, PartialError, SourceUnavailableError, UsageError
from pkgtools.source import Source, Tree
from pkgtools.source.receipt import NAME, StackEntry
from pkgtools.tree.stack import Stack
from pkgtools.tree.state import Identity, State, entry_id, match_target

_EXACT: Final = (State.PRISTINE, State.PATCHED)


@dataclass(frozen=True)
class EditedFiles:
    """The files that were edited since they were patched."""

    edited: list[str]


def edited_error(entry: StackEntry, paths: list[str], tree: Tree) -> ForeignError:
    """Return the refusal of a tree that was edited since `entry` was applied."""
    drop = "reinstall the package to drop them"
    if tree.dist_info is None:
        drop = f"if the files are another revision's, delete the receipt {tree.home / NAME}"
    return ForeignError(
        f"{tree.label}: edited since {entry.target} was applied, so nothing is touched: "
        f"{', '.join(paths)}",
        remedy="undo these edits; or take them into the series, if it is yours: pkgtools refresh "
        f"--series {entry.target} --tree {tree.root}; or {drop}",
        details=EditedFiles(paths),
    )


def _partial_error(entry: StackEntry, held: list[str], gone: list[str]) -> PartialError:
    """Return the refusal of a tree in which some files of `entry` are no longer its own."""
    is_added = not any(file.original for file in entry.files if file.path in held)
    return PartialError(
        f"some of {entry.target} is still in the tree ({', '.join(held)}), but these files are no "
        f"longer as it wrote them: {', '.join(gone)}",
        remedy=f"take the rest out: pkgtools reverse --target {entry.target}"
        if is_added
        else "put the rest back too (git checkout and git clean, or reinstall the package)",
    )


@dataclass(frozen=True)
class AppliedStack:
    """A stack and the files that it was applied to."""

    stack: Stack
    source: Source
    """The tree's content, as it is or as it will be."""
    tree: Tree

    def is_done(self, target: Target, own: StackEntry) -> bool:
        """Whether an entry is the target's series of today, and stands."""
        if own.series != target.series.digest or self.stack.drifted(own, self.source):
            return False
        if match_target(target, self.stack.at(own, self.source))[0].state is State.PATCHED:
            return True
        return any(each.paths & own.paths for each in self.stack.below(own))

    def is_made(self, match: Identity, own: StackEntry | None) -> bool:
        """Whether the tree is what a target makes, and nothing of its entry `own` is left."""
        return match.state is State.PATCHED and not (own and self.held(own, match, own))

    def held(self, entry: StackEntry, match: Identity, own: StackEntry | None) -> list[str]:
        """Return the paths of an entry that are as written, or edited: it has their originals.

        Args:
            entry: one of the stack.
            match: what the tree is by content; a known revision's files do not count as edits.
            own: the entry of the target of `match`.
        """
        drifted = set(self.stack.drifted(entry, self.source))
        known = {file.path for file in match.files} if match.state in _EXACT else set()
        paths = [
            path
            for path in sorted(entry.paths)
            if not self.stack.is_put_back(entry, path, self.source)
            and not (path in known and (entry is own or path in drifted))
        ]
        replaced = self._replaced(entry, drifted.intersection(paths), match)
        return [path for path in paths if path not in replaced]

    def edited(self, catalog: Catalog, match: Identity) -> Iterator[tuple[StackEntry, list[str]]]:
        """Yield each entry that does not stand, unless it is void, with its edited paths."""
        own = self.stack.find(catalog, catalog.target(match.target))
        for entry in self.stack.entries:
            edited = self.stack.drifted(entry, self.source)
            if edited and self.held(entry, match, own):
                yield entry, edited

    def settled(self, target: Target, match: Identity, own: StackEntry | None) -> Stack:
        """Return the stack without its void entries.

        An own entry of which only files that it added are left stands for these.

        Raises:
            ForeignError: a series that changed the target's files too was edited.
            PartialError: some of its files are no longer its own.
        """
        standing = []
        for entry in self.stack.entries:
            edited = self.stack.drifted(entry, self.source)
            if not edited:
                standing.append(entry)
                continue
            touched = entry is own or not entry.paths.isdisjoint(target.series.paths)
            if not touched and not self.stack.is_undone(entry, self.source):
                standing.append(entry)
                continue
            held = self.held(entry, match, own)
            if held and not set(held).isdisjoint(edited):
                raise edited_error(entry, edited, self.tree)
            left = [file for file in entry.files if file.path in held]
            if left and (entry is not own or any(file.original for file in left)):
                raise _partial_error(entry, held, edited)
            if left:
                standing.append(replace(entry, files=left))
        return Stack(tuple(standing), self.stack.record)

    def _replaced(self, entry: StackEntry, drifted: set[str], match: Identity) -> set[str]:
        """Return the drifted paths that are another revision's."""
        # An upgrade replaces the .dist-info with the receipt, so each change below one is an edit.
        if self.tree.dist_info is not None or not drifted:
            return set()
        head = _head(self.tree)
        # Untracked files say nothing: `any` asks whether git knows the package at all.
        if head is not None and any(map(head, entry.paths)):
            return {path for path in drifted if head(path) == self.source.read(path)}
        base = self.stack.pristine(self.source)
        ours = {path for each in self.stack.entries for path in each.paths}
        is_moved = match.state in _EXACT and any(
            entry_id(base.read(file.path), with_mode=":" in file.before) != file.before
            for file in match.files
            if file.path in ours
        )
        return drifted if is_moved else set()


def _head(tree: Tree) -> Callable[[str], Blob | None] | None:
    """Return what reads a tree's paths in git's HEAD, or None where there is none."""
    if (top := tree.git_root) is None:
        return None
    try:
        from pkgtools.source.git import Repository  # noqa: PLC0415 - GitPython is slow to import

        head = Repository(top).find("HEAD")
    except (SourceUnavailableError, UsageError):
        return None
    below = tree.root.relative_to(top)
    return None if head is None else lambda path: head.read((below / tree.name(path)).as_posix())
