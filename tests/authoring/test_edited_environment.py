"""An environment that its author edits: `new` and `refresh` take it, and nothing is a dead end."""

from __future__ import annotations

import shlex
import zipfile
from typing import TYPE_CHECKING

import pytest
from commands import Result, call
from small import KEEP, Small, make_small
from trees import record_problems, snapshot

from pkgtools.catalog import load_series

if TYPE_CHECKING:
    from pathlib import Path

_FILES = {"a.py": "A = 1\n", "b.py": "B = 1\n", "c.py": "C = 1\n"}


@pytest.fixture
def small(tmp_path: Path) -> Small:
    small = make_small(tmp_path / "small", {"1.0": _FILES}, [("one", {"a.py": "A = 2\n"})])
    words: list[str | Path] = ["lock", "--catalog", small.catalog, "--wheel", small.wheel("1.0")]
    assert call(*words).code == 0
    return small


@pytest.fixture
def site(small: Small, tmp_path: Path) -> Path:
    with zipfile.ZipFile(small.wheel("1.0")) as wheel:
        wheel.extractall(tmp_path / "site")
    return tmp_path / "site"


@pytest.fixture
def python(site: Path, tmp_path: Path) -> Path:
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(site))} exec python3 "$@"\n')
    path.chmod(0o755)
    return path


def _run(small: Small, python: Path, verb: str, *words: str | Path) -> Result:
    where: list[str | Path] = ["--python", python] if verb != "lock" else []
    wheel: list[str | Path] = (
        ["--wheel", small.wheel("1.0")] if verb in ("lock", "new", "refresh") else []
    )
    return call(verb, *words, *where, *wheel, "--catalog", small.catalog)


def _command(done: Result, word: str) -> list[str]:
    """Return the words of the command that an output names behind a word."""
    line = next(line for line in done.out.splitlines() if f"{word}: " in line)
    return shlex.split(line.partition("`pkgtools ")[2].partition("`")[0])


@pytest.mark.parametrize("renewed_by", ["apply", "adopt", "reverse"])
def test_after_refresh_and_lock_the_tree_has_a_receipt(
    small: Small, site: Path, python: Path, renewed_by: str
) -> None:
    before = snapshot(site)
    assert _run(small, python, "apply").code == 0
    (site / "widget" / "a.py").write_text("A = 3\n")
    done = _run(small, python, "refresh", "--series", "one")
    assert done.code == 0, done.err
    assert call(*_command(done, "next")).code == 0
    stale = _run(small, python, "verify")
    assert (stale.code, "pkgtools adopt" in stale.err) == (8, True)
    if renewed_by == "adopt":
        assert call(*_command(done, "then")).code == 0
    elif renewed_by == "apply":
        assert _run(small, python, "apply").code == 0
    if renewed_by != "reverse":
        assert _run(small, python, "verify").code == 0
        (info,) = site.glob("*.dist-info")
        assert record_problems(info) == []
    assert _run(small, python, "reverse").code == 0
    assert snapshot(site).keys() == before.keys()
    assert all(snapshot(site)[name].data == before[name].data for name in before)


def test_an_edit_is_never_taken_for_a_newer_series(small: Small, site: Path, python: Path) -> None:
    assert _run(small, python, "apply").code == 0
    (site / "widget" / "a.py").write_text("A = 3\n")
    done = _run(small, python, "reverse")
    assert (done.code, "pkgtools refresh --series one --tree" in done.err) == (5, True)
    assert (site / "widget" / "a.py").read_text() == "A = 3\n"


