"""Files that someone put where pkgtools reads one: a FIFO, a device, a sparse file of 200 GB."""

from __future__ import annotations

import ast
import os
import re
import shutil
import signal
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import call
from project import git
from scenarios import apply, make_tree

import pkgtools
from pkgtools.blob import LIMIT
from pkgtools.errors import TreeError
from pkgtools.util.files import open_regular, read_bytes, read_file, read_text, sha256

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from project import Project

    from pkgtools.source import Tree

_SECONDS = 20


class _TooLongError(BaseException):
    """Not an OSError as TimeoutError is: pkgtools would report that one."""


@contextmanager
def within(seconds: int = _SECONDS) -> Iterator[None]:
    """Fail where the body takes longer: a read of a FIFO never ends."""

    def late(_signal: int, _frame: object) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(200 * 10**9)


def _folder(path: Path) -> None:
    path.mkdir()


KINDS = [_fifo, _device, _sparse, _folder]


def replace(path: Path, kind: Callable[[Path], None]) -> None:
    path.unlink(missing_ok=True)
    kind(path)


@dataclass(frozen=True)
class Where:
    """A patched tree and its catalog, both to be spoiled."""

    tree: Tree
    targets: Path

    @property
    def home(self) -> Path:
        return self.tree.home

    @property
    def series(self) -> Path:
        return self.targets.parent / "patches/widget/v1.0"


@pytest.fixture
def where(project: Project, tmp_path: Path) -> Where:
    tree = make_tree(project, "site", tmp_path)
    apply(project, tree)
    return Where(tree, project.copy_catalog(tmp_path / "catalog"))


