"""What a source is, from blob ids alone."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import pytest
from project import PREFIX, git, git_environment, make_series, put, substitute
from silent import Silent

from pkgtools.authoring.lock import write_locks
from pkgtools.blob import DIRECTORY, EXECUTABLE, REGULAR, SYMLINK, Blob, blob_id, canonical_mode
from pkgtools.catalog import load_catalog
from pkgtools.errors import DoesNotApplyError, MalformedError, UsageError
from pkgtools.source import WheelSource
from pkgtools.source.at_hand import AtHand
from pkgtools.source.git import Repository
from pkgtools.tree.apply import apply_targets
from pkgtools.tree.state import Identity, State, entry_id, identify, match_all, match_target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from project import Edit, Project

    from pkgtools.catalog import Upstream

    Steps = Sequence[tuple[str, Sequence[Edit]]]

ANSWER, CORE, TOOL = (f"src/widget/{name}" for name in ("answer.py", "core.py", "tool.sh"))
NEW, GONE = "src/widget/extra/deep/new.py", "src/widget/legacy/gone.py"


@dataclass
class Memory:
    """A source that is a dictionary."""

    files: Mapping[str, Blob]
    label: str = "memory"
    upstream: Upstream | None = None

    def read(self, path: str) -> Blob | None:
        """Return what is there."""
        return self.files.get(path)


def _match(project: Project, files: Mapping[str, Blob], target: str = "w-1.0") -> Identity:
    return match_target(project.catalog().target(target), Memory(files))[0]


@pytest.mark.parametrize("data", [b"", b"x", b"a\r\nb\0c", b"\xff" * 70_000])
def test_a_blob_id_is_gits(data: bytes, tmp_path: Path) -> None:
    done = subprocess.run(
        ["git", "hash-object", "--no-filters", "--stdin"],
        input=data,
        capture_output=True,
        check=True,
        cwd=tmp_path,
        env=git_environment(),
    )
    assert blob_id(data) == Blob(data).id == done.stdout.decode().strip()


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (0o100644, REGULAR),
        (0o100600, REGULAR),
        (0o100666, REGULAR),
        (0o100654, REGULAR),
        (0o100755, EXECUTABLE),
        (0o100700, EXECUTABLE),
        (0o104711, EXECUTABLE),
        (0o644, REGULAR),
        (0o755, EXECUTABLE),
        (0o120777, SYMLINK),
        (0o040755, DIRECTORY),
    ],
)
def test_modes_are_gits(mode: int, expected: int) -> None:
    assert canonical_mode(mode) == expected


def test_pristine_and_patched(project: Project) -> None:
    before, after = project.releases["1.0"], project.patched["v1.0"]
    for files, state in ((before, State.PRISTINE), (after, State.PATCHED)):
        match = _match(project, files)
        assert (match.target, match.revision, match.state) == ("w-1.0", "1.0", state)
        assert {file.state for file in match.files} == {state}
        assert match.differing == ()
        for file in match.files:
            blob = files.get(file.path)
            assert file.found == entry_id(blob, with_mode=file.path == TOOL)


def test_every_mixture_of_files(project: Project) -> None:
    """Of each touched file its old or its new content: only two of the 64 trees are whole."""
    before, after = project.releases["1.0"], project.patched["v1.0"]
    paths = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    assert len(paths) == 6
    for choice in product((before, after), repeat=len(paths)):
        files = dict(before)
        for path, side in zip(paths, choice, strict=True):
            files.pop(path, None)
            if path in side:
                files[path] = side[path]
        match = _match(project, files)
        sides = {side is after for side in choice}
        expected = {True: State.PATCHED, False: State.PRISTINE}[sides.pop()]
        if sides:
            expected = State.PARTIAL
        assert match.state is expected, choice


def test_a_step_in_the_middle_of_the_series_is_partial(project: Project) -> None:
    files = dict(project.releases["1.0"])
    catalog = project.catalog()
    (core,) = (f for f in catalog.target("w-1.0").lock.revision[0].file if f.path == CORE)
    assert len(core.chain) == 3
    text = files[CORE].data.replace(b"    total = 0\n", b"    total = 0.0\n")
    files[CORE] = Blob(text.replace(b"spread {spread(values)}", b"{spread(values)} apart"))
    assert files[CORE].id == core.chain[1]
    match = _match(project, files)
    assert match.state is State.PARTIAL
    (state,) = (f for f in match.files if f.path == CORE)
    assert (state.state, state.patches) == (State.PARTIAL, ("0001-answer-the-right-one.patch",))


@pytest.mark.parametrize(
    ("path", "blob", "state"),
    [
        (CORE, Blob(b"other\n"), State.FOREIGN),
        (CORE, None, State.MISSING),
        (CORE, Blob(b"widget/core2.py", SYMLINK), State.FOREIGN),
        (CORE, Blob(b"", DIRECTORY), State.FOREIGN),
        (NEW, Blob(b"someone else's\n"), State.FOREIGN),
        (GONE, Blob(b"changed\n"), State.FOREIGN),
        (TOOL, Blob(b"#!/bin/sh\n", EXECUTABLE), State.FOREIGN),
    ],
)
@pytest.mark.parametrize("series", ["1.0", "v1.0"])
def test_one_file_that_nobody_knows(
    series: str, path: str, blob: Blob | None, state: State, project: Project
) -> None:
    files = dict(project.releases["1.0"] if series == "1.0" else project.patched["v1.0"])
    files.pop(path, None)
    if blob is not None:
        files[path] = blob
    match = _match(project, files)
    assert match.state is State.FOREIGN
    assert [(f.path, f.state, f.found) for f in match.differing] == [
        (path, state, entry_id(blob, with_mode=path == TOOL))
    ]


def test_a_link_with_a_files_content_is_not_the_file(project: Project) -> None:
    """A link whose target spells the file's text has the file's blob id."""
    files = dict(project.releases["1.0"])
    files[ANSWER] = Blob(files[ANSWER].data, SYMLINK)
    assert _match(project, files).state is State.FOREIGN


def test_a_folder_is_not_an_empty_file(project: Project) -> None:
    """It has no data, and an empty file has none either."""
    files = dict(project.patched["v1.0"])
    assert files["src/widget/extra/__init__.py"] == Blob(b"")
    files["src/widget/extra/__init__.py"] = Blob(b"", DIRECTORY)
    match = _match(project, files)
    assert [f.path for f in match.differing] == ["src/widget/extra/__init__.py"]


def test_only_a_series_that_sets_a_mode_looks_at_modes(project: Project) -> None:
    """Some file systems and archives have no executable bit."""
    files = dict(project.releases["1.0"])
    files[CORE] = Blob(files[CORE].data, EXECUTABLE)
    assert _match(project, files).state is State.PRISTINE
    files[TOOL] = Blob(files[TOOL].data, EXECUTABLE)
    assert _match(project, files).state is State.PARTIAL


def test_nothing_there_at_all(project: Project) -> None:
    match = _match(project, {})
    assert match.state is State.FOREIGN
    assert {f.path for f in match.differing} == {ANSWER, CORE, GONE, TOOL} - {GONE}


def test_line_ends_are_told_from_edits(project: Project) -> None:
    files = {
        path: Blob(blob.data.replace(b"\n", b"\r\n"), blob.mode)
        for path, blob in project.releases["1.0"].items()
    }
    match = _match(project, files)
    assert match.state is State.FOREIGN
    assert all(file.crlf for file in match.differing)
    files[CORE] = Blob(files[CORE].data + b"edited\r\n")
    match = _match(project, files)
    assert [f.path for f in match.differing if not f.crlf] == [CORE]


def test_the_best_match_comes_first(project: Project) -> None:
    targets = project.catalog().targets
    for name, target in (("1.0", "w-1.0"), ("1.1", "w-1.1"), ("dev", "w-dev")):
        best = match_all(targets, Memory(project.releases[name]))[0]
        assert (best.target, best.state) == (target, State.PRISTINE)
    nearly = dict(project.releases["1.1"])
    nearly[CORE] = Blob(nearly[CORE].data + b"# edited\n")
    best = match_all(targets, Memory(nearly))[0]
    assert (best.target, best.state) == ("w-1.1", State.FOREIGN)
    assert [f.path for f in best.differing] == [CORE]


def test_a_target_is_held_against_its_own_revisions_only(project: Project) -> None:
    """Two targets can share one series and its lock."""
    found = match_all(project.catalog().targets, Memory(project.releases["1.0"]))
    assert {(m.target, m.revision) for m in found} == {
        ("w-1.0", "1.0"),
        ("w-1.1", "1.1"),
        ("w-dev", project.commits["dev"]),
        ("w-dev", project.commits["dev-base"]),
    }


def test_a_target_that_was_never_proven(project: Project, tmp_path: Path) -> None:
    """It shares a series whose lock knows other revisions only."""
    targets = project.copy_catalog(tmp_path / "catalog")
    text = targets.read_text()
    targets.write_text(
        text + '[[target]]\nname = "w-1.1-too"\nupstream = "widget"\nseries = "v1.0"\n'
        'release = { version = "1.1", tag = "v1.1" }\n'
    )
    target = type(project)(tmp_path, {}, {}, {}).catalog().target("w-1.1-too")
    with pytest.raises(MalformedError, match=r"has no revision of w-1\.1-too") as caught:
        match_target(target, Memory(project.releases["1.1"]))
    assert "pkgtools lock --target w-1.1-too" in str(caught.value.remedy)


def test_a_source_of_another_upstream(project: Project, tmp_path: Path) -> None:
    targets = project.copy_catalog(tmp_path / "catalog")
    text = targets.read_text()
    git(tmp_path, "init", "--quiet")
    targets.write_text(
        text + '[[upstream]]\nname = "gadget"\ngit = "https://git.example.invalid/gadget"\n'
        'distribution = "gadget"\npackage = "gadget"\n'
    )
    catalog = type(project)(tmp_path, {}, {}, {}).catalog()
    wheel = tmp_path / "gadget-1.0-py3-none-any.whl"
    wheel.write_bytes(project.wheel("1.0").read_bytes())
    with WheelSource(wheel, catalog.upstreams[1]) as source:
        assert match_all(catalog.targets, source) == []
        with pytest.raises(UsageError, match="is not widget"):
            match_target(catalog.target("w-1.0"), source)


def _relocked(project: Project, where: Path, series: str, steps: Steps) -> Path:
    """Return a catalog in which a series of release 1.0 is another, locked on its tag."""
    targets = project.copy_catalog(where / "catalog")
    folder = targets.parent / "patches" / "widget" / series
    shutil.rmtree(folder)
    git(where, "clone", "--quiet", project.repository, where / "clone")
    release = dict(project.releases["1.0"])
    make_series(where / "clone", project.commits["1.0"], release, steps, folder)
    repository = Repository(project.repository)
    target = next(t for t in load_catalog(targets).targets if t.directory == folder)
    write_locks([target], AtHand(Silent(), [], [repository]))
    return targets


def test_a_series_for_checkouts_only_does_not_keep_others_from_being_told(
    project: Project, tmp_path: Path
) -> None:
    steps = [("tests: more", (put("tests/test_more.py", b"MORE = 1\n"),))]
    targets = _relocked(project, tmp_path, "v1.0", steps)
    project.install(tmp_path / "site", "1.1")
    catalog = load_catalog(targets)
    assert identify(catalog, project.tree(tmp_path / "site"))[0].target == "w-1.1"
    with pytest.raises(DoesNotApplyError, match=r"tests/test_more\.py"):
        match_target(catalog.target("w-1.0"), project.tree(tmp_path / "site"))


def test_a_file_that_ends_as_it_began_does_not_make_a_tree_partial(
    project: Project, tmp_path: Path
) -> None:
    core, other = f"{PREFIX}widget/core.py", f"{PREFIX}widget/other.py"
    steps = [
        ("core: try", (substitute(core, b"LIMIT = 32", b"LIMIT = 33"),)),
        ("core: back", (substitute(core, b"LIMIT = 33", b"LIMIT = 32"),)),
        ("other: two", (substitute(other, b"OTHER = 1", b"OTHER = 2"),)),
    ]
    catalog = load_catalog(_relocked(project, tmp_path, "v1.0", steps))
    project.install(tmp_path / "site")
    tree = project.tree(tmp_path / "site")
    target = catalog.target("w-1.0")
    assert match_target(target, tree)[0].state is State.PRISTINE
    apply_targets(catalog, [(target, tree)], Silent())
    assert match_target(target, tree)[0].state is State.PATCHED
