"""Files, read without following a link and written whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import time
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, BinaryIO, Final

from pkgtools.blob import DIRECTORY, SYMLINK, Blob, canonical_mode
from pkgtools.errors import TreeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

_LOCK_SECONDS: Final = 600


def inside(root: Path, name: str) -> Path:
    """Return a path below `root` that no symbolic link leads away from.

    Raises:
        TreeError: a folder on the way is one, or the path is not below `root`.

    """
    path = root / name
    for parent in path.parents:
        if parent == root:
            return path
        if parent.is_symlink():
            raise TreeError(
                f"{parent} is a symbolic link: nothing is read or written through it",
                remedy="give the folder that it leads to with --tree",
            )
    raise TreeError(f"{path} is not inside {root}")


def read_file(path: Path) -> Blob | None:
    """Return what is at `path`, not following a symbolic link there."""
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            return Blob(os.fsencode(path.readlink()), SYMLINK)
        if stat.S_ISDIR(status.st_mode):
            return Blob(b"", DIRECTORY)
        if not stat.S_ISREG(status.st_mode):
            raise TreeError(f"{path} is neither a file nor a symbolic link")
        return Blob(path.read_bytes(), canonical_mode(status.st_mode))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise TreeError(f"{path} cannot be read: {error.strerror}") from None


def sha256(path: Path) -> str:
    """Return a file's SHA-256, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def replace_file(path: Path, data: bytes) -> None:
    """Write `path` whole or not at all, and have it on disk before returning."""
    scratch = scratch_of(path)
    scratch.unlink(missing_ok=True)
    try:
        write_new(scratch, data, 0o644)
        scratch.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            scratch.unlink()
        raise
    sync_folder(path.parent)


@contextlib.contextmanager
def replacing(path: Path, remedy: str) -> Iterator[BinaryIO]:
    """Yield a file that takes the place of `path` at the end: whole or not at all.

    For what is too big to be held in memory; it may still be on its way to the disk.
    Of several runs that write `path` at once, the last to end has it. A link stays,
    and what it leads to is replaced.

    Raises:
        TreeError: it cannot be written, or is no file; with `remedy`.

    """
    target = Path(os.path.realpath(path))
    scratch = target.with_name(f".{os.urandom(8).hex()}.pkgtools-new")  # short beside any name
    try:
        if reason := in_the_way(path):
            raise TreeError(f"{path} cannot be written: {reason}", remedy=remedy)
        target.parent.mkdir(parents=True, exist_ok=True)
        with scratch.open("xb") as file:
            yield file
        scratch.replace(target)
    except OSError as error:
        raise TreeError(f"{path} cannot be written: {error.strerror}", remedy=remedy) from None
    finally:
        with contextlib.suppress(OSError):  # it is in place, or was never made
            scratch.unlink()


def in_the_way(path: Path) -> str | None:
    """Return why no file takes the place of what is at `path`; None where one can."""
    if not path.exists() or path.is_file():
        return None
    return "it is a folder" if path.is_dir() else "it is no file"  # as /dev/null is


def no_temporary_files(error: OSError) -> TreeError:
    """Return the refusal where the folder for temporary files cannot be written."""
    return TreeError(
        f"the folder for temporary files {gettempdir()} cannot be written: {error.strerror}",
        remedy="free space there, or set TMPDIR to another folder",
    )


def scratch_of(path: Path) -> Path:
    """Return where `path`'s next content is written before it is put in place."""
    return path.with_name(f".{path.name}.pkgtools-new")


def write_new(path: Path, data: bytes, permissions: int) -> None:
    """Create a file that must not exist, with content that is on disk before returning."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with open(os.open(path, flags, stat.S_IMODE(permissions)), "wb") as file:  # noqa: PTH123
        file.write(data)
        file.flush()
        os.fchmod(file.fileno(), stat.S_IMODE(permissions))
        os.fsync(file.fileno())


@contextlib.contextmanager
def locked_folder(
    folder: Path, waiting: Callable[[], AbstractContextManager[None]]
) -> Iterator[None]:
    """Keep every other pkgtools that asks for the same out of a folder.

    The lock is on the folder itself (flock(2)): it leaves no file behind, goes
    with the process, and works where nothing can be written.

    Args:
        folder: which.
        waiting: returns a context that lasts as long as another run holds it.

    Raises:
        OSError: the folder cannot be opened.
        TreeError: another run holds it for too long.

    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not _try_lock(descriptor):
            with waiting():
                _wait_for_lock(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait_for_lock(descriptor: int, folder: Path) -> None:
    end = time.monotonic() + _LOCK_SECONDS
    while not _try_lock(descriptor):
        if time.monotonic() > end:
            raise TreeError(
                f"another pkgtools run has held {folder} for {_LOCK_SECONDS} s",
                remedy="see what it is doing, end it, and run this again",
            )
        time.sleep(0.05)


def sync_folder(folder: Path) -> None:
    """Have a folder's entries on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
