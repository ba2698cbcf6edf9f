"""`verify` holds the whole package against RECORD, or against git."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import call
from project import git, record_row
from scenarios import apply, make_tree

if TYPE_CHECKING:
    from commands import Result
    from project import Project

    from pkgtools.source import Tree


def _verify(project: Project, tree: Tree, *more: str) -> Result:
    return call("verify", "--tree", tree.root, "--catalog", project.targets, *more)


@pytest.mark.parametrize("layout", ["site", "checkout"])
def test_files_beyond_the_series_are_named(layout: str, project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, layout, tmp_path)
    apply(project, tree)
    assert _verify(project, tree).code == 0
    package = (tree.root / tree.name("src/widget/core.py")).parent
    (package / "__init__.py").write_text("CHANGED = True\n")
    (package / "stray.py").write_text("STRAY = True\n")
    other = package / "other.py"
    other.unlink()
    done = _verify(project, tree, "--json")
    assert done.code == 8
    found = done.facts["error"]["details"]["differences"]
    assert {(each["path"], each["what"]) for each in found} == {
        (tree.name("src/widget/__init__.py"), "changed"),
        (tree.name("src/widget/other.py"), "missing"),
        (tree.name("src/widget/stray.py"), "extra"),
    }
    said = _verify(project, tree).err
    assert "__init__.py (changed)" in said
    assert "other.py (missing)" in said
    assert "stray.py (extra)" in said
    assert "--series-only" in said
    assert _verify(project, tree, "--series-only").code == 0


def test_what_others_put_beside_is_not_the_packages(project: Project, tmp_path: Path) -> None:
    """Bytecode, and another distribution's files in the same namespace package."""
    tree = make_tree(project, "site", tmp_path)
    apply(project, tree)
    cache = tree.root / "widget/__pycache__"
    cache.mkdir(exist_ok=True)
    (cache / f"core.{sys.implementation.cache_tag}.pyc").write_bytes(b"compiled")
    plugin = tree.root / "widget/plugin.py"
    plugin.write_bytes(b"PLUGIN = 1\n")
    assert "plugin.py (extra)" in _verify(project, tree).err
    info = tree.root / "widget_plugin-1.0.dist-info"
    info.mkdir()
    (info / "RECORD").write_bytes(record_row("widget/plugin.py", b"PLUGIN = 1\n"))
    assert _verify(project, tree).code == 0


def test_a_checkout_is_held_against_the_targets_revision(project: Project, tmp_path: Path) -> None:
    """Not against HEAD, which may have commits of its own; ignored files are left out."""
    root = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", project.repository, root)
    git(root, "checkout", "--quiet", "--detach", "v1.0")
    (root / "src/widget/other.py").write_text("MINE = 1\n")
    (root / ".gitignore").write_text("*.log\n")
    (root / "src/widget/x.log").write_text("x\n")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "mine")
    tree = project.tree(root)
    apply(project, tree)
    done = _verify(project, tree)
    assert done.code == 8
    assert "src/widget/other.py (changed)" in done.err
    assert "x.log" not in done.err


def test_a_row_with_a_name_that_no_file_can_have(project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, "site", tmp_path)
    apply(project, tree)
    assert tree.record is not None
    with tree.record.open("ab") as record:
        record.write(record_row("widget/no\0file.py", b""))
    done = _verify(project, tree, "--json")
    assert done.code == 8
    (found,) = done.facts["error"]["details"]["differences"]
    assert (found["path"], found["what"]) == ("widget/no\0file.py", "missing")


def test_series_only_is_for_a_patched_tree(project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, "site", tmp_path)
    done = _verify(project, tree, "--dry-run", "--series-only")
    assert done.code == 2
    assert "--series-only" in done.err


def test_a_wheel_is_what_its_record_says(project: Project, tmp_path: Path) -> None:
    built = call(
        *("build", "wheel", "-t", "w-1.0", "--wheel", project.wheel("1.0"), "-o", tmp_path / "d"),
        *("--catalog", project.targets, "--json"),
    )
    good, bad = Path(built.facts["path"]), tmp_path / Path(built.facts["path"]).name
    where = ("--catalog", project.targets, "--wheel")
    assert call("verify", *where, good).code == 0
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(bad, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            if info.filename == "widget/other.py":
                continue
            new.writestr(info, b"CHANGED\n" if info.filename == "widget/__init__.py" else data)
        new.writestr("widget/stray.py", b"")
        new.writestr("widget_kit.pth", b"import os\n")
    done = call("verify", *where, bad, "--json")
    assert done.code == 8
    found = done.facts["error"]["details"]["differences"]
    assert {(each["path"], each["what"]) for each in found} == {
        ("widget/__init__.py", "changed"),
        ("widget/other.py", "missing"),
        ("widget/stray.py", "extra"),
        ("widget_kit.pth", "extra"),
    }
    assert call("verify", *where, bad, "--series-only").code == 0


def test_a_commit_is_what_its_revision_was(project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, "checkout", tmp_path)
    git(tree.root, "tag", "v1.0")
    apply(project, tree)
    where = ("--catalog", project.targets, "--git", tree.root)
    git(tree.root, "add", "--all")
    git(tree.root, "commit", "--quiet", "--message", "patched")
    assert call("verify", *where, "--rev", "HEAD").code == 0
    (tree.root / "src/widget/stray.py").write_text("")
    (tree.root / "src/widget/__init__.py").write_text("CHANGED = 1\n")
    git(tree.root, "rm", "--quiet", "src/widget/other.py")
    git(tree.root, "add", "--all")
    git(tree.root, "commit", "--quiet", "--message", "and edited")
    done = call("verify", *where, "--rev", "HEAD")
    assert done.code == 8
    for told in ("__init__.py (changed)", "other.py (missing)", "stray.py (extra)"):
        assert told in done.err
    assert call("verify", *where, "--rev", "HEAD", "--series-only").code == 0
