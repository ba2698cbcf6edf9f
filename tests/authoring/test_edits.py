"""`new` and `refresh` see every kind of edit, and no file that nobody wrote."""

from __future__ import annotations

import shutil
import sys
import sysconfig
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from commands import call
from project import git
from small import Small, make_small

from pkgtools.catalog import load_series

if TYPE_CHECKING:
    from pathlib import Path

_TEXT = "".join(f"line{n} = {n}\n" for n in range(20))


@pytest.fixture
def small(tmp_path: Path) -> Small:
    files = {"a.py": "A = 1\n", "big.py": _TEXT, "tool.py": "#!/usr/bin/env python3\n"}
    return make_small(tmp_path / "small", {"1.0": files}, [("one", {"a.py": "A = 2\n"})])


@pytest.fixture(params=["checkout", "installed"])
def tree(request: pytest.FixtureRequest, small: Small, tmp_path: Path) -> Path:
    """Return a package folder with the series in it, of a checkout or of an installation."""
    where = tmp_path / "tree"
    if request.param == "checkout":
        git(small.repository, "worktree", "add", "--quiet", "--detach", where, "v1.0")
        package = where / "src" / "widget"
    else:
        with zipfile.ZipFile(small.wheel("1.0")) as archive:
            archive.extractall(where)
        package = where / "widget"
    (package / "a.py").write_text("A = 2\n")
    return package


def _new(small: Small, tree: Path, source: str = "wheel") -> Any:
    where = tree.parent.parent if tree.parent.name == "src" else tree.parent
    words: list[str | Path] = ["new", "two.patch", "--series", "one", "--tree", where, "-m", "x"]
    words += ["--catalog", small.catalog, "--json"]
    words += ["--wheel", small.wheel("1.0")] if source == "wheel" else []
    words += ["--git", small.repository, "--from", small.commits["1.0"]] if source == "git" else []
    done = call(*words)
    assert done.code in (0, 2), done.err
    return done.facts


def _kinds(facts: Any) -> dict[str, str]:
    return {file["path"].removeprefix("src/widget/"): file["kind"] for file in facts["files"]}


def _holds_for_git(small: Small, tree: Path, tmp_path: Path) -> None:
    """Apply the series with git and compare with the edited tree."""
    where = tmp_path / "applied"
    git(small.repository, "worktree", "add", "--quiet", "--detach", where, "v1.0")
    for patch in load_series(small.series).patches:
        git(where, "apply", small.series / patch.name)
    made = {p.name: (p.read_bytes(), p.stat().st_mode) for p in (where / "src/widget").iterdir()}
    have = {p.name: (p.read_bytes(), p.stat().st_mode) for p in tree.iterdir() if p.is_file()}
    assert made == have


@pytest.mark.parametrize("source", ["wheel", "git"])
def test_every_kind_of_edit(small: Small, tree: Path, tmp_path: Path, source: str) -> None:
    (tree / "added.py").write_text("ADDED = 1\n")
    (tree / "big.py").rename(tree / "large.py")
    (tree / "__init__.py").unlink()
    (tree / "a.py").write_text("A = 3\n")
    assert _kinds(_new(small, tree, source)) == {
        "__init__.py": "delete",
        "a.py": "modify",
        "added.py": "create",
        "large.py": "rename",
    }
    _holds_for_git(small, tree, tmp_path)


def test_a_file_that_only_goes(small: Small, tree: Path, tmp_path: Path) -> None:
    (tree / "big.py").unlink()
    assert _kinds(_new(small, tree)) == {"big.py": "delete"}
    _holds_for_git(small, tree, tmp_path)


def test_a_mode(small: Small, tree: Path, tmp_path: Path) -> None:
    (tree / "tool.py").chmod(0o755)
    assert _kinds(_new(small, tree)) == {"tool.py": "modify"}
    _holds_for_git(small, tree, tmp_path)


def test_what_nobody_wrote_is_left_out_and_named(small: Small, tree: Path) -> None:
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    junk = [f"_fast{suffix}", "a.py.orig", "a.py.rej", "big.py~", ".a.py.swp", "a.pyc"]
    for name in junk:
        (tree / name).write_bytes(b"\0")
    (tree / "__pycache__").mkdir()
    (tree / "__pycache__" / f"a.{sys.implementation.cache_tag}.pyc").write_bytes(b"\0")
    (tree / "big.py").write_text(_TEXT + "more = 1\n")
    facts = _new(small, tree)
    assert _kinds(facts) == {"big.py": "modify"}
    assert facts["left_out"] == sorted(f"src/widget/{name}" for name in junk)


