"""Releases whose touched files are the same are told apart by what a source says of itself."""

from __future__ import annotations

import shutil
import zipfile
from typing import TYPE_CHECKING

import pytest
from commands import Result, call
from project import git
from small import Small, make_small
from trees import snapshot

from pkgtools.tree.release import is_release

if TYPE_CHECKING:
    from pathlib import Path

_FILES = {"a.py": "A = 1\n", "_version.py": "__version__ = version = '{}'\n"}
_PATCH = """\
--- a/src/widget/a.py
+++ b/src/widget/a.py
@@ -1 +1 @@
-A = 1
+A = 2
"""


@pytest.fixture(name="small", scope="module")
def _small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """Make a catalog with targets for 1.0 and 1.3, of which 1.0 to 1.3 have the same files."""
    releases = {
        version: {name: text.format(version) for name, text in _FILES.items()}
        for version in ("1.0", "1.2", "1.3")
    }
    small = make_small(tmp_path_factory.mktemp("small"), releases, [("a", {"a.py": "A = 2\n"})])
    small.add_target("three", _PATCH, "1.3")
    wheels = [f"--wheel={small.wheel(version)}" for version in ("1.0", "1.3")]
    assert call("lock", "--catalog", small.catalog, *wheels).code == 0
    return small


class _Tree:
    def __init__(self, small: Small, root: Path, kind: str, version: str) -> None:
        self.small, self.root = small, root
        if kind == "site":
            with zipfile.ZipFile(small.wheel(version)) as wheel:
                wheel.extractall(root)
            return
        git(root.parent, "clone", "--quiet", "--branch", f"v{version}", small.repository, root)
        if kind == "archive":
            shutil.rmtree(root / ".git")

    def __call__(self, *words: str) -> Result:
        return call(*words, "--tree", self.root, "--catalog", self.small.catalog)


@pytest.mark.parametrize("kind", ["site", "git", "archive"])
@pytest.mark.parametrize(
    ("version", "name", "other"), [("1.0", "one", "three"), ("1.3", "three", "one")]
)
def test_a_tree_says_which_of_two_releases_it_is(
    small: Small, tmp_path: Path, kind: str, version: str, name: str, other: str
) -> None:
    tree = _Tree(small, tmp_path / "tree", kind, version)
    before = snapshot(tree.root)
    found = tree("identify", "--json").facts["matches"]
    assert [(match["target"], match["revision"]) for match in found] == [(name, version)]
    told = f"is {name} ({version})"
    for words in (("apply",), ("verify", "--dry-run"), ("verify",)):
        done = tree(*words, "--target", other)
        assert (done.code in (3, 5), told in done.out + done.err) == (True, True), done
        assert f"--target {name}" in done.out + done.err
    assert snapshot(tree.root) == before
    assert tree("apply").code == 0
    verified = tree("verify").out
    assert f"is exactly {name} ({version})" in verified
    assert ("neither RECORD nor git lists other files" in verified) is (kind == "archive")
    for words in (("apply",), ("adopt",), ("verify",)):
        assert told in tree(*words, "--target", other).err, words
    assert tree("reverse").code == 0


def test_a_release_that_no_target_knows(small: Small, tmp_path: Path) -> None:
    """Its files decide, and what it says is told."""
    tree = _Tree(small, tmp_path / "tree", "site", "1.2")
    told = "the package is release 1.2, and three is for 1.3"
    assert told in tree("verify", "--dry-run", "--target", "three").out
    done = tree("apply", "--target", "three")
    assert (done.code, told in done.out) == (0, True)
    assert tree("apply", "--target", "three", "--json").facts["other_version"] == "1.2"
    for words in ((), ("--target", "three")):
        done = tree("verify", *words)
        assert (done.code, "says that it is release 1.2" in done.err) == (5, True)
        assert "port --series three --to 1.2" in done.err
        assert tree("verify", *words, "--series-only").code == 0
    built = call(
        *("build", "wheel", "--target", "three", "--wheel", small.wheel("1.2")),
        *("-o", tmp_path / "dist", "--catalog", small.catalog),
    )
    assert (built.code, told in built.out) == (0, True)


def test_a_users_own_commits_and_a_patched_wheel_say_the_same(small: Small, tmp_path: Path) -> None:
    tree = _Tree(small, tmp_path / "tree", "git", "1.3")
    (tree.root / "notes.txt").write_text("mine")
    git(tree.root, "add", "--all")
    git(tree.root, "commit", "--quiet", "--message", "mine")
    assert tree("apply").code == 0
    assert "is exactly three (1.3)" in tree("verify").out
    options = ("--target", "three", "--catalog", small.catalog)
    built = call(
        "build", "wheel", *options, "--wheel", small.wheel("1.3"), "-o", tmp_path, "--json"
    )
    assert "exactly three (1.3)" in call("verify", *options, "--wheel", built.facts["path"]).out