def test_refresh_names_a_command_for_what_no_patch_takes(
    small: Small, site: Path, python: Path
) -> None:
    """Two files of two patches: the first is refreshed, the other becomes a patch of its own."""
    assert _run(small, python, "apply").code == 0
    (site / "widget" / "a.py").write_text("A = 3\n")
    (site / "widget" / "b.py").write_text("B = 2\n")
    done = _run(small, python, "refresh", "--series", "one")
    assert "not in the series: src/widget/b.py" in done.out
    made = call(*_command(done, "next"))
    assert made.code == 0, made.err
    assert [p.name for p in load_series(small.series).patches] == ["0001-one.patch", "b.patch"]
    assert call(*_command(made, "next")).code == 0
    assert _run(small, python, "apply").code == 0
    assert _run(small, python, "verify").code == 0
    assert _run(small, python, "reverse").code == 0
    assert (site / "widget" / "b.py").read_text() == "B = 1\n"


def test_apply_names_the_command_that_gives_a_receipt(
    small: Small, site: Path, python: Path
) -> None:
    (site / "widget" / "a.py").write_text("A = 2\n")
    done = _run(small, python, "apply")
    assert "without a receipt" in done.out
    assert call(*_command(done, "next")).code == 0
    assert _run(small, python, "reverse").code == 0
    assert (site / "widget" / "a.py").read_text() == "A = 1\n"


def _applied(tmp_path: Path) -> tuple[list[str | Path], list[str | Path], Path]:
    """Apply two patches; return options of the catalog, those with the wheel, and the site."""
    patches = [("one", {"a.py": "A = 2\n"}), ("two", {"b.py": "B = 2\n"})]
    small = make_small(tmp_path / "small", {"1.0": _FILES}, patches)
    where: list[str | Path] = ["--catalog", small.catalog]
    source: list[str | Path] = [*where, "--wheel", small.wheel("1.0")]
    site = tmp_path / "site"
    with zipfile.ZipFile(small.wheel("1.0")) as wheel:
        wheel.extractall(site)
    assert call("lock", *source).code == 0
    assert call("apply", *where, "--tree", site).code == 0
    return where, source, site


@pytest.mark.parametrize("edited", [False, True])
def test_apply_undoes_files_of_a_dropped_patch(tmp_path: Path, *, edited: bool) -> None:
    """Its files are no longer the series', but the receipt has what they were before."""
    where, source, site = _applied(tmp_path)
    if edited:
        (site / "widget" / "a.py").write_text("A = 3\n")
        assert call("refresh", *source, "--series", "one", "--tree", site).code == 0
    assert call("drop", *source, "--series", "one", "0002-two.patch").code == 0
    before = snapshot(site)
    refused = call("adopt", *where, "--tree", site)
    assert (refused.code, snapshot(site)) == (5, before)
    assert "an older series of one is still in src/widget/b.py" in refused.err
    done = call("apply", *where, "--target", "one", "--tree", site)
    if edited:  # a.py was edited since the receipt: its older series cannot be undone
        assert (done.code, snapshot(site)) == (4, before)
        assert "some of one is still in the tree (src/widget/b.py)" in done.err
        (site / "widget" / "b.py").write_text("B = 1\n")
        done = call("apply", *where, "--target", "one", "--tree", site)
    assert done.code == 0, done.err
    assert (site / "widget" / "b.py").read_text() == "B = 1\n"
    assert call("verify", *where, "--tree", site).code == 0
    assert call("reverse", *where, "--tree", site).code == 0
    assert {name: (site / "widget" / name).read_text() for name in _FILES} == _FILES


@pytest.mark.parametrize("put_back", [False, True])
@pytest.mark.parametrize("verb", ["apply", "adopt", "reverse"])
def test_an_edit_on_a_dropped_patch_keeps_its_receipt(
    tmp_path: Path, verb: str, *, put_back: bool
) -> None:
    """Only the receipt has the original of the edited file, so no command forgets it."""
    where, source, site = _applied(tmp_path)
    (site / "widget" / "b.py").write_text("B = 2\nMINE = 1\n")
    assert call("drop", *source, "--series", "one", "0002-two.patch").code == 0
    if put_back:
        (site / "widget" / "a.py").write_text(_FILES["a.py"])
    before = snapshot(site)
    refused = call(verb, *where, "--tree", site)
    assert (refused.code, snapshot(site)) == (5, before), refused.out
    assert put_back or "src/widget/b.py" in refused.err
    (site / "widget" / "a.py").write_text("A = 2\n")
    (site / "widget" / "b.py").write_text("B = 2\n")
    assert call("apply", *where, "--target", "one", "--tree", site).code == 0
    assert call("reverse", *where, "--tree", site).code == 0
    assert {name: (site / "widget" / name).read_text() for name in _FILES} == _FILES


