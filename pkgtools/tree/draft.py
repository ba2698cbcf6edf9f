"""From plans and receipts to the writes of one transaction.

A `TreeDraft` is a tree as it will be. Series are done and undone in it, one after the other;
`TreeDraft.writes` compares it with what lies there. The order is what another process may see:
stale bytecode goes first, then the files change, then RECORD, and the receipt comes last.
"""

import glob
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from pkgtools.blob import SYMLINK, Blob
from pkgtools.plan import Plan
from pkgtools.source import Tree
from pkgtools.source import receipt as receipts
from pkgtools.source.receipt import Bytecode, Original, PatchedFile, StackEntry
from pkgtools.source.record import add_rows, drop_rows, make_row, restore_record, row_data, row_path
from pkgtools.transaction.journal import Base
from pkgtools.transaction.stage import Write
from pkgtools.tree.stack import Stack, as_receipt, load_stack
from pkgtools.tree.void import AppliedStack
from pkgtools.util.files import read_file

_RECORD = "RECORD"
_SECOND = 10**9


class TreeDraft:
    """One tree as it will be: a source that series are done and undone in."""

    def __init__(self, tree: Tree, recovered: str | None = None) -> None:
        self.tree = tree
        self.recovered = recovered
        """What became of an earlier run that was killed."""
        self.upstream = None if tree.is_checkout else tree.upstream
        self.label = tree.label
        self.version = tree.version
        self.stack = load_stack(tree)
        """The stack so far."""
        self._old = self.stack
        self._writes: dict[str, Write] = {}
        self._undone: dict[str, Original | None] = {}
        self._bytecode: dict[str, Bytecode] = {}
        self._record = _record_before(tree, self.stack)

    def read(self, path: str) -> Blob | None:
        """Return the content of `path` of the source tree, as it will be."""
        if self.upstream is not None and self.upstream.is_above_package(path):
            return self.tree.read(path)
        write = self._writes.get(self.tree.name(path))
        return write.after if write is not None else self.tree.read(path)

    @property
    def applied(self) -> AppliedStack:
        """The stack so far, on the files as they will be."""
        return AppliedStack(self.stack, self, self.tree)

    def undo(self, entry: StackEntry) -> None:
        """Put back what an entry found; the entries above it touch other files."""
        for file in entry.files:
            self._drop_bytecode(file.path)
            self._undone[file.path] = file.original
            self._write(self.tree.name(file.path), file.original)
        for compiled in entry.bytecode:
            self._bytecode[compiled.name] = compiled
            self._write(compiled.name, compiled.original, is_cache=True)
        self.forget(entry)

    def forget(self, entry: StackEntry) -> None:
        """Take an entry out of the stack; the files stay."""
        self.stack = self.stack.without([entry])

    def do(self, entry: StackEntry, plan: Plan, at: int | None = None) -> None:
        """Do what a plan, made on this draft, says; by default the entry becomes the top."""
        files, compiled = [], []
        for change in plan.changes:
            original = self._original(change.path, self.read(change.path))
            compiled += self._drop_bytecode(change.path)
            self._undone.pop(change.path, None)  # a later entry finds what this one writes
            files.append(_patched(change.path, change.after, original))
            self._write(self.tree.name(change.path), change.after)
        self._push(replace(entry, files=files, bytecode=compiled), at)

    def adopt(
        self, entry: StackEntry, originals: Mapping[str, Original | None], at: int | None = None
    ) -> None:
        """Put an entry into the stack whose series is in the tree, with what was there before."""
        files = [_patched(path, self.read(path), was) for path, was in sorted(originals.items())]
        if self._record:
            # pip uninstalls by RECORD: rows of the patched files would survive a later reverse.
            self._record = self._true_record(entry, originals)
        self._push(replace(entry, files=files), at)

    def _true_record(self, entry: StackEntry, originals: Mapping[str, Original | None]) -> bytes:
        """Return RECORD as it would be without an adopted series.

        It may list the patched files, as a patched wheel's does. Nobody knows what listed
        bytecode was compiled from, so it is not listed any more.
        """
        names = {self.tree.name(path): was for path, was in originals.items()}
        rows = {n: row_data(was.blob()) for n, was in names.items() if was is not None}
        now = {row_path(row): row.strip() for row in self._record.splitlines()}
        kept = {compiled.name for compiled in entry.bytecode}
        false = {
            name
            for name in now.keys() - kept
            if name.endswith(".pyc") and any(_compiles(name, module) for module in names)
        }
        false |= {n for n in names.keys() & now.keys() if n not in rows}
        wrong = {n for n, data in rows.items() if now.get(n) != make_row(n, data).strip()}
        if not false | wrong:
            return self._record
        raw, _ = drop_rows(self._record, false | wrong)
        return add_rows(raw, {name: rows[name] for name in wrong})

    def _push(self, entry: StackEntry, at: int | None) -> None:
        entries = list(self.stack.entries)
        entries.insert(len(entries) if at is None else at, entry)
        self.stack = Stack(tuple(entries), self.stack.record)

    def writes(self) -> list[Write]:
        """Return the writes that change something, in order."""
        made = [*self._writes.values(), *self._home_writes()]
        return [write for write in _in_order(made) if write.before != write.after]

    def _home_writes(self) -> Iterable[Write]:
        home = self.tree.home
        before = read_file(home / receipts.NAME)
        entries, record = self.stack.entries, None
        if entries == self._old.entries:
            return
        raw = self._record
        if raw and entries:
            paths = [(self.tree.name(path), self.read(path)) for e in entries for path in e.paths]
            stale = {b.name for entry in entries for b in entry.bytecode} | {
                write.name for write in self._writes.values() if write.after is None
            }
            # From the whole stack: RECORD before it and the receipt then suffice to restore
            # RECORD.
            rows = {name: row_data(blob) for name, blob in paths if blob is not None}
            gone = {name for name, blob in paths if blob is None}
            kept, record = drop_rows(raw, {*stale, *gone, *rows, self._receipt_row})
            receipt = as_receipt(entries, record).encode()
            raw = add_rows(kept, {**rows, self._receipt_row: receipt})
        if raw:
            yield Write(Base.HOME, _RECORD, read_file(home / _RECORD), Blob(raw))
        after = Blob(as_receipt(entries, record).encode()) if entries else None
        yield Write(Base.HOME, receipts.NAME, before, after)

    @property
    def _receipt_row(self) -> str:
        return f"{self.tree.home.name}/{receipts.NAME}"

    def _write(
        self, name: str, after: Blob | Original | None = None, *, is_cache: bool = False
    ) -> None:
        """Add a write, of new content or of what was there before, instead of any other of it."""
        earlier = self._writes.get(name)
        original = after if isinstance(after, Original) else None
        self._writes[name] = Write(
            base=Base.TREE,
            name=name,
            before=earlier.before if earlier else read_file(self.tree.root / name),
            after=after.blob() if isinstance(after, Original) else after,
            is_cache=is_cache,
            permissions=original.permissions if original else None,
            mtime_ns=original.mtime_ns if original else None,
        )

    def _original(self, path: str, blob: Blob | None) -> Original | None:
        """Return what the receipt keeps of a path that is about to change."""
        if path in self._undone:
            return self._undone[path]
        if blob is None:
            return None
        write = self._writes.get(self.tree.name(path))
        place = self.tree.file(path)
        if write is None:
            return Original.pack(blob, place.lstat(), blob)
        # Written earlier in this transaction, so there is no file yet to ask.
        status = (place if write.before is not None else self.tree.root).lstat()
        # A new second: the restored file must not match bytecode of the one that it replaces.
        mtime = (status.st_mtime_ns // _SECOND + 1) * _SECOND
        return Original.pack(blob, status, write.before, mtime)

    def _drop_bytecode(self, path: str) -> list[Bytecode]:
        """Remove a module's compiled files; return those that the package manager listed.

        Of a module that a series patched, the listed ones are in that entry, and what lies
        there now was compiled since.
        """
        source, module = self.tree.file(path), self.tree.name(path)
        kept = [b for name, b in self._bytecode.items() if _compiles(name, module)]
        for compiled in kept:  # `undo` put it back, and the module changes again
            self._write(compiled.name, is_cache=True)
        was_patched = path in self._undone or any(path in e.paths for e in self._old.entries)
        listed = _listed(self._record) if not was_patched else ()
        for found in bytecode_of(source):
            name = found.relative_to(self.tree.root).as_posix()
            if name in listed and (blob := read_file(found)) is not None:
                kept.append(Bytecode(name, Original.pack(blob, found.lstat(), blob)))
            self._write(name, is_cache=True)
        return kept


@lru_cache(maxsize=1)  # the same RECORD for each module of a series
def _listed(record: bytes) -> frozenset[str]:
    return frozenset(map(row_path, record.splitlines()))


def _in_order(writes: Iterable[Write]) -> list[Write]:
    """Return writes in the order in which another process may see them."""

    def rank(write: Write) -> tuple[int, str]:
        if write.base is Base.HOME:
            return {_RECORD: 3, receipts.NAME: 4}.get(write.name, 1), write.name
        if write.is_cache:
            return (0 if write.after is None else 2), write.name
        return 1, write.name

    return sorted(writes, key=rank)


def _patched(path: str, after: Blob | None, original: Original | None) -> PatchedFile:
    is_link = after is not None and after.mode == SYMLINK
    return PatchedFile(path, after.id if after else "", is_link, original)


def _record_before(tree: Tree, stack: Stack) -> bytes:
    """Return RECORD as it was before the stack; empty where there is none to keep true."""
    blob = read_file(tree.home / _RECORD) if tree.dist_info is not None else None
    if blob is None:
        return b""
    if stack.record is None:
        return blob.data
    added = {tree.name(path) for entry in stack.entries for path in entry.paths}
    return restore_record(blob.data, stack.record, {*added, f"{tree.home.name}/{receipts.NAME}"})


def bytecode_of(source: Path) -> Iterator[Path]:
    """Yield the compiled files of one module, of every Python that compiled it.

    Python trusts a ``.pyc`` whose recorded size and whole-second mtime are those of the source
    (PEP 552 has modes that trust it always), so a same-size edit with a clamped mtime leaves one
    that is imported.
    """
    if source.suffix != ".py":
        return
    cache = source.parent / "__pycache__"
    if not cache.is_symlink():
        found = sorted(cache.glob(f"{glob.escape(source.stem)}.*.pyc"))
        # The tag of a Python is text: no Python imports a file of another name, and neither a
        # journal nor RECORD can list it.
        yield from (path for path in found if path.name.isprintable())
    # PEP 3147: Python imports it only if the source is gone, which a series can do.
    legacy = source.with_suffix(".pyc")
    if legacy.exists():
        yield legacy


def _compiles(compiled: str, source: str) -> bool:
    """Whether `compiled` is a compiled file of the module `source`, by its name."""
    folder, name = posixpath.split(compiled)
    stem = PurePosixPath(source).stem
    caches = (posixpath.dirname(source), posixpath.join(posixpath.dirname(source), "__pycache__"))
    return folder in caches and name.startswith(f"{stem}.") and name.endswith(".pyc")
