"""Checked reads and atomic writes.

Anyone who can write to a tree or a catalog can put a FIFO, a link to a device or a sparse file
of 200 GB where pkgtools expects a small text. Every read of such a file goes through
`read_bytes`, `read_text` or `read_file`, which check the type and the size first.
"""

import contextlib
import errno
import fcntl
import glob
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from io import FileIO
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import BinaryIO, Final

from pkgtools.blob import DIRECTORY, LIMIT, SYMLINK, Blob, canonical_mode
from pkgtools.errors import MalformedError, TreeError

_SCRATCH: Final = ".pkgtools-new"
_LOCK_SECONDS: Final = 600
_CHUNK: Final = 64 * 1024


def inside(root: Path, name: str) -> Path:
    """Return the path `name` below `root`."""
    path = root / name
    for parent in path.parents:
        if parent == root:
            return path
        if parent.is_symlink():
            raise TreeError(
                f"{parent} is a symbolic link: pkgtools neither reads nor writes through it",
                remedy="give the folder that it points to with --tree",
            )
    raise TreeError(f"{path} is not inside {root}")


def open_regular(path: Path, flags: int = 0) -> FileIO:
    """Open a regular file for reading, unbuffered; links are followed.

    Opening a FIFO blocks until it has a writer, so the file is opened with O_NONBLOCK, which
    changes nothing for a regular file.

    Raises:
        OSError: it cannot be opened, or is not a regular file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | flags)
    except ValueError as error:  # the name holds NUL
        raise OSError(errno.EINVAL, str(error), os.fspath(path)) from None
    kind = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(kind):
        os.close(descriptor)
        is_folder = stat.S_ISDIR(kind)
        number = errno.EISDIR if is_folder else errno.EINVAL
        reason = os.strerror(number) if is_folder else "Not a regular file"
        raise OSError(number, reason, os.fspath(path))
    return open(descriptor, "rb", buffering=0)  # noqa: PTH123 - a descriptor


def read_bytes(path: Path, flags: int = 0) -> bytes:
    """Return the content of a regular file of at most `LIMIT` bytes; links are followed.

    Raises:
        OSError: it cannot be read, is not a regular file, or is larger.
    """
    with open_regular(path, flags) as file:
        size = os.fstat(file.fileno()).st_size
        left = LIMIT + 1
        parts: list[bytes] = []
        # The size is a hint: files of /proc have 0, and some of them never end.
        try:
            while size <= LIMIT and left and (part := file.read(min(max(size, _CHUNK), left))):
                parts.append(part)
                size = 0
                left -= len(part)
        except OSError as error:  # read(2) does not know the name
            raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    if size > LIMIT or not left:
        raise OSError(errno.EFBIG, f"Larger than {LIMIT} bytes", os.fspath(path))
    return b"".join(parts)


def read_source(path: Path) -> bytes:
    """Return the content of a file of a catalog; see `read_bytes`.

    Raises:
        MalformedError: it cannot be read.
    """
    try:
        return read_bytes(path)
    except OSError as error:
        raise MalformedError(
            f"{path} cannot be read: {error.strerror}", remedy="make it a readable file"
        ) from None


def read_text(path: Path) -> str:
    """Return the content of a UTF-8 file; see `read_bytes`.

    Raises:
        FileNotFoundError: it does not exist.
        MalformedError: it cannot be read.
    """
    try:
        return read_bytes(path).decode()
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise MalformedError(
            f"{path} cannot be read: {error}", remedy="make it a readable file in UTF-8"
        ) from None


def read_file(path: Path) -> Blob | None:
    """Return the file, link or folder at `path`, or None; a link is not followed."""
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            return Blob(os.fsencode(path.readlink()), SYMLINK)
        if stat.S_ISDIR(status.st_mode):
            return Blob(b"", DIRECTORY)
        return Blob(read_bytes(path, os.O_NOFOLLOW), canonical_mode(status.st_mode))
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a name with NUL
        return None
    except OSError as error:
        raise TreeError(f"{path} cannot be read: {error.strerror}") from None


def sha256(path: Path) -> str:
    """Return the SHA-256 of a regular file of any size, hexadecimal.

    Raises:
        OSError: it cannot be read, or is not a regular file.
    """
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def replace_file(path: Path, data: bytes, scratch: Path | None = None) -> None:
    """Replace the content of `path` atomically, and sync it to disk.

    If several runs write it at once, the last one to end wins. The content is written to
    `scratch` first: by default a name that no other run has. A caller that names it holds a lock,
    and removes what a killed run left there.
    """
    if scratch is None:
        scratch = _own_scratch(path)
    else:
        scratch.unlink(missing_ok=True)
    try:
        write_new(scratch, data, 0o644)
        # POSIX: rename() replaces atomically, but only within one file system.
        scratch.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            scratch.unlink()
        raise
    sync_folder(path.parent)


@contextlib.contextmanager
def replacing(path: Path, remedy: str) -> Iterator[BinaryIO]:
    """Yield a new file that replaces `path` when the context ends without an error.

    For content that does not fit into memory. It is not synced to disk. If several runs write
    `path` at once, the last one to end wins. A symbolic link is kept, and its target replaced.
    """
    target = Path(os.path.realpath(path))
    scratch = _own_scratch(target)
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


@contextlib.contextmanager
def new_folder(folder: Path, remedy: str) -> Iterator[Path]:
    """Yield a scratch folder that becomes `folder` when the context ends without an error.

    The folder is there whole or not at all. A scratch folder that a killed run left is removed:
    runs that make folders beside each other take turns.

    Raises:
        TreeError: it cannot be made; with `remedy`.
        OSError: a folder with files appeared in its place.
    """
    with contextlib.ExitStack() as stack:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked_folder(folder.parent, contextlib.nullcontext))
            for left in folder.parent.glob(f".{glob.escape(folder.name)}.*{_SCRATCH}"):
                shutil.rmtree(left, ignore_errors=True)
            made = mkdtemp(prefix=f".{folder.name}.", suffix=_SCRATCH, dir=folder.parent)
        except OSError as error:
            raise TreeError(
                f"{folder} cannot be written: {error.strerror}", remedy=remedy
            ) from None
        scratch = Path(made)
        try:
            scratch.chmod(0o755)  # mkdtemp(3) makes folders that only their owner can enter
            yield scratch
            sync_folder(scratch)
            if folder.is_dir():
                folder.rmdir()
            os.rename(scratch, folder)  # noqa: PTH104 - fails where a folder with files appeared
            sync_folder(folder.parent)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise


def in_the_way(path: Path) -> str | None:
    """Return why `path` cannot be replaced by a file, or None.

    A device as /dev/null must stay one.
    """
    if not path.exists() or path.is_file():
        return None
    return "it is a folder" if path.is_dir() else "it is not a regular file"


def no_temporary_files(error: OSError) -> TreeError:
    """Return the error for a folder of temporary files that cannot be written."""
    return TreeError(
        f"the folder for temporary files {gettempdir()} cannot be written: {error.strerror}",
        remedy="free space there, or set TMPDIR to another folder",
    )


def scratch_of(path: Path) -> Path:
    """Return where new content of `path` is written before it is renamed."""
    return path.with_name(f".{path.name}{_SCRATCH}")


def _own_scratch(path: Path) -> Path:
    return path.with_name(f".{os.urandom(8).hex()}{_SCRATCH}")  # short beside any name


def put_blob(path: Path, blob: Blob) -> None:
    """Write a file or link that does not exist into a scratch folder; it is not synced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if blob.mode == SYMLINK:
        path.symlink_to(os.fsdecode(blob.data))
        return
    path.write_bytes(blob.data)
    path.chmod(blob.permissions)


