"""`pkgtools reverse`: to the byte, or not at all."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from commands import call
from project import git, write_files
from scenarios import apply, make_tree, reverse
from trees import contents, differing, snapshot, timeless

from pkgtools.blob import Blob

if TYPE_CHECKING:
    from pathlib import Path

    from commands import Result
    from project import Project

LAYOUTS = ["site", "checkout", "archive"]


def _reverse(project: Project, root: Path, *more: str) -> Result:
    return call("reverse", "--tree", root, "--catalog", project.targets, *more)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_everything_is_what_it_was(layout: str, project: Project, tmp_path: Path) -> None:
    """Contents, permissions, times, folders, RECORD and what pip had compiled."""
    tree = make_tree(project, layout, tmp_path)
    before = snapshot(tmp_path)
    outcome = apply(project, tree)
    done = _reverse(project, tree.root)
    assert done.code == 0
    first, *paths = done.out.splitlines()
    assert first == f"reversed w-1.0 (1.0) in {tree.label}"
    assert [path.strip() for path in paths] == list(outcome.changed)
    after = snapshot(tmp_path)
    changed = differing(before, after)
    assert changed == (["tree/widget_kit-1.0.dist-info/RECORD"] if layout == "site" else [])
    assert differing(timeless(before), timeless(after)) == []  # of RECORD, the time only


@pytest.mark.parametrize("second", [-(10**11), 10**10, 10**11])
def test_a_file_of_another_millennium_comes_back(
    second: int, project: Project, quick_path: Path
) -> None:
    """File systems keep times that a receipt does not; the file counts."""
    tree = make_tree(project, "site", quick_path)
    os.utime(tree.file("src/widget/answer.py"), (second, second))
    before = timeless(snapshot(quick_path))
    apply(project, tree)
    assert _reverse(project, tree.root).code == 0
    assert timeless(snapshot(quick_path)) == before


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_second_time_does_nothing(layout: str, project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, layout, tmp_path)
    before = snapshot(tmp_path)
    done = _reverse(project, tree.root, "--json")
    assert (done.code, done.facts["changed"], done.facts["target"]) == (0, [], None)
    assert snapshot(tmp_path) == before
    assert "nothing to do" in _reverse(project, tree.root).out


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("path", ["core.py", "tool.sh", "extra/deep/new.py", "legacy/gone.py"])
def test_a_file_that_was_edited_since_is_named(
    path: str, layout: str, project: Project, tmp_path: Path
) -> None:
    tree = make_tree(project, layout, tmp_path)
    apply(project, tree)
    edited = tree.file(f"src/widget/{path}")
    write_files(tree.root, {tree.name(f"src/widget/{path}"): Blob(b"mine\n")})
    before = snapshot(tmp_path)
    done = _reverse(project, tree.root, "--json")
    assert done.code == 5
    assert done.facts["error"]["details"] == {"edited": [f"src/widget/{path}"]}
    assert snapshot(tmp_path) == before
    assert edited.read_bytes() == b"mine\n"


@pytest.mark.parametrize("path", ["core.py", "extra/__init__.py"])
def test_a_patched_file_that_is_gone_is_an_edit_too(
    path: str, project: Project, tmp_path: Path
) -> None:
    tree = make_tree(project, "archive", tmp_path)
    apply(project, tree)
    tree.file(f"src/widget/{path}").unlink()
    before = snapshot(tmp_path)
    assert _reverse(project, tree.root).code == 5
    tree.file(f"src/widget/{path}").mkdir()
    assert _reverse(project, tree.root).code == 5
    tree.file(f"src/widget/{path}").rmdir()
    assert snapshot(tmp_path) == before


def test_an_edit_that_was_undone_is_none(project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, "site", tmp_path)
    before = snapshot(tmp_path)
    apply(project, tree)
    path = tree.root / "widget/core.py"
    patched = path.read_bytes()
    path.write_bytes(patched + b"# a breakpoint\n")
    assert _reverse(project, tree.root).code == 5
    path.write_bytes(patched)
    os.utime(path, (0, 0))
    assert _reverse(project, tree.root).code == 0
    assert differing(timeless(before), timeless(snapshot(tmp_path))) == []


def test_files_beside_the_patched_ones_are_the_users(project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, "archive", tmp_path)
    apply(project, tree)
    mine = {f"src/widget/extra/{name}": Blob(b"mine\n") for name in ("mine.py", "deep/mine.py")}
    mine["src/widget/other.py"] = Blob(b"edited\n")
    write_files(tree.root, mine)
    assert _reverse(project, tree.root).code == 0
    assert contents(tree.root) == project.releases["1.0"] | mine


def test_a_checkout_that_git_restored_has_nothing_to_reverse(
    project: Project, tmp_path: Path
) -> None:
    """`git checkout .` undid it: the receipt that is left goes, and no file is touched."""
    root = project.write_checkout(tmp_path / "tree")
    tree = project.tree(root)
    apply(project, tree)
    git(root, "checkout", "--quiet", "--", ".")
    git(root, "clean", "--quiet", "--force", "-d")
    before = snapshot(root / "src")
    done = _reverse(project, root)
    assert done.code == 0
    assert "nothing to do" in done.out
    assert snapshot(root / "src") == before
    assert not tree.home.exists()


def test_a_tree_that_others_patched_is_not_reversed(project: Project, tmp_path: Path) -> None:
    """There is no receipt, so what was there before is not known."""
    root = tmp_path / "tree"
    write_files(root, project.patched["v1.0"])
    before = snapshot(tmp_path)
    done = _reverse(project, root)
    assert done.code == 5
    assert "no receipt" in done.err
    assert snapshot(tmp_path) == before
    write_files(root, {"src/widget/answer.py": project.releases["1.0"]["src/widget/answer.py"]})
    assert _reverse(project, root).code == 4


def test_a_reinstalled_package_has_nothing_to_reverse(project: Project, tmp_path: Path) -> None:
    """The receipt went with the .dist-info."""
    tree = make_tree(project, "site", tmp_path)
    apply(project, tree)
    shutil.rmtree(tree.root)
    make_tree(project, "site", tmp_path)
    assert reverse(project, tree).changed == ()
