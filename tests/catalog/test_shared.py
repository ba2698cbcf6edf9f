"""Shared patches and folders of added files: kept once, named by several series."""

from __future__ import annotations

import os
import py_compile
import shutil
from typing import TYPE_CHECKING

import pytest
from project import apply_with_git, git
from silent import Silent

from pkgtools.authoring.lock import check_locks, write_locks
from pkgtools.catalog import load_catalog, load_patch, load_series
from pkgtools.errors import MalformedError
from pkgtools.source.at_hand import AtHand
from pkgtools.source.git import Repository

if TYPE_CHECKING:
    from pathlib import Path

    from project import Project

_FILES = {
    "src/widget/added/__init__.py": b"",
    "src/widget/added/one.py": b"ONE = 1\n",
    "src/widget/added/no end.py": b"A = 1\nB = 2",
    "src/widget/added/crlf.py": b"A = 1\r\nB = 2\r\n",
    "src/widget/added/run.sh": b"#!/bin/sh\n",
}
_MESSAGE = "added: a package\n\nIt has two lines\nof body.\n"


def _added(shelf: Path) -> Path:
    """Write a folder of added files."""
    folder = shelf / "added"
    for name, data in _FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (folder / "src/widget/added/run.sh").chmod(0o755)
    (folder / "MESSAGE").write_text(_MESSAGE)
    return folder


@pytest.fixture
def shelf(project: Project, tmp_path: Path) -> Path:
    """Copy the catalog, with v1.0 and v1.1 sharing what they add; return the upstream's folder."""
    shelf = project.copy_catalog(tmp_path / "catalog").parent / "patches/widget"
    _added(shelf)
    for series in ("v1.0", "v1.1"):
        own = (shelf / series / "series").read_text()
        (shelf / series / "series").write_text(f"../added/  # first\n{own}")
    return shelf


def test_an_added_folder_is_the_mail_that_git_reads(tmp_path: Path) -> None:
    patch = load_patch(_added(tmp_path))
    assert (patch.name, patch.subject) == ("added", "added: a package")
    assert [file.new_path for file in patch.files] == sorted(_FILES)
    git(tmp_path, "init", "--quiet")
    (tmp_path / "mail").write_bytes(patch.data)
    git(tmp_path, "am", "--quiet", "--keep-cr", "mail")
    assert git(tmp_path, "log", "-1", "--format=%B").strip() == _MESSAGE.strip()
    listed = git(tmp_path, "ls-tree", "-r", "-z", "HEAD").split("\0")[:-1]
    modes = {line.partition("\t")[2]: line[:6] for line in listed}
    assert modes == {n: "100755" if n.endswith(".sh") else "100644" for n in _FILES}
    for name, data in _FILES.items():
        assert (tmp_path / name).read_bytes() == data
    # git writes the same diff of its commit; `git` here returns text, without CR.
    theirs = git(tmp_path, "show", "--format=", "--full-index", "HEAD")
    mine = patch.data.decode().replace("\r\n", "\n")
    assert mine[mine.index("diff --git ") :] == theirs


def test_bytecode_in_an_added_folder_changes_nothing(tmp_path: Path) -> None:
    folder = _added(tmp_path)
    before = load_patch(folder).data
    py_compile.compile(str(folder / "src/widget/added/one.py"), doraise=True)
    (folder / "src/widget/added/old.pyc").write_bytes(b"\0")
    assert list(folder.rglob("__pycache__"))
    assert load_patch(folder).data == before


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("link", "regular files only"),
        ("fifo", "regular files only"),
        ("folder link", "regular files only"),
        ("binary", "text files only"),
        ("quoted", "git quotes"),
        ("no message", "MESSAGE is missing"),
        ("no subject", "a subject"),
        ("no blank line", "empty line before its body"),
        ("dashes", "starts with ---"),
        ("diff", "text between two sections"),
        ("nothing", "adds no file"),
        ("git", "git directory"),
    ],
)
def test_what_is_not_a_folder_of_added_files_is_refused(
    tmp_path: Path, wrong: str, message: str
) -> None:
    folder = _added(tmp_path)
    package = folder / "src/widget/added"
    if wrong == "link":
        (package / "two.py").symlink_to("one.py")
    elif wrong == "fifo":
        os.mkfifo(package / "pipe")
    elif wrong == "folder link":
        (folder / "more").symlink_to(package)
    elif wrong == "binary":
        (package / "data").write_bytes(b"\0\1")
    elif wrong == "quoted":
        (package / 'a"b.py').write_text("")
    elif wrong == "git":
        (folder / ".git").mkdir()
        (folder / ".git" / "config").write_text("")
    elif wrong == "nothing":
        shutil.rmtree(folder / "src")
    elif wrong == "no message":
        (folder / "MESSAGE").unlink()
    else:
        texts = {
            "no subject": "\n",
            "no blank line": "a\nb\n",
            "dashes": "a\n\n---\nb\n",
            "diff": "a\n\ndiff --git a/x b/x\nold mode 100644\nnew mode 100755\n",
        }
        (folder / "MESSAGE").write_text(texts[wrong])
    with pytest.raises(MalformedError, match=message):
        load_patch(folder)


