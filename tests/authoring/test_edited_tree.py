"""`new` and `refresh` read edits from a tree with the series, and say what another tree is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from commands import Result, call
from project import git
from small import KEEP, Small, make_small
from trees import snapshot

if TYPE_CHECKING:
    from pathlib import Path

_OLD = {"a.py": "A = 1\n", "b.py": "B = 1\n", "keep.py": KEEP, "more.py": KEEP}
_NEW = {**_OLD, "a.py": "A = 1\nNEW = 1\n", "keep.py": f"NEW = 1\n{KEEP}"}
_ONE = {
    "b.py": "B = 2\n",
    "keep.py": KEEP.replace("LINE_2 = 2", "LINE_2 = 'one'"),
    "stray.py": "STRAY = 1\n",
}
_TWO = """\
--- a/src/widget/{name}
+++ b/src/widget/{name}
@@ -15,3 +15,3 @@
 LINE_14 = 14
-LINE_15 = 15
+LINE_15 = "two"
 LINE_16 = 16
"""


class _Case:
    def __init__(self, small: Small, kind: str, root: Path) -> None:
        self.small, self.kind, self.root = small, kind, root
        self.package = root / ("widget" if kind == "site" else "src/widget")

    def write(self, version: str) -> None:
        self.small.put_release(version, self.root, self.kind)

    def run(self, verb: str, *words: str) -> Result:
        wheels = [f"--wheel={self.small.wheel(v)}" for v in ("1.0", "1.1")]
        wheels = [] if verb in ("apply", "reverse") else wheels
        tree = [f"--tree={self.root}"] if verb != "lock" else []
        return call(verb, *words, *wheels, *tree, "--catalog", self.small.catalog)

    def refuses(self, code: int, *told: str) -> None:
        """Hold that both commands refuse for the same reason and write nothing."""
        before = snapshot(self.small.catalog.parent)
        for words in (("new", "mine", "-m", "mine"), ("refresh",)):
            done = self.run(*words, "--series", "one")
            assert (done.code, all(word in done.err for word in told)) == (code, True), done.err
            assert "next: " in done.err
        assert snapshot(self.small.catalog.parent) == before


@pytest.fixture(name="case", params=["site", "git", "plain"])
def _case(request: pytest.FixtureRequest, tmp_path: Path) -> _Case:
    """Make a catalog with two series of 1.0 and one of 1.1."""
    small = make_small(tmp_path / "small", {"1.0": _OLD, "1.1": _NEW}, [("one", _ONE)])
    later = _TWO.format(name="keep.py").replace("@@ -15,3 +15,3", "@@ -16,3 +16,3")
    small.add_target("two", _TWO.format(name="more.py"))
    small.add_target("next", later, "1.1")
    wheels = [f"--wheel={small.wheel(version)}" for version in ("1.0", "1.1")]
    assert call("lock", "--catalog", small.catalog, *wheels).code == 0
    return _Case(small, request.param, tmp_path / "tree")


def test_a_tree_without_the_series(case: _Case) -> None:
    """With edits or none, with another series or none: a patch would undo the series."""
    case.write("1.0")
    case.refuses(2, "one is not applied to", "pkgtools apply --target one --tree")
    (case.package / "a.py").write_text("A = 1\nMINE = 1\n")
    case.refuses(2, "one is not applied to")
    assert case.run("apply", "--target", "two").code == 0
    case.refuses(2, "one is not applied to")
    (case.package / "keep.py").write_text(f"{KEEP}MINE = 1\n")
    case.refuses(2, "one is not applied to")
    (case.package / "stray.py").write_text(_ONE["stray.py"])  # as an uninstall can leave it
    case.refuses(2, "one is not applied to")


def test_a_tree_of_another_release(case: _Case) -> None:
    case.write("1.0")
    assert case.run("apply", "--target", "one").code == 0
    if case.kind == "site":
        for path in sorted(case.root.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
    case.write("1.1")
    known = {  # git leaves stray.py
        "site": "is nearest to release 1.1",
        "plain": "is nearest to next (1.1)",
        "git": f"is a checkout of {case.small.commits['1.1'][:12]}",
    }[case.kind]
    case.refuses(5, known, "1.0")
    if case.kind != "site":
        left = case.run("apply", "--target", "next")
        told = "some of one is still in the tree (src/widget/stray.py)"
        step = "pkgtools reverse --target one"
        assert (left.code, told in left.err, step in left.err) == (4, True, True)
        assert case.run("reverse", "--target", "one").code == 0
        assert not (case.package / "stray.py").exists()
    assert case.run("apply", "--target", "next").code == 0
    case.refuses(5, known)
    (case.package / "a.py").write_text("A = 2\n")
    case.refuses(5, known)


def test_a_tree_with_the_series_and_no_receipt(case: _Case) -> None:
    """The lines of the series tell; a person's edit is beside them."""
    case.write("1.0")
    for name, text in _ONE.items():
        (case.package / name).write_text(text)
    mine = f"{_ONE['keep.py']}MINE = 1\n"
    (case.package / "keep.py").write_text(mine)
    done = case.run("refresh", "--series", "one")
    assert (done.code, "rewritten 0001-one.patch" in done.out) == (0, True), done.err
    made = case.small.made(case.small.series, "1.0")
    assert made["src/widget/keep.py"] == mine.encode()
    assert made.keys() == {f"src/widget/{name}" for name in _ONE}


