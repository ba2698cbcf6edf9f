"""`export --format mail`: a folder that `git am` takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from commands import call
from project import PREFIX, git
from sharing import ADDED, make_sharing, options
from small import make_small

from pkgtools.catalog import load_series

if TYPE_CHECKING:
    from pathlib import Path

    from small import Small

A = "".join(f"A_{n} = {n}\n" for n in range(20))


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return make_sharing(tmp_path / "small")


def _am(small: Small, version: str, mails: Path, where: Path) -> Path:
    git(small.repository, "worktree", "add", "--quiet", "--detach", where, f"v{version}")
    names = (mails / "series").read_text().split()
    git(where, "am", "--quiet", *(mails / name for name in names))
    assert git(where, "status", "--porcelain") == ""
    return where


@pytest.mark.parametrize(("series", "version"), [("one", "1.0"), ("two", "1.1"), ("three", "1.2")])
def test_git_am_makes_the_targets_tree(
    small: Small, tmp_path: Path, series: str, version: str
) -> None:
    mails = tmp_path / "mails"
    words: list[str | Path] = ["export", "--series", series, "--format", "mail"]
    done = call(*words, "-o", mails, *options(small), "--json")
    assert done.code == 0, done.err
    loaded = load_series(small.series.parent / series)
    tree = _am(small, version, mails, tmp_path / "tree")
    for path, data in small.made(small.series.parent / series, version).items():
        assert (tree / path).read_bytes() == data
    subjects = git(tree, "log", "--reverse", "--format=%s", f"v{version}..HEAD").splitlines()
    assert subjects == [patch.subject for patch in loaded.patches]
    # What git writes of these commits has the same names and the same diffs.
    git(tree, "format-patch", "--quiet", "-o", tmp_path / "git", f"v{version}..HEAD")
    theirs = sorted((tmp_path / "git").iterdir())
    assert [path.name for path in theirs] == done.facts["patches"]
    for mail in theirs:
        count = "diff --git "
        assert (mails / mail.name).read_text().count(count) == mail.read_text().count(count)


def test_mails_are_a_series_that_needs_no_other(small: Small, tmp_path: Path) -> None:
    mails = tmp_path / "mails"
    words: list[str | Path] = ["export", "--series", "one", "--format", "mail", "-o", mails]
    assert call(*words, *options(small)).code == 0
    assert small.made(mails, "1.0") == small.made(small.series, "1.0")
    assert not any(patch.is_shared for patch in load_series(mails).patches)
    before = {path.name: path.read_bytes() for path in mails.iterdir()}
    assert call(*words, *options(small)).code == 2, "the folder is there"
    assert {path.name: path.read_bytes() for path in mails.iterdir()} == before


def test_patches_that_are_not_mails_become_mails(tmp_path: Path) -> None:
    """With files of each kind: renamed, binary, of another mode, empty, removed, with CR."""
    small = make_small(tmp_path / "small", {"1.0": {"a.py": A, "b.py": A, "c.py": "C = 1\n"}}, [])
    tree = tmp_path / "work"
    git(small.repository, "worktree", "add", "--quiet", "--detach", tree, "v1.0")
    package = tree / f"{PREFIX}widget"
    (package / "a.py").write_text(A.replace("A_3 = 3", "A_3 = 0"))
    git(tree, "mv", f"{PREFIX}widget/b.py", f"{PREFIX}widget/moved.py")
    (package / "moved.py").write_text(A.replace("A_9 = 9", "A_9 = 0"))
    (package / "c.py").unlink()
    (package / "data.bin").write_bytes(bytes(range(256)))
    (package / "empty.py").write_bytes(b"")
    (package / "run.sh").write_text("#!/bin/sh\necho no line end")
    (package / "run.sh").chmod(0o755)
    git(tree, "add", "--all")
    diff = git(tree, "diff", "--cached", "--binary", "-M", "HEAD")
    series = small.series
    series.mkdir(parents=True, exist_ok=True)
    message = "déjà vu\n---\nbelow a line\n\n"
    (series / "all.patch").write_text(message + diff)
    (series / "series").write_text("all.patch\n")
    mails = tmp_path / "mails"
    words: list[str | Path] = [
        "export",
        "--series",
        series,
        "--from",
        "1.0",
        "--format",
        "mail",
        "-o",
        mails,
    ]
    done = call(*words, "--catalog", small.catalog, "--wheel", small.wheel("1.0"))
    assert done.code == 0, done.err
    made = _am(small, "1.0", mails, tmp_path / "tree")
    git(tree, "commit", "--quiet", "-m", "x")
    assert git(made, "rev-parse", "HEAD^{tree}") == git(tree, "rev-parse", "HEAD^{tree}")
    assert "déjà vu\n ---\nbelow a line" in git(made, "log", "-1", "--format=%B")


def test_an_added_file_is_in_the_mails(small: Small, tmp_path: Path) -> None:
    mails = tmp_path / "mails"
    words: list[str | Path] = ["export", "--series", "one", "--format", "mail", "-o", mails]
    assert call(*words, *options(small)).code == 0
    first = (mails / (mails / "series").read_text().split()[0]).read_text()
    assert f"+++ b/{ADDED}" in first
    assert "Subject: [PATCH] extra: a module\n" in first


def test_a_flat_diff_keeps_its_name(small: Small, tmp_path: Path) -> None:
    """A patch without a subject is called like its file, which has a number and a suffix."""
    patch = small.series / "0001-own.patch"
    patch.write_bytes(b"diff --git" + patch.read_bytes().partition(b"diff --git")[2])
    words: list[str | Path] = ["export", "--series", "one", "--format", "mail"]
    done = call(*words, "-o", tmp_path / "mails", *options(small), "--json")
    assert "0002-own.patch" in done.facts["patches"]
