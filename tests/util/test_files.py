"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from crash import in_child

from pkgtools.cli.common import check_output
from pkgtools.errors import TreeError
from pkgtools.util import files
from pkgtools.util.files import replacing

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_takes_the_old_ones_place_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "made" / "file"
    for data in (b"one", b"two"):
        with replacing(path, "") as file:
            file.write(data)
            assert not path.exists() or path.read_bytes() == b"one"
        assert path.read_bytes() == data
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_a_writer_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), replacing(path, "") as file:
        file.writelines([b"new", None])  # type: ignore[list-item]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with replacing(path, "") as slow:
        slow.write(b"slow, first")
        with replacing(path, "") as quick:
            quick.write(b"quick")
        assert path.read_bytes() == b"quick"
        slow.write(b" and last")
    assert path.read_bytes() == b"slow, first and last"
    assert list(tmp_path.iterdir()) == [path]


def test_two_runs_replace_one_file_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second run starts and ends between the first one's write and its rename."""
    path = tmp_path / "file"
    write = files.write_new

    def meanwhile(scratch: Path, data: bytes, permissions: int) -> None:
        write(scratch, data, permissions)
        monkeypatch.setattr(files, "write_new", write)
        files.replace_file(path, b"second")
        assert path.read_bytes() == b"second"

    monkeypatch.setattr(files, "write_new", meanwhile)
    files.replace_file(path, b"first")
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("length", [1, 235, 255])
def test_a_name_may_be_as_long_as_the_system_takes_it(length: int, tmp_path: Path) -> None:
    path = tmp_path / ("n" * length)
    with replacing(path, "") as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"


def test_a_link_stays_and_leads_to_the_new_file(tmp_path: Path) -> None:
    """A link as /dev/stdout is serves everybody."""
    path, link = tmp_path / "folder" / "file", tmp_path / "link"
    link.symlink_to("folder/file")
    for data in (b"one", b"two"):
        with replacing(link, "") as file:
            file.write(data)
        assert link.is_symlink()
        assert path.read_bytes() == data


def test_what_is_no_file_stays(tmp_path: Path) -> None:
    """A device, as /dev/null is, serves everybody, too."""
    fifo, link = tmp_path / "fifo", tmp_path / "link"
    os.mkfifo(fifo)
    link.symlink_to(fifo)
    for path, reason in ((fifo, "not a regular"), (link, "not a regular"), (tmp_path, "a folder")):
        with pytest.raises(TreeError, match=reason) as caught, replacing(path, "name another"):
            pass
        assert caught.value.remedy == "name another"
    assert fifo.is_fifo()
    assert sorted(tmp_path.iterdir()) == [fifo, link]


def test_what_cannot_be_written_is_named_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"in the way")
    path = tmp_path / "file" / "new"
    with (
        pytest.raises(TreeError, match=f"{path} cannot be written") as caught,
        replacing(path, "name another"),
    ):
        pass
    assert caught.value.remedy == "name another"


def test_an_output_behind_a_link_is_made_ready(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "made" / "file")
    check_output(link)
    assert (tmp_path / "made").is_dir()
    (tmp_path / "made" / "file").mkdir()
    with pytest.raises(TreeError, match="it is a folder") as refused:
        check_output(link, "name another folder")
    assert refused.value.remedy == "name another folder"


def test_what_a_killed_run_left_goes_with_the_next(tmp_path: Path) -> None:
    mine = tmp_path / ".new.settings.pkgtools"
    mine.mkdir()

    def killed() -> None:
        with files.new_folder(tmp_path / "new", "again") as scratch:
            (scratch / "one").write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(killed).killed
    assert len(list(tmp_path.iterdir())) == 2
    with files.new_folder(tmp_path / "new", "again") as scratch:
        (scratch / "one").write_text("whole")
        assert not (tmp_path / "new").exists()
    assert sorted(tmp_path.iterdir()) == [mine, tmp_path / "new"]
    assert (tmp_path / "new" / "one").read_text() == "whole"
    with pytest.raises(OSError, match="not empty"), files.new_folder(tmp_path / "new", "again"):
        pass
    assert sorted(tmp_path.iterdir()) == [mine, tmp_path / "new"]
