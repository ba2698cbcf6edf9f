"""Writes to a catalog: all files of a command or none, and one command at a time.

A commit has these steps, each on disk before the next::

    1. write the new contents       .pkgtools-writes/0, .pkgtools-writes/1, ...
    2. write the journal            .pkgtools-writes/journal.json
    3. put the contents in place    patches/sglang/v0.5.23/lock.toml, ...
    4. remove the journal

Killed before the end of step 2, every file is the old one. Killed later, the next command that
reads or writes the catalog does steps 3 and 4 again: both can be repeated.
"""

import contextlib
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Final, Literal

import msgspec

from pkgtools.blob import Blob
from pkgtools.errors import MalformedError, TreeError, UsageError
from pkgtools.util.files import (
    locked_folder,
    read_bytes,
    read_file,
    replace_file,
    sync_folder,
    write_new,
)
from pkgtools.util.progress import Reporter

_FOLDER: Final = ".pkgtools-writes"
_JOURNAL: Final = "journal.json"
PACKAGED: Final = Path(__file__).resolve().parents[1] / "_catalog"
"""The catalog in an installed pkgtools; an editable install does not have it."""
COPY: Final = f"copy it, and use the copy: `cp -r {shlex.quote(str(PACKAGED))} catalog`"


class _Write(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    """Relative to the catalog's folder."""
    content: Annotated[str, msgspec.Meta(pattern=r"^[0-9]+\Z")] | None
    """The name of the new content; None removes the file."""


class _Journal(msgspec.Struct, forbid_unknown_fields=True):
    version: Literal[1]
    writes: Annotated[list[_Write], msgspec.Meta(min_length=1)]


@contextlib.contextmanager
def locked_catalog(folder: Path, reporter: Reporter | None = None) -> Iterator[None]:
    """Keep out other commands that write to the catalog, and finish what a killed one began.

    The reporter is told while another command holds the lock.
    """
    text = f"waiting for another pkgtools run on {folder}"
    waiting = partial(reporter.task, text) if reporter else contextlib.nullcontext
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked_folder(folder, waiting))
        except OSError as error:
            raise TreeError(
                f"{folder} cannot be locked: {error.strerror}",
                remedy="give the folder of a catalog that you can read",
            ) from None
        _finish(folder)
        yield


def recover_catalog(folder: Path) -> None:
    """Finish the writes of a command that was killed."""
    if (folder / _FOLDER / _JOURNAL).exists():
        with locked_catalog(folder):
            pass


def write_catalog(folder: Path, files: Mapping[Path, Blob | None]) -> list[Path]:
    """Write files of a catalog, all or none, and return those that change; None removes a file.

    The caller holds `locked_catalog`. An error before step 3 leaves every file as it was.
    """
    changed = {path: blob for path, blob in files.items() if read_file(path) != blob}
    if not changed:
        return []
    refuse_packaged(folder)
    try:
        _prepare(folder, changed)
    except BaseException as error:
        shutil.rmtree(folder / _FOLDER, ignore_errors=True)
        if not isinstance(error, OSError):
            raise
        raise TreeError(
            f"{folder} cannot be written: {error.strerror}; no file was changed",
            remedy="free space there, or make the folder writable, and run the command again",
        ) from None
    _finish(folder)
    return list(changed)


def is_packaged(path: Path) -> bool:
    """Whether a path is in the packaged catalog."""
    return path.resolve().is_relative_to(PACKAGED)


def refuse_packaged(folder: Path) -> None:
    """Refuse to write to the packaged catalog."""
    if is_packaged(folder):
        raise UsageError(
            f"{folder} is in the installed pkgtools: its next upgrade would undo the change",
            remedy=f"{COPY}, then run the command again with --catalog catalog",
        )


def _prepare(folder: Path, files: Mapping[Path, Blob | None]) -> None:
    scratch = folder / _FOLDER
    scratch.mkdir()
    writes = []
    for number, (path, blob) in enumerate(files.items()):
        there = next(folder for folder in path.parents if folder.exists())
        if not os.access(there, os.W_OK):  # before step 3, not in it
            raise PermissionError(13, os.strerror(13))
        content = None
        if blob is not None:
            content = str(number)
            write_new(scratch / content, blob.data, blob.permissions)
        name = os.path.relpath(path.absolute(), folder.absolute())
        _inside(folder, name)
        writes.append(_Write(name, content))
    sync_folder(scratch)
    replace_file(scratch / _JOURNAL, msgspec.json.encode(_Journal(1, writes)))
    sync_folder(folder)


def _inside(folder: Path, name: str) -> Path:
    """Return a path below `folder`: a catalog from anywhere must not write outside itself."""
    path = folder / name
    parts = PurePosixPath(name).parts
    if "\0" in name or not parts or parts[0] == "/" or ".." in parts:
        raise TreeError(
            f"{path} is outside {folder}: the catalog is not written",
            remedy=f"remove {folder / _FOLDER}, and see what differs with `git status`",
        )
    for parent in path.parents[: len(parts) - 1]:
        if parent.is_symlink():
            raise TreeError(
                f"{parent} is a symbolic link: the catalog is not written through it",
                remedy="put a folder in its place",
            )
    return path


def _finish(folder: Path) -> None:
    """Do steps 3 and 4 of the journal; drop contents that have none."""
    scratch = folder / _FOLDER
    path = scratch / _JOURNAL
    if scratch.is_symlink():
        raise MalformedError(f"{scratch} is a symbolic link", remedy="remove it")
    if not path.exists():
        shutil.rmtree(scratch, ignore_errors=True)
        return
    try:
        journal = msgspec.json.decode(read_bytes(path), type=_Journal)
    except msgspec.DecodeError as error:
        raise MalformedError(
            f"{path} is damaged: {error}",
            remedy=f"remove {scratch}, and see what differs with `git status`",
        ) from None
    try:
        for write in journal.writes:
            _put(_inside(folder, write.path), scratch / write.content if write.content else None)
        path.unlink()
        sync_folder(scratch)
        scratch.rmdir()
    except OSError as error:
        raise TreeError(
            f"{folder} cannot be written: {error.strerror}",
            remedy="make it writable and run the command again: it finishes the writes first",
        ) from None


def _put(target: Path, content: Path | None) -> None:
    if content is None:
        target.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # git does not store empty folders either
            for parent in target.parents:
                parent.rmdir()
    elif content.exists():  # else it is in place
        target.parent.mkdir(parents=True, exist_ok=True)
        content.replace(target)
    if target.parent.exists():
        sync_folder(target.parent)
