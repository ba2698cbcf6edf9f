"""The only code that writes to a user's tree: all of it, or nothing, at any instant.

1. The journal says *prepare*: which files, from which content to which.
2. Beside every file its new content is written and its old one linked. From
   here on no more space is needed.
3. The journal says *commit*. Renames put every new content in place.
4. The journal says *done*. The old links go, then the journal.

Killed before 3, the next run removes what lies beside; killed after it, the next
run does the renames that are left. Where that is not possible any more the journal
says *undo*, and the old links are put back. A file is replaced, never written in
place: package managers link one cached file into many environments.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from pkgtools.blob import EXECUTABLE, REGULAR, SYMLINK, Blob
from pkgtools.errors import TreeError
from pkgtools.transaction import folders
from pkgtools.transaction import journal as journals
from pkgtools.transaction.journal import Base, Journal, Operation, Place
from pkgtools.util import files
from pkgtools.util.files import read_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pkgtools.source import Tree
    from pkgtools.util.progress import Reporter

_NO_LINKS: Final = {
    errno.EPERM,
    errno.EACCES,
    errno.EMLINK,
    errno.ENOTSUP,
    errno.EXDEV,
    errno.ENOSYS,
}


@dataclass(frozen=True)
class Write:
    """A file to be written, or removed."""

    base: Base
    name: str
    before: Blob | None
    after: Blob | None
    is_cache: bool = False
    permissions: int | None = None
    """For a file restored from a receipt; otherwise the old file's, or the usual ones."""
    mtime_ns: int | None = None
    """The same; otherwise now."""

    def operation(self) -> Operation:
        """Return what the journal says of it."""
        before = self.before.id if self.before else ""
        after = self.after.id if self.after else ""
        return Operation(self.base, self.name, before, after, self.is_cache)


@contextlib.contextmanager
def locked(tree: Tree, reporter: Reporter) -> Iterator[None]:
    """Keep every other pkgtools away from the tree.

    Raises:
        TreeError: another run holds it for too long.

    """
    waiting = partial(reporter.task, f"waiting for another pkgtools run on {tree.root}")
    with contextlib.ExitStack() as stack:
        with _as_tree_error(tree):
            stack.enter_context(files.locked_folder(tree.root, waiting))
        yield


def commit(tree: Tree, writes: Sequence[Write], others: Sequence[Tree] = ()) -> None:
    """Do all of `writes`, in order, or none.

    Args:
        tree: whose home gets the journal.
        writes: names are relative to `tree`.
        others: other packages in the same folder that are written to.

    Raises:
        TreeError: the tree cannot be written, or a file changed meanwhile; the
            tree is as it was.

    """
    with _as_tree_error(tree):
        operations = [write.operation() for write in writes]
        journal = Journal(
            format=1,
            phase="prepare",
            operations=operations,
            folders=folders.missing(tree.root, operations),
            homes=[_home_name(other) for other in others],
        )
        places = [Place(tree, operation) for operation in operations]
        _refuse_leftovers(places)
        try:
            folders.make_home(tree.home)
            for other in others:
                Journal(1, "elsewhere", [], [], [_home_name(tree)]).enter("elsewhere", other.home)
            journal.enter("prepare", tree.home)
            for folder in journal.folders:
                folders.make(tree.root / folder)
            for write, place in zip(writes, places, strict=True):
                _stage(write, place)
            folders.sync(place.target.parent for place in places)
            _refuse_miswritten(places)
            _refuse_edited(places)
            journal.enter("commit", tree.home)
            _put_in_place(tree, journal, places)
        except BaseException:
            _roll_back(tree, journal, places)
            raise
        _finish(tree, journal, places)


def relative_writes(tree: Tree, writes: Sequence[Write]) -> list[Write]:
    """Return writes whose names are all relative to the tree's root."""
    home = f"{_home_name(tree)}/"
    return [
        replace(write, base=Base.TREE, name=home + write.name) if write.base is Base.HOME else write
        for write in writes
    ]


def _home_name(tree: Tree) -> str:
    return tree.home.relative_to(tree.root).as_posix()


def recover(tree: Tree) -> str | None:
    """Finish or undo what an earlier run was killed in; the lock is the caller's.

    Returns:
        "finished" or "undone", or None where there was nothing to do.

    Raises:
        TreeError: files were edited since, so that neither is possible without
            losing an edit; they are named, and nothing is touched.

    """
    journal = journals.load_journal(tree.home)
    with _as_tree_error(tree):
        if journal is not None and journal.phase == "elsewhere":
            home = files.inside(tree.root, journal.homes[0])
            recovered = recover(replace(tree, home=home, dist_info=home)) if home.is_dir() else None
            _close(tree)
            return recovered
        if journal is None:
            scratch = files.scratch_of(tree.home / journals.NAME)
            if os.path.lexists(scratch):  # killed before the journal was whole
                _close(tree)
            _remove_home(tree)
            return None
        places = [Place(tree, operation) for operation in journal.operations]
        for folder in journal.folders:
            files.inside(tree.root, folder)
        for home_name in journal.homes:
            files.inside(tree.root, home_name)
        if journal.phase == "commit" and not journal.homes and _is_reinstalled(places):
            journal.enter("done", tree.home)
        elif journal.phase == "commit" and _can_finish(places):
            with contextlib.suppress(TreeError):  # changed this very moment: undone below
                _put_in_place(tree, journal, places)
        if journal.phase == "done":
            _finish(tree, journal, places)
            return "finished"
        _roll_back(tree, journal, places)
        return "undone"


def _is_reinstalled(places: Sequence[Place]) -> bool:
    """Whether the package manager wrote a RECORD of its own: the files it lists are there."""
    return any(
        place.operation.name == "RECORD"
        and place.operation.base is Base.HOME
        and place.found() not in ("", place.operation.before, place.operation.after)
        for place in places
    )


