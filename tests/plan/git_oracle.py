"""Real git as the oracle: it writes patches between two trees and applies patches to a tree.

A tree is a dictionary from path to `Blob`. Objects are written by hand, so that a
patch costs one process; applying happens in a plain directory outside any repository,
so that no object of an earlier case can help git.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pkgtools.blob import DIRECTORY, EXECUTABLE, REGULAR, SYMLINK, Blob
from pkgtools.errors import MalformedError
from pkgtools.patch import parse_patch, shown_level, split_mails
from pkgtools.plan import plan_series

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pkgtools.patch import Patch
    from pkgtools.plan import Plan

Tree = dict[str, Blob]


def raw(path: str) -> bytes:
    """Return a path as the bytes that git and the file system know."""
    return path.encode("utf-8", "surrogateescape")


def git(cwd: Path, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run git, cut off from the user's configuration and from repositories further up."""
    environment = {name: value for name, value in os.environ.items() if name[:4] != "GIT_"}
    environment |= {
        "LC_ALL": "C",
        "HOME": os.devnull,
        "XDG_CONFIG_HOME": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(cwd.parent),
    }
    return subprocess.run(
        ["git", *arguments], cwd=cwd, env=environment, input=stdin, capture_output=True, check=False
    )


class Git:
    """A bare repository to make patches in and a directory to apply them in."""

    def __init__(self, root: Path) -> None:
        self._repository = root / "repository"
        self._repository.mkdir()
        self._work = root / "work"
        self._objects: dict[str, bytes] = {}
        made = git(self._repository, "init", "--quiet", "--bare")
        assert made.returncode == 0, made.stderr

    def _write(self, kind: str, data: bytes) -> str:
        whole = b"%s %d\0%s" % (kind.encode(), len(data), data)
        name = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        self._objects[name] = zlib.compress(whole, 1)
        return name

    @contextmanager
    def _written(self) -> Iterator[None]:
        """Lay out the objects for as long as git needs them: thousands of files are slow."""
        paths = [self._repository / "objects" / name[:2] / name[2:] for name in self._objects]
        for path, packed in zip(paths, self._objects.values(), strict=True):
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(packed)
        try:
            yield
        finally:
            for path in paths:
                path.unlink()
            self._objects.clear()

    def _write_tree(self, files: dict[bytes, Blob]) -> str:
        entries: dict[bytes, tuple[int, str]] = {}
        below: dict[bytes, dict[bytes, Blob]] = {}
        for path, blob in files.items():
            first, slash, rest = path.partition(b"/")
            if slash:
                below.setdefault(first, {})[rest] = blob
            else:
                entries[first] = (blob.mode, self._write("blob", blob.data))
        for name, children in below.items():
            entries[name + b"/"] = (DIRECTORY, self._write_tree(children))
        data = b"".join(
            b"%o %s\0%s" % (mode, name.removesuffix(b"/"), bytes.fromhex(object_id))
            for name, (mode, object_id) in sorted(entries.items())
        )
        return self._write("tree", data)

    def _commit(self, tree: Tree, message: str, parent: str | None) -> str:
        top = self._write_tree({raw(path): blob for path, blob in tree.items()})
        who = "A U Thor <author@example.com> 1700000000 +0000"
        lines = [f"tree {top}", *([f"parent {parent}"] if parent else [])]
        text = "\n".join([*lines, f"author {who}", f"committer {who}", "", message])
        return self._write("commit", text.encode())

    def diff(self, old: Tree, new: Tree, options: Sequence[str] = (), message: str = "") -> bytes:
        """Return git's patch from `old` to `new`; with a message, as a mail."""
        before = self._commit(old, "before", None)
        after = self._commit(new, message or "after", before)
        settings = [x for x in options if x.startswith("core.")]
        rest = [x for x in options if not x.startswith("core.")]
        how = ["format-patch", "-1", "--stdout"] if message else ["diff"]
        which = [after] if message else [before, after]
        command = [*(y for x in settings for y in ("-c", x)), *how, *rest, *which]
        with self._written():
            made = git(self._repository, *command)
        assert made.returncode == 0, made.stderr
        return made.stdout

    def apply(self, tree: Tree, *patches: bytes, level: int = 1) -> Tree | None:
        """Apply patches one after the other with ``git apply``; None when it refuses one."""
        shutil.rmtree(self._work, ignore_errors=True)
        self._work.mkdir()
        write_out(tree, self._work)
        for patch in patches:
            if git(self._work, "apply", f"-p{level}", "-", stdin=patch).returncode:
                return None
        return read_back(self._work)


