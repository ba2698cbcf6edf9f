"""What another run reads while a transaction renames files: the old tree or the new one."""

from __future__ import annotations

import errno
import fcntl
import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from commands import call
from scenarios import apply, make_tree, reverse
from trees import snapshot

from pkgtools.transaction.journal import StagedFile
from pkgtools.util import files

if TYPE_CHECKING:
    from pathlib import Path

    from commands import Result
    from project import Project

_ROUNDS = 8

READERS = {
    "status": ["status"],
    "verify": ["verify"],
    "verify-target": ["verify", "--target", "w-1.0"],
    "dry-run": ["verify", "--dry-run"],
    "identify": ["identify"],
    "apply": ["apply"],
    "adopt": ["adopt"],
    "new": ["new", "mine.patch", "-m", "Mine", "--series", "w-1.0"],
    "refresh": ["refresh", "--series", "w-1.0"],
}


@pytest.mark.parametrize("command", READERS.values(), ids=READERS)
@pytest.mark.parametrize("layout", ["site", "checkout"])
def test_a_half_patched_tree_is_waited_for(
    layout: str,
    command: list[str],
    project: Project,
    quick_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = make_tree(project, layout, quick_path)
    targets = project.copy_catalog(quick_path / "catalog")
    sources: list[str | Path] = ["--git", project.repository]
    sources = sources if command[0] in ("new", "refresh") else []
    monkeypatch.setattr(files, "_LOCK_SECONDS", 0)
    rename = StagedFile.commit
    seen: list[Result] = []

    def look(file: StagedFile) -> None:
        rename(file)
        if not file.operation.is_cache and not seen:
            seen.append(call(*command, "--tree", tree.root, "--catalog", targets, *sources))

    monkeypatch.setattr(StagedFile, "commit", look)
    before = snapshot(quick_path / "catalog")
    apply(project, tree)
    (done,) = seen
    assert (done.code, done.out) == (7, "")
    assert f"another pkgtools run has held {tree.root} for" in done.err
    assert snapshot(quick_path / "catalog") == before


def test_readers_beside_a_writer_see_whole_trees(project: Project, quick_path: Path) -> None:
    tree = make_tree(project, "site", quick_path)
    options: list[str | Path] = ["--tree", tree.root, "--catalog", project.targets, "--json"]

    def write() -> None:
        apply(project, tree)
        reverse(project, tree)

    seen: list[tuple[Result, Result]] = []
    with ThreadPoolExecutor(1) as pool:
        for _ in range(_ROUNDS):
            writer = pool.submit(write)
            seen.append((call("status", *options), call("verify", *options)))
            writer.result()
    assert {status.facts["state"] for status, _ in seen} <= {"pristine", "patched"}
    refused = [verify.facts["error"]["message"] for _, verify in seen if verify.code]
    assert [message for message in refused if "pristine" not in message] == []


def test_readers_share_the_lock(project: Project, quick_path: Path) -> None:
    tree = make_tree(project, "site", quick_path)
    with files.locked_folder(tree.root, lambda: pytest.fail("nothing to wait for"), shared=True):
        assert call("status", "--tree", tree.root, "--catalog", project.targets).code == 0


def test_a_tree_that_cannot_be_locked_is_read(
    project: Project, quick_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    tree = make_tree(project, "site", quick_path)
    apply(project, tree)
    monkeypatch.setattr(fcntl, "flock", refuse)
    for command in ("status", "verify"):
        assert call(command, "--tree", tree.root, "--catalog", project.targets).code == 0


def test_a_catalog_in_the_tree_that_is_edited(project: Project, quick_path: Path) -> None:
    """Both locks would be on one folder: flock(2) would wait for this very process."""
    tree = make_tree(project, "checkout", quick_path)
    apply(project, tree)
    shutil.copytree(project.targets.parent, tree.root, dirs_exist_ok=True)
    core = tree.file("src/widget/core.py")
    core.write_bytes(core.read_bytes() + b"# mine\n")
    options: list[str | Path] = ["--tree", tree.root, "--catalog", tree.root / project.targets.name]
    options += ["--git", project.repository]
    done = call("new", "mine.patch", "-m", "Mine", "--series", "w-1.0", *options)
    assert done.code == 0, done.err
