"""The folders of a transaction: made for new files, removed when the last one goes."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from pkgtools.transaction.journal import Base, Operation
from pkgtools.util.files import sync_folder


def missing(root: Path, operations: Sequence[Operation]) -> list[str]:
    """Return the folders that new files need, relative to `root`, outermost first."""
    needed: set[str] = set()
    for operation in operations:
        if not operation.after or operation.base is not Base.TREE:
            continue
        folder = (root / operation.name).parent
        while not os.path.lexists(folder):
            needed.add(folder.relative_to(root).as_posix())
            folder = folder.parent
    return sorted(needed)


def make(path: Path) -> None:
    """Make a folder that belongs to whom the one around it does."""
    path.mkdir()
    give_owner(path, path.parent.stat())


def make_home(home: Path) -> None:
    """Make the folder of a receipt, and those around it that are missing."""
    wanted = [folder for folder in (home, *home.parents) if not folder.exists()]
    for folder in reversed(wanted):
        make(folder)


def remove_home(home: Path) -> None:
    """Remove the folder of a receipt, and those around it that are ours, once they are empty."""
    for folder in (home, *home.parents):
        try:
            folder.rmdir()
        except FileNotFoundError:
            pass
        except OSError:  # it holds a receipt, or another tree's
            return
        if folder.name in (".pkgtools", "pkgtools"):
            return


def prune(root: Path, folder: Path) -> None:
    """Remove folders that a deletion left empty, as git does."""
    while folder != root:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


def sync(paths: Iterable[Path]) -> None:
    """Have the entries of folders on disk."""
    for folder in sorted(set(paths)):
        if folder.is_dir():
            sync_folder(folder)


def give_owner(path: Path, like: os.stat_result) -> None:
    """As root, give a path to whom the old one, or its folder, belongs."""
    mine = path.lstat()
    # Without this, `sudo pkgtools apply` would leave files of root in a user's environment.
    if os.geteuid() == 0 and (mine.st_uid, mine.st_gid) != (like.st_uid, like.st_gid):
        os.chown(path, like.st_uid, like.st_gid, follow_symlinks=False)
