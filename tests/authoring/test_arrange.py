"""`drop`, `reorder` and `rename`: one transaction each, lockfiles included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from commands import call
from sharing import make_sharing, options
from small import Small, make_small
from trees import snapshot

from pkgtools.catalog import load_catalog, load_series

if TYPE_CHECKING:
    from pathlib import Path

_TEXT = "".join(f"line{n} = {n}\n" for n in range(30))
_ONE = _TEXT.replace("line3 = 3", "line3 = 30")
_TWO = _ONE.replace("line3 = 30", "line3 = 31")
_THREE = _TWO.replace("line20 = 20", "line20 = 0")


@pytest.fixture
def small(tmp_path: Path) -> Small:
    """Build three patches: the second needs the first, the third needs none."""
    edits = [("one", {"a.py": _ONE}), ("two", {"a.py": _TWO}), ("three", {"a.py": _THREE})]
    small = make_small(tmp_path / "small", {"1.0": {"a.py": _TEXT}}, edits)
    assert call("lock", *_options(small)).code == 0
    return small


def _options(small: Small) -> list[str | Path]:
    return ["--catalog", small.catalog, "--wheel", small.wheel("1.0")]


def _names(small: Small) -> list[str]:
    return [patch.name for patch in load_series(small.series).patches]


def _run(small: Small, *words: str | Path) -> Any:
    wheel: list[str | Path] = [] if words[0] == "rename" else ["--wheel", small.wheel("1.0")]
    done = call(*words, "--series", "one", "--catalog", small.catalog, *wheel, "--json")
    return done.facts


def _is_locked(small: Small) -> bool:
    return call("lock", "--check", *_options(small)).code == 0


def test_lock_names_the_files_that_it_wrote(small: Small) -> None:
    lockfile = small.series / "lock.toml"
    again = call("lock", *_options(small))
    assert (again.code, again.out.splitlines()[-1]) == (0, "every lockfile is up to date")
    lockfile.write_text(lockfile.read_text() + "# edited\n")
    assert call("lock", *_options(small)).out.splitlines()[-1] == f"wrote {lockfile}"


def test_drop(small: Small) -> None:
    assert _run(small, "drop", "0003-three.patch")["targets"] == ["one"]
    assert _names(small) == ["0001-one.patch", "0002-two.patch"]
    assert not (small.series / "0003-three.patch").exists()
    assert _is_locked(small)
    _run(small, "drop", "0001-one", "0002-two.patch")  # as `new` takes a name
    assert (_names(small), _is_locked(small)) == ([], True)


@pytest.mark.parametrize(
    ("words", "needs"),
    [
        (["drop", "0001-one.patch"], "drop 0002-two.patch as well"),
        (["reorder", "0002-two.patch", "--before", "0001-one.patch"], "pkgtools checkout DIR"),
    ],
)
def test_a_patch_that_another_needs_stays(small: Small, words: list[str], needs: str) -> None:
    before = snapshot(small.root / "catalog")
    error = _run(small, *words)["error"]
    assert error["exit_code"] == 3
    assert "0002-two.patch would not apply" in error["message"]
    assert needs in error["remedy"]
    assert error["details"]["rejections"]
    assert snapshot(small.root / "catalog") == before


def test_reorder(small: Small) -> None:
    _run(small, "reorder", "0003-three.patch", "--before", "0001-one.patch")
    assert _names(small) == ["0003-three.patch", "0001-one.patch", "0002-two.patch"]
    assert _is_locked(small)
    _run(small, "reorder", "0003-three.patch", "--after", "0001-one.patch")
    assert _names(small) == ["0001-one.patch", "0003-three.patch", "0002-two.patch"]
    _run(small, "reorder", "0001-one.patch", "0002-two.patch", "0003-three.patch")
    assert _names(small) == ["0001-one.patch", "0002-two.patch", "0003-three.patch"]
    assert _is_locked(small)
    assert small.made(small.series, "1.0")["src/widget/a.py"] == _THREE.encode()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["drop", "four.patch"], "has no patch 'four.patch'"),
        (["drop", "0001-one.patch", "0001-one.patch"], "'0001-one.patch' is named twice"),
        (["reorder", "0001-one.patch"], "has more patches than are named"),
        (["reorder", "0001-one.patch", "--after", "0001-one.patch"], "cannot be moved to itself"),
        (["reorder", "0001-one.patch", "--before", "x", "--after", "y"], "name two places"),
        (["rename", "0001-one.patch", "0002-two.patch"], "exists already"),
        (["rename", "0001-one.patch", "../x.patch"], "invalid patch name"),
        (["rename", "0001-one.patch", "x"], "invalid patch name"),
    ],
)
def test_what_cannot_be_named(small: Small, words: list[str], message: str) -> None:
    before = snapshot(small.root / "catalog")
    error = _run(small, *words)["error"]
    assert (error["exit_code"], error["remedy"] is None) == (2, False)
    assert message in error["message"]
    assert snapshot(small.root / "catalog") == before


def test_rename_needs_no_source_and_keeps_comments(small: Small) -> None:
    listing = small.series / "series"
    listing.write_text("# ours\n0001-one.patch\n0002-two.patch  # needs one\n0003-three.patch\n")
    assert _run(small, "rename", "0002-two.patch", "two.patch")["changed"] == ["0002-two.patch"]
    assert (
        listing.read_text() == "# ours\n0001-one.patch\ntwo.patch  # needs one\n0003-three.patch\n"
    )
    assert _is_locked(small)


def test_a_patch_that_a_target_calls_absorbed(small: Small) -> None:
    text = small.catalog.read_text()
    absorbed = 'absorbed = ["one/0003-three.patch"]  # upstream has it\n'
    table = '[[target]]\nname = "next"\nupstream = "widget"\nseries = "next"\n'
    release = 'release = { version = "1.0", tag = "v1.0" }\n'
    small.catalog.write_text(f"{text}\n{table}{release}{absorbed}")
    (small.series.parent / "next").mkdir()
    (small.series.parent / "next" / "series").touch()
    error = _run(small, "drop", "0003-three.patch")["error"]
    assert "next calls it absorbed" in error["message"]
    _run(small, "rename", "0003-three.patch", "three.patch")
    assert '["one/three.patch"]  # upstream has it\n' in small.catalog.read_text()
    assert [p.name for p in load_catalog(small.catalog).target("next").absorbed] == ["three.patch"]


def test_shared_patches(tmp_path: Path) -> None:
    small = make_sharing(tmp_path / "small")
    assert call("lock", *options(small)).code == 0
    series = small.series.parent
    where: list[str | Path] = ["--catalog", small.catalog]
    done = call("rename", "../limit.patch", "most.patch", "--series", "three", *where, "--json")
    assert sorted(done.facts["targets"]) == ["one", "three", "two"]
    assert call("rename", "extra", "module", "--series", "one", *where).code == 0
    assert (series / "two" / "series").read_text() == "../module/\n../most.patch\n"
    assert not (series / "extra").exists()
    assert call("lock", "--check", *options(small)).code == 0
    done = call("drop", "most.patch", "--series", "two", *options(small), "--json")
    assert done.facts["kept"] == ["../most.patch"]
    assert (series / "most.patch").exists()
    assert call("lock", "--check", *options(small)).code == 0
