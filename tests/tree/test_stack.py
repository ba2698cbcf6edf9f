"""Stacks: series of several targets, catalogs and upstreams in one tree, in order."""

from __future__ import annotations

import json
import shlex
import shutil
from typing import TYPE_CHECKING

import pytest
from catalogs import write_catalog
from commands import call
from project import git, installed
from scenarios import make_tree
from trees import differing, leftovers, record_problems, snapshot, timeless

if TYPE_CHECKING:
    from pathlib import Path

    from commands import Result
    from project import Project

    from pkgtools.source import Tree

_CORE = "widget/core.py"
_FAR = {_CORE: ("return max(values)", "return 1 + max(values)")}
_ELSEWHERE = {"widget/other.py": ("OTHER = 1", "OTHER = 3")}
LAYOUTS = ["site", "checkout", "archive"]


def _do(verb: str, tree: Tree, catalog: Path, *more: str) -> Result:
    return call(verb, "--tree", tree.root, "--catalog", catalog, *more)


def _text(tree: Tree, path: str) -> str:
    return (tree.root / tree.name(f"src/{path}")).read_text()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_two_catalogs_stack_and_come_out_again(
    layout: str, project: Project, tmp_path: Path
) -> None:
    """Both touch one file; each `reverse` gives what was there before, to the byte."""
    tree = make_tree(project, layout, tmp_path)
    other = write_catalog(project, tmp_path / "other", _FAR)
    states = [snapshot(tree.root)]
    assert _do("apply", tree, project.targets, "--target", "w-1.0").code == 0
    states.append(snapshot(tree.root))
    done = _do("apply", tree, other, "--target", "other-1.0")
    assert done.code == 0, done
    assert "older" not in done.out
    assert "return 1 + max(values)" in _text(tree, _CORE)
    assert "limit=2 * LIMIT" in _text(tree, _CORE)
    if tree.dist_info is not None:
        assert record_problems(tree.dist_info) == []
    assert _do("verify", tree, project.targets).code == 0
    assert _do("verify", tree, other).code == 0
    for before in reversed(states):
        assert _do("reverse", tree, project.targets).code == 0
        assert differing(timeless(before), timeless(snapshot(tree.root))) == []
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("same", [True, False])
def test_a_dry_run_on_another_catalogs_series_chooses_the_target_as_apply_does(
    project: Project, tmp_path: Path, *, same: bool
) -> None:
    """Also where the other catalog's target has the same name, and is for another release."""
    tree = make_tree(project, "site", tmp_path)
    other = write_catalog(project, tmp_path / "other", _FAR, target="w-1.1" if same else "o")
    assert _do("apply", tree, other).code == 0
    done = _do("verify", tree, project.targets, "--dry-run", "--json")
    assert (done.code, done.facts[0]["target"], done.facts[0]["outcome"]) == (0, "w-1.0", "applies")
    assert _do("apply", tree, project.targets, "--json").facts["target"] == "w-1.0"


def test_status_shows_the_stack(project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, "site", tmp_path)
    other = write_catalog(project, tmp_path / "other", _FAR, name="team-b")
    _do("apply", tree, project.targets, "--target", "w-1.0")
    _do("apply", tree, other)
    facts = _do("status", tree, project.targets, "--json").facts
    digests = [project.catalog().target("w-1.0").series.digest, facts["stack"][1]["series"]]
    assert [
        (e["catalog"], e["target"], e["series"], e["is_own"], e["is_current"])
        for e in facts["stack"]
    ] == [
        ("widgets", "w-1.0", digests[0], True, True),
        ("team-b", "other-1.0", digests[1], False, False),
    ]
    assert (facts["state"], facts["target"]) == ("patched", "other-1.0")
    text = _do("status", tree, project.targets).out
    assert f"other-1.0 of team-b, series {digests[1][:19]}" in text
    assert f"w-1.0 of widgets, series {digests[0][:19]}" in text
    assert "newer series" not in text


