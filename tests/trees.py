"""What a tree on disk is, written down so that two moments can be compared."""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import stat
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pkgtools.blob import DIRECTORY, Blob, canonical_mode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """One path of a tree."""

    mode: int
    """Kind and permissions, as stat has them."""
    data: bytes
    """Content, or where a symbolic link leads."""
    owner: tuple[int, int]
    mtime_ns: int | None
    """None for a folder, whose time says nothing of ours."""


def snapshot(root: Path) -> dict[str, Entry]:
    """Return everything below `root`, but for git's own: what it is, its content and its time.

    What pkgtools keeps inside a git directory is part of it.
    """
    paths = {path.relative_to(root).as_posix(): path for path in _walk(root)}
    return {name: _entry(path) for name, path in paths.items() if not _is_of_git(name)}


def _is_of_git(name: str) -> bool:
    inside = f"/{name}/".partition("/.git/")
    return bool(inside[1]) and not inside[2].startswith("pkgtools/")


def _entry(path: Path) -> Entry:
    status = path.lstat()
    owner = (status.st_uid, status.st_gid)
    if stat.S_ISDIR(status.st_mode):
        return Entry(status.st_mode, b"", owner, None)
    if stat.S_ISLNK(status.st_mode):
        return Entry(stat.S_IFLNK, os.fsencode(path.readlink()), owner, None)
    return Entry(status.st_mode, path.read_bytes(), owner, status.st_mtime_ns)


def timeless(tree: dict[str, Entry]) -> dict[str, Entry]:
    """Return a snapshot without times: a file that was written just now has any."""
    return {name: replace(entry, mtime_ns=None) for name, entry in tree.items()}


def differing(one: dict[str, Entry], other: dict[str, Entry]) -> list[str]:
    """Return the paths at which two snapshots differ."""
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))


def contents(root: Path) -> dict[str, Blob]:
    """Return every file and link below `root`, as git would see it."""
    return {
        name: Blob(entry.data, canonical_mode(entry.mode))
        for name, entry in snapshot(root).items()
        if canonical_mode(entry.mode) != DIRECTORY
    }


def _walk(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted([*folders, *files]):
            yield root / folder / name


def leftovers(root: Path) -> list[str]:
    """Return what a transaction that is over must not leave: its own files, anywhere."""
    return sorted(
        path.relative_to(root).as_posix()
        for path in _walk(root)
        if path.name.endswith((".pkgtools-new", ".pkgtools-old", "-journal.json"))
    )


def record_problems(dist_info: Path) -> list[str]:
    """Return each way in which RECORD and the files differ; the check of an upgrade's safety.

    Every row's file is there and has the size and hash that the row gives, and every file
    of the package and of the .dist-info has a row, but for what Python compiled.
    """
    site = dist_info.parent
    with (dist_info / "RECORD").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row]
    problems = [f"twice: {name}" for name in _repeated([row[0] for row in rows])]
    packages = {
        PurePosixPath(row[0]).parts[0] for row in rows if not row[0].startswith(("/", ".."))
    }
    for name, digest, size in rows:
        path = site / name
        if not os.path.lexists(path):
            problems.append(f"not there: {name}")
        elif digest:
            algorithm, _, value = digest.partition("=")
            data = path.read_bytes()
            padded = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
            if hashlib.new(algorithm, data).digest() != padded or int(size) != len(data):
                problems.append(f"differs: {name}")
    listed = {row[0] for row in rows}
    for package in sorted(packages):
        for path in _walk(site / package):
            name = path.relative_to(site).as_posix()
            if name not in listed and not path.is_dir() and path.parent.name != "__pycache__":
                problems.append(f"no row: {name}")
    return problems


def uninstall(site: Path) -> None:
    """Remove a package as pip does: what RECORD lists, its bytecode, and folders left empty."""
    (dist_info,) = site.glob("*.dist-info")
    with (dist_info / "RECORD").open(newline="", encoding="utf-8") as file:
        listed = [site / row[0] for row in csv.reader(file) if row]
    for path in listed:
        path.unlink(missing_ok=True)
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()
    for folder in sorted((p for p in _walk(site) if p.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()


def _repeated(names: list[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)
