"""Drafts of a second process, held against merges that make all of themselves."""

from __future__ import annotations

import io
import pickle
import sys
from typing import TYPE_CHECKING

import pytest
from rule_cases import CASES
from silent import Silent
from small import make_small

from pkgtools.authoring.applied import applied_on
from pkgtools.catalog import load_catalog, load_series
from pkgtools.merge import OtherFiles, draft, finish, merge
from pkgtools.port import ahead
from pkgtools.port.ahead import Drafts, serve
from pkgtools.port.finished import Finished
from pkgtools.port.series import port_series
from pkgtools.source import WheelSource

if TYPE_CHECKING:
    from pathlib import Path

    from pkgtools.merge import Draft, Sides
    from pkgtools.port.series import Ported

SOURCES = [case.bytes() for case in CASES[::12]]


@pytest.fixture
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_WORTH", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)


def ported(tmp_path: Path) -> Ported:
    """Port a series of which the second patch changes what the first one made."""
    body = "".join(f"    row_{n} = x + {n}\n" for n in range(9))
    old = {f"m{n}.py": f"def f(x, a=1):\n{body}    return x\n" for n in range(4)}
    new = {name: text.replace("a=1", "a=1, b=2") for name, text in old.items()}
    first = {name: text.replace("a=1", "a=1, ours=3") for name, text in old.items()}
    second = {"m0.py": first["m0.py"].replace("return x", "return x, ours")}
    releases = {"1.0": old, "1.1": new}
    small = make_small(tmp_path, releases, [("one", first), ("two", second)])
    upstream = load_catalog(small.catalog).upstreams[0]
    sources = [WheelSource(small.wheel(version), upstream) for version in releases]
    applied = applied_on(load_series(small.series).patches, sources[0])
    return port_series(Finished(tuple(applied), ()), upstream, sources, lambda _: None, Silent())


@pytest.mark.usefixtures("_always")
def test_a_port_with_drafts_is_the_port_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Draft | None] = []

    def take(drafts: Drafts, sides: Sides) -> Draft | None:
        # Without this, the port is over before the process has started.
        taken.append(drafts._drafts[sides].result(timeout=60))
        return taken[-1]

    with monkeypatch.context() as patched:
        patched.setattr(Drafts, "take", take)
        made = ported(tmp_path / "ahead")
    assert len(taken) == 5
    assert all(taken)
    monkeypatch.setattr(ahead, "_WORTH", 10**9)
    alone = ported(tmp_path / "alone")
    assert [p.changes for p in made.patches] == [p.changes for p in alone.patches]
    assert made.steps == alone.steps
    assert made.steps[0].patches[0].hunks[0].rules


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize("python", ["/bin/false", "/nowhere/python"])
def test_a_process_that_does_not_start_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: str
) -> None:
    monkeypatch.setattr(sys, "executable", python)
    (step,) = ported(tmp_path).steps
    assert [patch.outcome for patch in step.patches] == ["merged", "unchanged"]


@pytest.mark.usefixtures("_always")
def test_a_process_that_is_killed_has_no_drafts() -> None:
    with Drafts() as drafts:
        assert drafts._process is not None
        drafts._process.kill()
        drafts.ask(SOURCES[:1])
        assert drafts.take(SOURCES[0]) is None


@pytest.mark.parametrize("sides", SOURCES)
def test_a_finished_draft_is_the_merge(sides: Sides) -> None:
    drafted = draft(*sides)
    assert drafted is not None
    sent = pickle.loads(pickle.dumps(drafted))  # noqa: S301 - our own
    assert finish(sent, sides, OtherFiles()) == merge(*sides, python=True)


def test_no_draft_asks_for_other_files() -> None:
    base = b"def f():\n    return 1\n\n\ndef g():\n    return 2\n"
    ours, theirs = base.replace(b"1", b"3"), base[base.index(b"def g") :]
    assert draft(base, ours, theirs) is None
    assert draft(*(text.replace(b"\n", b"\r\n") for text in (base, ours, base))) is None


def test_the_process_ends_with_the_port() -> None:
    wanted, made = io.BytesIO(pickle.dumps(SOURCES[0])), io.BytesIO()
    serve(wanted, made)
    made.seek(0)
    assert made.readline() == b"ready\n"
    assert pickle.load(made) == draft(*SOURCES[0])  # noqa: S301 - our own
