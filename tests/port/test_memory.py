"""Steps that take unchanged files from the step before, held against steps that take nothing."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from project import git
from silent import Silent
from small import make_small

from pkgtools.authoring.applied import applied_on
from pkgtools.catalog import load_catalog, load_series
from pkgtools.port.finished import Finished
from pkgtools.port.memory import StepMemory
from pkgtools.port.series import port_series
from pkgtools.port.step import PortStep
from pkgtools.source import WheelSource
from pkgtools.source.git import Repository

if TYPE_CHECKING:
    from pathlib import Path

    from pkgtools.port.series import Ported

USER = (
    "from widget.lib import call\n\n\nclass User:\n    def go(self, x):\n        return call(x)\n"
)
LIB = "def call(x, mode=1):\n    return x\n"
OTHER = "VALUE = 1\n"


def ported(tmp_path: Path, releases: list[dict[str, str]]) -> Ported:
    versions = [f"1.{n}" for n in range(len(releases))]
    patched = USER.replace("call(x)", "call(x, mode=2)")
    small = make_small(
        tmp_path, dict(zip(versions, releases, strict=True)), [("one", {"user.py": patched})]
    )
    upstream = load_catalog(small.catalog).upstreams[0]
    sources = [WheelSource(small.wheel(version), upstream) for version in versions]
    applied = applied_on(load_series(small.series).patches, sources[0])
    start = Finished(tuple(applied), ())
    return port_series(start, upstream, sources, lambda _: None, Silent())


def test_a_change_of_what_the_file_uses_is_seen_in_a_later_step(tmp_path: Path) -> None:
    first = {"user.py": USER, "lib.py": LIB, "other.py": OTHER}
    quiet = [first, *({**first, "other.py": f"VALUE = {n}\n"} for n in (2, 3))]
    done = ported(tmp_path, [*quiet, {**first, "lib.py": "def call(x):\n    return x\n"}])
    assert [step.patches[0].outcome for step in done.steps] == ["unchanged"] * 2 + ["conflict"]
    (conflict,) = done.conflicts
    assert "it has no parameter `mode`" in (conflict.hunks[0].reason or "")


def test_a_file_that_upstream_leaves_alone_is_read_once(tmp_path: Path) -> None:
    files = {"user.py": USER, "lib.py": LIB, "other.py": OTHER}
    small = make_small(tmp_path, {"1.0": files, "1.1": {**files, "lib.py": "# why\n" + LIB}}, [])
    upstream = load_catalog(small.catalog).upstreams[0]
    memory = StepMemory()
    sources = [WheelSource(small.wheel(version), upstream) for version in ("1.0", "1.1")]
    old = memory.listing(sources[0], upstream)
    lib, other = (upstream.in_source(f"widget/{name}") for name in ("lib.py", "other.py"))
    before = old.read(lib), old.read(other)
    new = memory.listing(sources[1], upstream)
    assert new.contents == {other: before[1]}
    assert (new.read(lib), new.read(other)) == (b"# why\n" + before[0], before[1])


def test_a_commit_takes_files_from_the_one_before(tmp_path: Path) -> None:
    files = {"user.py": USER, "lib.py": LIB, "other.py": OTHER}
    small = make_small(tmp_path, {"1.0": files, "1.1": {**files, "new.py": OTHER}}, [])
    git(small.repository, "update-index", "--chmod=+x", "src/widget/lib.py")
    git(small.repository, "commit", "--quiet", "--message", "run it")
    upstream = load_catalog(small.catalog).upstreams[0]
    repository, memory = Repository(small.repository), StepMemory()
    paths = [f"src/widget/{name}.py" for name in ("user", "lib", "new", "none")]
    for revision in ("v1.0", "HEAD"):
        source = repository.get(revision)
        listing = memory.listing(source, upstream)
        taken = set(listing.blobs)
        assert [listing.blob(path) for path in paths] == [source.read(path) for path in paths]
    assert taken == {paths[0], paths[3]}


@pytest.mark.parametrize("seed", range(4))
def test_the_steps_are_those_without_a_memory(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)  # noqa: S311 - chance, not secrecy
    files = {"user.py": USER, "lib.py": LIB, "other.py": OTHER}
    edits = {
        "user.py": ["import os\n" + USER, USER],
        "lib.py": [LIB, "# why\n" + LIB, LIB.replace("mode=1", "mode=1, more=2")],
        "other.py": ["VALUE = 5\n", "from widget.lib import call\n"],
    }
    releases = [files]
    for _ in range(5):
        name = chance.choice([*edits])
        releases.append({**releases[-1], name: chance.choice(edits[name])})
    remembered = ported(tmp_path / "one", releases)
    monkeypatch.setattr(PortStep, "_is_quiet", lambda *_: False)
    assert ported(tmp_path / "two", releases).steps == remembered.steps
