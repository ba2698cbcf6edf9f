"""Code that is nested deeper than Python compiles is refused, with its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from commands import call
from small import make_small

if TYPE_CHECKING:
    from pathlib import Path

_DEEP = {
    "parentheses": f"x = {'(' * 3_000}1{')' * 3_000}\n",
    "calls": f"x = a{'.f()' * 50_000}\n",
    "not": f"x = {'not ' * 20_000}1\n",
}


@pytest.mark.parametrize("kind", _DEEP)
def test_a_patch_that_nests_too_deep_is_refused(kind: str, tmp_path: Path) -> None:
    small = make_small(tmp_path, {"1.0": {"a.py": "y = 1\n"}}, [("deep", {"a.py": _DEEP[kind]})])
    done = call("lock", "--wheel", small.wheel("1.0"), "--catalog", small.catalog)
    assert (done.code, "src/widget/a.py of " in done.err) == (3, True)


@pytest.mark.parametrize("kind", _DEEP)
def test_a_release_that_nests_too_deep_is_not_the_series_fault(kind: str, tmp_path: Path) -> None:
    before, after = ({"a.py": f"{_DEEP[kind]}y = {number}\n"} for number in (1, 2))
    small = make_small(tmp_path, {"1.0": before}, [("deep", after)])
    where = ("--wheel", small.wheel("1.0"), "--catalog", small.catalog)
    assert call("lock", *where).code == 0
    done = call("build", "wheel", *where, "--target", "one", "-o", tmp_path / "dist")
    assert done.code == 0
    (path,) = (tmp_path / "dist").iterdir()
    assert call("verify", "--wheel", path, "--catalog", small.catalog).code == 0
