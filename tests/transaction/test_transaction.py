"""All or nothing: what a transaction leaves when the system refuses, or someone else writes."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import shutil
import stat
from typing import TYPE_CHECKING

import pytest
from commands import python
from crash import STRIDE, Call, Fault, faulty, full_disk, in_child, raising
from project import compile_module, installed
from scenarios import (
    EVERY,
    IN_CHECKOUT,
    IN_SITE,
    Scenario,
    apply,
    apply_changed,
    make_tree,
    recover,
    reverse,
)
from silent import Silent
from trees import contents, differing, leftovers, record_problems, snapshot, timeless

from pkgtools.blob import Blob
from pkgtools.errors import ForeignError, PkgtoolsError, TreeError
from pkgtools.source import find_tree
from pkgtools.transaction import journal as journals
from pkgtools.transaction.commit import commit, locked
from pkgtools.transaction.journal import Base
from pkgtools.transaction.stage import Write
from pkgtools.tree.apply import apply_targets
from pkgtools.util import files
from pkgtools.util.files import read_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from project import Project
    from trees import Entry

    from pkgtools.source import Tree

    Snapshot = dict[str, Entry]

_ANSWER = "widget/answer.py"


def _fresh(scenario: Scenario, project: Project, where: Path) -> Tree:
    shutil.rmtree(where / "tree", ignore_errors=True)
    return scenario.tree(project, where)


def _calls(scenario: Scenario, project: Project, where: Path) -> tuple[list[Call], Snapshot]:
    """Return the calls that a scenario makes, and what it makes of the tree."""
    fault = Fault(raising(0), at=0)
    tree = _fresh(scenario, project, where)
    with faulty(fault):
        scenario.act(project, tree)
    assert leftovers(where) == []
    # A call that went another way than by these names would be one that never fails here.
    assert {call.name for call in fault.seen} >= {"open", "write", "fsync", "link", "replace"}
    return fault.seen, snapshot(where)


def _attempt(
    scenario: Scenario, project: Project, tree: Tree, fault: Fault
) -> PkgtoolsError | None:
    with faulty(fault):
        try:
            scenario.act(project, tree)
        except PkgtoolsError as error:
            return error
    return None


@pytest.mark.parametrize("scenario", [*IN_SITE, IN_CHECKOUT[0]], ids=str)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES], ids=errno.errorcode.get)
def test_one_refused_call_leaves_the_old_tree(
    scenario: Scenario, number: int, project: Project, quick_path: Path
) -> None:
    """Whichever call fails: the old tree to the byte, or all of the new one and a word of it."""
    calls, new = _calls(scenario, project, quick_path)
    settled = max(n for n, c in enumerate(calls, 1) if c.name == "replace")
    for at in range(1, len(calls) + 1, STRIDE):
        tree = _fresh(scenario, project, quick_path)
        old = snapshot(quick_path)
        error = _attempt(scenario, project, tree, Fault(raising(number), at))
        where = f"call {at}: {calls[at - 1]}"
        if error is not None and at <= settled + 2:  # the journal's last rename, and its fsync
            assert differing(old, snapshot(quick_path)) == [], where
            assert error.exit_code == 7
            assert error.remedy
        elif error is not None:  # only old links were left to be removed
            assert recover(tree) == "finished", where
            assert differing(timeless(new), timeless(snapshot(quick_path))) == [], where
        else:  # a link that cannot be made is copied; a folder that cannot be removed stays
            gone = differing(timeless(new), timeless(snapshot(quick_path)))
            assert calls[at - 1].name == "rmdir" or not gone, where
            assert calls[at - 1].name in ("rmdir", "link"), where


@pytest.mark.parametrize("scenario", EVERY, ids=str)
def test_a_full_disk_leaves_the_old_tree(
    scenario: Scenario, project: Project, quick_path: Path
) -> None:
    """From any call on, nothing that needs space works, not even for the clean-up."""
    calls, new = _calls(scenario, project, quick_path)
    for at in range(1, len(calls) + 1, max(STRIDE, 1 if scenario.layout == "site" else 5)):
        tree = _fresh(scenario, project, quick_path)
        old = snapshot(quick_path)
        error = _attempt(scenario, project, tree, Fault(full_disk, at, lasting=True))
        found = snapshot(quick_path)
        if error is None:
            assert differing(timeless(new), timeless(found)) == [], calls[at - 1]
        else:
            assert differing(old, found) == [], calls[at - 1]
        assert leftovers(quick_path) == [], calls[at - 1]


@pytest.mark.parametrize("limit", [0, 100, 300, 600, 1000])
def test_a_limit_of_the_kernel_leaves_the_old_tree(
    limit: int, project: Project, quick_path: Path
) -> None:
    """No imitation: files above a size cannot be written at all."""
    tree = make_tree(project, "site", quick_path)
    catalog = project.catalog()
    target = catalog.target("w-1.0")
    assert target.lock.revision  # read now
    old = snapshot(quick_path)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        with pytest.raises(TreeError, match="cannot be written: File too large"):
            apply_targets(catalog, [(target, tree)], Silent())

    assert not in_child(limited).failed
    assert differing(old, snapshot(quick_path)) == []


@pytest.mark.parametrize("scenario", EVERY, ids=str)
def test_a_disk_that_goes_away_can_be_recovered(
    scenario: Scenario, project: Project, quick_path: Path
) -> None:
    """From any call on, nothing at all works; when it does again, the tree is old or new."""
    calls, new = _calls(scenario, project, quick_path)
    outcomes = set()
    for at in range(1, len(calls) + 1, max(STRIDE, 2 if scenario.layout == "site" else 5)):
        tree = _fresh(scenario, project, quick_path)
        old = snapshot(quick_path)
        error = _attempt(scenario, project, tree, Fault(raising(errno.EIO), at, lasting=True))
        recovered = recover(tree)
        found = snapshot(quick_path)
        if recovered == "finished" or error is None:
            assert differing(timeless(new), timeless(found)) == [], calls[at - 1]
        else:
            assert differing(old, found) == [], calls[at - 1]
        outcomes.add(recovered)
    assert {"finished", "undone"} <= outcomes


@pytest.mark.parametrize("scenario", [*IN_SITE, IN_CHECKOUT[0]], ids=str)
def test_an_interrupt_leaves_the_old_tree(
    scenario: Scenario, project: Project, quick_path: Path
) -> None:
    """Control-C is an error like another."""

    def interrupt(_call: Call) -> None:
        raise KeyboardInterrupt

    calls, new = _calls(scenario, project, quick_path)
    for at in range(1, len(calls) + 1, max(STRIDE, 3)):
        tree = _fresh(scenario, project, quick_path)
        old = snapshot(quick_path)
        with faulty(Fault(interrupt, at)), pytest.raises(KeyboardInterrupt):
            scenario.act(project, tree)
        recover(tree)
        found = snapshot(quick_path)
        assert differing(old, found) == [] or differing(timeless(new), timeless(found)) == []


def _touched(tree: Tree) -> list[Path]:
    names = ("answer.py", "core.py", "tool.sh", "legacy/gone.py")
    return [tree.file(f"src/widget/{name}") for name in names]


@pytest.mark.parametrize("scenario", IN_SITE, ids=str)
@pytest.mark.parametrize("how", ["in place", "by rename", "through a descriptor"])
def test_an_edit_at_any_moment_is_never_lost(
    scenario: Scenario, how: str, project: Project, quick_path: Path
) -> None:
    """Someone saves a file while it is being patched: kept, and no mixed tree around it."""
    calls, _ = _calls(scenario, project, quick_path)
    mine = b"# an edit of mine\n"
    done = max(n for n, call in enumerate(calls) if call.name == "replace")
    for at in range(
        1, done - 4, max(STRIDE, 2)
    ):  # until the journal says done, which takes five calls more
        tree = _fresh(scenario, project, quick_path)
        old = snapshot(quick_path)
        path = tree.file("src/widget/core.py")
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)

        def edit(call: Call, path: Path = path, descriptor: int = descriptor) -> None:
            if how == "through a descriptor":
                os.write(descriptor, mine)
            elif how == "in place":
                with path.open("ab") as file:
                    file.write(mine)
            elif str(path) not in call.arguments:  # between a look and a rename nothing can be seen
                scratch = path.with_name("core.py~")
                scratch.write_bytes(path.read_bytes() + mine)
                os.rename(scratch, path)  # noqa: PTH104 - not one of the calls that are counted

        fault = Fault(edit, at)
        error = _attempt(scenario, project, tree, fault)
        os.close(descriptor)
        recover(tree)
        where = f"call {at}: {calls[at - 1]}"
        if how != "by rename" or str(path) not in calls[at - 1].arguments:
            assert mine in path.read_bytes(), where
        name = path.relative_to(quick_path).as_posix()
        if error is not None:
            assert set(differing(old, snapshot(quick_path))) <= {name}, where
        assert leftovers(quick_path) == [], where


def test_a_file_that_changed_since_it_was_planned_is_refused(
    project: Project, quick_path: Path
) -> None:
    tree = make_tree(project, "site", quick_path)
    before = tree.read("src/widget/answer.py")
    assert before is not None
    (tree.root / _ANSWER).write_bytes(b"ANSWER = 'mine'\n")
    old = snapshot(quick_path)
    writes = [
        Write(Base.TREE, "widget/core.py", read_file(tree.root / "widget/core.py"), Blob(b"new\n")),
        Write(Base.TREE, _ANSWER, before, Blob(b"new\n")),
    ]
    with pytest.raises(TreeError, match=r"answer\.py was changed while it was being patched"):
        commit([(tree, writes)])
    assert differing(old, snapshot(quick_path)) == []


def test_a_new_file_never_replaces_one_that_appeared(project: Project, quick_path: Path) -> None:
    tree = make_tree(project, "site", quick_path)
    (tree.root / "widget/new.py").write_bytes(b"mine\n")
    old = snapshot(quick_path)
    with pytest.raises(TreeError, match=r"new\.py was changed"):
        commit([(tree, [Write(Base.TREE, "widget/new.py", None, Blob(b"new\n"))])])
    assert differing(old, snapshot(quick_path)) == []


@pytest.mark.parametrize("suffix", ["new", "old"])
def test_what_lies_beside_without_a_journal_is_not_written_over(
    suffix: str, project: Project, quick_path: Path
) -> None:
    tree = make_tree(project, "archive", quick_path)
    stray = tree.root / f"src/widget/.core.py.pkgtools-{suffix}"
    stray.write_bytes(b"whose is this?\n")
    old = snapshot(quick_path)
    with pytest.raises(TreeError, match="whose journal is gone") as caught:
        apply(project, tree)
    assert str(stray) in caught.value.message
    assert differing(old, snapshot(quick_path)) == []


def test_hard_links_are_never_written_through(project: Project, quick_path: Path) -> None:
    """What uv and conda do: one cached file in many environments."""
    tree = make_tree(project, "site", quick_path)
    cache = quick_path / "cache"
    shutil.copytree(tree.root, cache, copy_function=os.link)
    before = snapshot(cache)
    apply(project, tree)
    assert contents(tree.root) != contents(cache)
    apply_changed(project, tree)
    reverse(project, tree)
    assert differing(before, snapshot(cache)) == []
    shared = [
        p
        for p in _touched(tree)
        if p.stat().st_ino == (cache / p.relative_to(tree.root)).stat().st_ino
    ]
    assert shared == []  # a file of its own, even with the cache's content again


def test_where_links_cannot_be_made_a_copy_is_kept(
    project: Project, quick_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    tree = make_tree(project, "site", quick_path)
    old = snapshot(quick_path)
    apply(project, tree)
    assert contents(tree.root / "widget").items() >= _patched(project).items()
    reverse(project, tree)
    assert differing(_without_record_time(old), _without_record_time(snapshot(quick_path))) == []


def _patched(project: Project) -> dict[str, Blob]:
    files = installed(project.patched["v1.0"])
    return {name.removeprefix("widget/"): blob for name, blob in files.items()}


def _without_record_time(tree: Snapshot) -> Snapshot:
    """RECORD is written again with its old bytes; its time means nothing to anyone."""
    return {k: timeless({k: v})[k] if k.endswith("/RECORD") else v for k, v in tree.items()}


def test_permissions_and_times_come_back(project: Project, quick_path: Path) -> None:
    tree = make_tree(project, "site", quick_path)
    (tree.root / _ANSWER).chmod(0o640)
    (tree.root / "widget/tool.sh").chmod(0o600)
    (tree.root / "widget/legacy/gone.py").chmod(0o600)
    old = snapshot(quick_path)
    apply(project, tree)
    new = {p.name: stat.S_IMODE(p.stat().st_mode) for p in _touched(tree) if p.exists()}
    assert new == {"answer.py": 0o640, "core.py": 0o644, "tool.sh": 0o700}
    reverse(project, tree)
    assert differing(_without_record_time(old), _without_record_time(snapshot(quick_path))) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("layout", ["site", "checkout", "archive"])
def test_root_leaves_every_file_to_its_owner(
    layout: str, project: Project, quick_path: Path
) -> None:
    """As in a container: root patches a tree that belongs to someone else."""
    tree = make_tree(project, layout, quick_path)
    for path in [tree.root, *tree.root.rglob("*")]:
        os.chown(path, 1234, 2345, follow_symlinks=False)
    apply(project, tree)
    assert {entry.owner for entry in snapshot(tree.root).values()} == {(1234, 2345)}
    reverse(project, tree)
    assert {entry.owner for entry in snapshot(tree.root).values()} == {(1234, 2345)}


@pytest.mark.parametrize("layout", ["site", "checkout", "archive"])
def test_a_tree_that_cannot_be_written_is_refused_and_left_alone(
    layout: str, project: Project, quick_path: Path
) -> None:
    tree = make_tree(project, layout, quick_path)
    catalog = project.catalog()
    target = catalog.target("w-1.0")
    assert target.lock.revision  # read now, while it can be
    quick_path.chmod(0o755)
    old = snapshot(quick_path)
    said = quick_path / "said"

    def attempt() -> None:
        with pytest.raises(TreeError) as caught:
            apply_targets(catalog, [(target, tree)], Silent())
        os.write(descriptor, str(caught.value).encode())

    descriptor = os.open(said, os.O_WRONLY | os.O_CREAT)
    ended = in_child(lambda: _without_rights(tree.root, attempt))
    os.close(descriptor)
    assert not ended.failed
    assert "cannot be written: Permission denied" in said.read_text()
    said.unlink()
    assert differing(old, snapshot(quick_path)) == []


def _without_rights(root: Path, work: Callable[[], None]) -> None:
    """Run `work` as someone who may read `root` but not write to it; in a child only."""
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
        work()
        return
    folders = [root, *(path for path in root.rglob("*") if path.is_dir())]
    modes = {folder: folder.stat().st_mode for folder in folders}
    for folder in folders:
        folder.chmod(0o555)
    try:
        work()
    finally:
        for folder, mode in modes.items():
            folder.chmod(mode)


def test_another_run_is_waited_for_and_then_given_up(
    project: Project, quick_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = make_tree(project, "archive", quick_path)
    monkeypatch.setattr(files, "_LOCK_SECONDS", 0.2)
    waited: list[str] = []

    class Loud(Silent):
        def task(self, text: str) -> AbstractContextManager[None]:
            waited.append(text)
            return super().task(text)

    with (
        locked([tree], Loud()),
        pytest.raises(TreeError, match="another pkgtools run has held"),
        locked([tree], Loud()),
    ):
        pytest.fail("two runs hold one tree")
    assert waited == [f"waiting for another pkgtools run on {tree.root}"]
    with locked([tree], Loud()):
        assert len(waited) == 1  # free again, and no file says otherwise
    assert leftovers(quick_path) == []


def test_a_file_system_without_locks_is_a_refusal(
    project: Project, quick_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    tree = make_tree(project, "archive", quick_path)
    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(TreeError, match="No locks available"):
        apply(project, tree)


_IMPORT = """
import sys
sys.path.insert(0, sys.argv[1])
from widget.answer import ANSWER
print(ANSWER)
"""


@pytest.mark.parametrize("legacy", [False, True], ids=["cached", "beside"])
def test_stale_bytecode_is_never_imported(
    legacy: bool, project: Project, quick_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the same size and with a clamped time: the trap, and then that we do not fall into it."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    tree = make_tree(project, "site", quick_path)
    source = tree.root / _ANSWER
    stamp = source.stat().st_mtime_ns
    compiled = compile_module(source)
    assert python(_IMPORT, tree.root) == "41\n"
    changed = installed(project.patched["v1.0"])[_ANSWER].data
    assert len(changed) == source.stat().st_size
    trap = quick_path / "trap"
    shutil.copytree(tree.root, trap)
    (trap / _ANSWER).write_bytes(changed)
    os.utime(trap / _ANSWER, ns=(stamp, stamp))
    assert python(_IMPORT, trap) == "41\n"  # Python trusts the stale one
    if legacy:
        shutil.copy2(compiled, source.with_suffix(".pyc"))
    apply(project, tree)
    os.utime(source, ns=(stamp, stamp))
    assert python(_IMPORT, tree.root) == "42\n"
    compile_module(source)
    reverse(project, tree)
    assert python(_IMPORT, tree.root) == "41\n"


def test_a_new_time_differs_from_the_old_one_in_its_second(
    project: Project, quick_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytecode that lies elsewhere (PYTHONPYCACHEPREFIX) cannot be removed: the time must tell."""
    write = files.write_new

    def write_at_once(path: Path, data: bytes, permissions: int) -> None:
        """Write in the very second in which the old file was written."""
        write(path, data, permissions)
        old = path.with_name(path.name.removeprefix(".").removesuffix(".pkgtools-new"))
        if old.exists():
            os.utime(path, ns=(old.stat().st_mtime_ns, old.stat().st_mtime_ns))

    monkeypatch.setattr(files, "write_new", write_at_once)
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(quick_path / "elsewhere"))
    tree = make_tree(project, "archive", quick_path)
    root = tree.root / "src"
    assert python(_IMPORT, root) == "41\n"
    apply(project, tree)
    assert python(_IMPORT, root) == "42\n"
    apply_changed(project, tree)
    assert python(_IMPORT, root) == "43\n"
    reverse(project, tree)
    assert python(_IMPORT, root) == "41\n"