CASES: dict[str, tuple[Callable[[Where], Path], list[str], set[int]]] = {
    "receipt": (lambda w: w.home / "pkgtools.json", ["status", "apply", "reverse"], {7}),
    "journal": (lambda w: w.home / "pkgtools-journal.json", ["status", "apply", "recover"], {7}),
    "record": (lambda w: w.home / "RECORD", ["verify"], {0, 7}),
    "file": (lambda w: w.tree.file("src/widget/core.py"), ["status", "verify"], {5, 7}),
    "patch": (lambda w: next(w.series.glob("0001*")), ["targets", "apply", "lock"], {6}),
    "series": (lambda w: w.series / "series", ["targets", "apply", "lock"], {6}),
    "lockfile": (lambda w: w.series / "lock.toml", ["targets", "apply", "lock"], {6}),
    "catalog": (lambda w: w.targets, ["targets", "status"], {2, 6}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_a_command_ends_and_names_the_file(
    case: str, kind: Callable[[Path], None], where: Where, project: Project
) -> None:
    place, verbs, codes = CASES[case]
    path = place(where)
    replace(path, kind)
    for verb in verbs:
        words: list[str | Path] = [verb, "--catalog", where.targets]
        words += [] if verb in ("targets", "lock") else ["--tree", where.tree.root]
        words += ["--target", "w-1.0"] if verb in ("apply", "lock", "verify") else []
        if verb == "lock" and case != "lockfile":  # without a source it has to read the old entry
            words += ["--wheel", project.wheel("1.0")]
        with within():
            done = call(*words)
        assert done.code in codes, (verb, done)
        if done.code in (6, 7):
            assert path.name in done.err


@pytest.mark.parametrize("kind", KINDS)
def test_a_changelog(kind: Callable[[Path], None], project: Project, tmp_path: Path) -> None:
    targets = project.copy_catalog(tmp_path / "catalog")
    git(targets.parent, "init", "--quiet")
    kind(targets.with_name("CHANGELOG.md"))
    with within():
        done = call("changelog", "check", "--catalog", targets)
    assert done.code == 6
    assert "CHANGELOG.md cannot be read" in done.err


@pytest.mark.parametrize("kind", KINDS)
def test_a_wheel(kind: Callable[[Path], None], project: Project, tmp_path: Path) -> None:
    path = tmp_path / project.wheel("1.0").name
    kind(path)
    with within():
        done = call("verify", "--wheel", path, "--catalog", project.targets)
    assert done.code == 2
    assert str(path) in done.err


def test_an_image_archive_that_is_a_fifo(project: Project, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "image.tar")
    base = f"docker-archive:{tmp_path / 'image.tar'}"
    with within():
        done = call("build", "image", "--base", base, "--catalog", project.targets)
    assert done.code == 2
    assert "image.tar cannot be read: Not a regular file" in done.err


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_beside_the_patches_that_are_ported(
    kind: Callable[[Path], None], where: Where, project: Project, tmp_path: Path
) -> None:
    """Regular files come along with the series."""
    kind(where.series / "notes.txt")
    with within():
        done = call(
            *("port", "--series", where.series, "--to", project.wheel("1.0")),
            *("--catalog", where.targets, "--wheel", project.wheel("1.0"), "-o", tmp_path / "new"),
        )
    assert not (tmp_path / "new" / "notes.txt").exists()
    assert (tmp_path / "new").exists() == (kind is not _sparse)
    assert done.code == (7 if kind is _sparse else 0), done.err
    assert kind is not _sparse or "notes.txt" in done.err


def test_the_reader(tmp_path: Path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    link.symlink_to(path)
    for data in (b"", b"text\n", os.urandom(200_000)):
        path.write_bytes(data)
        assert read_bytes(path) == read_bytes(link) == data
        blob = read_file(path)
        assert blob is not None
        assert blob.data == data
    path.write_text("größer\n", encoding="utf-8")
    assert read_text(path) == "größer\n"
    with pytest.raises(OSError, match="Too many levels"):
        read_bytes(link, os.O_NOFOLLOW)
    assert read_bytes(Path("/proc/self/cmdline")) == Path("/proc/self/cmdline").read_bytes()
    with pytest.raises(FileNotFoundError):
        read_bytes(tmp_path / "none")


def test_the_bound_is_exact(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    os.truncate(path, LIMIT)
    assert len(read_bytes(path)) == LIMIT
    os.truncate(path, LIMIT + 1)
    with pytest.raises(OSError, match=f"Larger than {LIMIT} bytes"):
        read_bytes(path)
    with pytest.raises(TreeError, match="Larger than"):
        read_file(path)
    assert len(sha256(path)) == 64  # streamed, whatever the size


def test_a_size_of_zero_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A regular file of /proc whose content never ends has the size 0."""
    endless = Path("/proc/self/pagemap")
    if not endless.exists():
        pytest.skip("this system has no /proc/self/pagemap")
    assert endless.stat().st_size == 0
    monkeypatch.setattr("pkgtools.util.files.LIMIT", 200_007)  # it is read by 8 bytes
    with within(), pytest.raises(OSError, match="Larger than 200007 bytes"):
        read_bytes(endless)


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in (tmp_path / "fifo", tmp_path, Path("/dev/zero"), Path(f"{tmp_path}/a\0b")):
        with pytest.raises(OSError, match=re.compile("regular|directory|null", re.IGNORECASE)):
            open_regular(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


_OWN = {
    "image/tree.py": "files in a temporary folder of this process",
    "report/page.py": "a file of the program",
}
"""Modules that may read without the check, and why."""


def test_every_read_is_checked() -> None:
    """Path.read_bytes, Path.read_text and open("r") have neither bound nor check."""
    package = Path(pkgtools.__file__).parent
    found = []
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if name in _OWN or name == "util/files.py":
            continue
        found += [
            f"{name}:{node.lineno}"
            for node in ast.walk(ast.parse(path.read_bytes()))
            if isinstance(node, ast.Attribute) and node.attr in ("read_bytes", "read_text")
        ]
    assert found == []


def test_a_tree_whose_git_file_is_huge(project: Project, tmp_path: Path) -> None:
    """A worktree's .git is a file that names its git directory."""
    root = project.write_checkout(tmp_path / "tree")
    shutil.rmtree(root / ".git")
    _sparse(root / ".git")
    with within():
        done = call("status", "--tree", root, "--catalog", project.targets)
    assert done.code == 7
    assert ".git" in done.err
