"""`pkgtools recover`, and that `apply` and `reverse` do it first by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from commands import call
from crash import Call, Fault, die, faulty, in_child
from scenarios import apply, make_tree, reverse
from trees import differing, leftovers, snapshot, timeless

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from commands import Result
    from project import Project

    from pkgtools.source import Tree

LAYOUTS = ["site", "checkout", "archive"]


def _kill(project: Project, tree: Tree, act: Callable[[Project, Tree], object], phase: str) -> None:
    """Run `act` in a child that dies while the journal says `phase`."""

    def perhaps(call_: Call) -> None:
        path = tree.home / "pkgtools-journal.json"
        # Not in its first moment: some of the work of the phase is done by then.
        if path.exists() and f'"{phase}"'.encode() in path.read_bytes():
            seen.append(call_)
            if len(seen) > 9:
                die(call_)

    def doomed() -> None:
        with faulty(Fault(perhaps, 1, lasting=True)):
            act(project, tree)

    seen: list[Call] = []
    assert in_child(doomed).killed


def _recover(project: Project, tree: Tree) -> Result:
    return call("recover", "--tree", tree.root, "--catalog", project.targets, "--json")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("phase", "outcome"), [("prepare", "undone"), ("commit", "finished")])
def test_what_became_of_it_is_said(
    phase: str, outcome: str, layout: str, project: Project, tmp_path: Path
) -> None:
    tree = make_tree(project, layout, tmp_path)
    old = snapshot(tmp_path)
    _kill(project, tree, apply, phase)
    assert leftovers(tmp_path) != []
    done = _recover(project, tree)
    assert (done.code, done.facts["recovered"]) == (0, outcome)
    assert leftovers(tmp_path) == []
    assert (differing(old, snapshot(tmp_path)) == []) == (outcome == "undone")
    before = snapshot(tmp_path)
    done = _recover(project, tree)
    assert (done.code, done.facts["recovered"]) == (0, None)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("phase", ["prepare", "commit"])
@pytest.mark.parametrize("verb", ["apply", "reverse"])
def test_the_next_command_does_it_first(
    verb: str, phase: str, project: Project, tmp_path: Path
) -> None:
    tree = make_tree(project, "site", tmp_path)
    old = snapshot(tmp_path)
    _kill(project, tree, apply, phase)
    target = ["--target", "w-1.0"] if verb == "apply" else []
    done = call(verb, *target, "--tree", tree.root, "--catalog", project.targets)
    assert done.code == 0
    said = "undone" if phase == "prepare" else "finished"
    assert f"an earlier run had been killed: {said} it first" in done.out
    assert leftovers(tmp_path) == []
    if verb == "reverse":
        assert differing(timeless(old), timeless(snapshot(tmp_path))) == []


def test_a_killed_reverse_is_finished(project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, "archive", tmp_path)
    old = snapshot(tmp_path)
    apply(project, tree)
    _kill(project, tree, reverse, "commit")
    assert _recover(project, tree).facts["recovered"] == "finished"
    assert snapshot(tmp_path) == old


def test_an_edit_in_a_half_patched_tree_is_not_written_over(
    project: Project, tmp_path: Path
) -> None:
    """Neither way can be gone without losing it: refused, until the user has put it away."""
    tree = make_tree(project, "archive", tmp_path)
    old = snapshot(tmp_path)
    path = tree.root / "src/widget/answer.py"

    def after_the_first(call_: Call) -> None:
        if call_.name == "replace" and "core.py" in call_.arguments[-1]:
            die(call_)

    def doomed() -> None:
        with faulty(Fault(after_the_first, 1, lasting=True)):
            apply(project, tree)

    assert in_child(doomed).killed
    path.write_bytes(b"mine\n")
    before = snapshot(tmp_path)
    for verb in (["recover"], ["reverse"], ["apply", "--target", "w-1.0"]):
        done = call(*verb, "--tree", tree.root, "--catalog", project.targets)
        assert done.code == 7
        assert str(path) in done.err
        assert ".NAME.pkgtools-old" in done.err
        assert snapshot(tmp_path) == before
    path.with_name(".answer.py.pkgtools-old").replace(path)
    assert _recover(project, tree).facts["recovered"] == "undone"
    assert snapshot(tmp_path) == old
