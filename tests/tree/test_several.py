"""Several targets in one transaction: packages of one environment, upstreams of one checkout."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from crash import KILLS, SHORT, Call, Fault, die, faulty, in_child
from project import git
from several import NAMES, Two, make_site, write_table
from silent import Silent
from trees import differing, leftovers, record_problems, snapshot, timeless

from pkgtools.authoring.lock import write_locks
from pkgtools.catalog import load_catalog
from pkgtools.cli import main
from pkgtools.source.at_hand import AtHand
from pkgtools.source.git import Repository
from pkgtools.tree.apply import recover_tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pkgtools.source import Tree


@pytest.fixture
def site(tmp_path: Path) -> Two:
    """Install both into one environment."""
    return make_site(tmp_path)


@pytest.fixture
def checkout(tmp_path: Path) -> Two:
    """Make one checkout that has both."""
    root = tmp_path / "repo"
    prefixes = {"alpha": "python/", "beta": "kernel/"}
    for name, prefix in prefixes.items():
        (root / prefix / name).mkdir(parents=True)
        (root / prefix / name / "__init__.py").write_text("A = 1\n")
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "as it is")
    commit = git(root, "rev-parse", "HEAD").strip()
    targets = write_table(tmp_path / "catalog", f'commit = "{commit}"', prefixes)
    write_locks(load_catalog(targets).targets, AtHand(Silent(), (), [Repository(root)]))
    return Two(targets, root)


@pytest.fixture
def apart(site: Two, tmp_path: Path) -> Two:
    """Install one package, and have the other in a checkout, as an editable install has it."""
    root = tmp_path / "apart"
    (root / "beta").mkdir(parents=True)
    for path in site.root.glob("beta*"):
        path.rename(root / "beta" / path.name)
    (root / "alpha" / "alpha").mkdir(parents=True)
    (root / "alpha/alpha/__init__.py").write_text("A = 1\n")
    git(root / "alpha", "init", "--quiet")
    git(root / "alpha", "add", "--all")
    git(root / "alpha", "commit", "--quiet", "--message", "as it is")
    return Two(site.targets, root, _python_of(tmp_path, root))


def _python_of(tmp_path: Path, root: Path) -> Path:
    """Write an interpreter that imports each package from a folder of its own."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "[\\"{root}/$3/$3\\"]"\n')
    python.chmod(0o755)
    return python


@pytest.fixture(params=["site", "checkout", "apart"])
def two(request: pytest.FixtureRequest) -> Two:
    """Make either."""
    made = request.getfixturevalue(request.param)
    assert isinstance(made, Two)
    return made


def _patched(two: Two) -> dict[str, bool]:
    found = {path.parent.name: path.read_text() for path in two.root.rglob("__init__.py")}
    return {name: text == "A = 2\n" for name, text in sorted(found.items())}


def test_both_at_once_are_the_same_as_one_after_the_other(two: Two) -> None:
    before = snapshot(two.root)
    for name in NAMES:
        assert two.do("apply", "--target", f"{name}-1").code == 0
    assert _patched(two) == {"alpha": True, "beta": True}
    after = snapshot(two.root)
    for name in NAMES:
        assert two.do("reverse", "--target", f"{name}-1").code == 0
    assert differing(timeless(before), timeless(snapshot(two.root))) == []
    done = two.do("apply", "-t", "alpha-1", "-t", "beta-1", "--json")
    assert [change["target"] for change in done.facts] == ["alpha-1", "beta-1"]
    assert differing(timeless(after), timeless(snapshot(two.root))) == []
    assert leftovers(two.root) == []
    for info in two.root.rglob("*.dist-info"):
        assert record_problems(info) == []
    for name in NAMES:
        assert two.do("verify", "--target", f"{name}-1").code == 0


def test_status_and_reverse_know_every_package(two: Two) -> None:
    two.apply()
    stack = two.do("status", "--json").facts["stack"]
    assert [(entry["upstream"], entry["target"]) for entry in stack] == [
        ("alpha", "alpha-1"),
        ("beta", "beta-1"),
    ]
    assert two.do("reverse", "--target", "alpha-1").code == 0
    assert _patched(two) == {"alpha": False, "beta": True}
    done = two.do("reverse")  # the only one that is left, though its upstream is not the first
    assert (done.code, "reversed beta-1" in done.out) == (0, True)
    assert _patched(two) == {"alpha": False, "beta": False}


def test_verify_holds_every_package(two: Two) -> None:
    two.apply()
    assert two.do("verify").code == 0
    done = two.do("verify", "--dry-run", "--json")
    assert {verdict["outcome"] for verdict in done.facts} == {"patched"}
    next(two.root.rglob("beta/__init__.py")).write_text("A = 9\n")
    done = two.do("verify")
    assert done.code == 5
    assert "beta/__init__.py" in done.err