def test_listed_bytecode_comes_back(project: Project, quick_path: Path) -> None:
    """Pip lists what it compiles, so an uninstall that misses it would say so."""
    tree = make_tree(project, "site", quick_path)
    old = snapshot(quick_path)
    assert tree.dist_info is not None
    apply(project, tree)
    assert list(tree.root.glob("widget/__pycache__/answer.*")) == []
    assert list(tree.root.glob("widget/__pycache__/other.*")) != []
    assert record_problems(tree.dist_info) == []
    apply_changed(project, tree)
    assert list(tree.root.glob("widget/__pycache__/answer.*")) == []
    assert list(tree.root.glob("widget/__pycache__/other.*")) == []
    assert list(tree.root.glob("widget/__pycache__/core.*")) != []
    assert record_problems(tree.dist_info) == []
    reverse(project, tree)
    assert differing(_without_record_time(old), _without_record_time(snapshot(quick_path))) == []


def test_what_no_python_compiled_stays(project: Project, quick_path: Path) -> None:
    """Nothing imports it, and neither a journal nor RECORD could name it."""
    tree = make_tree(project, "site", quick_path)
    odd = tree.root / "widget" / "__pycache__" / os.fsdecode(b"answer.caf\xe9.pyc")
    odd.write_bytes(b"not ours")
    apply(project, tree)
    reverse(project, tree)
    assert odd.read_bytes() == b"not ours"