@pytest.mark.parametrize("patches", [("first", "second"), ("same", "same")])
@pytest.mark.parametrize("names", [("team-a", "team-b"), (None, None), (None, "team-b")], ids=str)
def test_another_catalogs_target_of_the_same_name_is_not_an_older_one(
    names: tuple[str | None, str | None],
    patches: tuple[str, str],
    project: Project,
    tmp_path: Path,
) -> None:
    tree = make_tree(project, "site", tmp_path)
    first = write_catalog(
        project, tmp_path / "a", _FAR, target="x", name=names[0], patch=f"{patches[0]}.patch"
    )
    second = write_catalog(
        project, tmp_path / "b", _ELSEWHERE, target="x", name=names[1], patch=f"{patches[1]}.patch"
    )
    for catalog in (first, second):
        assert _do("apply", tree, catalog, "--json").facts["replaced"] is None
    assert "1 + max" in _text(tree, _CORE)
    assert "OTHER = 3" in _text(tree, "widget/other.py")
    assert _do("reverse", tree, first, "--target", "x").code == 0
    assert "1 + max" not in _text(tree, _CORE)  # its own, though the other lies above
    assert "OTHER = 3" in _text(tree, "widget/other.py")


def test_a_catalog_without_a_name_knows_its_own_by_its_folder(
    project: Project, tmp_path: Path
) -> None:
    """Also once it has a name; what a receipt of an image says, by its patches."""
    tree = make_tree(project, "site", tmp_path)
    catalog = write_catalog(project, tmp_path / "a", _FAR)
    moved = tmp_path / "moved"
    shutil.copytree(catalog.parent, moved)
    assert _do("apply", tree, catalog).code == 0
    facts = _do("status", tree, moved / "targets.toml", "--json").facts["stack"]
    assert [(e["catalog"], e["is_own"]) for e in facts] == [(None, True)]  # the very same series
    receipt = (tree.home / "pkgtools.json").read_text()
    assert str(tmp_path) not in receipt
    for path in (catalog, moved / "targets.toml"):
        patch = path.parent / "patches/widget/s/other.patch"
        patch.write_text(patch.read_text().replace("1 + max", "2 + max"))
        assert call("lock", "--catalog", path, "--wheel", project.wheel("1.0")).code == 0
    done = _do("apply", tree, moved / "targets.toml")
    assert done.code == 3
    assert "does not apply on top of another catalog's other-1.0" in done.err
    assert f"write a name at the top of {moved / 'targets.toml'} (name = ...)" in done.err
    catalog.write_text(f'name = "late"\n{catalog.read_text()}')
    assert _do("apply", tree, catalog, "--json").facts["replaced"].startswith("sha256:")
    assert "2 + max" in _text(tree, _CORE)


def test_a_catalog_that_moved_gets_a_name_once(project: Project, tmp_path: Path) -> None:
    """What the refusal says works, and no later move meets it."""
    tree = make_tree(project, "site", tmp_path)
    catalog = write_catalog(project, tmp_path / "0", _FAR)
    assert _do("apply", tree, catalog).code == 0
    for number in (1, 2):
        moved = tmp_path / str(number)
        catalog.parent.rename(moved)
        catalog = moved / "targets.toml"
        patch = moved / "patches/widget/s/other.patch"
        patch.write_text(patch.read_text().replace(f"{number} + max", f"{number + 1} + max"))
        assert call("lock", "--catalog", catalog, "--wheel", project.wheel("1.0")).code == 0
        done = _do("apply", tree, catalog)
        if number == 1:
            assert "write a name" in done.err
            catalog.write_text(f'name = "ours"\n{catalog.read_text()}')
            again = _do("apply", tree, catalog)
            assert (again.code, "write a name" in again.err) == (3, False)
            command = again.err.partition("take it out once (`pkgtools ")[2].partition("`)")[0]
            assert call(*shlex.split(command)).code == 0
            done = _do("apply", tree, catalog)
        assert done.code == 0, done
        assert f"{number + 1} + max" in _text(tree, _CORE)
    assert len(_do("status", tree, catalog, "--json").facts["stack"]) == 1


