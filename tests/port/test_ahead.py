"""Ports with merges of a second process, held against ports that make all of them themselves."""

from __future__ import annotations

import io
import pickle
import sys
import time
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from project import git
from silent import Silent
from small import make_small

from pkgtools.authoring.applied import applied_on
from pkgtools.blob import Blob
from pkgtools.catalog import load_catalog, load_series
from pkgtools.port import ahead
from pkgtools.port.ahead import Ahead, serve
from pkgtools.port.finished import Finished
from pkgtools.port.memory import CheckedFile, StepMemory
from pkgtools.port.model import Decision
from pkgtools.port.patched import PatchedFiles
from pkgtools.port.series import port_series
from pkgtools.port.upstream import Movement
from pkgtools.source import WheelSource
from pkgtools.source.git import Repository

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pkgtools.merge import Merge
    from pkgtools.port.patched import FileMerge
    from pkgtools.port.series import Ported
    from pkgtools.port.step import Decide

    Files = Mapping[str, str]

BODY = "".join(f"    row_{n} = x + {n}\n" for n in range(9))
LIB = f"def call(x, a=1):\n{BODY}    return x\n"
USER = f"from widget.lib import call\n\n\ndef f(x, a=1):\n{BODY}    return x\n"
OLD = {"lib.py": LIB, "user.py": USER, "other.py": LIB, "third.py": LIB}
NEW = {name: text.replace("a=1", "a=1, b=2") for name, text in OLD.items()}
FIRST = {name: text.replace("a=1", "a=1, ours=3") for name, text in OLD.items()}
FIRST["user.py"] = FIRST["user.py"].replace("return x", "return call(x, ours=4)")
SECOND = {"user.py": FIRST["user.py"].replace("row_8 = x", "row_8 = a + x")}


@pytest.fixture
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_WORTH", 0)
    monkeypatch.setattr(ahead, "_cpus", lambda: 2)


def ported(
    tmp_path: Path,
    old: Files = OLD,
    new: Files = NEW,
    patches: Sequence[Files] = (FIRST, SECOND),
    decide: Decide = lambda _: None,
) -> Ported:
    """Port a series; by default a file uses what another one gets, and is changed twice."""
    named = [(f"p{number}", files) for number, files in enumerate(patches)]
    small = make_small(tmp_path, {"1.0": old, "1.1": new}, named)
    upstream = load_catalog(small.catalog).upstreams[0]
    sources = [WheelSource(small.wheel(version), upstream) for version in ("1.0", "1.1")]
    applied = applied_on(load_series(small.series).patches, sources[0])
    return port_series(Finished(tuple(applied), ()), upstream, sources, decide, Silent())


def when_made(monkeypatch: pytest.MonkeyPatch) -> list[Merge | None]:
    """Let the port wait until the process has made all merges; return those that it took."""
    taken: list[Merge | None] = []
    take: Callable[[Ahead, FileMerge], Merge | None] = Ahead.take

    def patiently(self: Ahead, file: FileMerge) -> Merge | None:
        end = time.monotonic() + 60
        while self._wanted or not all(made.done() for made in self._merges.values()):
            assert time.monotonic() < end
            time.sleep(0.001)
        taken.append(take(self, file))
        return taken[-1]

    monkeypatch.setattr(Ahead, "take", patiently)
    return taken


@pytest.mark.usefixtures("_always")
def test_a_port_is_the_same_with_a_process_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        taken = when_made(patched)
        made = ported(tmp_path / "ahead")
    # Before lib.py is ported, the process takes for user.py what it made of lib.py itself.
    assert None not in taken
    assert len(taken) == 5
    monkeypatch.setattr(ahead, "_WORTH", 10**9)
    alone = ported(tmp_path / "alone")
    assert [p.changes for p in made.patches] == [p.changes for p in alone.patches]
    assert made.steps == alone.steps
    assert [patch.outcome for patch in made.steps[0].patches] == ["merged", "unchanged"]


@pytest.mark.usefixtures("_always")
def test_a_person_takes_out_what_a_merge_ahead_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = f"def f(x, a=1):\n{BODY}    return x\n"
    gone = "class Config:\n    def __init__(self):\n        self.size = 1\n"
    old = {"config.py": gone, "extra.py": "size = 1\nn = 1\n", "user.py": user}
    new = {name: text.replace("a=1", "a=1, b=2") for name, text in old.items()}
    new |= {"config.py": gone.replace("size", "width"), "extra.py": "n = 2\n"}
    ours = {"extra.py": "size = 2\nn = 3\n", "user.py": user.replace("x + 8", "x.size + 8")}
    answer = Decision(Blob(b"n = 3\n"))
    taken = when_made(monkeypatch)
    made = ported(tmp_path, old, new, [ours], lambda c: answer if "extra" in c.path else None)
    assert [merged is None for merged in taken] == [False, True]
    reasons = [hunk.reason for hunk in made.steps[0].patches[0].hunks if hunk.path.endswith("r.py")]
    assert reasons == ["the package defines `size` nowhere any more"]