@pytest.mark.parametrize("committed", [False, True])
def test_what_git_ignores_is_no_edit(small: Small, tmp_path: Path, *, committed: bool) -> None:
    where = tmp_path / "tree"
    git(small.repository, "worktree", "add", "--quiet", "--detach", where, "v1.0")
    package = where / "src" / "widget"
    (package / "a.py").write_text("A = 2\n")
    (where / ".gitignore").write_text("_version.py\n")
    if committed:
        git(where, "add", "--all")
        git(where, "commit", "--quiet", "--message", "ignore")
    (package / "_version.py").write_text("v = 1\n")
    (package / "added.py").write_text("ADDED = 1\n")
    facts = _new(small, package, "git")
    assert _kinds(facts) == {"added.py": "create"}
    assert facts["left_out"] == []


def test_files_that_only_a_wheel_has_are_no_edits(small: Small, tmp_path: Path) -> None:
    """A build generates files, and leaves some of the source tree out."""
    wheel = small.wheel("1.0")
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("widget/_version.py", "v = 1\n")
        record = next(n for n in archive.namelist() if n.endswith("RECORD"))
        rows = archive.read(record).decode() + "widget/_version.py,,\n"
    where = tmp_path / "tree"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(where)
    lines = [row for row in rows.splitlines(keepends=True) if "tool.py" not in row]
    (where / record).write_text("".join(lines))
    (where / "widget" / "tool.py").unlink()  # this wheel never had it
    (where / "widget" / "a.py").write_text("A = 3\n")
    assert _kinds(_new(small, where / "widget", "git")) == {"a.py": "modify"}
    shutil.rmtree(where)
    git(small.repository, "worktree", "add", "--quiet", "--detach", where, "v1.0")
    (small.series / "two.patch").unlink()
    (small.series / "series").write_text("0001-one.patch\n")
    (where / "src" / "widget" / "a.py").write_text("A = 3\n")
    assert _kinds(_new(small, where / "src" / "widget")) == {"a.py": "modify"}


def test_refresh_names_edits_that_no_patch_takes(small: Small, tree: Path) -> None:
    where = tree.parent.parent if tree.parent.name == "src" else tree.parent
    (tree / "big.py").write_text("B = 1\n")
    (tree / "a.py").write_text("A = 3\n")
    words: list[str | Path] = [
        "refresh",
        "--series",
        "one",
        "--tree",
        where,
        "--catalog",
        small.catalog,
    ]
    done = call(*words, "--wheel", small.wheel("1.0"))
    assert done.code == 0, done.err
    assert "not in the series: src/widget/big.py\n" in done.out
    assert "pkgtools new" in done.out
    assert "a.py" not in done.out


def test_a_file_that_a_patch_renamed_is_gone(small: Small, tree: Path, tmp_path: Path) -> None:
    (tree / "big.py").rename(tree / "large.py")
    assert _kinds(_new(small, tree)) == {"large.py": "rename"}
    (tree / "large.py").rename(tree / "huge.py")
    where = tree.parent.parent if tree.parent.name == "src" else tree.parent
    words: list[str | Path] = [
        "new",
        "three",
        "--series",
        "one",
        "--tree",
        where,
        "-m",
        "x",
        "--json",
    ]
    done = call(*words, "--catalog", small.catalog, "--wheel", small.wheel("1.0"))
    assert _kinds(done.facts) == {"huge.py": "rename"}
    _holds_for_git(small, tree, tmp_path)


@pytest.mark.parametrize("committed", [False, True])
def test_a_tracked_file_that_the_wheel_lacks_is_never_passed_over(
    small: Small, tmp_path: Path, *, committed: bool
) -> None:
    """It may be new, or upstream may have left it out of the wheel: only git can tell."""
    where = tmp_path / "tree"
    git(small.repository, "worktree", "add", "--quiet", "--detach", where, "v1.0")
    package = where / "src" / "widget"
    (package / "a.py").write_text("A = 2\n")
    git(where, "mv", "src/widget/big.py", "src/widget/large.py")
    if committed:
        git(where, "commit", "--quiet", "--all", "--message", "rename")
    error = _new(small, package)["error"]
    assert "src/widget/large.py" in error["message"]
    assert "--git" in error["remedy"]
    assert [p.name for p in load_series(small.series).patches] == ["0001-one.patch"]
    words: list[str | Path] = ["refresh", "--series", "one", "--tree", where, "--json"]
    done = call(*words, "--catalog", small.catalog, "--wheel", small.wheel("1.0"))
    assert "src/widget/large.py" in done.facts["beyond"]
    assert _kinds(_new(small, package, "git")) == {"large.py": "rename"}
    _holds_for_git(small, package, tmp_path)