def test_a_newer_series_replaces_its_older_one_below_others(
    project: Project, tmp_path: Path
) -> None:
    """The others stay, and the end is the same as without the older one."""
    tree = make_tree(project, "site", tmp_path)
    old = snapshot(tree.root)
    new = {"widget/new.py": ("", "NEW = True\n")}
    other = write_catalog(project, tmp_path / "other", new)
    _do("apply", tree, project.targets, "--target", "w-1.0")
    _do("apply", tree, other)
    done = _do("apply", tree, project.changed_targets, "--target", "w-1.0", "--json")
    assert done.code == 0, done
    assert done.facts["replaced"] == project.catalog().target("w-1.0").series.digest
    stack = _do("status", tree, other, "--json").facts["stack"]
    assert [entry["target"] for entry in stack] == ["w-1.0", "other-1.0"]
    assert tree.dist_info is not None
    assert record_problems(tree.dist_info) == []
    for path, blob in installed(project.patched["changed"]).items():
        assert (tree.root / path).read_bytes() == blob.data, path
    for _ in range(2):
        assert _do("reverse", tree, other).code == 0
    assert differing(timeless(old), timeless(snapshot(tree.root))) == []


def test_what_lies_below_the_same_files_stays(project: Project, tmp_path: Path) -> None:
    """Neither reversed nor replaced: the refusal names the later series and the files."""
    tree = make_tree(project, "site", tmp_path)
    other = write_catalog(project, tmp_path / "other", _FAR)
    _do("apply", tree, project.targets, "--target", "w-1.0")
    _do("apply", tree, other)
    before = snapshot(tmp_path)
    for done in (
        _do("reverse", tree, project.targets, "--target", "w-1.0"),
        _do("apply", tree, project.changed_targets, "--target", "w-1.0"),
    ):
        assert done.code == 3, done
        assert "other-1.0 was applied later and changes src/widget/core.py" in done.err
        assert "next: take it out first: `pkgtools reverse --target other-1.0" in done.err
    assert snapshot(tmp_path) == before
    unknown = _do("reverse", tree, project.targets, "--target", "w-1.1")
    assert unknown.code == 2
    assert "w-1.0, other-1.0 is" in unknown.err


def test_reverse_takes_an_alias(project: Project, tmp_path: Path) -> None:
    root = project.write_checkout(tmp_path / "tree", "dev")
    where = ("--tree", root, "--catalog", project.targets)
    assert call("apply", "--target", "w-dev", *where).code == 0
    assert "reversed w-dev" in call("reverse", "--target", "w-dev-base", *where).out


def test_a_series_that_does_not_fit_on_another_is_refused(project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, "site", tmp_path)
    clash = {"widget/answer.py": ("ANSWER = 41", "ANSWER = 7")}
    other = write_catalog(project, tmp_path / "other", clash)
    _do("apply", tree, project.targets, "--target", "w-1.0")
    before = snapshot(tmp_path)
    done = _do("apply", tree, other, "--target", "other-1.0")
    assert done.code == 3
    assert "does not apply on top of w-1.0" in done.err
    assert "- ANSWER = 41" in done.err
    assert snapshot(tmp_path) == before


def test_an_edit_of_another_series_file_is_left_alone(project: Project, tmp_path: Path) -> None:
    """The edited series keeps its receipt; what touches other files goes on top."""
    tree = make_tree(project, "site", tmp_path)
    first = write_catalog(project, tmp_path / "a", _FAR, target="far")
    second = write_catalog(project, tmp_path / "b", _ELSEWHERE, target="elsewhere")
    _do("apply", tree, first)
    core = tree.root / _CORE
    core.write_text(core.read_text() + "# mine\n")
    assert _do("apply", tree, second, "--target", "elsewhere").code == 0
    assert core.read_text().endswith("# mine\n")
    stack = _do("status", tree, first, "--json").facts["stack"]
    assert [(e["target"], e["edited"]) for e in stack] == [
        ("far", ["src/widget/core.py"]),
        ("elsewhere", []),
    ]
    third = write_catalog(project, tmp_path / "c", {_CORE: ("total += ", "total += 1 + ")})
    refused = _do("apply", tree, third, "--target", "other-1.0")
    assert refused.code == 5
    assert "edited since far was applied" in refused.err


