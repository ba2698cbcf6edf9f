"""Images that were made to harm: each is refused, and nothing is written outside of the build."""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from commands import call

from pkgtools.errors import ForeignError, MalformedError, PkgtoolsError, TreeError, UsageError

from .building import build, bytes_of, write_base
from .images import SITE, Entry, device, folder, hard_link, read, symlink, tar, write_layout

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from project import Project

INFO = f"{SITE}/widget_kit-1.0.dist-info"
TAG = sys.implementation.cache_tag


def _without(entries: list[Entry], path: str) -> list[Entry]:
    return [e for e in entries if e.path != path and not e.path.startswith(f"{path}/")]


def _instead(path: str, make: Callable[[str, str], Entry]) -> Callable[..., list[Entry]]:
    """Return the base in which a path, and all below it, is something else."""
    return lambda widget, outside: [*_without(widget, path), make(path, f"{outside}/there")]


def _beside(*entries: Callable[[str], Entry]) -> Callable[..., list[Entry]]:
    return lambda widget, outside: [*widget, *(make(outside) for make in entries)]


def _under(path: str) -> Callable[..., list[Entry]]:
    """Return the base in which a folder is a link out, with its files below it all the same."""
    return lambda widget, outside: [
        symlink(e.path, outside) if e.path == path else e for e in widget
    ]


def _fifo(path: str, _outside: str) -> Entry:
    return Entry(path, kind=b"6")


def _device(path: str, _outside: str) -> Entry:
    return device(path)


CASES: dict[str, tuple[type[PkgtoolsError], Callable[..., list[Entry]]]] = {
    "a path with ..": (MalformedError, _beside(lambda _: Entry(f"{SITE}/widget/../../x", b"x"))),
    "a path up": (MalformedError, _beside(lambda _: Entry("../" * 20 + "x", b"x"))),
    "an absolute path up": (MalformedError, _beside(lambda _: Entry("/../x", b"x"))),
    "a hard link up": (MalformedError, _beside(lambda _: hard_link("etc/x", "../../etc/passwd"))),
    "a link for the package": (UsageError, _instead(f"{SITE}/widget", symlink)),
    "files below a link for the package": (TreeError, _under(f"{SITE}/widget")),
    "a link for the .dist-info": (TreeError, _instead(INFO, symlink)),
    "files below a link for the .dist-info": (TreeError, _under(INFO)),
    "a link for RECORD": (TreeError, _instead(f"{INFO}/RECORD", symlink)),
    "a link for METADATA": (TreeError, _instead(f"{INFO}/METADATA", symlink)),
    "a link for the receipt": (TreeError, _instead(f"{INFO}/pkgtools.json", symlink)),
    "a pipe for the receipt": (TreeError, _instead(f"{INFO}/pkgtools.json", _fifo)),
    "a folder for the receipt": (TreeError, _beside(lambda _: folder(f"{INFO}/pkgtools.json"))),
    "a device for RECORD": (TreeError, _instead(f"{INFO}/RECORD", _device)),
    "a link for a touched file": (ForeignError, _instead(f"{SITE}/widget/answer.py", symlink)),
    "a device for a touched file": (TreeError, _instead(f"{SITE}/widget/answer.py", _device)),
    "a pipe for a touched file": (TreeError, _instead(f"{SITE}/widget/answer.py", _fifo)),
    "a folder for a touched file": (
        ForeignError,
        _instead(f"{SITE}/widget/answer.py", lambda path, _: folder(path)),
    ),
    "a link for a touched folder": (TreeError, _instead(f"{SITE}/widget/legacy", symlink)),
    "a link where a new folder goes": (
        TreeError,
        _beside(lambda outside: symlink(f"{SITE}/widget/extra", outside)),
    ),
    "a link where a new file goes": (
        ForeignError,
        _beside(lambda outside: symlink(f"{SITE}/widget/extra/__init__.py", f"{outside}/there")),
    ),
    "a pipe for bytecode": (
        TreeError,
        _instead(f"{SITE}/widget/__pycache__/answer.{TAG}.pyc", _fifo),
    ),
    "a folder that no label could name": (
        TreeError,
        lambda widget, _: [
            replace(e, path=e.path.replace("lib", os.fsdecode(b"caf\xe9"), 1)) for e in widget
        ],
    ),
    "a link for site-packages": (
        TreeError,
        lambda widget, outside: [symlink(SITE, outside), *widget],
    ),
    "a link above site-packages": (
        TreeError,
        lambda widget, outside: [symlink("usr/lib", outside), *widget],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_base_is_refused(
    name: str, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    error, change = CASES[name]
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "there").write_text("mine")
    base = write_base(tmp_path / "layout", [change(widget, str(outside))])
    before = bytes_of(tmp_path)
    with pytest.raises(error) as refused:
        build(project.catalog(), base)
    assert str(tmp_path) not in refused.value.message.replace(base, "")
    assert bytes_of(tmp_path) == before


def test_a_link_for_bytecode_is_not_followed(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    """It is stale like any other, and replaced; what it named is as it was."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "there").write_text("mine")
    for number, path in enumerate(("__pycache__", f"__pycache__/answer.{TAG}.pyc")):
        entries = _instead(f"{SITE}/widget/{path}", symlink)(widget, str(outside))
        base = write_base(tmp_path / f"layout {number}", [entries])
        if path == "__pycache__":
            with pytest.raises(TreeError, match=r"__pycache__ of .* is not a folder"):
                build(project.catalog(), base)
        else:
            made = read(build(project.catalog(), base).reference).top[f"{SITE}/widget/{path}"]
            assert made.isreg()
        assert bytes_of(outside) == {"there": b"mine"}


ODD_NAMES = ["../../../x", "/etc/passwd", "src/widget/../../../x", "a\0b", "", ".git/config"]


@pytest.mark.parametrize("name", ODD_NAMES)
@pytest.mark.parametrize("key", ["files", "bytecode"])
def test_a_receipt_with_odd_paths_is_refused(
    key: str, name: str, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    first = build(project.catalog(), write_base(tmp_path / "first", [widget]))
    layers = read(first.reference).layers
    receipt = json.loads(_file(layers[-1], f"{INFO}/pkgtools.json"))
    original = next(f["original"] for f in receipt["files"] if f["original"])
    receipt[key].append(
        {"path": name, "after": "", "original": original}
        if key == "files"
        else {"name": name, "original": original}
    )
    top = tar([Entry(f"{INFO}/pkgtools.json", json.dumps(receipt).encode())])
    base = write_layout(tmp_path / "layout", [*layers, top])
    before = bytes_of(tmp_path)
    with pytest.raises(TreeError, match="cannot be read"):
        build(project.changed_catalog(), base)
    assert bytes_of(tmp_path) == before


def _file(layer: bytes, path: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        file = archive.extractfile(path)
        assert file is not None
        return file.read()


def test_a_refusal_has_its_exit_code_and_names_no_folder_of_this_machine(
    project: Project, widget: list[Entry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left in the folder for temporary files either."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    codes = {MalformedError: 6, TreeError: 7, ForeignError: 5, UsageError: 2}
    for number, (error, code) in enumerate(codes.items()):
        change = next(change for kind, change in CASES.values() if kind is error)
        base = write_base(tmp_path / f"layout{number}", [change(widget, str(tmp_path))])
        done = call(
            *("build", "image", "--target", "w-1.0", "--base", base, "--json"),
            *("--catalog", project.targets),
        )
        assert (done.code, done.facts["error"]["exit_code"]) == (code, code)
        assert str(scratch) not in done.out
        assert list(scratch.iterdir()) == []