def test_two_series_hold_the_same_patch(shelf: Path) -> None:
    one, two = load_series(shelf / "v1.0"), load_series(shelf / "v1.1")
    assert one.patches[0] == two.patches[0]
    assert (one.patches[0].is_shared, one.patches[0].path) == (True, shelf / "added")
    assert [patch.is_shared for patch in one.patches[1:]] == [False] * (len(one.patches) - 1)


def test_a_shared_patch_file_is_found_above_the_series(shelf: Path) -> None:
    (shelf / "v1.0/0001-answer-the-right-one.patch").rename(shelf / "answer.patch")
    listing = shelf / "v1.0/series"
    own = listing.read_text()
    listing.write_text(own.replace("0001-answer-the-right-one.patch", "../answer.patch -p1"))
    patch = load_series(shelf / "v1.0").patches[1]
    assert (patch.name, patch.path, patch.is_shared) == (
        "answer.patch",
        shelf / "answer.patch",
        True,
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("../../secret.patch", "is not the name of a patch"),
        ("../", "is not the name of a patch"),
        ("../..", "is not the name of a patch"),
        ("../../", "is not the name of a patch"),
        ("..", "is not the name of a patch"),
        ("/etc/passwd", "is not the name of a patch"),
        ("sub/x.patch", "is not the name of a patch"),
        ("../v1.1/0001-answer-the-right-one.patch", "is not the name of a patch"),
        ("../added", "is a folder"),
        ("../targets.toml/", "is not a folder"),
        ("../v1.1/", "MESSAGE is missing"),
        ("../none.patch", "cannot be read"),
        ("../added/", "a second patch added"),
    ],
)
def test_a_wrong_reference_is_refused(shelf: Path, line: str, message: str) -> None:
    listing = shelf / "v1.0/series"
    listing.write_text(f"{listing.read_text()}{line}\n")
    with pytest.raises(MalformedError, match=message):
        load_series(shelf / "v1.0")


def test_the_plan_is_what_git_makes_and_a_lock_proves_every_series(
    project: Project, shelf: Path, tmp_path: Path
) -> None:
    wheels = [project.wheel("1.0"), project.wheel("1.1")]
    at_hand = AtHand(Silent(), wheels, [Repository(project.repository)])
    catalog = load_catalog(shelf.parent.parent / "targets.toml")
    write_locks(catalog.targets, at_hand)
    before = {path: path.read_text() for path in shelf.glob("*/lock.toml")}
    # One edited line of one file: every series that names it is another series.
    (shelf / "added/src/widget/added/one.py").write_bytes(b"ONE = 2\n")
    catalog = load_catalog(shelf.parent.parent / "targets.toml")
    assert set(catalog.problems) == {"w-1.0", "w-1.1"}
    write_locks(catalog.targets, at_hand)
    changed = {path.parent.name for path in before if path.read_text() != before[path]}
    assert changed == {"v1.0", "v1.1"}
    catalog = load_catalog(shelf.parent.parent / "targets.toml")
    assert {proof.outcome for proof in check_locks(catalog.targets, at_hand)} == {"proven"}
    tree = project.write_checkout(tmp_path / "tree")
    apply_with_git(tree, load_series(shelf / "v1.0"))
    git(tree, "add", "--all")
    locked = catalog.target("w-1.0").lock.revision[0]
    for file in locked.file:
        if file.after:
            oid = git(tree, "rev-parse", f":{file.path}").strip()
            assert file.after.rpartition(":")[2] == oid
    assert "src/widget/added/one.py" in {file.path for file in locked.file}
