"""The catalog in an installed pkgtools: read, never written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from commands import call
from small import Small, make_small
from trees import snapshot

from pkgtools.catalog import writes

if TYPE_CHECKING:
    from pathlib import Path

A = "VALUE = 1\nOTHER = 1\n"


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Small:
    made = make_small(
        tmp_path / "small",
        {"1.0": {"a.py": A}, "1.1": {"a.py": f"NEW = 1\n{A}"}},
        [("one", {"a.py": A.replace("OTHER = 1", "OTHER = 2")})],
    )
    monkeypatch.setattr(writes, "PACKAGED", made.catalog.parent)
    monkeypatch.setattr("pkgtools.port.route.released_versions", lambda _: [])
    return made


@pytest.mark.parametrize("verb", ["port", "lock", "import", "upgrade", "drop"])
def test_a_change_is_refused(verb: str, small: Small) -> None:
    """The next upgrade of pkgtools would undo it."""
    old, new = ("--wheel", small.wheel("1.0")), ("--wheel", small.wheel("1.1"))
    words = {
        "port": ("--series", "one", "--to", "1.1", *old, *new),
        "lock": ("--target", "one", *old),
        "import": (small.series, "-o", small.series.with_name("mine")),
        "upgrade": (*old, *new),
        "drop": ("0001-one.patch", "--series", "one", *old),
    }[verb]
    before = snapshot(small.catalog.parent)
    done = call(verb, *words, "--catalog", small.catalog)
    assert done.code == 2, done
    assert "is in the installed pkgtools" in done.err
    assert "next: copy it, and use the copy: `cp -r " in done.err
    assert snapshot(small.catalog.parent) == before


def test_a_port_beside_it_names_the_copy(small: Small, tmp_path: Path) -> None:
    done = small.port("--series", "one", "--to", "1.1", "-o", tmp_path / "new")
    assert done.code == 0, done.err
    assert "next: copy it, and use the copy: `cp -r " in done.out
    assert f"next: move {tmp_path / 'new'} into catalog/patches/widget\n" in done.out
    assert "`pkgtools lock --catalog catalog/targets.toml --target new " in done.out
