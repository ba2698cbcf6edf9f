"""A receipt stands while only it has what a file was before; of another revision it is void."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from commands import Result, call
from project import git
from small import KEEP, make_small
from trees import snapshot

if TYPE_CHECKING:
    from pathlib import Path

_OLD = {"a.py": "A = 1\n", "b.py": "B = 1\n", "keep.py": KEEP}
_NEW = {"a.py": "A = 1\nMORE = 1\n", "b.py": "B = 1\nMORE = 1\n", "keep.py": KEEP}
_TWO = """\
--- a/src/widget/keep.py
+++ b/src/widget/keep.py
@@ -15,3 +15,3 @@
 LINE_14 = 14
-LINE_15 = 15
+LINE_15 = "two"
 LINE_16 = 16
--- a/src/widget/b.py
+++ b/src/widget/b.py
@@ -1 +1 @@
-B = 1
+B = 2
"""
_OF_NEW = _TWO.replace("-1 +1 @@", "-1,2 +1,2 @@") + " MORE = 1\n"
_KINDS = ["site", "git", "plain"]


class _Tree:
    """A catalog of three targets, and a tree of one of its kinds, which has 1.0."""

    def __init__(self, tmp_path: Path, kind: str) -> None:
        first = KEEP.replace("LINE_2 = 2", "LINE_2 = 'one'")
        patches = [
            ("a", {"a.py": "A = 2\n"}),
            ("b", {"b.py": "B = 2\n"}),
            ("k", {"keep.py": first}),
        ]
        self.small = make_small(tmp_path / "small", {"1.0": _OLD, "1.1": _NEW}, patches)
        self.small.add_target("two", _TWO)
        self.small.add_target("new", _OF_NEW, "1.1")
        self.kind, self.root = kind, tmp_path / "tree"
        self.package = self.root / ("widget" if kind == "site" else "src/widget")
        self.write("1.0")
        wheels = [f"--wheel={self.small.wheel(version)}" for version in ("1.0", "1.1")]
        assert self.catalog("lock", *wheels).code == 0

    def write(self, version: str) -> None:
        self.small.put_release(version, self.root, self.kind)

    def catalog(self, verb: str, *words: str | Path) -> Result:
        return call(verb, *words, "--catalog", self.small.catalog)

    def __call__(self, verb: str, *words: str) -> Result:
        return self.catalog(verb, *words, "--tree", self.root)

    def drop(self, patch: str) -> None:
        wheel = ("--wheel", self.small.wheel("1.0"))
        assert self.catalog("drop", patch, "--series", "one", *wheel).code == 0

    def put(self, name: str, text: str) -> None:
        (self.package / name).write_text(text)

    def refuses(self, verb: str, *words: str, path: str | None = None) -> None:
        """Hold that a command names the edited file and touches nothing."""
        before = snapshot(self.root)
        refused = self(verb, *words)
        assert (refused.code, snapshot(self.root)) == (5, before), (verb, refused.out)
        assert path is None or f"src/widget/{path}" in refused.err, refused.err


@pytest.mark.parametrize("kind", _KINDS)
def test_an_edit_of_a_dropped_file_keeps_the_receipt(tmp_path: Path, kind: str) -> None:
    tree = _Tree(tmp_path, kind)
    assert tree("apply", "-t", "one").code == 0
    patched = {name: (tree.package / name).read_text() for name in _OLD}
    tree.drop("0002-b.patch")
    tree.put("b.py", "B = 2\nMINE = 1\n")
    tree.refuses("verify", "-t", "one", path="b.py")  # a.py and keep.py are what one makes
    tree.put("a.py", _OLD["a.py"])
    tree.put("keep.py", KEEP)
    for verb in ("apply", "adopt", "reverse", "verify"):
        tree.refuses(verb, "-t", "one", path=None if verb in ("adopt", "verify") else "b.py")
    assert tree("verify", "--dry-run", "-t", "one").code == 5
    status = tree("status", "--json")
    assert (status.code, status.facts["state"]) == (5, "foreign")
    for name, text in patched.items():
        tree.put(name, text)
    assert tree("reverse").code == 0
    assert {name: (tree.package / name).read_text() for name in _OLD} == _OLD


@pytest.mark.parametrize("kind", ["git", "plain"])
def test_the_receipt_of_another_revision_is_void(tmp_path: Path, kind: str) -> None:
    tree = _Tree(tmp_path, kind)
    assert tree("apply", "-t", "one").code == 0
    tree.write("1.1")
    assert tree("status", "--json").facts["receipt_is_void"]
    if kind == "git":  # no file is an edit: the tree is another revision
        for verb in (["apply"], ["verify", "--dry-run"]):
            told = tree(*verb, "-t", "two")
            assert "edited" not in told.out + told.err
            assert "new (1.1), pristine" in told.out + told.err
    assert tree("verify", "--dry-run", "-t", "new").code == 0
    done = tree("apply", "-t", "new")
    assert done.code == 0, done.err
    assert [entry["target"] for entry in tree("status", "--json").facts["stack"]] == ["new"]
    assert tree("reverse").code == 0
    assert {name: (tree.package / name).read_text() for name in _NEW} == _NEW


@pytest.mark.parametrize("kind", ["git", "plain"])
def test_reverse_removes_the_receipt_of_another_revision(tmp_path: Path, kind: str) -> None:
    tree = _Tree(tmp_path, kind)
    assert tree("apply", "-t", "one").code == 0
    tree.write("1.1")
    tree.put("b.py", "B = 2\nMINE = 1\n")
    tree.refuses("reverse", path="b.py")
    tree.put("b.py", _NEW["b.py"])
    done = tree("reverse")
    assert (done.code, "nothing to do" in done.out) == (0, True), done.err
    facts = tree("status", "--json").facts
    assert (facts["state"], facts["stack"], facts["receipt_is_void"]) == ("pristine", [], False)
    assert {name: (tree.package / name).read_text() for name in _NEW} == _NEW


def test_the_receipt_of_what_moves_along_is_renewed(tmp_path: Path) -> None:
    """One file is patched still; the others, of patches that were dropped, are the new commit's."""
    tree = _Tree(tmp_path, "git")
    assert tree("apply", "-t", "one").code == 0
    patched = (tree.package / "keep.py").read_text()
    tree.write("1.1")
    tree.put("keep.py", patched)
    tree.drop("0001-a.patch")
    tree.drop("0002-b.patch")
    assert "without a receipt" not in tree("apply", "-t", "one").out
    assert tree("reverse").code == 0
    assert {name: (tree.package / name).read_text() for name in _NEW} == _NEW


