"""RECORD, edited and restored, against an independent computation of its rows."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from project import installed, record_row
from scenarios import apply, apply_changed, make_tree, reverse
from trees import record_problems

from pkgtools.source.record import add_rows, drop_rows, make_row, restore_record, row_path

if TYPE_CHECKING:
    from pathlib import Path

    from project import Project

_names = st.from_regex(r"[a-z ,\"é]{1,6}(/[a-z ,\"é]{1,6}){0,2}\.py", fullmatch=True)


@given(_names, st.binary(max_size=200))
@example("widget/a b.py", b"")
@example('wid,get/"quoted".py', b"\r\n")
def test_a_row_is_what_the_specification_says(name: str, data: bytes) -> None:
    (fields,) = csv.reader([make_row(name, data).decode()])
    digest, size = record_row("x", data).decode().strip().split(",")[1:]
    assert fields == [name, digest, size]
    assert row_path(make_row(name, data)) == name


def test_a_symbolic_link_has_no_hash() -> None:
    assert make_row("widget/link.py", None) == b"widget/link.py,,\n"


@given(
    names=st.lists(_names, unique=True, min_size=1, max_size=12),
    drop=st.sets(st.integers(0, 11)),
    added=st.dictionaries(_names, st.binary(max_size=5), max_size=4),
    end=st.sampled_from([b"\n", b"\r\n"]),
    closed=st.booleans(),
)
@example(names=["a.py"], drop={0}, added={}, end=b"\n", closed=False)
@example(names=["a.py", "b.py"], drop={1}, added={"c.py": b""}, end=b"\r\n", closed=False)
@example(names=["a.py", "b.py"], drop={0, 1}, added={"b.py": b"x"}, end=b"\n", closed=True)
def test_an_edit_is_undone_to_the_byte(
    names: list[str], drop: set[int], added: dict[str, bytes], end: bytes, closed: bool
) -> None:
    rows = [make_row(name, name.encode()).rstrip(b"\n") for name in names]
    raw = end.join(rows) + (end if closed else b"")
    gone = [name for number, name in enumerate(names) if number in drop]
    left, edit = drop_rows(raw, {*gone, *added})
    edited = add_rows(left, added)
    listed = [row[0] for row in csv.reader(io.StringIO(edited.decode(), newline="")) if row]
    kept = [name for name in names if name not in gone and name not in added]
    assert listed == [*kept, *sorted(added)]
    assert restore_record(edited, edit, added) == raw


def test_what_another_tool_changed_meanwhile_stays() -> None:
    """Rows that came or went since are left; ours come back where they can."""
    raw = b"a.py,,\nb.py,,\nc.py,,\n"
    left, edit = drop_rows(raw, {"b.py", "c.py", "d.py"})
    edited = add_rows(left, {"b.py": b"new", "d.py": b"new"})
    since = edited.replace(b"a.py,,\n", b"") + b"theirs.py,,\n"
    rows = restore_record(since, edit, ["b.py", "d.py"]).splitlines()
    assert sorted(rows) == [b"b.py,,", b"c.py,,", b"theirs.py,,"]


@pytest.mark.parametrize("crlf", [False, True], ids=["LF", "CRLF"])
@pytest.mark.parametrize("closed", [False, True], ids=["no final newline", "final newline"])
def test_an_installed_package_keeps_its_kind_of_record(
    crlf: bool, closed: bool, project: Project, tmp_path: Path
) -> None:
    dist_info = project.install(tmp_path / "site", compiled=True, crlf=crlf)
    record = dist_info / "RECORD"
    if not closed:
        record.write_bytes(record.read_bytes().rstrip(b"\r\n"))
    raw = record.read_bytes()
    tree = project.tree(tmp_path / "site")
    for act in (apply, apply_changed):
        act(project, tree)
        assert record_problems(dist_info) == []
        ends = {line[-2:] == b"\r\n" for line in record.read_bytes().splitlines(keepends=True)}
        assert ends == {crlf}
    reverse(project, tree)
    assert record.read_bytes() == raw


def test_each_touched_file_has_its_row(project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, "site", tmp_path)
    apply(project, tree)
    assert tree.dist_info is not None
    rows = (tree.dist_info / "RECORD").read_bytes().splitlines(keepends=True)
    files = installed(project.patched["v1.0"])
    for name, blob in files.items():
        assert rows.count(record_row(name, blob.data)) == 1, name
    listed = [row_path(row) for row in rows]
    assert "widget/legacy/gone.py" not in listed
    assert "widget/__pycache__/answer.cpython" not in "".join(listed)
    receipt = (tree.dist_info / "pkgtools.json").read_bytes()
    assert record_row(f"{tree.dist_info.name}/pkgtools.json", receipt) in rows


def test_an_installation_without_record_is_patched_without_one(
    project: Project, tmp_path: Path
) -> None:
    """Some distributors leave it out; there is nothing to keep true then."""
    tree = make_tree(project, "site", tmp_path)
    assert tree.dist_info is not None
    (tree.dist_info / "RECORD").unlink()
    apply(project, tree)
    assert not (tree.dist_info / "RECORD").exists()
    reverse(project, tree)
    assert not (tree.dist_info / "RECORD").exists()


@pytest.mark.parametrize(
    "raw",
    [b"", b"\n\n", b"\xff\xfe\x00", b'"unclosed\n', b"x" * 200_000 + b",,\n", b"a\0b,,\n"],
    ids=["empty", "blank", "binary", "unclosed quote", "endless row", "NUL"],
)
def test_a_damaged_record_is_no_reason_to_crash(
    raw: bytes, project: Project, tmp_path: Path
) -> None:
    """Rows that nobody can read are kept, to the byte."""
    tree = make_tree(project, "site", tmp_path)
    assert tree.dist_info is not None
    record = tree.dist_info / "RECORD"
    record.write_bytes(raw)
    apply(project, tree)
    assert record.read_bytes().startswith(raw.rstrip(b"\n"))
    reverse(project, tree)
    assert record.read_bytes() == raw


def test_pip_agrees(project: Project, tmp_path: Path) -> None:
    """Pip's own reader of RECORD finds every file, and no more."""
    project.install(tmp_path / "site")
    tree = project.tree(tmp_path / "site")
    apply(project, tree)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir"]
    shown = subprocess.run(
        [*pip, "--python", sys.executable, "show", "--files", "widget-kit"],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(tree.root), "PATH": ""},
    )
    files = {line.strip() for line in shown.stdout.partition("Files:")[2].splitlines()} - {""}
    there = {p.relative_to(tree.root).as_posix() for p in tree.root.rglob("*") if p.is_file()}
    assert files == there
