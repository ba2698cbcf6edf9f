"""`pkgtools identify`: trees, wheels and commits, by their files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from commands import call
from scenarios import apply, apply_changed, make_tree
from trees import snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from commands import Result
    from project import Project


def _identify(project: Project, *arguments: str | Path) -> Result:
    return call("identify", "--catalog", project.targets, "--json", *arguments)


@pytest.mark.parametrize(("version", "target"), [("1.0", "w-1.0"), ("1.1", "w-1.1")])
def test_a_wheel(version: str, target: str, project: Project) -> None:
    done = _identify(project, "--wheel", project.wheel(version))
    assert (done.code, done.facts["state"]) == (0, "pristine")
    assert [(m["target"], m["revision"]) for m in done.facts["matches"]] == [(target, version)]


def test_a_commit_and_another_with_the_same_files(project: Project) -> None:
    """Two revisions whose touched files are the same: both are named."""
    for name in ("dev", "dev-base"):
        done = _identify(project, "--git", project.repository, "--rev", project.commits[name])
        assert done.code == 0
        assert {match["revision"] for match in done.facts["matches"]} == {
            project.commits["dev"],
            project.commits["dev-base"],
        }
    assert _identify(project, "--git", project.repository).code == 0  # HEAD


@pytest.mark.parametrize("layout", ["site", "checkout", "archive"])
def test_a_tree_on_its_way(layout: str, project: Project, tmp_path: Path) -> None:
    """Pristine, patched, edited, half patched: each its exit code, and nothing is touched."""
    tree = make_tree(project, layout, tmp_path)

    def look() -> tuple[int, str, list[str]]:
        before = snapshot(tmp_path)
        done = _identify(project, "--tree", tree.root)
        assert snapshot(tmp_path) == before
        found = done.facts["matches"][0]
        odd = [f["path"] for f in found["files"] if f["state"] in ("foreign", "missing")]
        return done.code, done.facts["state"], odd

    assert look() == (0, "pristine", [])
    apply(project, tree)
    assert look() == (0, "patched", [])
    answer = tree.file("src/widget/answer.py")
    patched = answer.read_bytes()
    answer.write_bytes(patched.replace(b"42", b"41"))
    assert look() == (4, "partial", [])
    answer.write_bytes(b"mine\n")
    assert look() == (5, "foreign", ["src/widget/answer.py"])
    answer.unlink()
    assert look() == (5, "foreign", ["src/widget/answer.py"])


def test_what_it_says(project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, "site", tmp_path)
    apply(project, tree)
    done = call("identify", "--catalog", project.targets, "--tree", tree.root)
    first, *lines = done.out.splitlines()
    assert first == f"{tree.root} (widget_kit-1.0): w-1.0 (1.0), patched"
    assert lines[1] == (
        "  patched  src/widget/core.py by 0001-answer-the-right-one.patch, "
        "0003-legacy-retire-it.patch"
    )


def test_the_nearest_of_a_stranger(project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, "archive", tmp_path)
    apply_changed(project, tree)  # as a catalog has it that this one is not
    done = call("identify", "--catalog", project.targets, "--tree", tree.root)
    assert done.code == 5
    assert "nearest: w-1.0 (1.0), foreign" in done.out
    assert "foreign  src/widget/answer.py" in done.out
    assert "pristine" not in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tree", ".", "--wheel", "w.whl"], "different sources"),
        (["--git", ".", "--wheel", "w.whl"], "different sources"),
        (["--rev", "HEAD"], "--rev needs --git"),
        (["--wheel", "none.whl"], "none.whl"),
        (["--git", "/none"], "/none"),
        (["--tree", "/none"], "/none"),
        (["--python", "/none"], "/none"),
    ],
)
def test_sources_that_make_no_sense(
    arguments: list[str], message: str, project: Project, tmp_path: Path
) -> None:
    (tmp_path / "w.whl").touch()
    done = call("identify", "--catalog", project.targets, *arguments, cwd=tmp_path)
    assert done.code == 2
    assert message in done.err
