"""The only code that writes to a user's trees: all of it, or nothing, at any instant.

1. The journals say *prepare*: which files, from which content to which.
2. Beside every file its new content is written and its old one linked. From
   here on no more space is needed.
3. The leader's journal says *commit*. Renames put every new content in place.
4. The leader's journal says *done*. The old links go, then the journals, the leader's last.

Killed before 3, the next run in any of the trees removes what lies beside; killed after it,
the next run does the renames that are left. Where that is not possible any more the journal
says *undo*, and the old links are put back. A file is replaced, never written in place:
package managers link one cached file into many environments.

A transaction over several trees is decided by one rename: that of the leader's journal to
*commit*. The journals of the others refer to it and never change (a two-phase commit that
presumes abort: without a leader, what was begun is undone).
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from pkgtools.errors import TreeError
from pkgtools.source import Source, Tree
from pkgtools.transaction import folders
from pkgtools.transaction import journal as journals
from pkgtools.transaction.journal import Base, Journal, StagedFile
from pkgtools.transaction.part import Part, load_parts, reference
from pkgtools.transaction.stage import Write, stage
from pkgtools.util import files
from pkgtools.util.files import read_file
from pkgtools.util.progress import Reporter


@contextlib.contextmanager
def locked(trees: Sequence[Tree], reporter: Reporter) -> Iterator[None]:
    """Keep every other pkgtools away from trees, and from those of a killed run's transaction."""
    wanted = {tree.root for tree in trees}
    while True:
        with contextlib.ExitStack() as stack:
            for root in sorted(wanted):  # in one order, so that two runs never wait in a circle
                with _as_tree_error(root):
                    stack.enter_context(_lock(root, reporter))
            # A killed run's transaction can bind trees that this run did not name.
            bound = {part.tree.root for tree in trees for part in load_parts(tree)}
            if bound <= wanted:
                yield
                return
        wanted |= bound


@contextlib.contextmanager
def reading(sources: Iterable[Source | None], reporter: Reporter) -> Iterator[None]:
    """Keep every other pkgtools from writing to trees; several runs can read them at once.

    A tree that cannot be locked, as on a file system without flock(2), is read without a lock:
    no other run can lock it to write there either.
    """
    with contextlib.ExitStack() as stack:
        for root in sorted({each.root for each in sources if isinstance(each, Tree)}):
            with contextlib.suppress(OSError):
                stack.enter_context(_lock(root, reporter, shared=True))
        yield


def _lock(root: Path, reporter: Reporter, *, shared: bool = False) -> AbstractContextManager[None]:
    waiting = partial(reporter.task, f"waiting for another pkgtools run on {root}")
    return files.locked_folder(root, waiting, shared=shared)


def commit(changes: Sequence[tuple[Tree, Sequence[Write]]]) -> None:
    """Do all writes, in order, or none.

    Args:
        changes: the trees, each with its writes; the first one leads.

    Raises:
        TreeError: a tree cannot be written, or a file changed meanwhile; all are as they were.
    """
    if not changes:
        return
    with _as_tree_error(changes[0][0].root):
        parts = _new_parts(changes)
        _refuse_leftovers(parts)
        try:
            _prepare(parts, [write for _, writes in changes for write in writes])
            parts[0].journal.enter("commit", parts[0].tree.home)
            _put_in_place(parts)
        # KeyboardInterrupt and SystemExit, too, must not leave a half-patched tree.
        except BaseException:
            _roll_back(parts)
            raise
        _finish(parts)


def _new_parts(changes: Sequence[tuple[Tree, Sequence[Write]]]) -> list[Part]:
    """Return the parts of a new transaction, with journals that are not on disk yet."""
    leader, *others = [tree for tree, _ in changes]
    # Distinguishes this journal from one that an earlier transaction left in another tree.
    number = os.urandom(8).hex() if others else ""
    parts: list[Part] = []
    made: set[Path] = set()
    for tree, writes in changes:
        operations = [write.operation() for write in writes]
        missing = folders.missing(tree.root, operations)
        is_leader = tree is leader
        journal = Journal(
            format=1,
            phase="prepare" if is_leader else "led",
            operations=operations,
            folders=[name for name in missing if tree.root / name not in made],
            id=number,
            trees=[reference(tree, other) for other in (others if is_leader else [leader])],
        )
        made |= {tree.root / name for name in missing}
        parts.append(Part(tree, journal))
    return parts


def _prepare(parts: Sequence[Part], writes: Sequence[Write]) -> None:
    for part in parts:
        folders.make_home(part.tree.home)
        part.journal.enter(part.journal.phase, part.tree.home)
    for part in parts:
        for folder in part.journal.folders:
            folders.make(part.tree.root / folder)
    staged = _files(parts)
    for write, file in zip(writes, staged, strict=True):
        stage(write, file)
    # fsync(2) of a file does not make its directory entry durable.
    folders.sync(file.target.parent for file in staged)
    _refuse_miswritten(staged)
    for file in staged:
        # Editors do not take the tree lock: compare again with what the plan read.
        if not file.operation.is_cache and file.found() != file.operation.before:
            raise _changed(file)


def _files(parts: Iterable[Part]) -> list[StagedFile]:
    return [file for part in parts for file in part.files]