def _can_finish(places: Sequence[Place]) -> bool:
    """Whether the renames that are left can be done; if not, those that were can be undone.

    Raises:
        TreeError: neither is possible, because a new content was edited.

    """
    edited = [place for place in places if place.is_edited]
    if not edited or not any(place.is_pending for place in places):
        return True
    lost = [
        str(place.target)
        for place in edited
        if not place.is_pending and place.found() != place.operation.before
    ]
    if lost:
        raise TreeError(
            f"these files were edited while the tree was half patched: {', '.join(lost)}",
            remedy="keep the edits elsewhere, put back what was there before (.NAME.pkgtools-old "
            "beside each file; delete one that has none) and run `pkgtools recover` again",
        )
    return False


def _put_in_place(tree: Tree, journal: Journal, places: Sequence[Place]) -> None:
    for place in places:
        if place.is_edited and place.is_pending:  # once more: the last moment to see it
            raise _changed(place)
        place.commit()
    folders.sync(place.target.parent for place in places)
    for place in places:
        if place.is_edited_late:
            raise _changed(place)
    journal.enter("done", tree.home)


def _stage(write: Write, place: Place) -> None:
    """Put the old and the new content beside the file."""
    status = None
    if write.before is not None:
        status = place.target.lstat()
        _keep_old(place)
    if write.after is None:
        return
    if write.after.mode == SYMLINK:
        place.new.symlink_to(os.fsdecode(write.after.data))
    else:
        files.write_new(place.new, write.after.data, _permissions(write, status))
    folders.give_owner(place.new, status or place.new.parent.stat())
    if write.after.mode == SYMLINK:
        return
    if write.mtime_ns is not None:
        os.utime(place.new, ns=(write.mtime_ns, write.mtime_ns))
    elif status is not None and int(place.new.stat().st_mtime) == int(status.st_mtime):
        # Python tells stale bytecode by size and whole seconds of the source's mtime.
        later = (int(status.st_mtime) + 1) * 10**9
        os.utime(place.new, ns=(later, later))


def _keep_old(place: Place) -> None:
    """Keep the very file, with its mode, owner and links; copy it where links cannot be made."""
    try:
        os.link(place.target, place.old, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copy2(place.target, place.old, follow_symlinks=False)


def _permissions(write: Write, status: os.stat_result | None) -> int:
    if write.permissions is not None:
        return write.permissions
    usual = 0o755 if write.after and write.after.mode == EXECUTABLE else 0o644
    if status is None or write.before is None or write.before.mode == SYMLINK:
        return usual
    old = stat.S_IMODE(status.st_mode)
    if write.after is None or write.after.mode == write.before.mode:
        return old
    readers = (old & 0o444) >> 2
    return old | readers if write.after.mode != REGULAR else old & ~0o111


def _refuse_leftovers(places: Sequence[Place]) -> None:
    """Refuse to write over what lies beside a file without a journal that says what it is."""
    beside = [path for place in places for path in (place.new, place.old)]
    found = [str(path) for path in beside if os.path.lexists(path)]
    if found:
        raise TreeError(
            f"in the way, of a run that was killed and whose journal is gone: {', '.join(found)}",
            remedy="compare each with the file beside it, delete it, and run this again",
        )


def _refuse_miswritten(places: Sequence[Place]) -> None:
    """Read back what was written, while the tree still is as it was."""
    for place in places:
        if place.operation.after:
            blob = read_file(place.new)
            if blob is None or blob.id != place.operation.after:
                raise TreeError(
                    f"what was written for {place.target} reads back as something else",
                    remedy="check the disk and its file system; the tree is as it was",
                )


def _refuse_edited(places: Sequence[Place]) -> None:
    edited = [p for p in places if not p.operation.is_cache and p.found() != p.operation.before]
    if edited:
        raise _changed(edited[0])


def _changed(place: Place) -> TreeError:
    return TreeError(
        f"{place.target} was changed while it was being patched; all else is as it was",
        remedy="run the command again when nothing else writes to the tree",
    )


def _roll_back(tree: Tree, journal: Journal, places: Sequence[Place]) -> None:
    """Make the tree what it was; safe to repeat."""
    if journal.phase != "prepare":
        with contextlib.suppress(OSError):  # a full disk: it goes without, unless killed now
            journal.enter("undo", tree.home)
        for place in reversed(places):
            place.undo()
    for place in places:
        place.clear()
    for folder in reversed(journal.folders):
        with contextlib.suppress(OSError):  # not empty: someone else uses it
            (tree.root / folder).rmdir()
    _close(tree, journal)


def _finish(tree: Tree, journal: Journal, places: Sequence[Place]) -> None:
    for place in places:
        place.clear()
    for place in places:
        if not place.operation.after and place.operation.base is Base.TREE:
            folders.prune(tree.root, place.target.parent)
    _close(tree, journal)


def _close(tree: Tree, journal: Journal | None = None) -> None:
    """Remove the journal, then those that refer to it: the transaction is over."""
    others = [tree.root / home for home in journal.homes] if journal else []
    for home in (tree.home, *others):
        path = home / journals.NAME
        files.scratch_of(path).unlink(missing_ok=True)
        path.unlink(missing_ok=True)
    _remove_home(tree)


def _remove_home(tree: Tree) -> None:
    if tree.dist_info is None:  # else it is the package manager's
        folders.remove_home(tree.home)


@contextlib.contextmanager
def _as_tree_error(tree: Tree) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TreeError(
            f"{error.filename or tree.root} cannot be written: {error.strerror}",
            remedy="free space or get the right to write there, and run the command again; "
            "`pkgtools status` says what the tree is",
        ) from error