@pytest.mark.usefixtures("_always")
def test_a_merge_ahead_overwrites_no_file_that_a_patch_has_changed_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = f"def helper(y):\n{BODY.replace('x', 'y')}    return y\n"
    old = {"here.py": f"{LIB}\n\n{helper}", "there.py": LIB}
    new = {"here.py": LIB, "there.py": f"{LIB.replace('a=1', 'a=1, b=2')}\n\n{helper}"}
    first = {"there.py": LIB.replace("a=1", "a=1, ours=3")}
    second = {"here.py": old["here.py"].replace("y + 8", "y + 80")}
    with monkeypatch.context() as patched:
        taken = when_made(patched)
        made = ported(tmp_path / "ahead", old, new, (first, second))
    assert None not in taken
    monkeypatch.setattr(ahead, "_WORTH", 10**9)
    assert made.steps == ported(tmp_path / "alone", old, new, (first, second)).steps


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize("python", ["/bin/false", "/bin/echo", "/nowhere/python", "", None])
def test_a_process_that_does_not_start_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: str | None
) -> None:
    monkeypatch.setattr(sys, "executable", python)
    (step,) = ported(tmp_path).steps
    assert [patch.outcome for patch in step.patches] == ["merged", "unchanged"]


@pytest.mark.usefixtures("_always")
def test_a_killed_process_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follow = Ahead.follow

    def kill(self: Ahead, files: PatchedFiles) -> None:
        while self._process is None:
            time.sleep(0.001)
        self._process.kill()
        follow(self, files)

    monkeypatch.setattr(Ahead, "follow", kill)
    (step,) = ported(tmp_path).steps
    assert [patch.outcome for patch in step.patches] == ["merged", "unchanged"]


def local(_: WheelSource) -> object:
    message = "Can't pickle local object"
    raise AttributeError(message)


def no_thread(_: Thread) -> None:
    message = "can't start new thread"
    raise RuntimeError(message)


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize(
    ("kind", "name", "fails"), [(WheelSource, "__reduce__", local), (Thread, "start", no_thread)]
)
def test_a_port_without_a_process_is_the_same(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: type,
    name: str,
    fails: Callable[..., object],
) -> None:
    monkeypatch.setattr(kind, name, fails)
    take = Ahead.take

    def late(self: Ahead, file: FileMerge) -> Merge | None:
        if self._thread is not None:
            self._thread.join(60)
        return take(self, file)

    monkeypatch.setattr(Ahead, "take", late)
    (step,) = ported(tmp_path).steps
    assert [patch.outcome for patch in step.patches] == ["merged", "unchanged"]


def test_a_port_on_one_cpu_starts_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "_WORTH", 0)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {3}, raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    monkeypatch.setattr(Thread, "start", lambda _: pytest.fail("there is one CPU"))
    (step,) = ported(tmp_path).steps
    assert [patch.outcome for patch in step.patches] == ["merged", "unchanged"]


def test_the_process_ends_with_the_port() -> None:
    made = io.BytesIO()
    serve(io.BytesIO(), made)
    assert made.getvalue() == b"ready\n"


def test_a_merge_is_outdated_by_what_it_looked_at(tmp_path: Path) -> None:
    small = make_small(tmp_path, {"1.0": OLD}, [])
    upstream = load_catalog(small.catalog).upstreams[0]
    listing = StepMemory().listing(WheelSource(small.wheel("1.0"), upstream), upstream)
    files = PatchedFiles(Movement(listing, listing, upstream), upstream)
    before = files.digests.copy()
    files.write("src/widget/a.py", "src/widget/a.py", Blob(b"size = 1\n"))
    for looked, seen, is_outdated in (
        (CheckedFile(paths={"src/widget/a.py"}), before, True),
        (CheckedFile(paths={"src/widget/a.py"}), files.digests, False),
        (CheckedFile(paths={"src/widget/b.py"}), before, False),
        (CheckedFile(missed={b"size"}), before, True),
        (CheckedFile(missed={b"other"}), before, False),
        (CheckedFile(names={b"size"}, listed={"src/widget/a.py"}), before, False),
    ):
        assert files.is_outdated(looked, seen) is is_outdated


def test_sources_open_in_another_process(tmp_path: Path) -> None:
    small = make_small(tmp_path, {"1.0": OLD}, [])
    wheel = WheelSource(small.wheel("1.0"), load_catalog(small.catalog).upstreams[0])
    folder = tmp_path / "git"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "one")
    commit = Repository(folder).get("HEAD")
    for source in (wheel, commit):
        again = pickle.loads(pickle.dumps(source))  # noqa: S301 - our own
        assert again.label == source.label