def test_an_edit_that_moves_along_keeps_the_receipt(tmp_path: Path) -> None:
    """The other files are the new commit's, the edited one was carried over."""
    tree = _Tree(tmp_path, "git")
    assert tree("apply", "-t", "one").code == 0
    mine = "A = 2\nMINE = 1\n"
    tree.write("1.1")
    tree.put("a.py", mine)
    tree.refuses("apply", "-t", "new", path="a.py")
    assert tree("status", "--json").facts["state"] == "foreign"
    git(tree.root, "commit", "--quiet", "--all", "--message", "mine")  # git has both contents now
    assert tree("apply", "-t", "new").code == 0
    assert (tree.package / "a.py").read_text() == mine


@pytest.mark.parametrize("kind", _KINDS)
def test_an_edit_of_another_series_keeps_its_receipt(tmp_path: Path, kind: str) -> None:
    """No file of it is as written: one was put back by hand, the other edited."""
    tree = _Tree(tmp_path, kind)
    assert tree("apply", "-t", "two").code == 0
    tree.put("keep.py", KEEP)
    tree.put("b.py", "B = 2\nMINE = 1\n")
    tree.drop("0002-b.patch")
    tree.refuses("apply", "-t", "one", path="b.py")
    tree.put("b.py", _OLD["b.py"])
    assert tree("apply", "-t", "one").code == 0
    assert [entry["target"] for entry in tree("status", "--json").facts["stack"]] == ["one"]


