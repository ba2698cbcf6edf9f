"""A command that reads a series' source from a tree waits for one that writes there."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest
from commands import call
from project import git
from small import Small, make_small

_FILES = {"a.py": "A = 1\n", "b.py": "B = 1\n"}
_SERIES = ["--series", "one", "--from", "TREE"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    root = tmp_path_factory.mktemp("small")
    small = make_small(root, {"1.0": _FILES}, [("one", {"a.py": "A = 2\n"})])
    git(small.repository, "worktree", "add", "--quiet", "--detach", root / "TREE", "v1.0")
    return small


@pytest.mark.parametrize(
    "words",
    [
        ["refresh", *_SERIES],
        ["checkout", "OUT", *_SERIES],
        ["export", "-o", "OUT", *_SERIES],
        ["export", "-o", "OUT", "--waiver", *_SERIES],
        ["export", "-o", "OUT", "--format", "mail", *_SERIES],
        ["import", "SERIES/0001-one.patch", "-o", "OUT", "--from", "TREE"],
        ["port", "-o", "OUT", *_SERIES, "--to", "TREE"],
    ],
    ids=lambda words: "-".join(word for word in words if word.isalpha() and word.islower()),
)
def test_the_tree_is_locked_while_it_is_read(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    tree = small.root / "TREE"
    modes: list[int] = []
    flock = fcntl.flock

    def record(descriptor: int, operation: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink() == tree:
            modes.append(operation & ~fcntl.LOCK_NB)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", record)
    places = {"TREE": str(tree), "OUT": str(tmp_path / "out"), "SERIES": str(small.series)}
    for name, place in places.items():
        words = [word.replace(name, place) for word in words]
    done = call(*words, "--catalog", small.catalog)
    assert (done.code, modes) == (0, [fcntl.LOCK_SH]), done.err