def test_bytecode_that_was_made_since_goes_with_a_new_module(
    project: Project, quick_path: Path
) -> None:
    tree = make_tree(project, "archive", quick_path)
    old = snapshot(quick_path)
    apply(project, tree)
    for path in tree.root.rglob("*.py"):
        if "extra" in path.parts:
            compile_module(path)
    reverse(project, tree)
    assert differing(old, snapshot(quick_path)) == []


@pytest.mark.parametrize("layout", ["site", "checkout", "archive"])
def test_nothing_is_written_through_a_link_that_appeared(
    layout: str, project: Project, quick_path: Path
) -> None:
    """A folder is swapped for a link between the plan and the writing."""
    tree = make_tree(project, layout, quick_path)
    outside = quick_path / "outside"
    folder = tree.file("src/widget/legacy/gone.py").parent
    folder.rename(outside)
    folder.symlink_to(outside)
    before = snapshot(outside)
    with pytest.raises((TreeError, ForeignError)):
        apply(project, tree)
    name = tree.name("src/widget/legacy/gone.py")
    with pytest.raises(TreeError, match="symbolic link"):
        commit([(tree, [Write(Base.TREE, name, Blob(b"old\n"), Blob(b"new\n"))])])
    assert differing(before, snapshot(outside)) == []
    assert leftovers(quick_path) == []


def test_a_journal_says_what_is_being_done(project: Project, quick_path: Path) -> None:
    """It names the phase and each path's ids, so that a person can read it too."""
    tree = make_tree(project, "site", quick_path)
    phases: list[str] = []

    def look(_call: Call) -> None:
        journal = journals.load_journal(tree.home)
        if journal is not None and journal.phase not in phases:
            phases.append(journal.phase)
            paths = {operation.name for operation in journal.operations}
            assert {_ANSWER, "widget/extra/deep/new.py", "RECORD", "pkgtools.json"} <= paths

    with faulty(Fault(look, 1, lasting=True)):
        apply(project, tree)
    assert phases == ["prepare", "commit", "done"]


def test_a_tree_is_found_the_same_way_after_it_was_patched(
    project: Project, quick_path: Path
) -> None:
    tree = make_tree(project, "archive", quick_path)
    apply(project, tree)
    assert find_tree(tree.root / "src", tree.upstream) == tree