def write_new(path: Path, data: bytes, permissions: int) -> None:
    """Create a file, and sync it to disk; fail if it exists."""
    # O_EXCL also refuses a dangling symbolic link, through which another file would be made.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with open(os.open(path, flags, stat.S_IMODE(permissions)), "wb") as file:  # noqa: PTH123
        file.write(data)
        file.flush()
        # open(2) applies the umask, and fchmod(2) does not.
        os.fchmod(file.fileno(), stat.S_IMODE(permissions))
        os.fsync(file.fileno())


@contextlib.contextmanager
def locked_folder(
    folder: Path, waiting: Callable[[], AbstractContextManager[None]], *, shared: bool = False
) -> Iterator[None]:
    """Keep every other pkgtools that asks for the same out of a folder.

    The lock is on the folder itself (flock(2)): it leaves no file behind, goes with the process,
    and works where nothing can be written. Those that ask for a shared one get in together. The
    context of `waiting` lasts as long as another run holds it.

    Raises:
        OSError: the folder cannot be opened.
        TreeError: another run holds it for too long.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not _try_lock(descriptor, kind):
            with waiting():
                _wait_for_lock(descriptor, kind, folder)
        yield
    finally:
        # Closing the descriptor ends the lock, and so does the end of the process.
        os.close(descriptor)


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait_for_lock(descriptor: int, kind: int, folder: Path) -> None:
    # flock(2) has no timeout of its own.
    end = time.monotonic() + _LOCK_SECONDS
    while not _try_lock(descriptor, kind):
        if time.monotonic() > end:
            raise TreeError(
                f"another pkgtools run has held {folder} for {_LOCK_SECONDS} s",
                remedy="see what it is doing, end it, and run this again",
            )
        time.sleep(0.05)


def sync_folder(folder: Path) -> None:
    """Sync the entries of a folder to disk."""
    # fsync(2) of a file does not make its directory entry last: that needs one of the folder.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