def test_what_other_means_patched_is_not_nothing(site: Two) -> None:
    """Not in the catalog's first package, but it is patched, and that is said."""
    (site.root / "beta/__init__.py").write_text("A = 2\n")
    (site.root / "beta/new").mkdir()
    (site.root / "beta/new/more.py").write_text("NEW = 1\n")
    done = site.do("reverse")
    assert done.code == 5
    assert "patched with beta-1" in done.err
    assert "pkgtools adopt --target beta-1" in done.err


def test_which_of_two_packages_must_be_said(site: Two) -> None:
    site.apply()
    before = snapshot(site.root)
    done = site.do("reverse")
    assert done.code == 2
    assert "alpha-1 to " in done.err
    assert "beta-1 to " in done.err
    assert "--target beta-1" in done.err
    assert snapshot(site.root) == before


def test_one_that_does_not_apply_keeps_the_other_out(two: Two) -> None:
    path = next(two.root.rglob("beta/__init__.py"))
    path.write_text("A = 9\n")
    before = snapshot(two.root)
    assert two.do("apply", "-t", "alpha-1", "-t", "beta-1").code == 5
    assert snapshot(two.root) == before


def test_killed_at_any_moment_it_is_all_or_nothing(two: Two, tmp_path: Path) -> None:
    """Whichever package is asked afterwards finishes or undoes it, and nothing is left."""
    kept = tmp_path / "kept"
    two.root.rename(kept)
    shutil.copytree(kept, two.root, symlinks=True)
    old = timeless(snapshot(two.root))
    two.apply()
    new = timeless(snapshot(two.root))
    upstreams = two.catalog.upstreams
    seen = set()
    for at in itertools.count(1, 9 if SHORT else 1):
        shutil.rmtree(two.root)
        shutil.copytree(kept, two.root, symlinks=True)

        def doomed(at: int = at) -> None:
            with faulty(Fault(die, at=at)):
                two.apply()

        if not in_child(doomed).killed:  # there is no such call any more
            break
        order = upstreams if at % 2 else upstreams[::-1]
        for upstream in order:
            seen.add(recover_tree(two.tree(upstream), Silent()).recovered)
        found = timeless(snapshot(two.root))
        assert leftovers(two.root) == [], at
        assert not differing(old, found) or not differing(new, found), at
    assert at > 60
    assert seen == {None, "finished", "undone"}


def test_killed_at_random_moments_it_is_all_or_nothing(two: Two, tmp_path: Path) -> None:
    """PKGTOOLS_KILLS times, from before the first write to after the last."""
    kept = tmp_path / "kept"
    shutil.copytree(two.root, kept, symlinks=True)
    old = timeless(snapshot(two.root))
    start = time.perf_counter()
    assert not in_child(two.apply).failed
    seconds = time.perf_counter() - start
    new = timeless(snapshot(two.root))
    moments = random.SystemRandom()
    ends: Counter[str] = Counter()
    for number in range(KILLS):
        shutil.rmtree(two.root)
        shutil.copytree(kept, two.root, symlinks=True)
        moment = moments.uniform(0, 1.1 * seconds)
        killed = in_child(two.apply, kill_after=moment).killed
        if not killed and moment < 0.8 * seconds:
            seconds *= 0.9  # the machine is less busy than when this was measured
        upstreams = two.catalog.upstreams[:: 1 if number % 2 else -1]
        said = {recover_tree(two.tree(each), Silent()).recovered for each in upstreams}
        found = timeless(snapshot(two.root))
        assert leftovers(two.root) == [], number
        is_new = not differing(new, found)
        assert is_new or not differing(old, found), number
        how = next((word for word in said if word), "settled") if killed else "too late"
        ends[f"{how}, {'new' if is_new else 'old'}"] += 1
    print(dict(ends))  # noqa: T201 - the figures, with pytest -s
    assert set(ends) <= {
        "settled, old",
        "undone, old",
        "finished, new",
        "settled, new",
        "too late, new",
    }


def test_sets_name_targets_that_go_together(two: Two) -> None:
    with two.targets.open("a") as file:
        file.write('[[set]]\nname = "both"\ntargets = ["alpha-1", "beta-1"]\n')
    before = timeless(snapshot(two.root))
    done = two.do("apply", "--target", "both", "--json")
    assert [change["target"] for change in done.facts] == ["alpha-1", "beta-1"]
    assert _patched(two) == {"alpha": True, "beta": True}
    assert [f["target"] for f in two.do("verify", "-t", "both", "--json").facts] == [
        "alpha-1",
        "beta-1",
    ]
    done = two.do("reverse", "--target", "both", "--json")
    assert {change["target"] for change in done.facts} == {"alpha-1", "beta-1"}
    assert differing(before, timeless(snapshot(two.root))) == []
    assert leftovers(two.root) == []


def test_reverse_of_several_is_all_or_nothing(two: Two) -> None:
    two.apply()
    (next(two.root.rglob("beta/__init__.py"))).write_text("A = 9\n")
    before = snapshot(two.root)
    done = two.do("reverse", "-t", "alpha-1", "-t", "beta-1")
    assert (done.code, "edited since beta-1 was applied" in done.err) == (5, True)
    assert snapshot(two.root) == before


