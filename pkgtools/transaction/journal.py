"""The journal of a transaction: what is being done to a tree, so that it can be finished.

It is written before anything else and removed after everything else. While it
says *prepare*, no file of the tree was touched; once it says *commit*, every new
content lies beside its file, and only renames are left to do. With *done* or *undo*
it is settled what the tree will be, and only what lies beside is left to remove.

A transaction over several trees has a journal in the home of each, with the operations of
that tree. The first one is the leader: its phase is everyone's, and it names the others. They
say *led* and name the leader (`pkgtools.transaction.part` reads them together).
"""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from pkgtools.patch.paths import safe_path
from pkgtools.source import Tree
from pkgtools.source.receipt import load_file
from pkgtools.util.files import inside, read_file, replace_file, scratch_of

NAME: Final = "pkgtools-journal.json"

Phase = Literal["prepare", "commit", "done", "undo", "led"]
# NUL is the one byte that a POSIX path cannot have; os functions raise ValueError on it.
_Reference = Annotated[str, msgspec.Meta(pattern=r"^[^\x00]*\Z")]


class Base(StrEnum):
    """What an operation's name is relative to."""

    TREE = "tree"
    HOME = "home"


class Operation(msgspec.Struct, forbid_unknown_fields=True):
    """One path's way from its old content to its new one."""

    base: Base
    name: str
    before: str
    """Git's blob id; empty where there was no file."""
    after: str
    """Empty where there will be none."""
    is_cache: bool = False
    """Compiled bytecode, which any Python may write at any moment: its content is not checked."""


class TreeReference(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Another tree of a transaction, by paths from the journal's folder.

    Relative paths survive a move of the folder around both. They are percent-encoded, because
    a path can be other than UTF-8.
    """

    root: _Reference
    home: _Reference


class Journal(msgspec.Struct, forbid_unknown_fields=True):
    """The whole file."""

    format: Literal[1]
    phase: Phase
    operations: list[Operation]
    folders: list[str]
    """Folders made for new files, relative to the tree's root, outermost first."""
    id: str = ""
    """The same in all journals of a transaction over several trees; else empty."""
    trees: list[TreeReference] = []
    """The other trees; where the journal says *led*, the leader alone."""

    def enter(self, phase: Phase, home: Path) -> None:
        """Put it on disk with a new phase, whole or not at all."""
        self.phase = phase
        path = home / NAME
        # rename(2) is atomic: a killed run leaves the journal before or after, never a torn one.
        replace_file(path, msgspec.json.encode(self), scratch_of(path))


def load_journal(home: Path) -> Journal | None:
    """Return the journal that lies in `home`, or None."""
    return load_file(home / NAME, Journal, _check, "journal")


def _check(journal: Journal) -> None:
    """Raise a `ValueError` where a path leads out of the tree, or the leader is not named."""
    for name in [*(operation.name for operation in journal.operations), *journal.folders]:
        # A downloaded checkout can bring a hostile journal in its git directory.
        safe_path(name.encode())
    if journal.phase == "led" and len(journal.trees) != 1:
        raise ValueError("it does not name the leader")


class StagedFile:
    """The file of one operation, with its new content and its old one beside it."""

    def __init__(self, tree: Tree, operation: Operation) -> None:
        self.operation = operation
        root = tree.home if operation.base is Base.HOME else tree.root
        self.target = inside(root, operation.name)
        self.new = scratch_of(self.target)
        self.old = self.target.with_name(f".{self.target.name}.pkgtools-old")

    def found(self) -> str:
        """Return the id of what is there now; empty where there is nothing."""
        blob = read_file(self.target)
        return blob.id if blob is not None else ""

    @property
    def is_pending(self) -> bool:
        """Whether its rename or removal is still to be done."""
        if self.operation.after:
            return os.path.lexists(self.new)
        return os.path.lexists(self.target)

    @property
    def is_edited(self) -> bool:
        """Whether someone else changed the file since the journal was written."""
        if self.operation.is_cache:
            return False
        found = self.found()
        if self.is_pending and found == self.operation.before:
            return False
        return found != self.operation.after

    @property
    def is_edited_late(self) -> bool:
        """Whether someone who had the old file open wrote to it after it was replaced."""
        if self.operation.is_cache or not self.operation.before:
            return False
        blob = read_file(self.old)
        return blob is not None and blob.id != self.operation.before

    def commit(self) -> None:
        """Put the new content in place; safe to repeat."""
        if self.operation.after:
            if os.path.lexists(self.new):
                self.new.replace(self.target)
        else:
            self.target.unlink(missing_ok=True)

    def undo(self) -> None:
        """Put the old content back, the very file that was there; safe to repeat.

        What someone else wrote meanwhile stays.
        """
        if not self.operation.is_cache and (self.is_pending or self.is_edited):
            return
        if os.path.lexists(self.old):
            self.old.replace(self.target)
        elif not self.operation.before:
            self.target.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove what lies beside the file."""
        self.new.unlink(missing_ok=True)
        self.old.unlink(missing_ok=True)