_TWO = """\
--- a/src/widget/keep.py
+++ b/src/widget/keep.py
@@ -15,3 +15,3 @@
 LINE_14 = 14
-LINE_15 = 15
+LINE_15 = "two"
 LINE_16 = 16
--- a/src/widget/b.py
+++ b/src/widget/b.py
@@ -1 +1 @@
-B = 1
+B = 2
"""


@pytest.fixture
def stacked(tmp_path: Path) -> tuple[Small, Path]:
    """Two targets in one tree, which both change keep.py."""
    first = KEEP.replace("LINE_2 = 2", "LINE_2 = 'one'")
    files = {**_FILES, "keep.py": KEEP}
    small = make_small(tmp_path / "small", {"1.0": files}, [("one", {"keep.py": first})])
    small.add_target("two", _TWO)
    with zipfile.ZipFile(small.wheel("1.0")) as wheel:
        wheel.extractall(tmp_path / "site")
    where: list[str | Path] = ["--catalog", small.catalog]
    assert call("lock", *where, "--wheel", small.wheel("1.0")).code == 0
    tree: list[str | Path] = ["--tree", tmp_path / "site"]
    assert call("apply", *where, *tree, "-t", "one", "-t", "two").code == 0
    return small, tmp_path / "site"


def test_what_another_series_wrote_is_no_edit(stacked: tuple[Small, Path]) -> None:
    small, site = stacked
    source: list[str | Path] = ["--catalog", small.catalog, "--wheel", small.wheel("1.0")]
    tree: list[str | Path] = ["--tree", site]
    series = snapshot(small.catalog.parent)
    for name in ("one", "two"):
        assert call("refresh", *source, *tree, "--series", name).code == 0
        made = call("new", "n.patch", *source, *tree, "--series", name, "-m", "n: more")
        assert (made.code, "nothing to make a patch of" in made.err) == (2, True), made.out
    b, keep = site / "widget" / "b.py", site / "widget" / "keep.py"
    both = keep.read_text()
    b.write_text("B = 3\n")
    keep.write_text(both + "MINE = 1\n")
    refused = call("refresh", *source, *tree, "--series", "one")
    assert (refused.code, "another series, two, changes it too" in refused.err) == (2, True)
    keep.write_text(both)
    (site / "widget" / "c.py").write_text("C = 2\n")
    assert snapshot(small.catalog.parent) == series
    made = call("new", "n.patch", *source, *tree, "--series", "one", "-m", "n: more")
    assert (made.code, "left out src/widget/b.py" in made.out) == (0, True), made.err
    assert set(load_series(small.series).patches[-1].paths) == {"src/widget/c.py"}


def test_adopt_refuses_a_series_below_another(stacked: tuple[Small, Path]) -> None:
    """What lies in a file of both is not what the lower one wrote."""
    small, site = stacked
    where: list[str | Path] = ["--catalog", small.catalog]
    source = [*where, "--wheel", small.wheel("1.0")]
    patch = small.series / "0001-one.patch"
    later = _TWO.partition("--- a/src/widget/b.py")[0]
    patch.write_text(patch.read_text().rpartition("-- \n")[0] + later)
    assert call("lock", *source, "-t", "one").code == 0
    before = snapshot(site)
    refused = call("adopt", *source, "--tree", site, "-t", "one")
    assert (refused.code, snapshot(site)) == (3, before), refused.out
    assert "two was applied later" in refused.err
    for _ in range(2):
        assert call("reverse", *where, "--tree", site).code == 0
    assert (site / "widget" / "keep.py").read_text() == KEEP