def recover(tree: Tree) -> str | None:
    """Finish or undo what an earlier run was killed in; the lock is the caller's.

    Returns:
        "finished" or "undone", or None where there was nothing to do.

    Raises:
        TreeError: files were edited since, so that neither is possible without
            losing an edit; they are named, and nothing is touched.
    """
    with _as_tree_error(tree.root):
        parts = load_parts(tree)
        if not parts:
            if os.path.lexists(files.scratch_of(tree.home / journals.NAME)):
                _close(tree)  # killed before the journal was whole
            _remove_home(tree)
            return None
        leader, staged = parts[0], _files(parts)
        for part in parts:
            for folder in part.journal.folders:
                # Raises if a folder has become a symbolic link: nothing outside the tree is
                # removed.
                files.inside(part.tree.root, folder)
        if leader.journal.phase == "commit":
            # The package manager's files are right; the renames that are left would spoil them.
            if len(parts) == 1 and _is_reinstalled(staged):
                leader.journal.enter("done", leader.tree.home)
            elif _can_finish(staged):
                with contextlib.suppress(TreeError):  # changed this very moment: undone below
                    _put_in_place(parts)
        if leader.journal.phase == "done":
            _finish(parts)
            return "finished"
        _roll_back(parts)
        return "undone"


def _is_reinstalled(staged: Sequence[StagedFile]) -> bool:
    """Whether the package manager wrote a RECORD of its own: the files it lists are there."""
    return any(
        file.operation.name == "RECORD"
        and file.operation.base is Base.HOME
        and file.found() not in ("", file.operation.before, file.operation.after)
        for file in staged
    )


def _can_finish(staged: Sequence[StagedFile]) -> bool:
    """Whether the renames that are left can be done; if not, those that were can be undone."""
    edited = [file for file in staged if file.is_edited]
    if not edited or not any(file.is_pending for file in staged):
        return True
    lost = [
        str(file.target)
        for file in edited
        if not file.is_pending and file.found() != file.operation.before
    ]
    if lost:
        raise TreeError(
            f"these files were edited while the tree was half patched: {', '.join(lost)}",
            remedy="keep the edits elsewhere, put back what was there before (.NAME.pkgtools-old "
            "beside each file; delete one that has none) and run `pkgtools recover` again",
        )
    return False


def _put_in_place(parts: Sequence[Part]) -> None:
    staged = _files(parts)
    for file in staged:
        if file.is_edited and file.is_pending:  # once more: the last moment to see it
            raise _changed(file)
        file.commit()
    folders.sync(file.target.parent for file in staged)
    for file in staged:
        # A process that had the old file open still writes to its inode after the rename.
        if file.is_edited_late:
            raise _changed(file)
    parts[0].journal.enter("done", parts[0].tree.home)


def _refuse_leftovers(parts: Sequence[Part]) -> None:
    """Refuse to write over what lies beside a file without a journal that says what it is."""
    staged = _files(parts)
    beside = [path for file in staged for path in (file.new, file.old)]
    found = [str(path) for path in beside if os.path.lexists(path)]
    if found:
        raise TreeError(
            f"left by a killed run whose journal is gone: {', '.join(found)}",
            remedy="compare each with the file beside it, delete it, and run this again",
        )
    targets = [file.target for file in staged]
    twice = sorted({str(path) for path in targets if targets.count(path) > 1})
    if twice:
        raise TreeError(
            f"two of the packages have the same files: {', '.join(twice)}",
            remedy="apply the targets one after the other",
        )


def _refuse_miswritten(staged: Sequence[StagedFile]) -> None:
    """Read back what was written, while the tree still is as it was."""
    for file in staged:
        if file.operation.after:
            blob = read_file(file.new)
            if blob is None or blob.id != file.operation.after:
                raise TreeError(
                    f"the new content of {file.target} reads back differently",
                    remedy="check the disk and its file system; the tree is as it was",
                )


def _changed(file: StagedFile) -> TreeError:
    return TreeError(
        f"{file.target} was changed while it was being patched; all else is as it was",
        remedy="run the command again when nothing else writes to the tree",
    )


def _roll_back(parts: Sequence[Part]) -> None:
    """Make the trees what they were; safe to repeat."""
    leader = parts[0]
    if leader.journal.phase != "prepare":
        with contextlib.suppress(OSError):  # a full disk: it goes without, unless killed now
            leader.journal.enter("undo", leader.tree.home)
        for file in reversed(_files(parts)):
            file.undo()
    for file in _files(parts):
        file.clear()
    for part in reversed(parts):
        for folder in reversed(part.journal.folders):
            with contextlib.suppress(OSError):  # not empty: someone else uses it
                (part.tree.root / folder).rmdir()
    _close_all(parts)


def _finish(parts: Sequence[Part]) -> None:
    for file in _files(parts):
        file.clear()
    for part in parts:
        for file in part.files:
            if not file.operation.after and file.operation.base is Base.TREE:
                folders.prune(part.tree.root, file.target.parent)
    _close_all(parts)


def _close_all(parts: Sequence[Part]) -> None:
    """Remove the journals, the leader's last: without it, the others would be undone."""
    for part in reversed(parts):
        _close(part.tree)


def _close(tree: Tree) -> None:
    path = tree.home / journals.NAME
    files.scratch_of(path).unlink(missing_ok=True)
    path.unlink(missing_ok=True)
    _remove_home(tree)


def _remove_home(tree: Tree) -> None:
    if tree.dist_info is None:  # else it is the package manager's
        folders.remove_home(tree.home)


@contextlib.contextmanager
def _as_tree_error(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TreeError(
            f"{error.filename or root} cannot be written: {error.strerror}",
            remedy="free space or get the right to write there, and run the command again; "
            "`pkgtools status` shows the state of the tree",
        ) from error
