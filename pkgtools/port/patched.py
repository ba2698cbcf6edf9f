"""The files of a step: both sources, with what the patches have made of them so far."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from pkgtools.authoring.gitdiff import FileChange
from pkgtools.blob import Blob
from pkgtools.catalog import Upstream
from pkgtools.merge import Merge, OtherFiles, merge, with_proposals
from pkgtools.merge.model import Methods
from pkgtools.merge.proposals import likely_content
from pkgtools.merge.result import Elsewhere
from pkgtools.merge.syntax.blocks import Block
from pkgtools.port.memory import CheckedFile
from pkgtools.port.upstream import Movement, gives, headers


@dataclass(frozen=True)
class FileMerge:
    """A merge of one file: what a patch does to it, and the new upstream's version."""

    number: int
    """Among the changes of the series."""
    needs: frozenset[int]
    """The changes before it of the files that it most likely looks at."""
    change: FileChange
    old_path: str
    """Where the new source has it without the patch."""
    path: str
    """Where it is with the patch."""
    sides: tuple[bytes, bytes, bytes]
    """Base, ours and theirs."""

    def probable_updates(self, merged: Merge) -> Sequence["FileUpdate"]:
        """Return what a merge probably makes of files."""
        data = likely_content(*self.sides[:2], merged) if merged.conflicts else merged.data
        others = (FileUpdate(path, Blob(data)) for path, data in merged.others.items())
        return [FileUpdate(self.path, Blob(data), bool(merged.conflicts)), *others]


@dataclass(frozen=True)
class FileUpdate:
    """One file of the new source as a patch left it."""

    path: str
    blob: Blob | None
    is_likely: bool = False
    """Whether it waits for a person, who may make this of it."""

    @cached_property
    def digest(self) -> str:
        """Git's id of the content; empty where the file is gone."""
        return self.blob.id if self.blob is not None else ""


Digests = Mapping[tuple[str, bool], str]
"""Of patched files: by the path, and by whether they wait for a person."""