@pytest.mark.parametrize("gone", ["leader", "other", "other's folder"])
def test_without_one_of_its_trees_a_transaction_is_undone(gone: str, apart: Two) -> None:
    """A package was replaced after the kill: the other must not stay patched alone."""
    trees = dict(zip(NAMES, (apart.tree(each) for each in apart.catalog.upstreams), strict=True))
    lost, left = NAMES if gone == "leader" else NAMES[::-1]
    kept = timeless(snapshot(apart.root / left))

    def doomed() -> None:
        with faulty(Fault(die_in_commit(trees["beta"]), at=1, lasting=True)):
            apart.apply()

    assert in_child(doomed).killed
    assert (apart.root / left / left / "__init__.py").read_text() == "A = 2\n"
    shutil.rmtree(trees[lost].root if gone == "other's folder" else trees[lost].home)
    assert recover_tree(trees[left], Silent()).recovered == "undone"
    assert differing(kept, timeless(snapshot(apart.root / left))) == []


def die_in_commit(tree: Tree) -> Callable[[Call], None]:
    """Return what kills the process once a tree's module is in place."""

    def act(call: Call) -> None:
        if "A = 2" in (tree.root / "beta/__init__.py").read_text():
            die(call)

    return act


def test_a_journal_that_names_another_tree_reaches_nothing_in_it(apart: Two) -> None:
    """Only a tree's own journal has operations of it, and both must name each other."""
    alpha, beta = (apart.tree(upstream) for upstream in apart.catalog.upstreams)
    alpha.home.mkdir(parents=True)
    facts = {"format": 1, "phase": "undo", "operations": [], "folders": [], "id": "x"}
    other = {"root": os.path.relpath(beta.root, alpha.home)}
    victims = [
        {**facts, "phase": "prepare", "id": "y"},
        {**facts, "phase": "commit", "id": ""},
        {**facts, "phase": "led", "trees": [{"root": ".", "home": "."}]},
    ]
    for victim, home in itertools.product(victims, (beta.home, beta.root / "beta", beta.root)):
        (beta.home / "pkgtools-journal.json").write_text(json.dumps(victim))
        before = snapshot(apart.root / "beta")
        trees = [{**other, "home": os.path.relpath(home, alpha.home)}]
        hostile = {**facts, "id": victim["id"], "trees": trees}
        alpha.home.mkdir(parents=True, exist_ok=True)
        (alpha.home / "pkgtools-journal.json").write_text(json.dumps(hostile))
        assert recover_tree(alpha, Silent()).recovered == "undone"
        assert snapshot(apart.root / "beta") == before


def test_verify_of_several_names_each_refusal_and_exits_with_the_worst(two: Two) -> None:
    assert two.do("verify", "-t", "alpha-1", "-t", "beta-1").code == 8
    assert two.do("apply", "-t", "beta-1").code == 0
    next(two.root.rglob("alpha/__init__.py")).write_text("A = 9\n")
    done = two.do("verify", "-t", "alpha-1", "-t", "beta-1", "--series-only")
    assert done.code == 5
    assert "is exactly beta-1" in done.out
    assert "alpha/__init__.py" in done.err
    where = f"--python={two.python}" if two.python else f"--tree={two.root}"
    words = ["--series-only", f"--catalog={two.targets}", where, "-t", "beta-1", "-t", "alpha-1"]
    shown = CliRunner().invoke(main, ["verify", *words]).output
    assert shown.index("is exactly beta-1") < shown.index("error:"), "in the order of the targets"
    facts = two.do("verify", "-t", "alpha-1", "-t", "beta-1", "--series-only", "--json").facts
    assert [(f["target"], f.get("error", {}).get("exit_code")) for f in facts] == [
        ("alpha-1", 5),
        ("beta-1", None),
    ]
    report = two.do("verify", "-t", "alpha-1", "-t", "beta-1", "--series-only", "--format", "junit")
    assert 'tests="2" failures="1"' in report.out
    next(two.root.rglob("alpha/__init__.py")).write_text("A = 1\n")
    done = two.do("verify", "--dry-run", "-t", "alpha-1", "-t", "beta-1")
    assert (done.code, done.out.count("applies"), done.out.count("patched ")) == (0, 2, 1)


def test_packages_of_two_site_packages_folders(site: Two, tmp_path: Path) -> None:
    """As purelib and platlib are two folders on some systems."""
    root = tmp_path / "sites"
    for name in NAMES:
        (root / name).mkdir(parents=True)
        for path in site.root.glob(f"{name}*"):
            path.rename(root / name / path.name)
    two = Two(site.targets, root, _python_of(tmp_path, root))
    before = timeless(snapshot(root))
    two.apply()
    assert two.do("verify").code == 0
    assert [
        problem for info in root.glob("*/*.dist-info") for problem in record_problems(info)
    ] == []
    assert two.do("reverse", "-t", "alpha-1", "-t", "beta-1").code == 0
    assert differing(before, timeless(snapshot(root))) == []
