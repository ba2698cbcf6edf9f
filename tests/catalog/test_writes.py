"""Writes to a catalog: all or none, and one command at a time."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest
from crash import fork, in_child

from pkgtools.blob import EXECUTABLE, Blob
from pkgtools.catalog import writes
from pkgtools.catalog.writes import locked_catalog, recover_catalog, write_catalog
from pkgtools.errors import MalformedError, TreeError
from pkgtools.port.target import write_target
from pkgtools.util import files as util

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_OLD = {"targets.toml": b"old", "patches/a": b"old a", "patches/b": b"old b"}


def _catalog(folder: Path) -> dict[Path, Blob | None]:
    """Write an old catalog; return what a command would write to it."""
    for name, data in _OLD.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return {
        folder / "patches/a": Blob(b"new a"),
        folder / "patches/b": None,
        folder / "patches/c/d": Blob(b"new d", EXECUTABLE),
    }


def _files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


_NEW = {"targets.toml": b"old", "patches/a": b"new a", "patches/c/d": b"new d"}


def test_all_is_written(tmp_path: Path) -> None:
    changes = _catalog(tmp_path)
    with locked_catalog(tmp_path):
        write_catalog(tmp_path, changes)
    assert _files(tmp_path) == _NEW
    assert os.access(tmp_path / "patches/c/d", os.X_OK)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["patches", "targets.toml"]


def test_a_file_that_is_the_same_is_not_touched(tmp_path: Path) -> None:
    _catalog(tmp_path)
    before = (tmp_path / "patches/a").stat()
    with locked_catalog(tmp_path):
        write_catalog(tmp_path, {tmp_path / "patches/a": Blob(b"old a")})
    assert (tmp_path / "patches/a").stat() == before


_CALLS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree"}


def _write_until(at: int, folder: Path, changes: dict[Path, Blob | None]) -> None:
    """Write the changes, and be killed at call number `at`, counted from 0."""
    left = [at]

    def audit(event: str, args: tuple[object, ...]) -> None:
        if event in _CALLS and (str(folder) in str(args[0]) or event != "open"):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(audit)
    with locked_catalog(folder):
        write_catalog(folder, changes)


def test_killed_at_any_point_it_is_the_old_or_the_new_catalog(tmp_path: Path) -> None:
    seen = set()
    for at in range(100):
        folder = tmp_path / str(at)
        child = in_child(partial(_write_until, at, folder, _catalog(folder)))
        assert not child.failed
        recover_catalog(folder)
        with locked_catalog(folder):
            pass
        assert not (folder / ".pkgtools-writes").exists()
        assert _files(folder) in (_OLD, _NEW), at
        seen.add(_files(folder) == _NEW)
        if not child.killed:
            break
    else:
        pytest.fail("it was always killed")
    assert seen == {True, False}
    assert at > 12


@pytest.mark.parametrize("failing", range(4))
def test_a_full_disk_leaves_every_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    changes = _catalog(tmp_path)
    real: Callable[[Path, bytes, int], None] = util.write_new
    left = [failing]

    def write_new(path: Path, data: bytes, permissions: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            path.write_bytes(data[:1])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(path, data, permissions)

    monkeypatch.setattr(writes, "write_new", write_new)
    monkeypatch.setattr(util, "write_new", write_new)
    if failing == 3:
        with locked_catalog(tmp_path):
            write_catalog(tmp_path, changes)
        assert _files(tmp_path) == _NEW
        return
    with locked_catalog(tmp_path), pytest.raises(TreeError, match="no file was changed"):
        write_catalog(tmp_path, changes)
    assert _files(tmp_path) == _OLD


def test_a_folder_that_cannot_be_written_leaves_every_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = _catalog(tmp_path)
    monkeypatch.setattr("os.access", lambda path, _: path.name != "patches")
    with locked_catalog(tmp_path), pytest.raises(TreeError, match="Permission denied"):
        write_catalog(tmp_path, changes)
    assert _files(tmp_path) == _OLD


@pytest.mark.parametrize("text", ["", "{}", '{"version":1,"writes":[]}', "[" * 10])
def test_a_damaged_journal_is_refused(tmp_path: Path, text: str) -> None:
    _catalog(tmp_path)
    (tmp_path / ".pkgtools-writes").mkdir()
    (tmp_path / ".pkgtools-writes/journal.json").write_text(text)
    with pytest.raises(MalformedError, match="is damaged") as caught:
        recover_catalog(tmp_path)
    assert "git status" in str(caught.value.remedy)


def test_targets_of_several_ports_are_all_added(tmp_path: Path) -> None:
    catalog = tmp_path / "targets.toml"
    catalog.write_text("# targets")
    tables = [f"# {number}\n" for number in range(8)]
    workers = [fork(partial(write_target, catalog, table)) for table in tables]
    assert [worker.wait().failed for worker in workers] == [False] * len(workers)
    added = [line for line in catalog.read_text().splitlines() if line]
    assert (added[0], sorted(added[1:])) == ("# targets", [table.strip() for table in tables])


def _count(folder: Path) -> None:
    for _ in range(20):
        with locked_catalog(folder):
            number = int((folder / "number").read_bytes())
            write_catalog(folder, {folder / "number": Blob(b"%d" % (number + 1))})


def test_writers_take_turns(tmp_path: Path) -> None:
    (tmp_path / "number").write_bytes(b"0")
    workers = [fork(partial(_count, tmp_path)) for _ in range(4)]
    assert [worker.wait().failed for worker in workers] == [False] * len(workers)
    assert (tmp_path / "number").read_bytes() == b"80"


@pytest.mark.parametrize("path", ["../out", "/tmp/out", "a/../../out", "link/out", "", "a\0b"])
def test_a_journal_from_elsewhere_writes_nothing_outside_the_catalog(
    tmp_path: Path, path: str
) -> None:
    """Reading a catalog that others made must not change files beside it."""
    folder = tmp_path / "catalog"
    _catalog(folder)
    (tmp_path / "victim").mkdir()
    (folder / "link").symlink_to(tmp_path / "victim")
    (folder / ".pkgtools-writes").mkdir()
    (folder / ".pkgtools-writes/0").write_bytes(b"bad")
    journal = {"version": 1, "writes": [{"path": path, "content": "0"}]}
    (folder / ".pkgtools-writes/journal.json").write_text(json.dumps(journal))
    with pytest.raises(TreeError):
        recover_catalog(folder)
    assert not list((tmp_path / "victim").iterdir())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["catalog", "victim"]


def test_a_journal_takes_no_file_from_elsewhere(tmp_path: Path) -> None:
    folder = tmp_path / "catalog"
    _catalog(folder)
    (tmp_path / "secret").write_bytes(b"secret")
    (folder / ".pkgtools-writes").mkdir()
    journal = {"version": 1, "writes": [{"path": "a", "content": "../../secret"}]}
    (folder / ".pkgtools-writes/journal.json").write_text(json.dumps(journal))
    with pytest.raises(MalformedError, match="is damaged"):
        recover_catalog(folder)
    assert (tmp_path / "secret").read_bytes() == b"secret"


def test_the_scratch_folder_is_no_link(tmp_path: Path) -> None:
    folder = tmp_path / "catalog"
    changes = _catalog(folder)
    (tmp_path / "other").mkdir()
    (folder / ".pkgtools-writes").symlink_to(tmp_path / "other")
    with pytest.raises(MalformedError, match="symbolic link"), locked_catalog(folder):
        write_catalog(folder, changes)
    assert list((tmp_path / "other").iterdir()) == []