def test_a_committed_deletion_is_named_where_only_the_wheel_is_at_hand(
    small: Small, tmp_path: Path
) -> None:
    where = tmp_path / "tree"
    git(small.repository, "worktree", "add", "--quiet", "--detach", where, "v1.0")
    package = where / "src" / "widget"
    (package / "a.py").write_text("A = 2\n")
    git(where, "rm", "--quiet", "src/widget/big.py")
    git(where, "commit", "--quiet", "--all", "--message", "delete")
    assert "src/widget/big.py" in _new(small, package)["error"]["message"]
    (package / "a.py").write_text("A = 3\n")
    facts = _new(small, package)
    assert (_kinds(facts), facts["left_out"]) == ({"a.py": "modify"}, ["src/widget/big.py"])


def test_the_tag_of_the_checkout_is_the_source_where_none_is_given(
    small: Small, tmp_path: Path
) -> None:
    """No wheel is looked for: the tag has every file of the release."""
    where = tmp_path / "tree"
    git(small.repository, "worktree", "add", "--quiet", "--detach", where, "v1.0")
    (where / "src" / "widget" / "a.py").write_text("A = 2\n")
    git(where, "mv", "src/widget/big.py", "src/widget/large.py")
    words: list[str | Path] = ["--series", "one", "--tree", where, "--catalog", small.catalog]
    assert call("refresh", *words, "--json").facts["beyond"] == [
        "src/widget/big.py",
        "src/widget/large.py",
    ]
    assert _kinds(call("new", "two", *words, "-m", "x", "--json").facts) == {"large.py": "rename"}


def test_edits_go_into_the_series_again_and_again_before_it_is_locked(tmp_path: Path) -> None:
    files = {"a.py": "A = 1\n", "b.py": "B = 1\n"}
    small = make_small(tmp_path / "small", {"1.0": files}, [("one", {"a.py": "A = 2\n"})])
    package = tmp_path / "tree" / "widget"
    with zipfile.ZipFile(small.wheel("1.0")) as archive:
        archive.extractall(package.parent)
    catalog: list[str | Path] = ["--tree", package.parent, "--catalog", small.catalog]
    words: list[str | Path] = [*catalog, "--series", "one", "--wheel", small.wheel("1.0")]
    assert call("lock", *catalog[2:], *words[-2:]).code == 0
    assert call("apply", *catalog).code == 0
    for number in (3, 4):
        (package / "a.py").write_text(f"A = {number}\n")
        done = call("refresh", *words)
        assert done.code == 0, done.err
    (package / "b.py").write_text("B = 5\n")
    assert _kinds(call("new", "two", "-m", "x", *words, "--json").facts) == {"b.py": "modify"}
    repository = tmp_path / "git"
    git(tmp_path, "clone", "--quiet", "--branch", "v1.0", small.repository, repository)
    git(repository, "apply", *sorted(small.series.glob("*.patch")))
    for name in files:
        made = repository / "src" / "widget" / name
        assert made.read_text() == (package / name).read_text()


def test_refresh_takes_out_what_an_edit_undoes(tmp_path: Path) -> None:
    """One file of two; a whole patch goes with `drop`."""
    files = {"a.py": "A = 1\n", "b.py": "B = 1\n"}
    edits = {"a.py": "A = 2\n", "b.py": "B = 2\n"}
    small = make_small(tmp_path / "small", {"1.0": files}, [("both", edits)])
    package = tmp_path / "tree" / "widget"
    with zipfile.ZipFile(small.wheel("1.0")) as archive:
        archive.extractall(package.parent)
    words: list[str | Path] = ["refresh", "--series", "one", "--tree", package.parent]
    words += ["--catalog", small.catalog, "--wheel", small.wheel("1.0")]
    refused = call(*words)
    assert refused.code == 2
    assert "is not applied to" in refused.err
    (package / "b.py").write_text("B = 2\n")
    assert call(*words).code == 0
    repository = tmp_path / "git"
    git(tmp_path, "clone", "--quiet", "--branch", "v1.0", small.repository, repository)
    git(repository, "apply", small.series / "0001-both.patch")
    assert git(repository, "diff", "--name-only").split() == ["src/widget/b.py"]
