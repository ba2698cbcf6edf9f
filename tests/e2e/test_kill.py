"""SIGKILL at any moment: the tree is then exactly old or new, and no edit of the user's is lost.

Once at every call into the operating system (a transaction makes about a hundred and fifty), and
as often as PKGTOOLS_KILLS says at moments that are spread over a run on the files of a release.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import pytest
from crash import KILLS as _KILLS
from crash import SHORT, STRIDE, Fault, die, faulty, in_child
from scenarios import (
    IN_ARCHIVE,
    IN_CHECKOUT,
    IN_SITE,
    Scenario,
    apply,
    make_tree,
    recover,
)
from silent import Silent
from trees import differing, leftovers, record_problems, snapshot, timeless, uninstall

from pkgtools.errors import TreeError
from pkgtools.source import Tree, find_tree
from pkgtools.tree.apply import apply_targets, recover_tree
from pkgtools.tree.reverse import reverse_trees

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from project import Project
    from trees import Entry

    from pkgtools.catalog import Catalog

    Snapshot = dict[str, Entry]


def _fresh(scenario: Scenario, project: Project, where: Path) -> Tree:
    shutil.rmtree(where / "tree", ignore_errors=True)
    return scenario.tree(project, where)


def _ends(scenario: Scenario, project: Project, where: Path) -> tuple[Snapshot, Snapshot, int]:
    """Return the tree before and after, and how many calls lie between."""
    tree = _fresh(scenario, project, where)
    old = snapshot(where)
    fault = Fault(die, at=0)
    with faulty(fault):
        scenario.act(project, tree)
    return old, timeless(snapshot(where)), len(fault.seen)


def _kill_at(at: int, work: Callable[[], object]) -> bool:
    """Run `work` in a child that is killed at its call number `at`, if it comes that far."""

    def doomed() -> None:
        with faulty(Fault(die, at)):
            work()

    return in_child(doomed).killed


def _side(where: Path, old: Snapshot, new: Snapshot) -> str:
    """Return which of the two trees it is, exactly, with nothing beside."""
    assert leftovers(where) == []
    found = snapshot(where)
    if not differing(timeless(old), timeless(found)):
        assert differing(old, found) == []  # in its times too
        return "old"
    assert differing(new, timeless(found)) == []
    return "new"


@pytest.mark.parametrize("scenario", [*IN_SITE, *IN_CHECKOUT, IN_ARCHIVE[0]], ids=str)
def test_killed_at_every_call(scenario: Scenario, project: Project, quick_path: Path) -> None:
    """Odd calls are followed by `recover`, even ones by the command itself, once more."""
    old, new, count = _ends(scenario, project, quick_path)
    outcomes: Counter[tuple[str | None, str]] = Counter()
    for at in range(1, count + 1, STRIDE):
        tree = _fresh(scenario, project, quick_path)
        assert _kill_at(at, partial(scenario.act, project, tree))
        if at % 2:
            outcomes[recover(tree), _side(quick_path, old, new)] += 1
        else:
            scenario.act(project, tree)
            assert _side(quick_path, old, new) == "new"
    assert outcomes["undone", "old"] > 10 // STRIDE
    assert outcomes["finished", "new"] > 10 // STRIDE
    assert set(outcomes) <= {
        ("undone", "old"),
        ("finished", "new"),
        (None, "old"),  # nothing was begun
        (None, "new"),  # nothing was left to do
    }


@pytest.mark.parametrize("scenario", IN_SITE, ids=str)
def test_killed_again_while_recovering(
    scenario: Scenario, project: Project, quick_path: Path
) -> None:
    old, new, count = _ends(scenario, project, quick_path)
    for at in range(10, count, 48 if SHORT else 12):
        for again in range(1 + at % 4, 200, 18 if SHORT else 9):
            tree = _fresh(scenario, project, quick_path)
            _kill_at(at, partial(scenario.act, project, tree))
            killed = _kill_at(again, partial(recover, tree))
            recover(tree)
            _side(quick_path, old, new)
            if not killed:
                break


@pytest.mark.parametrize("scenario", IN_SITE, ids=str)
@pytest.mark.parametrize("name", ["core.py", "tool.sh", "legacy/gone.py", "extra/deep/new.py"])
def test_an_edit_after_a_kill_is_never_lost(
    scenario: Scenario, name: str, project: Project, quick_path: Path
) -> None:
    """Whatever `recover` does, it does around the edit; where it cannot, its advice helps."""
    old, new, count = _ends(scenario, project, quick_path)
    seen = set()
    for at in range(2, count, 34 if SHORT else 7):
        tree = _fresh(scenario, project, quick_path)
        _kill_at(at, partial(scenario.act, project, tree))
        path = tree.root / "widget" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        mine = (path.read_bytes() if path.exists() else b"") + b"# mine\n"
        path.with_name("scratch").write_bytes(mine)
        path.with_name("scratch").replace(path)
        _kill_at(5 + at % 9, partial(recover, tree))
        refusal: TreeError | None = None
        try:
            seen.add(recover(tree))
        except TreeError as error:
            refusal = error
        assert path.read_bytes() == mine, at
        if refusal is not None:
            assert str(path) in refusal.message
            _follow_advice(path)
            recover(tree)
        _is_one_tree_around(path, quick_path, old, new)
    assert {"finished", "undone"} <= seen


def _follow_advice(path: Path) -> None:
    """Put back what was there before, as the refusal says."""
    kept = path.with_name(f".{path.name}.pkgtools-old")
    if kept.exists():
        kept.replace(path)
    else:
        path.unlink()


def _is_one_tree_around(path: Path, where: Path, old: Snapshot, new: Snapshot) -> None:
    """Assert that all but `path` and the folders to it is exactly old or new."""
    aside = {p.relative_to(where).as_posix() for p in (path, *path.parents) if where in p.parents}
    assert leftovers(where) == []
    found = snapshot(where)
    before = set(differing(old, found)) - aside
    after = set(differing(new, timeless(found))) - aside
    assert not before or not after, (before, after)


def test_a_package_reinstalled_after_a_kill_is_what_was_installed(
    project: Project, quick_path: Path
) -> None:
    """The journal is about files that are gone: none of its renames may spoil the new ones."""
    for scenario in IN_SITE:
        _, _, count = _ends(scenario, project, quick_path)
        for at in range(1, count, 40 if SHORT else 5):
            tree = _fresh(scenario, project, quick_path)
            _kill_at(at, partial(scenario.act, project, tree))
            uninstall(tree.root)
            project.install(tree.root, compiled=True)
            recover(tree)
            apply(project, tree)
            assert tree.dist_info is not None
            assert record_problems(tree.dist_info) == [], at
            assert leftovers(tree.root) == []


@pytest.fixture
def real_tree(
    release: Callable[[str], Path], sglang: Catalog, quick_path: Path
) -> tuple[Tree, Catalog]:
    """Unpack what the series touches of a release, with its whole .dist-info."""
    target = sglang.target("v0.5.17")
    names = {target.upstream.installed_path(path) for path in target.series.paths}
    site = quick_path / "site-packages"
    with zipfile.ZipFile(release("0.5.17")) as wheel:
        for member in wheel.namelist():
            if member in names or ".dist-info/" in member:
                wheel.extract(member, site)
    for path in site.rglob("*"):
        os.utime(path, (1_577_934_245, 1_577_934_245))
    return find_tree(site, target.upstream), sglang


def test_killed_at_moments_spread_over_a_run(real_tree: tuple[Tree, Catalog]) -> None:
    """`apply` and `reverse` of a real series in turn, one kill each."""
    tree, catalog = real_tree
    target = catalog.target("v0.5.17")

    def patch() -> None:
        apply_targets(catalog, [(target, tree)], Silent())

    def unpatch() -> None:
        reverse_trees(catalog, [(None, tree)], Silent())

    patch()  # RECORD is new from here on, if only in its time
    unpatch()
    sides = {patch: timeless(snapshot(tree.root))}
    times = {path: entry.mtime_ns for path, entry in snapshot(tree.root).items()}
    seconds = {patch: _seconds(patch)}
    sides[unpatch] = timeless(snapshot(tree.root))
    seconds[unpatch] = _seconds(unpatch)
    outcomes: Counter[str | None] = Counter()
    for number in range(_KILLS):
        act, back = (patch, unpatch) if number % 2 == 0 else (unpatch, patch)
        assert differing(sides[act], timeless(snapshot(tree.root))) == []
        share = (number // 2) / max(_KILLS // 2 - 1, 1)  # from the very start to the end
        killed = in_child(act, kill_after=1.1 * share * seconds[act]).killed
        if not killed and share < 0.8:
            seconds[act] *= 0.9  # the machine is less busy than when this was measured
        if number % 4 < 2:
            recovered = recover_tree(tree, Silent()).recovered
            outcomes[recovered if killed else "too late"] += 1
        else:
            act()
        found = timeless(snapshot(tree.root))
        assert differing(sides[act], found) == [] or differing(sides[back], found) == []
        assert leftovers(tree.root) == []
        _is_whole(tree, times)
        act()
    if not SHORT:
        # At every single call that writes is killed above; these are moments as they come.
        assert outcomes["undone"] + outcomes["finished"] > 0, outcomes
        assert outcomes.total() - outcomes["too late"] > _KILLS // 8, outcomes


def _seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    assert not in_child(work).failed
    return time.perf_counter() - start


def _is_whole(tree: Tree, times: dict[str, int | None]) -> None:
    """Assert that RECORD, the receipt and the files tell the same story."""
    assert tree.dist_info is not None
    problems = record_problems(tree.dist_info)
    assert [p for p in problems if not p.startswith("not there: ")] == []  # only some is unpacked
    if not (tree.dist_info / "pkgtools.json").exists():
        now = {path: entry.mtime_ns for path, entry in snapshot(tree.root).items()}
        assert {p for p in now if now[p] != times[p] and not p.endswith("RECORD")} == set()


def test_two_runs_at_once(project: Project, tmp_path: Path) -> None:
    """One does it, the other says that it is done, and both succeed."""
    for number in range(max(1, _KILLS // 10)):
        tree = make_tree(project, "site", tmp_path / str(number))
        command = [sys.executable, "-m", "pkgtools", "apply", "--target", "w-1.0"]
        command += ["--tree", str(tree.root), "--catalog", str(project.targets)]
        runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        said = sorted(run.communicate()[0].splitlines()[0] for run in runs)
        assert [run.returncode for run in runs] == [0, 0]
        assert said[0].endswith("is patched with w-1.0 already: nothing to do")
        assert said[1].startswith("applied w-1.0 (1.0)")
        assert tree.dist_info is not None
        assert record_problems(tree.dist_info) == []
        assert leftovers(tree.root) == []