@pytest.mark.parametrize("case", ["git"], indirect=True)
def test_a_checkout_of_another_commit_with_edits_everywhere(case: _Case) -> None:
    """No file is a known revision's, so only git tells what the edits are on."""
    case.write("1.0")
    assert case.run("apply", "--target", "one").code == 0
    case.write("1.1")
    commit = case.small.commits["1.1"][:12]
    for name, text in (_NEW | {"b.py": _ONE["b.py"]}).items():
        (case.package / name).write_text(f"{text}MINE = 1\n")
    told = (f"a checkout of {commit}", "src/widget/keep.py", f"--from {commit}")
    case.refuses(5, *told)
    git(case.root, "commit", "--quiet", "--all", "--message", "mine")
    case.refuses(5, *told)
    git(case.root, "checkout", "--quiet", "-b", "mine", "v1.0")
    for name, text in _ONE.items():
        (case.package / name).write_text(f"{text}MINE = 1\n")
    git(case.root, "commit", "--quiet", "--all", "--message", "the series and edits")
    assert case.run("refresh", "--series", "one").code == 0
    assert b"MINE" in (case.small.made(case.small.series, "1.0")["src/widget/keep.py"] or b"")


@pytest.mark.parametrize("name", ["refs/tags/team-1", "refs/tags/v1.0-mine", "refs/remotes/fork/m"])
@pytest.mark.parametrize("case", ["git"], indirect=True)
def test_edits_in_a_fork_that_are_tagged_or_pushed(case: _Case, name: str) -> None:
    """Beside upstream's own remote, whose branches tell which commits are upstream's."""
    case.write("1.0")
    git(case.root, "remote", "rename", "origin", "fork")
    for path, text in _ONE.items():
        (case.package / path).write_text(f"{text}MINE = 1\n")
    git(case.root, "add", "--all")
    git(case.root, "commit", "--quiet", "--message", "the series and edits")
    git(case.root, "update-ref", name, "HEAD")
    assert case.run("new", "mine", "-m", "mine", "--series", "one").code == 0
    (case.small.series / "mine.patch").unlink()
    (case.small.series / "series").write_text("0001-one.patch\n")
    git(case.root, "remote", "add", "upstream", "git@git.example.invalid:widget.git")
    git(case.root, "update-ref", "refs/remotes/upstream/main", "HEAD")
    case.refuses(5, f"is a checkout of {git(case.root, 'rev-parse', 'HEAD')[:12]}")
    git(case.root, "update-ref", "refs/remotes/upstream/main", case.small.commits["1.0"])
    assert case.run("refresh", "--series", "one").code == 0
    assert b"MINE" in (case.small.made(case.small.series, "1.0")["src/widget/keep.py"] or b"")