@pytest.mark.parametrize("kind", _KINDS)
def test_files_of_two_series_are_put_back(tmp_path: Path, kind: str) -> None:
    """The lower series is not in a file that is as it was before both."""
    tree = _Tree(tmp_path, kind)
    tree.drop("0002-b.patch")
    assert tree("apply", "-t", "one", "-t", "two").code == 0
    for name, text in _OLD.items():
        tree.put(name, text)
    assert tree("status", "--json").facts["receipt_is_void"]
    assert tree("reverse").code == 0
    done = tree("apply", "-t", "one")
    assert (done.code, "applied one" in done.out) == (0, True), done.out
    assert tree("verify", "-t", "one").code == 0
    assert tree("reverse").code == 0
    assert {name: (tree.package / name).read_text() for name in _OLD} == _OLD


@pytest.mark.parametrize("kind", _KINDS)
def test_a_series_goes_on_top_of_one_that_is_replaced_with_it(tmp_path: Path, kind: str) -> None:
    """In one transaction: the upper one's original is what the newer lower one writes."""
    tree = _Tree(tmp_path, kind)
    assert tree("apply", "-t", "one").code == 0
    tree.drop("0001-a.patch")
    tree.drop("0002-b.patch")
    for _ in range(2):
        done = tree("apply", "-t", "one", "-t", "two")
        assert done.code == 0, done.err
    for name in ("one", "two"):
        assert tree("verify", "--dry-run", "-t", name).code == 0
    assert tree("reverse").code == 0
    assert tree("verify", "-t", "one").code == 0
    assert tree("reverse").code == 0
    assert {name: (tree.package / name).read_text() for name in _OLD} == _OLD


def test_an_older_series_stands_below_one_that_was_put_back(tmp_path: Path) -> None:
    """A file of its dropped patch is in the tree, which is not what today's series makes."""
    tree = _Tree(tmp_path, "plain")
    tree.drop("0002-b.patch")
    assert tree("apply", "-t", "one").code == 0
    below = (tree.package / "keep.py").read_text()
    assert tree("apply", "-t", "two").code == 0
    tree.drop("0001-a.patch")
    tree.put("keep.py", below)
    tree.put("b.py", _OLD["b.py"])
    facts = tree("status", "--json").facts
    assert (facts["state"], facts["is_current"], facts["receipt_is_void"]) == (
        "patched",
        False,
        False,
    )
    assert [entry["target"] for entry in facts["stack"]] == ["one"]
    assert "older series of one" in tree("verify", "-t", "one").err
    assert tree("apply", "-t", "one").code == 0
    assert (tree.package / "a.py").read_text() == _OLD["a.py"]
    assert tree("verify", "-t", "one").code == 0


def test_reverse_removes_added_files_that_git_left_in_another_revision(tmp_path: Path) -> None:
    """`git checkout --force TAG` replaces the patched files, and keeps the untracked ones."""
    files = {"b.py": "B = 2\n", "added.py": "ADDED = 1\n"}
    small = make_small(tmp_path / "small", {"1.0": _OLD, "1.1": _NEW}, [("a", files)])
    small.add_target("new", _OF_NEW, "1.1")
    wheels = [f"--wheel={small.wheel(version)}" for version in ("1.0", "1.1")]
    assert call("lock", "--catalog", small.catalog, *wheels).code == 0
    where, root = ("--catalog", small.catalog, "--tree", tmp_path / "tree"), tmp_path / "tree"
    small.put_release("1.0", root, "git")
    assert call("apply", "-t", "one", *where).code == 0
    small.put_release("1.1", root, "git")
    added = root / "src/widget/added.py"
    added.write_text("ADDED = 2\n")
    assert call("reverse", *where).code == 5
    added.write_text("ADDED = 1\n")
    refused = call("apply", "-t", "new", *where)
    assert (refused.code, "`pkgtools reverse --target one --tree " in refused.err) == (4, True)
    done = call("reverse", *where, "--json")
    assert (done.code, done.facts["changed"]) == (0, ["src/widget/added.py"]), done.err
    assert git(root, "status", "--porcelain") == ""
    assert call("apply", "-t", "new", *where).code == 0
