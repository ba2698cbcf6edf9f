"""`refresh` of shared patches and added files: one edit, in place, for every series."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import call
from project import git
from sharing import ADDED, LIMIT, make_sharing, options, patched
from small import make_small
from trees import snapshot

from pkgtools.catalog import load_series, writes
from pkgtools.util.files import write_new

if TYPE_CHECKING:
    from small import Small


@pytest.fixture
def small(tmp_path: Path) -> Small:
    """Build the catalog, and prove it."""
    small = make_sharing(tmp_path / "small")
    done = call("lock", *options(small), "--json")
    assert done.code == 0, done.err
    return small


def test_a_shared_patch_out_of_place_keeps_its_bytes(small: Small) -> None:
    before = snapshot(small.root / "catalog")
    for series in ("one", "two", "three"):
        done = call("refresh", "--series", series, *options(small), "--json")
        assert (done.code, done.facts["rewritten"], done.facts["shared"]) == (0, [], [])
    assert snapshot(small.root / "catalog") == before


def test_an_edit_of_an_added_file_is_one_line_of_one_file(small: Small, tmp_path: Path) -> None:
    tree = patched(small, "two", "1.1", tmp_path / "tree")
    (tree / ADDED).write_text("ADDED = 1\nMORE = 3\n")
    before = snapshot(small.root / "catalog")
    done = call("refresh", "--series", "two", "--tree", tree, *options(small), "--json")
    assert done.code == 0, done.err
    (edit,) = done.facts["shared"]
    file = small.series.parent / "extra" / ADDED
    assert (edit["patch"], edit["targets"]) == ("../extra/", ["one"])
    assert edit["files"] == [str(file)]
    after = snapshot(small.root / "catalog")
    assert {path for path in after if after[path] != before[path]} == {
        f"patches/widget/extra/{ADDED}"
    }
    assert file.read_text() == "ADDED = 1\nMORE = 3\n"
    told = call("lock", "--check", *options(small))
    assert told.code == 6
    assert call("lock", *options(small)).code == 0
    locked = snapshot(small.root / "catalog")
    names = {path for path in locked if locked[path] != after[path]}
    assert names == {f"patches/widget/{series}/lock.toml" for series in ("one", "two")}
    for series, version in (("one", "1.0"), ("two", "1.1")):
        made = small.made(small.series.parent / series, version)
        assert made[ADDED] == b"ADDED = 1\nMORE = 3\n"


def test_an_edit_of_a_shared_hunk_keeps_its_context(small: Small, tmp_path: Path) -> None:
    tree = patched(small, "three", "1.2", tmp_path / "tree")
    path = tree / "src/widget/a.py"
    path.write_text(path.read_text().replace("LIMIT = 1\n", "LIMIT = 2\nMORE = 1\n"))
    done = call("refresh", "--series", "three", "--tree", tree, *options(small))
    assert done.code == 0, done.err
    assert "shared    ../limit.patch also changes one, two" in done.out
    assert "next: `pkgtools lock --wheel" in done.out  # of every series, not of a target
    patch = (small.series.parent / "limit.patch").read_text()
    assert patch == LIMIT.replace("+LIMIT = 1\n", "+LIMIT = 2\n+MORE = 1\n").replace(
        "@@ -6,4 +6,5 @@", "@@ -8,4 +8,6 @@"
    ).replace("@@ -17,3 +18,4 @@", "@@ -19,3 +21,4 @@")
    assert call("lock", *options(small)).code == 0
    for series, version in (("one", "1.0"), ("two", "1.1"), ("three", "1.2")):
        made = small.made(small.series.parent / series, version)["src/widget/a.py"]
        assert made is not None
        assert b"A_5 = 5\nLIMIT = 2\nMORE = 1\nA_6 = 6\n" in made


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("A_12 = 12\n", "A_12 = 0\n"),  # outside the patch's hunks
        ("A_8 = 8\n", ""),  # the last line of a hunk's context
        ("A_6 = 6\n", ""),
        ("LAST = 1\n", ""),  # a hunk that is gone
        ("NEW = 0\n", "NEW = 1\n"),  # the first line
        ("A_19 = 19\n", "A_19 = 19\nEND = 1"),  # the end, without a line end
        ("A_5 = 5\nLIMIT = 1\nA_6 = 6\n", "A_5 = 0\nLIMIT = 0\nA_6 = 0\n"),
    ],
)
def test_any_edit_of_a_shared_patch_makes_the_edited_file(
    small: Small, tmp_path: Path, old: str, new: str
) -> None:
    tree = patched(small, "three", "1.2", tmp_path / "tree")
    path = tree / "src/widget/a.py"
    assert path.read_text().count(old) == 1
    path.write_text(path.read_text().replace(old, new))
    done = call("refresh", "--series", "three", "--tree", tree, *options(small), "--json")
    assert done.code == 0, done.err
    made = small.made(small.series.parent / "three", "1.2")
    assert made["src/widget/a.py"] == path.read_bytes()
    again = patched(small, "three", "1.2", tmp_path / "again")
    assert (again / "src/widget/a.py").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", ["before", "tree"])
def test_catalog_and_tree_are_locked_in_one_order(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """By path, as the trees of one `apply` are: else two commands could wait in a circle."""
    tree = patched(small, "three", "1.2", tmp_path / name)
    locked: list[str] = []
    flock = fcntl.flock

    def record(descriptor: int, operation: int) -> None:
        locked.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", record)
    done = call("refresh", "--series", "three", "--tree", tree, *options(small))
    assert done.code == 0, done.err
    assert locked == sorted([str(tree), str(small.catalog.parent)])


@pytest.mark.parametrize(("series", "name"), [("three", "limit.patch"), ("two", "extra")])
def test_an_edit_that_undoes_a_shared_patch_is_refused(
    small: Small, tmp_path: Path, series: str, name: str
) -> None:
    tree = patched(small, series, {"two": "1.1", "three": "1.2"}[series], tmp_path / "tree")
    path = tree / (ADDED if name == "extra" else "src/widget/a.py")
    text = path.read_text().replace("LIMIT = 1\n", "").replace("LAST = 1\n", "")
    path.unlink() if name == "extra" else path.write_text(text)
    before = snapshot(small.root / "catalog")
    done = call("refresh", "--series", series, "--tree", tree, *options(small))
    assert done.code == 2
    # Without a receipt, a tree with no line of the only patch is one without the series.
    told = "is not applied to" if series == "three" else f"error: {name}: the edits undo all of it"
    assert told in done.err
    assert series == "three" or f"next: `pkgtools drop {name} " in done.err
    assert snapshot(small.root / "catalog") == before


def test_an_edit_undoes_one_file_of_a_shared_patch_and_extends_an_empty_one(tmp_path: Path) -> None:
    files = {"a.py": "A = 1\n", "b.py": "B = 1\n", "e.py": ""}
    edits = {"a.py": "A = 2\n", "e.py": "E = 1\n"}
    small = make_small(tmp_path / "small", {"1.0": files}, [("both", edits)])
    shared = (small.series / "0001-both.patch").rename(small.series.parent / "both.patch")
    (small.series / "series").write_text("../both.patch\n")
    tree = patched(small, "one", "1.0", tmp_path / "tree") / "src" / "widget"
    (tree / "a.py").write_text("A = 1\n")
    (tree / "e.py").write_text("E = 1\nF = 1\n")
    words: list[str | Path] = ["--catalog", small.catalog, "--wheel", small.wheel("1.0")]
    done = call("refresh", "--series", "one", "--tree", tree.parent.parent, *words)
    assert done.code == 0, done.err
    git(small.repository, "worktree", "add", "--quiet", "--detach", tmp_path / "again", "v1.0")
    git(tmp_path / "again", "apply", shared)
    assert git(tmp_path / "again", "diff", "--name-only").split() == ["src/widget/e.py"]
    assert (tmp_path / "again/src/widget/e.py").read_text() == "E = 1\nF = 1\n"


def test_an_added_file_can_go_and_become_executable(small: Small, tmp_path: Path) -> None:
    folder = small.series.parent / "extra"
    other = ADDED.replace("added", "other")
    (folder / other).write_text("OTHER = 1\n")
    tree = patched(small, "two", "1.1", tmp_path / "tree")
    (tree / ADDED).unlink()
    (tree / other).chmod(0o755)
    done = call("refresh", "--series", "two", "--tree", tree, *options(small), "--json")
    assert done.code == 0, done.err
    assert not (folder / ADDED).exists()
    assert (folder / other).stat().st_mode & 0o777 == 0o755
    assert load_series(small.series.parent / "two").patches[0].paths == {other}


def test_a_name_of_a_shared_patch_is_taken(small: Small, tmp_path: Path) -> None:
    tree = patched(small, "two", "1.1", tmp_path / "tree")
    (tree / "src/widget/b.py").write_text("B = 1\n")
    words: list[str | Path] = ["new", "limit.patch", "--series", "two", "--tree", tree]
    before = snapshot(small.root / "catalog")
    done = call(*words, "-m", "more", *options(small), "--json")
    assert (done.code, snapshot(small.root / "catalog")) == (2, before)
    assert "has a patch 'limit.patch' already" in done.facts["error"]["message"]


def test_four_new_patches_at_once_are_all_in_the_series(small: Small, tmp_path: Path) -> None:
    """Each command makes its patch of what is beyond the series that it finds."""
    trees = []
    for number in range(4):
        tree = patched(small, "three", "1.2", tmp_path / f"tree{number}")
        (tree / f"src/widget/n{number}.py").write_text("N = 1\n")
        trees.append(tree)
    command = [sys.executable, "-m", "pkgtools", "new", "--series", "three", "-m", "more"]
    running = [
        subprocess.Popen(
            [*command, f"n{number}", "--tree", tree, *map(str, options(small))],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for number, tree in enumerate(trees)
    ]
    for process in running:
        _, error = process.communicate()
        assert process.returncode == 0, error
    names = [patch.name for patch in load_series(small.series.parent / "three").patches]
    assert sorted(names) == sorted(["limit.patch", *(f"n{number}.patch" for number in range(4))])


def test_a_full_disk_at_the_second_patch_leaves_the_first_as_it_was(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = patched(small, "one", "1.0", tmp_path / "tree")
    (tree / ADDED).write_text("ADDED = 2\n")
    (tree / "src/widget/b.py").write_text("B = 1\n")
    before = snapshot(small.root / "catalog")
    real = write_new

    def full_disk(path: Path, data: bytes, permissions: int) -> None:
        if path.name == "1":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(path, data, permissions)

    monkeypatch.setattr(writes, "write_new", full_disk)
    words: list[str | Path] = ["refresh", "--series", "one", "--tree", tree, *options(small)]
    full = call(*words, "--json")
    assert full.code == 7
    assert "No space left on device; no file was changed" in full.facts["error"]["message"]
    assert snapshot(small.root / "catalog") == before
    monkeypatch.undo()
    assert call(*words).code == 0
    made = small.made(small.series, "1.0")
    assert (made[ADDED], made["src/widget/b.py"]) == (b"ADDED = 2\n", b"B = 1\n")
