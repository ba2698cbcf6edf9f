"""Revisions inside git directories of every kind, read without a worktree."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from commands import run
from project import git, git_environment, write_files
from trees import snapshot

from pkgtools.blob import DIRECTORY, SYMLINK, Blob
from pkgtools.errors import SourceUnavailableError, UsageError
from pkgtools.source.git import Repository

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from project import Project


def _checkout(project: Project, where: Path) -> Path:
    git(where, "clone", "--quiet", project.repository, where / "clone")
    return where / "clone"


def _git_directory(project: Project, where: Path) -> Path:
    return _checkout(project, where) / ".git"


def _folder_of_a_checkout(project: Project, where: Path) -> Path:
    return _checkout(project, where) / "src"


def _bare(project: Project, where: Path) -> Path:
    git(where, "clone", "--quiet", "--bare", project.repository, where / "bare")
    return where / "bare"


def _without_config(project: Project, where: Path) -> Path:
    bare = _bare(project, where)
    (bare / "config").unlink()
    return bare


def _only_what_is_needed(project: Project, where: Path) -> Path:
    """HEAD, objects and refs: what a mirror keeps."""
    bare = _bare(project, where)
    for path in bare.iterdir():
        if path.name not in ("HEAD", "objects", "refs", "packed-refs"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return bare


def _worktree(project: Project, where: Path) -> Path:
    clone = _checkout(project, where)
    git(clone, "worktree", "add", "--quiet", "--detach", where / "linked")
    return where / "linked"


def _alternates(project: Project, where: Path) -> Path:
    git(where, "clone", "--quiet", "--shared", "--bare", project.repository, where / "shared")
    return where / "shared"


_KINDS = [
    _checkout,
    _git_directory,
    _bare,
    _without_config,
    _only_what_is_needed,
    _worktree,
    _alternates,
]


@pytest.mark.parametrize("make", _KINDS)
def test_every_file_of_a_revision_is_read(
    make: Callable[[Project, Path], Path], project: Project, tmp_path: Path
) -> None:
    repository = make(project, tmp_path)
    before = snapshot(tmp_path)
    source = Repository(repository).get(project.commits["1.0"])
    for path, blob in project.releases["1.0"].items():
        assert source.read(path) == blob
    assert source.read("src/widget/none.py") is None
    assert source.read("src/widget/core.py/below") is None
    assert source.read("none/at/all") is None
    for folder in ("src", "src/widget/legacy"):
        assert source.read(folder) == Blob(b"", DIRECTORY)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("revision", ["v1.0", "v1.0^{commit}", "refs/tags/v1.0", "main~3"])
def test_a_revision_is_named_as_git_names_it(revision: str, project: Project) -> None:
    assert Repository(project.repository).get(revision).commit == project.commits["1.0"]


def test_an_abbreviated_commit(project: Project) -> None:
    commit = project.commits["1.1"]
    assert Repository(project.repository).get(commit[:10]).commit == commit


@pytest.mark.parametrize(
    "revision",
    ["0" * 40, "f" * 40, "no-such-branch", "", "HEAD:README.md", "-x", "a b", "main..v1.0"],
)
def test_a_revision_that_is_not_there(revision: str, project: Project) -> None:
    repository = Repository(project.repository)
    assert repository.find(revision) is None
    with pytest.raises(UsageError) as caught:
        repository.get(revision)
    assert str(project.repository) in caught.value.message


@pytest.mark.parametrize(
    "variable", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"]
)
def test_a_variable_of_git_does_not_win_over_the_path(
    variable: str, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook or a rebase sets them, for a repository of its own."""
    other = tmp_path / "other"
    write_files(other, {"README.md": Blob(b"other\n")})
    git(other, "init", "--quiet")
    value = other / ".git/objects" if "OBJECT" in variable else other / ".git"
    monkeypatch.setenv(variable, str(value))
    source = Repository(project.repository).get(project.commits["1.0"])
    assert source.read("README.md") == Blob(b"# widget\n")
    assert os.environ[variable] == str(value)  # left as it was, for others


def test_a_replaced_object_is_not_the_revision(project: Project, tmp_path: Path) -> None:
    bare = _bare(project, tmp_path)
    old = git(bare, "rev-parse", "v1.0:README.md").strip()
    new = git(bare, "rev-parse", "main:README.md").strip()
    git(bare, "replace", old, new)
    assert git(bare, "show", "v1.0:README.md") == "# widget, in development\n"
    assert Repository(bare).get("v1.0").read("README.md") == Blob(b"# widget\n")


def test_a_partial_clone_is_never_made_to_fetch(project: Project, tmp_path: Path) -> None:
    origin = _bare(project, tmp_path)
    git(origin, "config", "uploadpack.allowFilter", "true")
    partial = tmp_path / "partial"
    git(tmp_path, "clone", "--quiet", "--bare", "--filter=blob:none", f"file://{origin}", partial)
    source = Repository(partial).get("v1.0")
    with pytest.raises(SourceUnavailableError, match=r"src/widget/core\.py cannot be read"):
        source.read("src/widget/core.py")
    shutil.rmtree(origin)
    with pytest.raises(SourceUnavailableError):
        source.read("src/widget/answer.py")


def test_a_clone_without_its_folders_is_incomplete(project: Project, tmp_path: Path) -> None:
    origin, partial = tmp_path / "origin", tmp_path / "partial"
    git(tmp_path, "clone", "--quiet", "--bare", project.repository, origin)
    git(origin, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "--quiet", "--bare", "--filter=tree:1", f"file://{origin}", partial)
    source = Repository(partial).get("v1.0")
    with pytest.raises(SourceUnavailableError, match=r"src/ cannot be read") as caught:
        source.paths("src/")
    assert caught.value.remedy == "give a complete clone with --git"
    with pytest.raises(SourceUnavailableError, match=r"src/widget/core\.py cannot be read"):
        source.read("src/widget/core.py")


def test_links_and_submodules(project: Project, tmp_path: Path) -> None:
    clone = _checkout(project, tmp_path)
    (clone / "link").symlink_to("src")
    git(clone, "add", "link")
    git(clone, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},vendored")
    git(clone, "commit", "--quiet", "--message", "links")
    source = Repository(clone).get("HEAD")
    assert source.read("link") == Blob(b"src", SYMLINK)
    assert source.read("link/widget") is None
    vendored = source.read("vendored")
    assert vendored is not None
    assert vendored.is_directory


def test_what_is_no_repository_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "none", tmp_path / "file"):
        with pytest.raises(UsageError, match=r"no git repository|not a git repository"):
            Repository(path)


def test_without_git_it_says_so(project: Project, tmp_path: Path) -> None:
    """As in many images: the core needs no git, and --git says what it needs."""
    command = ["verify", "--dry-run", "--git", str(project.repository), "--rev", "HEAD"]
    done = run(*command, "--catalog", project.targets, env={"PATH": str(tmp_path)})
    assert done.code == 8
    assert "git cannot be used" in done.err
    assert "next: install git" in done.err


def test_the_oracle_reads_the_same(project: Project) -> None:
    """`git cat-file` itself, for each path that a series touches."""
    source = Repository(project.repository).get("v1.0")
    for path in project.catalog().target("w-1.0").series.paths:
        done = subprocess.run(
            ["git", "cat-file", "blob", f"v1.0:{path}"],
            cwd=project.repository,
            env=git_environment(),
            capture_output=True,
            check=False,
        )
        blob = source.read(path)
        assert (done.returncode == 0) == (blob is not None)
        assert blob is None or blob.data == done.stdout
