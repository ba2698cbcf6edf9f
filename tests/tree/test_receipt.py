"""Receipts and journals that are damaged, or were written to do harm."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import pytest
from commands import call
from project import installed
from scenarios import apply, make_tree, recover, reverse
from trees import snapshot

from pkgtools.errors import PkgtoolsError, TreeError
from pkgtools.source.receipt import load_receipt
from pkgtools.transaction.journal import load_journal
from pkgtools.tree.stack import load_stack
from pkgtools.tree.state import State
from pkgtools.tree.status import status_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from project import Project

    from pkgtools.source import Tree

    Facts = dict[str, Any]


@pytest.fixture
def tree(project: Project, tmp_path: Path) -> Tree:
    """Make a patched tree, with a file outside that nothing may touch."""
    made = make_tree(project, "site", tmp_path)
    apply(project, made)
    (tmp_path / "outside").write_bytes(b"not ours\n")
    (tmp_path / "empty").mkdir()
    return made


def test_a_receipt_says_what_was_applied(project: Project, tree: Tree) -> None:
    receipt = load_receipt(tree.home)
    assert receipt is not None
    target = project.catalog().target("w-1.0")
    assert (receipt.target, receipt.series) == ("w-1.0", target.series.digest)
    assert receipt.patches == [patch.name for patch in target.series.patches]
    before, after = project.releases["1.0"], project.patched["v1.0"]
    changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    assert {file.path for file in receipt.files} == changed
    for file in receipt.files:
        blob = after.get(file.path)
        assert file.after == (blob.id if blob else "")
        assert file.before() == before.get(file.path)
    assert load_stack(tree).edited(tree) == []


def test_the_same_application_gives_the_same_receipt(project: Project, tmp_path: Path) -> None:
    """No clock, host or user is in it."""
    made = []
    for name in ("one", "two"):
        tree = make_tree(project, "archive", tmp_path / name)
        apply(project, tree)
        made.append((tree.home / "pkgtools.json").read_bytes())
    assert made[0] == made[1]


def _edit(path: Path, change: Callable[[Facts], object]) -> None:
    facts = json.loads(path.read_bytes())
    change(facts)
    path.write_text(json.dumps(facts))


def _packed(data: bytes) -> str:
    return b64encode(zlib.compress(data)).decode()


_HOSTILE: dict[str, Callable[[Facts], object]] = {
    "path with ..": lambda f: f["files"][0].update(path="src/widget/../../../outside"),
    "absolute path": lambda f: f["files"][0].update(path="/etc/hostname"),
    "path in .git": lambda f: f["files"][0].update(path="src/widget/.git/config"),
    "empty path": lambda f: f["files"][0].update(path=""),
    "path with NUL": lambda f: f["files"][0].update(path="src/widget/a\0b"),
    "bytecode with ..": lambda f: f["bytecode"][0].update(name="../outside"),
    "absolute bytecode": lambda f: f["bytecode"][0].update(name="/outside"),
    "unknown field": lambda f: f.update(run="rm"),
    "another format": lambda f: f.update(format=2),
    "no files": lambda f: f.pop("files"),
    "files of another kind": lambda f: f.update(files={"a": 1}),
    "original that is no base64": lambda f: f["files"][0]["original"].update(data="!!"),
    "original that is no zlib": lambda f: f["files"][0]["original"].update(data="aGVsbG8="),
    "original cut short": lambda f: f["files"][0]["original"].update(
        data=b64encode(zlib.compress(os.urandom(99))[:-5]).decode()
    ),
    "time out of range": lambda f: f["files"][0]["original"].update(mtime_ns=10**30),
    "permissions out of range": lambda f: f["files"][0]["original"].update(permissions=-1),
    "path with half a character": lambda f: f["files"][0].update(path="src/widget/\ud800"),
    "target of two lines": lambda f: f.update(target="w-1.0\n::stop-commands::x"),
    "revision of two lines": lambda f: f.update(revisions=["1.0\n  pristine"]),
    "mode that is none": lambda f: f["files"][0]["original"].update(mode=7),
    "link with NUL": lambda f: f["files"][0]["original"].update(mode=0o120000, data=_packed(b"\0")),
}


@pytest.mark.parametrize("name", _HOSTILE)
@pytest.mark.parametrize("verb", ["reverse", "status", "apply"])
def test_a_hostile_receipt_is_refused(
    name: str, verb: str, project: Project, tree: Tree, tmp_path: Path
) -> None:
    path = tree.home / "pkgtools.json"
    _edit(path, _HOSTILE[name])
    before = snapshot(tmp_path)
    target = ["--target", "w-1.1"] if verb == "apply" else []
    done = call(verb, "--tree", tree.root, "--catalog", project.targets, *target)
    assert done.code == 7, done
    assert str(path) in done.err
    assert "next: " in done.err
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"\xff"',
        b"\0" * 1000,
        b'{"format":1,"pkgtools":"' + b"x" * 1_000_000,
        b"[" * 100_000,
        b'{"format":' + b"9" * 5000 + b"}",
        b'{"format":1,"files":' + b'[{"path":' * 5000,
    ],
    ids=["empty", "open", "null", "list", "no UTF-8", "NULs", "cut", "deep", "number", "nested"],
)
@pytest.mark.parametrize("name", ["pkgtools.json", "pkgtools-journal.json"])
def test_a_damaged_file_is_refused_and_named(
    name: str, raw: bytes, project: Project, tree: Tree, tmp_path: Path
) -> None:
    path = tree.home / name
    path.write_bytes(raw)
    before = snapshot(tmp_path)
    with pytest.raises(TreeError) as caught:
        reverse(project, tree)
    assert str(path) in caught.value.message
    assert caught.value.remedy
    assert snapshot(tmp_path) == before


def test_a_receipt_cut_anywhere_is_refused(project: Project, tree: Tree, tmp_path: Path) -> None:
    path = tree.home / "pkgtools.json"
    whole = path.read_bytes()
    for size in range(0, len(whole) - 2, 97):
        path.write_bytes(whole[:size])
        before = snapshot(tmp_path)
        with pytest.raises(TreeError):
            reverse(project, tree)
        assert snapshot(tmp_path) == before


def test_an_original_that_would_fill_the_memory_is_refused(project: Project, tree: Tree) -> None:
    """A gigabyte of zeros deflates to megabytes."""
    path = tree.home / "pkgtools.json"
    deflate = zlib.compressobj(1)
    bomb = b"".join(deflate.compress(bytes(1 << 20)) for _ in range(300)) + deflate.flush()
    _edit(path, lambda f: f["files"][0]["original"].update(data=b64encode(bomb).decode()))
    with pytest.raises(TreeError, match="too large"):
        reverse(project, tree)


def _operation(**changed: object) -> Facts:
    return {"base": "tree", "name": "widget/core.py", "before": "", "after": "", **changed}


@pytest.mark.parametrize("phase", ["prepare", "commit", "undo", "done"])
@pytest.mark.parametrize(
    ("operations", "folders"),
    [
        ([_operation(name="../outside")], []),
        ([_operation(name="/etc/hostname")], []),
        ([_operation(base="home", name="../../outside")], []),
        ([_operation(name="widget/link/outside")], []),
        ([], ["../empty"]),
        ([], ["/empty"]),
        ([], ["widget/link/empty"]),
        ([_operation(base="elsewhere")], []),
    ],
    ids=["..", "absolute", ".. from home", "link", "folder ..", "folder /", "folder link", "base"],
)
def test_a_hostile_journal_reaches_nothing_outside(
    phase: str, operations: list[Facts], folders: list[str], tree: Tree, tmp_path: Path
) -> None:
    (tree.root / "widget/link").symlink_to(tmp_path)
    facts = {"format": 1, "phase": phase, "operations": operations, "folders": folders}
    path = tree.home / "pkgtools-journal.json"
    path.write_text(json.dumps(facts))
    before = snapshot(tmp_path)
    with pytest.raises(TreeError):
        recover(tree)
    assert snapshot(tmp_path) == before


def test_a_receipt_of_a_newer_version_is_refused_with_its_path(
    project: Project, tree: Tree
) -> None:
    """A field that this version does not know could be one that matters."""
    path = tree.home / "pkgtools.json"
    _edit(path, lambda f: f["files"][0].update(xattrs={}))
    with pytest.raises(TreeError, match="xattrs"):
        reverse(project, tree)


def test_a_receipt_outlives_the_catalog_that_made_it(
    project: Project, tree: Tree, tmp_path: Path
) -> None:
    """What is needed to undo it is in it: the catalog may be another by then."""
    targets = project.copy_catalog(tmp_path / "later")
    text = targets.read_text().replace("w-1.0", "renamed").replace('default = "w-1.1"\n', "")
    targets.write_text(text)
    done = call("reverse", "--tree", tree.root, "--catalog", targets)
    assert done.code == 0, done
    assert "reversed w-1.0" in done.out
    for name, blob in installed(project.releases["1.0"]).items():
        assert (tree.root / name).read_bytes() == blob.data


def test_without_a_receipt_there_is_none(tree: Tree) -> None:
    (tree.home / "pkgtools.json").unlink()
    assert load_receipt(tree.home) is None
    assert load_journal(tree.home) is None
    shutil.rmtree(tree.home)
    assert load_receipt(tree.home) is None
    assert load_journal(tree.home) is None


def test_a_file_in_the_place_of_its_folder_stays(project: Project, tmp_path: Path) -> None:
    archive = make_tree(project, "archive", tmp_path)
    archive.home.write_bytes(b"not ours\n")
    before = snapshot(archive.root)
    assert status_of(project.catalog(), archive).state is State.PRISTINE
    with pytest.raises(TreeError, match=r"\.pkgtools.* cannot be written"):
        apply(project, archive)
    assert snapshot(archive.root) == before


def test_a_receipt_that_cannot_be_read_is_no_missing_one(project: Project, tree: Tree) -> None:
    path = tree.home / "pkgtools.json"
    path.unlink()
    path.mkdir()
    with pytest.raises(PkgtoolsError, match=r"pkgtools\.json"):
        reverse(project, tree)
