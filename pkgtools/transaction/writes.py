"""From a plan, or a receipt, to the writes of one transaction.

The order is what another process may see: stale bytecode goes first, then the
files change, then RECORD, and the receipt comes last.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pkgtools import __version__
from pkgtools.blob import SYMLINK, Blob
from pkgtools.transaction.bytecode import bytecode_of
from pkgtools.transaction.commit import Write
from pkgtools.transaction.journal import Base
from pkgtools.tree import receipt as receipts
from pkgtools.tree.receipt import Bytecode, Original, PatchedFile, Receipt
from pkgtools.tree.record import add_rows, drop_rows, restore_record, row_path
from pkgtools.util.files import read_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pkgtools.catalog import Target
    from pkgtools.plan import Plan
    from pkgtools.source import Tree

_RECORD = "RECORD"


def writes_to_apply(
    target: Target, revisions: Sequence[str], tree: Tree, plan: Plan, old: Receipt | None
) -> list[Write]:
    """Return the writes that make a tree what a plan says, and its receipt.

    Args:
        target: whose series the plan is of.
        revisions: the locked revisions that the tree is.
        tree: the tree, which `old` may have patched.
        plan: made on the tree as it was before `old`.
        old: the receipt of an older series, to be undone first.

    """
    draft = _Draft(tree)
    if old is not None:
        draft.restore(old)
    originals = {file.path: file.original for file in old.files} if old else {}
    files, kept = [], []
    rows = draft.listed(old)
    for change in plan.changes:
        path = change.path
        before = tree.read(path)
        original = originals[path] if path in originals else draft.original(path, before)
        after_id = change.after.id if change.after else ""
        is_link = change.after is not None and change.after.mode == SYMLINK
        files.append(PatchedFile(path, after_id, is_link, original))
        kept += draft.drop_bytecode(path, old, rows)
        draft.put(Write(Base.TREE, tree.name(path), before, change.after))
    receipt = Receipt(
        1,
        __version__,
        target.upstream.name,
        target.name,
        list(revisions),
        target.series.digest,
        [patch.name for patch in target.series.patches],
        files,
        kept,
    )
    draft.finish(receipt, old)
    return draft.in_order()


def writes_to_reverse(tree: Tree, receipt: Receipt) -> list[Write]:
    """Return the writes that make a tree what it was before `receipt`."""
    draft = _Draft(tree)
    draft.restore(receipt)
    draft.finish(None, receipt)
    return draft.in_order()


@dataclass
class _Draft:
    """The writes so far, one a path."""

    tree: Tree
    writes: dict[tuple[Base, str], Write] = field(default_factory=dict)

    def put(self, write: Write) -> None:
        """Add a write, instead of any other to the same path."""
        self.writes[write.base, write.name] = write

    def in_order(self) -> list[Write]:
        """Return the writes that change something."""

        def rank(write: Write) -> tuple[int, str]:
            if write.base is Base.HOME:
                return (3 if write.name == _RECORD else 4), write.name
            if write.is_cache:
                return (0 if write.after is None else 2), write.name
            return 1, write.name

        changing = (w for w in self.writes.values() if w.before != w.after)
        return sorted(changing, key=rank)

    def original(self, path: str, blob: Blob | None) -> Original | None:
        """Return a file as the receipt keeps it."""
        if blob is None:
            return None
        status = self.tree.file(path).lstat()
        return Original.pack(blob, status.st_mode & 0o7777, status.st_mtime_ns)

    def restore(self, receipt: Receipt) -> None:
        """Put back what a receipt keeps."""
        for file in receipt.files:
            before = self.tree.read(file.path)
            self.drop_bytecode(file.path, None, set())
            self.put(_restoring(self.tree.name(file.path), before, file.original))
        for compiled in receipt.bytecode:
            before = read_file(self.tree.root / compiled.name)
            self.put(_restoring(compiled.name, before, compiled.original, is_cache=True))

    def drop_bytecode(self, path: str, old: Receipt | None, rows: set[str]) -> list[Bytecode]:
        """Remove a module's compiled files; return those that the package manager listed.

        Of a module that `old` patched, the listed ones are in that receipt, and
        what lies there now was compiled since.
        """
        source, module = self.tree.file(path), self.tree.name(path)
        kept = [b for b in old.bytecode if _compiles(b.name, module)] if old else []
        for recorded in kept:  # `restore` put it back; the module stays patched
            blob = read_file(self.tree.root / recorded.name)
            self.put(Write(Base.TREE, recorded.name, blob, None, is_cache=True))
        was_patched = old is not None and any(file.path == path for file in old.files)
        for compiled in bytecode_of(source):
            name = compiled.relative_to(self.tree.root).as_posix()
            blob = read_file(compiled)
            if blob is None:
                continue
            if name in rows and not was_patched:
                status = compiled.lstat()
                original = Original.pack(blob, status.st_mode & 0o7777, status.st_mtime_ns)
                kept.append(Bytecode(name, original))
            self.put(Write(Base.TREE, name, blob, None, is_cache=True))
        return kept

    def listed(self, old: Receipt | None) -> set[str]:
        """Return the paths that RECORD lists, without what `old` did to it."""
        return {row_path(row) for row in self._record(old).splitlines()}

    def finish(self, receipt: Receipt | None, old: Receipt | None) -> None:
        """Write RECORD and the receipt, or take them back to before `old`."""
        raw = self._record(old)
        if raw and receipt is not None:
            raw = self._edit_record(raw, receipt)
        if raw:
            self.put(Write(Base.HOME, _RECORD, read_file(self.tree.home / _RECORD), Blob(raw)))
        before = read_file(self.tree.home / receipts.NAME)
        after = Blob(receipt.encode()) if receipt is not None else None
        self.put(Write(Base.HOME, receipts.NAME, before, after))

    def _record(self, old: Receipt | None) -> bytes:
        """Return RECORD as it was before `old`; empty where there is none to keep true."""
        if self.tree.dist_info is None:
            return b""
        blob = read_file(self.tree.home / _RECORD)
        if blob is None:
            return b""
        if old is None or old.record is None:
            return blob.data
        added = [self.tree.name(file.path) for file in old.files] + [self._receipt_row]
        return restore_record(blob.data, old.record, added)

    @property
    def _receipt_row(self) -> str:
        return f"{self.tree.home.name}/{receipts.NAME}"

    def _edit_record(self, raw: bytes, receipt: Receipt) -> bytes:
        """Return RECORD with the tree's new files in it, and tell the receipt how to undo that."""
        writes = [w for w in self.writes.values() if w.base is Base.TREE]
        drop = {w.name for w in writes if w.after is None} | {b.name for b in receipt.bytecode}
        patched = {self.tree.name(file.path) for file in receipt.files}
        add = {
            w.name: None if w.after.mode == SYMLINK else w.after.data
            for w in writes
            if w.after is not None and w.name in patched
        }
        kept, receipt.record = drop_rows(raw, {*drop, *add, self._receipt_row})
        return add_rows(kept, {**add, self._receipt_row: receipt.encode()})


def _restoring(
    name: str, before: Blob | None, original: Original | None, *, is_cache: bool = False
) -> Write:
    if original is None:
        return Write(Base.TREE, name, before, None, is_cache)
    return Write(
        Base.TREE,
        name,
        before,
        original.blob(),
        is_cache,
        original.permissions,
        original.mtime_ns,
    )


def _compiles(compiled: str, source: str) -> bool:
    """Whether `compiled` is a compiled file of the module `source`, by its name."""
    folder, name = posixpath.split(compiled)
    stem = PurePosixPath(source).stem
    caches = (posixpath.dirname(source), posixpath.join(posixpath.dirname(source), "__pycache__"))
    return folder in caches and name.startswith(f"{stem}.") and name.endswith(".pyc")