def test_a_receipt_of_before_stacks_is_read_and_kept(project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, "site", tmp_path)
    old = snapshot(tree.root)
    other = write_catalog(project, tmp_path / "other", _FAR)
    _do("apply", tree, project.targets, "--target", "w-1.0")
    path = tree.home / "pkgtools.json"
    facts = json.loads(path.read_bytes())
    del facts["catalog"], facts["above"]
    path.write_text(json.dumps(facts))
    assert _do("status", tree, project.targets, "--json").facts["is_current"]
    assert _do("apply", tree, other).code == 0
    kept = json.loads(path.read_bytes())
    assert (kept["target"], kept["files"]) == (facts["target"], facts["files"])
    for _ in range(2):
        assert _do("reverse", tree, other).code == 0
    assert differing(timeless(old), timeless(snapshot(tree.root))) == []


def test_void_entries_go_and_the_others_stay(project: Project, tmp_path: Path) -> None:
    """A file that was checked out again takes its entry along, at the next command."""
    tree = make_tree(project, "site", tmp_path)
    first = write_catalog(project, tmp_path / "a", _FAR, target="far")
    second = write_catalog(project, tmp_path / "b", _ELSEWHERE, target="elsewhere")
    shutil.copy(tree.root / _CORE, tmp_path / "kept.py")
    _do("apply", tree, first)
    shutil.copy(tmp_path / "kept.py", tree.root / _CORE)
    assert _do("apply", tree, second, "--target", "elsewhere").code == 0
    stack = _do("status", tree, second, "--json").facts["stack"]
    assert [entry["target"] for entry in stack] == ["elsewhere"]
    assert _do("verify", tree, second).code == 0


@pytest.mark.parametrize("more", [{}, _ELSEWHERE])
def test_a_series_without_a_receipt_below_another(
    project: Project, tmp_path: Path, more: dict[str, tuple[str, str]]
) -> None:
    """Its second patch undoes the first in a file, which a later series changes."""
    root = project.write_checkout(tmp_path / "tree")
    first = write_catalog(project, tmp_path / "a", {_CORE: ("LIMIT = 32", "LIMIT = 1"), **more})
    folder = first.parent / "patches/widget/s"
    git(root, "apply", folder / "other.patch")
    (folder / "back.patch").write_text(git(root, "diff", "-R", "--", f"src/{_CORE}"))
    (folder / "series").write_text("other.patch\nback.patch\n")
    assert call("lock", "--catalog", first, "--git", project.repository).code == 0
    git(root, "apply", folder / "back.patch")
    tree = project.tree(root)
    second = write_catalog(project, tmp_path / "b", _FAR, target="far")
    assert _do("apply", tree, first).code == 0
    assert _do("apply", tree, second).code == 0
    before = snapshot(root)
    for verb in ("apply", "verify"):
        done = _do(verb, tree, first, "--target", "other-1.0")
        assert (done.code, snapshot(root)) == (0, before), done.err
    assert _do("verify", tree, first, "--dry-run", "--target", "other-1.0").code == 0


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_dry_run_refuses_what_apply_refuses(
    layout: str, project: Project, tmp_path: Path
) -> None:
    """A newer series cannot replace its older one below a series that changed the same file."""
    tree = make_tree(project, layout, tmp_path)
    other = write_catalog(project, tmp_path / "other", _FAR)
    assert _do("apply", tree, project.targets, "--target", "w-1.0").code == 0
    assert _do("apply", tree, other).code == 0
    told = "cannot replace w-1.0 in it: other-1.0 was applied later and changes src/widget/core.py"
    for words in (("apply",), ("verify", "--dry-run")):
        done = call(
            *words, "--tree", tree.root, "--catalog", project.changed_targets, "-t", "w-1.0"
        )
        assert (done.code, told in done.out + done.err) == (3, True), done
