"""Find the edits of a tree on top of its series."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from pkgtools.authoring.applied import applied_on
from pkgtools.authoring.edited_tree import refuse_other_commit, refuse_other_tree
from pkgtools.authoring.gitdiff import FileChange
from pkgtools.authoring.work import SeriesWork
from pkgtools.blob import Blob
from pkgtools.catalog import Series
from pkgtools.errors import UsageError
from pkgtools.source import Source, Tree, WheelSource
from pkgtools.source.listing import not_ignored, package_files
from pkgtools.source.receipt import StackEntry
from pkgtools.source.record import recorded
from pkgtools.tree.stack import Stack, is_of, is_unnamed, load_stack

_BUILT: Final = ("*.py[cod]", "*.so", "*.dylib", "*.dll", "*.o", "*.a")
_LEFTOVERS: Final = ("*.orig", "*.rej", "*.bak", "*~", ".*.sw?", ".#*", "#*#", ".DS_Store")
"""Names of files that patch(1), editors and file managers leave behind."""


@dataclass(frozen=True)
class Edits:
    """The difference between a tree and what a series makes of a source."""

    changes: tuple[FileChange, ...]
    left_out: tuple[str, ...]
    """Files that look built or left over, or that the wheel has and git does not track: these were
    generated for the wheel, or their deletion is committed."""
    uncertain: tuple[str, ...]
    """Files that git tracks and the wheel does not have: new, or left out of the wheel."""


def edits_of(series: Series, work: SeriesWork, tree: Tree, *, beyond: bool = True) -> Edits:
    """Return what a tree has beyond a series, without what other series of its stack wrote.

    Where a patch is made of files `beyond` those of the series, they have to be edits too.
    """
    source, stack = work.source, load_stack(tree)
    own = _entries_of(series, work, stack)
    others = {path: e.target for e in stack.entries if e not in own for path in e.paths}
    edited = stack.edited(tree)
    applied = applied_on(series.patches, source)
    made: dict[str, Blob | None] = {}
    for change in (change for each in applied for change in each.changes):
        made[change.old_path] = None  # a rename takes the file away
        made[change.path] = change.after
    package = _Package(source, tree)
    refuse_other_commit(work, tree, made, package.paths if beyond else ())
    refuse_other_tree(work, tree, made, stack, own)
    changes, left_out, uncertain = [], [], []
    for path in sorted(package.paths | made.keys()):
        before = made[path] if path in made else _file(source, path)
        after = _file(tree, path)
        if before == after or (path in others and path not in edited):
            continue
        if path in others and path in made:
            raise UsageError(
                f"{path} of {tree.label} was edited, and another series, {others[path]}, "
                "changes it too",
                remedy=f"undo the edit, and take {others[path]} out first: pkgtools reverse "
                f"--target {others[path]} --tree {tree.root}",
            )
        if path in others:
            left_out.append(path)
            continue
        on_one_side = path not in made and None in (before, after)
        if on_one_side and package.is_of_the_wheel(path, after):
            continue
        is_tracked = package.is_tracked(path)
        if on_one_side and (is_tracked is False if after is None else looks_made(path)):
            left_out.append(path)
        elif on_one_side and after is not None and is_tracked:
            uncertain.append(path)
        else:
            changes.append(FileChange(path, path, before, after))
    return Edits(tuple(changes), tuple(left_out), tuple(uncertain))


def _entries_of(series: Series, work: SeriesWork, stack: Stack) -> list[StackEntry]:
    # Not the sound targets alone: an edited series is not sound until it is locked again.
    directory = series.directory.resolve()
    targets = [each for each in work.catalog.targets if each.directory.resolve() == directory]
    found = []
    for entry in stack.entries:
        names = {target.name for target in targets} if is_unnamed(entry) else set()
        if entry.target in names or any(is_of(entry, work.catalog, each) for each in targets):
            found.append(entry)
    return found


def looks_made(path: str) -> bool:
    """Whether a file looks built, or left behind by a tool."""
    name = path.rpartition("/")[2]
    return any(fnmatchcase(name, pattern) for pattern in (*_BUILT, *_LEFTOVERS))


class _Package:
    def __init__(self, source: Source, tree: Tree) -> None:
        upstream = tree.upstream
        theirs = package_files(source, upstream)
        seen = not_ignored(tree)
        present = set().union(*seen) if seen else set(package_files(tree, upstream))
        self.paths = present | theirs.keys()
        # A git revision has every file of the source tree, a wheel need not.
        self._tracked = seen[0] if seen and isinstance(source, WheelSource) else None
        self._recorded: set[str] | None = None
        if tree.record is not None:
            self._recorded = {upstream.in_source(name) for name in recorded(tree.record)}

    def is_of_the_wheel(self, path: str, after: Blob | None) -> bool:
        """Whether a file is in the tree or the source alone because a wheel was built of it.

        RECORD tells: it lists what was generated for the wheel, and not what was left out.
        """
        return self._recorded is not None and (path in self._recorded) is (after is not None)

    def is_tracked(self, path: str) -> bool | None:
        """Whether git tracks a file of a checkout; None unless its source is a wheel."""
        return None if self._tracked is None else path in self._tracked


def _file(source: Source, path: str) -> Blob | None:
    blob = source.read(path)
    return None if blob and blob.is_directory else blob
