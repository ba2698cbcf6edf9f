"""`pkgtools status`: what a tree is, said without touching it."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest
from commands import call
from crash import Fault, die, faulty, in_child
from project import git
from scenarios import apply, apply_changed, make_tree
from trees import snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from commands import Result
    from project import Project

LAYOUTS = ["site", "checkout", "archive"]


def _status(project: Project, root: Path, *more: str) -> Result:
    before = snapshot(root)
    done = call("status", "--tree", root, "--catalog", project.targets, *more)
    assert snapshot(root) == before
    return done


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pristine_then_patched_then_edited(layout: str, project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, layout, tmp_path)
    done = _status(project, tree.root, "--json")
    assert done.code == 0
    facts = done.facts
    assert (facts["state"], facts["target"], facts["revisions"]) == ("pristine", "w-1.0", ["1.0"])
    assert (facts["series"], facts["edited"], facts["interrupted"]) == (None, [], False)

    apply(project, tree)
    done = _status(project, tree.root, "--json")
    assert done.code == 0
    facts = done.facts
    assert (facts["state"], facts["target"], facts["revisions"]) == ("patched", "w-1.0", ["1.0"])
    assert facts["series"] == project.catalog().target("w-1.0").series.digest
    assert facts["is_current"] is True
    assert facts["path"] == str(tree.root)
    verified = call("verify", "--tree", tree.root, "--catalog", project.targets, "--json").facts
    held = {file["path"]: file["patches"] for file in verified["files"]}
    assert {file["path"]: file["patches"] for file in facts["files"]} == held

    tree.file("src/widget/core.py").write_bytes(b"mine\n")
    done = _status(project, tree.root, "--json")
    assert done.code == 5
    assert (done.facts["state"], done.facts["edited"]) == ("foreign", ["src/widget/core.py"])
    tree.file("src/widget/core.py").write_bytes(project.releases["1.0"]["src/widget/core.py"].data)
    done = _status(project, tree.root)
    assert done.code == 4
    assert "  next: put the rest back too" in done.out


def test_an_older_series_says_what_to_do(project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, "site", tmp_path)
    apply_changed(project, tree)
    done = _status(project, tree.root)
    assert done.code == 0
    assert "patched, w-1.0 (1.0)" in done.out
    assert "next: " in done.out
    assert f"`pkgtools apply --target w-1.0 --tree {tree.root} " in done.out
    assert _status(project, tree.root, "--json").facts["is_current"] is False
    assert call(
        "status", "--tree", tree.root, "--catalog", project.changed_targets, "--json"
    ).facts["is_current"]


def test_a_run_that_was_killed_is_told(project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, "site", tmp_path)

    def doomed() -> None:
        with faulty(Fault(die, at=75)):
            apply(project, tree)

    assert in_child(doomed).killed
    done = _status(project, tree.root, "--json")
    assert done.facts["interrupted"] is True
    assert "pkgtools recover" in _status(project, tree.root).out
    assert call("recover", "--tree", tree.root, "--catalog", project.targets).code == 0
    assert _status(project, tree.root, "--json").facts["interrupted"] is False


def test_a_void_receipt_is_told(project: Project, tmp_path: Path) -> None:
    root = project.write_checkout(tmp_path / "tree")
    apply(project, project.tree(root))
    git(root, "checkout", "--quiet", "--", ".")
    git(root, "clean", "--quiet", "--force", "-d")
    done = _status(project, root, "--json")
    assert done.code == 0
    assert (done.facts["state"], done.facts["receipt_is_void"]) == ("pristine", True)


def test_files_left_beside_another_revision_are_taken_out(project: Project, tmp_path: Path) -> None:
    """`git checkout --force` leaves the files that a series added."""
    root = tmp_path / "tree"
    git(tmp_path, "clone", "--quiet", "--branch", "v1.0", project.repository, root)
    apply(project, project.tree(root))
    git(root, "checkout", "--quiet", "--force", "v1.1")
    done = _status(project, root)
    assert done.code == 4
    _follow(done)
    assert git(root, "status", "--porcelain") == ""
    assert _status(project, root, "--json").facts["state"] == "pristine"


def test_an_edit_says_what_to_do(project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, "site", tmp_path)
    tree.file("src/widget/core.py").write_bytes(b"mine\n")
    assert "next: undo the edits if these are yours" in _status(project, tree.root).out
    tree.file("src/widget/core.py").write_bytes(project.releases["1.0"]["src/widget/core.py"].data)
    apply(project, tree)
    tree.file("src/widget/core.py").write_bytes(b"mine\n")
    done = _status(project, tree.root)
    assert f"`pkgtools refresh --series w-1.0 --tree {tree.root} --catalog" in done.out


def _follow(done: Result) -> None:
    (command,) = re.findall(r"^  next: .*`pkgtools ([^`]+)`$", done.out, re.MULTILINE)
    assert call(*shlex.split(command)).code == 0


def test_a_tree_that_can_only_be_read(project: Project, tmp_path: Path) -> None:
    """No lock file, no scratch file: looking needs no right to write."""
    tree = make_tree(project, "site", tmp_path)
    apply(project, tree)
    for path in [tree.root, *tree.root.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    assert _status(project, tree.root).code == 0
    for path in [tree.root, *tree.root.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
