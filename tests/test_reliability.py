"""A short form of the campaign in benchmarks/reliability.py."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from image.fake_registry import fake_registry
from reliability import Bench, crowd, disk, fuzz, kills, wrong

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def bench(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr("pkgtools.port.route.released_versions", lambda _: [])
    monkeypatch.setenv("XDG_CACHE_HOME", str(quick_path / "cache"))
    with fake_registry() as registry:
        yield Bench(quick_path, registry)


def _lost(found: Counter[str]) -> list[str]:
    return [name for name in found if "WRONG" in name]


def test_kills(bench: Bench) -> None:
    found = kills(bench, 6)
    assert _lost(found) == []
    assert sum(count for name, count in found.items() if name.endswith(": killed")) == 6


def test_full_disks(bench: Bench) -> None:
    if os.geteuid() != 0:
        pytest.skip("a small file system is mounted by root alone")
    try:
        found = disk(bench, 64 * 1024)
    except PermissionError:
        pytest.skip("this container may not mount a file system")
    assert _lost(found) == []
    assert {name.partition(":")[0] for name in found if name.endswith(": done")} == {
        act.name for act in bench.acts()
    }
    assert sum(count for name, count in found.items() if name.endswith(": refused")) >= 5


def test_a_crowd(bench: Bench) -> None:
    found = crowd(bench, 16)
    assert _lost(found) == []
    assert found.total() == 16


def test_hostile_inputs(bench: Bench) -> None:
    found = list(fuzz(bench, range(80), batch=80))
    assert len(found) == 80
    assert [each for each in found if wrong(each)] == []
    assert {each.kind for each in found} == {"patch", "wheel", "layout", "registry"}
    assert {each.result for each in found} >= {"0", "2", "6"}
