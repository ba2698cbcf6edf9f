"""Code that is nested deeper than Python compiles is refused, with its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from commands import call
from small import make_small

from pkgtools.authoring.lock import write_locks
from pkgtools.catalog import load_catalog
from pkgtools.errors import PkgtoolsError
from pkgtools.source.at_hand import AtHand
from pkgtools.source.wheel import WheelSource
from pkgtools.tree.verify import verify
from pkgtools.util.progress import Silent

if TYPE_CHECKING:
    from pathlib import Path

_DEEP = {
    "parentheses": f"x = {'(' * 3_000}1{')' * 3_000}\n",
    "calls": f"x = a{'.f()' * 50_000}\n",
    "not": f"x = {'not ' * 20_000}1\n",
}


@pytest.mark.parametrize("kind", _DEEP)
def test_it_is_refused(kind: str, tmp_path: Path) -> None:
    """The release is so already: `lock` refuses only what a patch breaks."""
    before, after = ({"a.py": f"{_DEEP[kind]}y = {number}\n"} for number in (1, 2))
    small = make_small(tmp_path, {"1.0": before}, [("deep", after)])
    catalog = load_catalog(small.catalog)
    write_locks(catalog.targets, AtHand(Silent(), [small.wheel("1.0")]))
    done = call(
        *("build", "wheel", "--wheel", small.wheel("1.0"), "--target", "one"),
        *("--catalog", small.catalog, "-o", tmp_path / "dist"),
    )
    assert done.code == 0
    (path,) = (tmp_path / "dist").iterdir()
    with (
        WheelSource(path, catalog.upstreams[0]) as wheel,
        pytest.raises(PkgtoolsError, match=r"a\.py does not compile"),
    ):
        verify(load_catalog(small.catalog), None, wheel)
