"""`pkgtools adopt`: a receipt for what other means patched, and for what was edited and locked."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from catalogs import write_catalog
from commands import call
from project import installed, record_row
from scenarios import make_tree
from trees import differing, record_problems, snapshot

from pkgtools.catalog import load_catalog

if TYPE_CHECKING:
    from pathlib import Path

    from commands import Result
    from project import Project
    from trees import Entry

    from pkgtools.source import Tree

LAYOUTS = ["site", "checkout", "archive"]


def _do(verb: str, tree: Tree, catalog: Path, *more: str | Path) -> Result:
    return call(verb, "--tree", tree.root, "--catalog", catalog, *more)


def _patch(project: Project, tree: Tree) -> None:
    """Patch a tree with patch(1), as a script would."""
    strip = "-p1" if tree.is_checkout else "-p2"
    for patch in project.catalog().target("w-1.0").series.patches:
        command = ["patch", "--no-backup-if-mismatch", "--silent", strip]
        subprocess.run(command, cwd=tree.root, input=patch.data, check=True)
    (tree.root / tree.name("src/widget/tool.sh")).chmod(0o755)


def _plain(tree: dict[str, Entry]) -> dict[str, tuple[int, bytes]]:
    """Return the files of a tree but for times, compiled files and the list of them."""
    return {
        name: (entry.mode, entry.data)
        for name, entry in tree.items()
        if not name.endswith((".pyc", "/RECORD")) and entry.mtime_ns is not None
    }


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_patch_made_is_adopted_and_reversed(
    layout: str, project: Project, tmp_path: Path
) -> None:
    tree = make_tree(project, layout, tmp_path)
    old = snapshot(tree.root)
    _patch(project, tree)
    refused = _do("reverse", tree, project.targets)
    assert refused.code == 5
    assert "pkgtools adopt --target w-1.0" in refused.err
    before = snapshot(tree.root)
    done = _do("adopt", tree, project.targets, "--json")
    assert (done.code, done.facts["target"], done.facts["changed"]) == (0, "w-1.0", [])
    changed = differing(before, snapshot(tree.root))
    assert {name.rpartition("/")[2] for name in changed} <= {
        "pkgtools.json",
        "RECORD",
        "pkgtools",
        ".pkgtools",
    }
    if tree.dist_info is not None:
        assert record_problems(tree.dist_info) == []
    assert _do("verify", tree, project.targets).code == 0
    assert _do("reverse", tree, project.targets).code == 0
    now = snapshot(tree.root)
    assert _plain(now) == _plain(old)
    if tree.dist_info is not None:
        assert record_problems(tree.dist_info) == []


def test_the_record_of_another_tool_is_no_obstacle_and_is_named(
    project: Project, tmp_path: Path
) -> None:
    """SpecForge's script keeps the patch that it applied in the package's folder."""
    tree = make_tree(project, "site", tmp_path)
    _patch(project, tree)
    theirs = tree.root / "widget/.spec_capture_patch.applied"
    theirs.write_text("--- a/src/widget/answer.py\n")
    assert _do("adopt", tree, project.targets).code == 0
    refused = _do("verify", tree, project.targets)
    assert refused.code == 8
    assert "widget/.spec_capture_patch.applied (extra)" in refused.err
    assert "remove the extra files" in refused.err
    theirs.unlink()
    assert _do("verify", tree, project.targets).code == 0
    theirs.write_text("")
    assert _do("reverse", tree, project.targets).code == 0
    assert theirs.exists()


def test_a_tree_that_is_not_exactly_patched_is_refused(project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, "site", tmp_path)
    _patch(project, tree)
    answer = tree.root / "widget/answer.py"
    answer.write_text(answer.read_text() + "# mine\n")
    before = snapshot(tree.root)
    done = _do("adopt", tree, project.targets, "--target", "w-1.0")
    assert done.code == 5
    assert "not exactly what w-1.0 makes" in done.err
    assert snapshot(tree.root) == before


def test_originals_come_from_a_wheel_where_the_patches_do_not_have_them(
    project: Project, tmp_path: Path
) -> None:
    """A binary patch has no way back."""
    tree = make_tree(project, "site", tmp_path)
    targets = write_catalog(project, tmp_path / "c", {"widget/other.py": ("OTHER = 1", "X = 2")})
    folder = targets.parent / "patches/widget/s"
    blob = project.releases["1.0"]["src/widget/other.py"]
    new = blob.data.replace(b"OTHER = 1", b"X = 2")
    work = tmp_path / "work"
    (work / "src/widget").mkdir(parents=True)
    (work / "src/widget/other.py").write_bytes(blob.data)
    (work / ".gitattributes").write_text("*.py binary\n")
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=work, check=True)
    (work / "src/widget/other.py").write_bytes(new)
    diff = subprocess.run(
        ["git", "diff", "--binary"], cwd=work, check=True, capture_output=True
    ).stdout
    assert b"GIT binary patch" in diff
    (folder / "other.patch").write_bytes(diff)
    locked = call("lock", "--catalog", targets, "--wheel", project.wheel("1.0"))
    assert locked.code == 0, locked
    (tree.root / "widget/other.py").write_bytes(new)
    refused = _do("adopt", tree, targets)
    assert refused.code == 5
    assert "--wheel" in refused.err
    assert _do("adopt", tree, targets, "--wheel", project.wheel("1.0")).code == 0
    assert _do("reverse", tree, targets).code == 0
    assert (tree.root / "widget/other.py").read_bytes() == blob.data


def test_an_edited_environment_is_adopted_once_its_series_is_locked(
    project: Project, tmp_path: Path
) -> None:
    """Its author's way: apply, edit a file more, take the edit into the series, lock, apply."""
    tree = make_tree(project, "site", tmp_path)
    old = snapshot(tree.root)
    edit = {"widget/other.py": ("OTHER = 1", "OTHER = 3")}
    targets = write_catalog(project, tmp_path / "c", edit, target="mine")
    assert _do("apply", tree, targets).code == 0
    answer = tree.root / "widget/answer.py"
    answer.write_bytes(answer.read_bytes().replace(b"ANSWER = 41", b"ANSWER = 44"))
    series = str(targets.parent / "patches/widget/s")
    made = call(
        *("new", "more", "--series", series, "--tree", tree.root, "-m", "More"),
        *("--catalog", targets, "--wheel", project.wheel("1.0"), "--from", "1.0"),
    )
    assert made.code == 0, made
    wheel = project.wheel("1.0")
    assert call("lock", "--catalog", targets, "--wheel", wheel).code == 0
    done = _do("apply", tree, targets)
    assert done.code == 0, done
    assert "nothing to do" in done.out
    facts = _do("status", tree, targets, "--json").facts
    assert facts["is_current"]
    assert facts["series"] == load_catalog(targets).target("mine").series.digest
    assert _do("verify", tree, targets).code == 0
    assert _do("reverse", tree, targets).code == 0
    assert _plain(snapshot(tree.root)) == _plain(old)
    assert tree.dist_info is not None
    assert record_problems(tree.dist_info) == []


def test_what_a_patched_wheel_installed_is_adopted_with_a_true_record(
    project: Project, tmp_path: Path
) -> None:
    """RECORD lists the patched files before, and the upstream's after `reverse`."""
    tree = make_tree(project, "site", tmp_path)
    info = tree.dist_info
    assert info is not None
    shutil.rmtree(tree.root / "widget/__pycache__")
    _patch(project, tree)
    files = installed(project.patched["v1.0"])
    rows = b"".join(record_row(name, blob.data) for name, blob in sorted(files.items()))
    own = [
        line
        for line in (info / "RECORD").read_bytes().splitlines(keepends=True)
        if not line.startswith(b"widget/")
    ]
    (info / "RECORD").write_bytes(rows + b"".join(own))
    assert record_problems(info) == []
    assert _do("adopt", tree, project.targets, "--target", "w-1.0").code == 0
    assert record_problems(info) == []
    assert _do("reverse", tree, project.targets).code == 0
    assert record_problems(info) == []