class PatchedFiles:
    """What a merge may ask about the files of both sources, patched so far."""

    def __init__(
        self, movement: Movement, upstream: Upstream, changes: Sequence[FileChange] = ()
    ) -> None:
        self.movement = movement
        self.upstream = upstream
        self.changes = changes
        """Of the old source, in the order in which they are ported."""
        self.made: dict[int, Sequence[FileUpdate]] = {}
        """What each change makes of the new source; of a change to come, what it probably makes."""
        self.digests: dict[tuple[str, bool], str] = {}
        self.looked = CheckedFile()
        """What the merge of the current file looks at."""
        self.number = 0
        """Of the change before which both sources are as they are."""
        self._updates: list[FileUpdate] = []
        """What the current change makes."""
        self._old: dict[str, Blob | None] = {}
        self._new: dict[str, Blob | None] = {}
        self._likely: dict[str, Blob | None] = {}
        self._left: dict[str, Blob | None] = {}

    def go_on(self) -> None:
        """Have both sources as they are before the next change."""
        self.made[self.number] = self._updates
        change = self.changes[self.number]
        is_renamed = change.old_path != change.path
        if is_renamed and self.read_old(change.old_path) == change.before:
            self._old[change.old_path] = None  # unless another file got the name
        self._old[change.path] = change.after
        self.number, self._updates = self.number + 1, []

    def before(self, number: int) -> "PatchedFiles":
        """Return the files as they probably are before a change to come."""
        files = PatchedFiles(self.movement, self.upstream, self.changes)
        for earlier in range(number):
            for update in self.made.get(earlier, ()):
                files.update(update)
            files.go_on()
        return files

    def start_patch(self, changes: Sequence[FileChange]) -> None:
        """Keep the files whose names the patch gives to others: it can exchange two names."""
        renamed = [change for change in changes if change.old_path != change.path]
        given = {change.path for change in renamed}
        self._left = {c.old_path: self.read(c.old_path) for c in renamed if c.old_path in given}

    def read_theirs(self, path: str) -> Blob | None:
        """Return a file of the new source that the patch changes, before it was renamed over."""
        return self._left[path] if path in self._left else self.read(path)

    def is_patched(self, path: str) -> bool:
        """Whether a patch left something else of a file of the new source."""
        return path in self._new

    def read(self, path: str) -> Blob | None:
        """Return a file of the new source with the patches so far."""
        return self._new[path] if path in self._new else self.movement.listings[1].blob(path)

    def read_old(self, path: str) -> Blob | None:
        """Return a file of the old source with the patches so far."""
        return self._old[path] if path in self._old else self.movement.listings[0].blob(path)

    def write(self, old_path: str, path: str, blob: Blob | None) -> None:
        """Set a file of the new source, which had another path."""
        if old_path != path and self.read(old_path) == self.read_theirs(old_path):
            self.update(FileUpdate(old_path, None))
        self.update(FileUpdate(path, blob))

    def expect(self, path: str, likely: Blob | None) -> None:
        """Set what a file may become that waits for a person.

        Other files are not asked for what it may have. With the person's answers everything is
        checked again.
        """
        self.update(FileUpdate(path, likely, is_likely=True))

    def update(self, update: FileUpdate) -> None:
        """Take over what a patch left of a file."""
        (self._likely if update.is_likely else self._new)[update.path] = update.blob
        self.digests[update.path, update.is_likely] = update.digest
        self._updates.append(update)

    def merge(self, file: FileMerge) -> Merge:
        """Return the merge of a file, with a proposal for each conflict if it is Python."""
        python = file.path.endswith(".py")
        others = self.others(file.path, self.finder(file.old_path))
        others = replace(others, old_package=self.package_of(file.change.path))
        merged = merge(*file.sides, python=python, others=others)
        if merged.conflicts and python:
            return with_proposals(merged, file.sides, others)
        return merged

    def finder(self, path: str) -> Callable[[Block], Elsewhere | None]:
        """Return what finds definitions of a file in files that no patch has changed."""

        def find(node: Block) -> Elsewhere | None:
            found = self.movement.definition(path, node)
            if found is None:
                return None
            self.looked.paths.add(found.path)
            return None if found.path in self._new or found.path in self._likely else found

        return find

    def others(self, path: str, find: Callable[[Block], Elsewhere | None]) -> OtherFiles:
        """Return what a merge of the file at `path` may ask about other files."""
        return OtherFiles(
            find,
            old=self.old_module,
            new=self._new_module,
            is_lost=partial(self._is_lost, path),
            methods=partial(self._methods, path),
            users=partial(self.users, path),
            callers=self._callers,
            package=self.package_of(path),
            package_of=self.package_of,
        )

    def old_module(self, dotted: str) -> bytes | None:
        """Return a module of the old package, by its dotted name."""
        return self._first(self.read_old, dotted)

    def _new_module(self, dotted: str) -> bytes | None:
        return self._first(lambda path: self._likely.get(path) or self.read(path), dotted)

    def _first(self, read: Callable[[str], Blob | None], dotted: str) -> bytes | None:
        paths = self.paths_of(dotted)
        self.looked.paths.update(paths)
        return next((blob.data for blob in map(read, paths) if blob is not None), None)

    def _is_lost(self, path: str, name: bytes) -> bool:
        self.looked.names.add(name)
        if b"." in name or not self.movement.lost(name, path):
            return self.movement.lost(name, path)
        self.looked.missed.add(name)
        patched = (*self._new.items(), *self._likely.items())
        having = {path: blob.data for path, blob in patched if blob and name in blob.data}
        self.looked.paths.update(having)  # a later patch can take it out again
        return not gives(having.values(), name)

    def _methods(self, path: str, name: bytes) -> Methods:
        self.looked.names.add(name)
        found = self.movement.methods(name, path)
        for change in self.changes if found[0] else ():
            old, new = ([b.data] if b else [] for b in (change.before, change.after))
            if not {*headers(new, name)} <= {*headers(old, name)}:
                return (), ()  # the series has a method of that name itself
        return found

    def users(self, path: str, name: bytes) -> list[str]:
        """Return the modules in which upstream begins to import a file, or a name of it."""
        self.looked.listed.update(self.movement.listings[1].marks)  # any file can begin to
        return self.movement.users(path, name)

    def _callers(self, name: bytes) -> list[str]:
        self.looked.listed.update(self.movement.listings[1].marks)
        return self.movement.callers(name)

    def is_outdated(self, looked: CheckedFile, seen: Digests) -> bool:
        """Whether what a merge looked at may be something else than it saw."""
        changed = {path for (path, _), _ in self.digests.items() ^ seen.items()}
        blobs = (files.get(path) for path in changed for files in (self._new, self._likely))
        return not looked.paths.isdisjoint(changed) or any(
            name in blob.data for blob in blobs if blob is not None for name in looked.missed
        )

    def package_of(self, path: str) -> str:
        """Return the dotted package of a file."""
        folder = (self.upstream.in_wheel(path) or path).rpartition("/")[0]
        return folder.replace("/", ".")

    def paths_of(self, module: str) -> list[str]:
        """Return where a dotted module of the package can be."""
        stem = module.replace(".", "/")
        inside = module.split(".", maxsplit=1)[0] == self.upstream.package
        names = [f"{stem}.py", f"{stem}/__init__.py"] if inside else []
        return [self.upstream.in_source(name) for name in names]