def write_out(tree: Tree, top: Path) -> None:
    for path, blob in tree.items():
        where = top / path
        where.parent.mkdir(parents=True, exist_ok=True)
        if blob.mode == SYMLINK:
            where.symlink_to(os.fsdecode(blob.data))
        else:
            where.write_bytes(blob.data)
            where.chmod(0o755 if blob.mode == EXECUTABLE else 0o644)


def read_back(top: Path) -> Tree:
    tree: Tree = {}
    for directory, names, files in os.walk(top):
        for name in (*names, *files):
            where = Path(directory, name)
            path = str(where.relative_to(top))
            if where.is_symlink():
                tree[path] = Blob(os.fsencode(where.readlink()), SYMLINK)
            elif where.is_file():
                mode = EXECUTABLE if where.stat().st_mode & 0o100 else REGULAR
                tree[path] = Blob(where.read_bytes(), mode)
    return tree


def plan(tree: Tree, *patches: bytes) -> Plan:
    """Plan patches on a tree."""
    parsed = [parse_patch(f"{number}.patch", data) for number, data in enumerate(patches, 1)]
    return plan_parsed(tree, parsed)


def plan_parsed(tree: Tree, parsed: Sequence[Patch]) -> Plan:
    """Plan patches on a tree; a directory is told apart from nothing, as a source does."""
    directories = {path[:at] for path in tree for at, letter in enumerate(path) if letter == "/"}

    def read(path: str) -> Blob | None:
        if path in directories:
            return Blob(b"", DIRECTORY)
        return tree.get(path)

    return plan_series(parsed, read)


def result(tree: Tree, outcome: Plan) -> Tree:
    """Return what a plan makes of a tree."""
    after = dict(tree)
    for change in outcome.changes:
        assert tree.get(change.path) == change.before
        if change.after is None:
            after.pop(change.path, None)
        else:
            after[change.path] = change.after
    return after


def apply_ours(tree: Tree, *patches: bytes) -> tuple[Tree | None, str]:
    """Return what pkgtools makes of a tree, or None; and what there is to say about it."""
    try:
        outcome = plan(tree, *patches)
    except MalformedError as error:
        return None, f"malformed: {error}"
    return _judged(tree, outcome)


def apply_forms(tree: Tree, data: bytes) -> tuple[Tree | None, str]:
    """Do the same with a file of one or more patches, as `pkgtools import` reads it."""
    try:
        parsed = []
        for number, mail in enumerate(split_mails(data), 1):
            level = shown_level(f"{number}.patch", mail)
            number_of_folders = None if level is None else level.number
            parsed.append(parse_patch(f"{number}.patch", mail, number_of_folders))
        outcome = plan_parsed(tree, parsed)
    except MalformedError as error:
        return None, f"malformed: {error}; {error.remedy}"
    return _judged(tree, outcome)


def _judged(tree: Tree, outcome: Plan) -> tuple[Tree | None, str]:
    if not outcome.ok:
        return None, "; ".join(f"{x.reason}: {x.message}" for x in outcome.rejections)
    moved = any(placement.offset for step in outcome.steps for placement in step.placements)
    return result(tree, outcome), "at an offset" if moved else ""