def test_a_commit_between_releases(small: Small, tmp_path: Path) -> None:
    """It is of no release, so the files decide, with a target's name and without."""
    tree = _Tree(small, tmp_path / "tree", "git", "1.3")
    git(tree.root, "commit", "--quiet", "--allow-empty", "--message", "nightly")
    git(tree.root, "remote", "set-url", "origin", "https://git.example.invalid/widget.git")
    git(tree.root, "update-ref", "refs/remotes/origin/main", "HEAD")
    (tree.root / "src/widget/a.py").write_text("A = 2\n")
    assert len(tree("identify", "--json").facts["matches"]) == 2
    assert tree("verify", "--series-only").code == 0
    assert tree("verify", "--target", "three").code == 0
    for words in ((), ("--target", "one")):
        done = tree("verify", *words)
        assert (done.code, "_version.py (changed)" in done.err) == (8, True), done


@pytest.mark.parametrize("name", ["refs/tags/team-1", "refs/tags/v1.3-team", "refs/remotes/o/mine"])
def test_a_users_own_commits_that_are_tagged_or_pushed(
    small: Small, tmp_path: Path, name: str
) -> None:
    tree = _Tree(small, tmp_path / "tree", "git", "1.3")
    git(tree.root, "commit", "--quiet", "--allow-empty", "--message", "mine")
    git(tree.root, "update-ref", name, "HEAD")
    found = tree("identify", "--json").facts["matches"]
    assert [match["target"] for match in found] == ["three"]
    assert tree("apply").code == 0
    assert tree("verify").code == 0


def test_a_renamed_tag(small: Small, tmp_path: Path) -> None:
    """`git describe` says another name of it than `--exclude` takes."""
    tree = _Tree(small, tmp_path / "tree", "git", "1.3")
    git(tree.root, "commit", "--quiet", "--allow-empty", "--message", "mine")
    git(tree.root, "tag", "--annotate", "--message", "mine", "inner")
    git(tree.root, "tag", "outer", "inner")
    git(tree.root, "tag", "--delete", "inner")
    found = tree("identify", "--json").facts["matches"]
    assert {"target": "three", "by_version": True}.items() <= found[-1].items()


def test_two_targets_of_one_release(small: Small, tmp_path: Path) -> None:
    shutil.copytree(small.catalog.parent, tmp_path / "catalog")
    twins = Small(tmp_path, small.commits)
    twins.add_target("twin", _PATCH)
    wheel = f"--wheel={small.wheel('1.0')}"
    assert call("lock", "--target", "twin", "--catalog", twins.catalog, wheel).code == 0
    tree = _Tree(small, tmp_path / "tree", "git", "1.0")
    tree.small = twins
    assert "pristine, one (1.0)\n" in tree("status").out


@pytest.mark.parametrize("kind", ["site", "git", "archive"])
def test_a_target_of_other_files_names_the_one_to_use(
    small: Small, tmp_path: Path, kind: str
) -> None:
    shutil.copytree(small.catalog.parent, tmp_path / "catalog")
    wider = Small(tmp_path, small.commits)
    patch = _PATCH.replace("a.py", "_version.py").replace("A = 1", "__version__ = version = '1.2'")
    wider.add_target("wide", patch, "1.2")
    wheel = f"--wheel={small.wheel('1.2')}"
    assert call("lock", "--target", "wide", "--catalog", wider.catalog, wheel).code == 0
    tree = _Tree(small, tmp_path / "tree", kind, "1.3")
    tree.small = wider
    done = tree("apply", "--target", "wide")
    assert (done.code, "is three (1.3), pristine" in done.err) == (3, True), done
    assert tree("apply", "--target", "three").code == 0


def test_a_version_of_before_pep_440(small: Small, tmp_path: Path) -> None:
    """It names no release, also where the files are unknown."""
    tree = _Tree(small, tmp_path / "tree", "site", "1.3")
    (info,) = tree.root.glob("*.dist-info")
    info.rename(info.with_name("widget_kit-2004d.dist-info"))
    (tree.root / "widget/a.py").write_text("A = 7\n")
    for words in (("verify",), ("verify", "--dry-run"), ("apply",)):
        assert tree(*words, "--target", "three").code == 5


def test_a_repository_that_git_cannot_read(small: Small, tmp_path: Path) -> None:
    """As where a clone was cut short: the files of the tree tell."""
    tree = _Tree(small, tmp_path / "tree", "git", "1.3")
    (tree.root / ".git/refs/tags/lost").write_text("1" * 40)
    assert tree("apply", "--target", "one").code == 3
    assert tree("apply", "--target", "three").code == 0


@pytest.mark.parametrize(
    ("version", "told"),
    [
        *((each, True) for each in ("1.1", "1.1.0", "1.1+local.1", "1.1+g0123abc")),
        *((each, False) for each in ("1.0", "1.1.post1", "1.1rc1", "2")),
        *((each, None) for each in (None, "1.1.1.dev3+gabc", "0.0.0", "0+unknown", "2004-x")),
    ],
)
def test_what_a_version_says(version: str | None, told: bool | None) -> None:
    assert is_release(version, "1.1") is told
    assert is_release(version, "1" * 39 + "a") is None
