"""`pkgtools lock`: proving series on real sources, and holding locks against them."""

from __future__ import annotations

import hashlib
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
from commands import call
from project import build_wheel, git, substitute
from trees import snapshot

from pkgtools.blob import EXECUTABLE

if TYPE_CHECKING:
    from pathlib import Path

    from commands import Result
    from project import Project


@pytest.fixture
def targets(project: Project, tmp_path: Path) -> Path:
    """Copy the catalog, to be changed."""
    return project.copy_catalog(tmp_path / "catalog")


def _sources(project: Project) -> list[str | Path]:
    found: list[str | Path] = ["--git", project.repository]
    for version in ("1.0", "1.1"):
        found += ["--wheel", project.wheel(version)]
    return found


def _lock(project: Project, targets: Path, *more: str | Path) -> Result:
    return call("lock", "--catalog", targets, *_sources(project), *more)


def _read(targets: Path, series: str) -> dict[str, Any]:
    return tomllib.loads((targets.parent / f"patches/widget/{series}/lock.toml").read_text())


def test_what_a_lock_holds(project: Project, targets: Path) -> None:
    """Every touched path with git's id before and after, computed here by other means."""
    for path in targets.parent.rglob("lock.toml"):
        path.unlink()
    assert _lock(project, targets).code == 0
    before, after = project.releases["1.0"], project.patched["v1.0"]
    lock = _read(targets, "v1.0")
    (revision,) = lock["revision"]
    assert revision["release"] == "1.0"
    files = {file["path"]: file for file in revision["file"]}
    assert files.keys() == {p for p in {*before, *after} if before.get(p) != after.get(p)}
    for path, file in files.items():
        ids = []
        for side in (before, after):
            blob = side.get(path)
            mode = f"{blob.mode:o}:" if blob and path.endswith(".sh") else ""
            ids.append(mode + blob.id if blob else "")
        assert [file["before"], file["after"]] == ids
    assert after["src/widget/tool.sh"].mode == EXECUTABLE
    core = files["src/widget/core.py"]
    assert [len(core["patches"]), len(core["between"])] == [2, 1]
    wheel = project.wheel("1.0")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert revision["wheel"] == [{"name": wheel.name, "sha256": digest}]
    commits = [r["commit"] for r in _read(targets, "dev")["revision"]]
    assert commits == [project.commits["dev"], project.commits["dev-base"]]


def test_it_is_written_the_same_twice(project: Project, targets: Path) -> None:
    before = {path: path.read_bytes() for path in targets.parent.rglob("*") if path.is_file()}
    assert _lock(project, targets).code == 0
    after = {path: path.read_bytes() for path in targets.parent.rglob("*") if path.is_file()}
    assert after == before


def test_a_check_writes_nothing(project: Project, targets: Path) -> None:
    before = snapshot(targets.parent)
    done = _lock(project, targets, "--check", "--json")
    assert done.code == 0
    assert [(p["target"], p["outcome"]) for p in done.facts] == [
        ("w-1.0", "proven"),
        ("w-1.1", "proven"),
        ("w-dev", "proven"),
        ("w-dev", "proven"),
    ]
    assert snapshot(targets.parent) == before


@pytest.mark.parametrize("field", ["before", "after", "between"])
def test_a_lock_that_says_something_else_is_found(
    field: str, project: Project, targets: Path
) -> None:
    path = targets.parent / "patches/widget/v1.0/lock.toml"
    core = next(
        f for f in _read(targets, "v1.0")["revision"][0]["file"] if f["path"].endswith("core.py")
    )
    value = core[field] if isinstance(core[field], str) else core[field][0]
    path.write_text(path.read_text().replace(value, "0" * 40))
    done = _lock(project, targets, "--check")
    assert done.code == 8
    assert f"{path}: 1.0 differs from its sources" in done.err


def test_a_wheel_of_another_digest_is_found(project: Project, targets: Path) -> None:
    path = targets.parent / "patches/widget/v1.0/lock.toml"
    digest = _read(targets, "v1.0")["revision"][0]["wheel"][0]["sha256"]
    path.write_text(path.read_text().replace(digest, "0" * 64))
    done = _lock(project, targets, "--check")
    assert done.code == 8
    assert f"its sha256 is {digest}, not {'0' * 64}" in done.err


def test_a_revision_without_a_source_keeps_its_entry(targets: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "--quiet")
    path = targets.parent / "patches/widget/dev/lock.toml"
    before = path.read_bytes()
    done = call("lock", "--target", "w-dev", "--catalog", targets, "--git", empty, "--json")
    assert done.code == 0
    assert {proof["outcome"] for proof in done.facts} == {"kept"}
    assert path.read_bytes() == before
    done = call("lock", "--check", "--target", "w-dev", "--catalog", targets, "--git", empty)
    assert done.code == 8
    assert "unverified" in done.out
    done = call(
        "lock",
        "--check",
        "--target",
        "w-dev",
        "--catalog",
        targets,
        "--git",
        empty,
        "--allow-missing",
    )
    assert done.code == 0


def test_a_changed_series_is_not_kept_unproven(
    project: Project, targets: Path, tmp_path: Path
) -> None:
    folder = targets.parent / "patches/widget/dev"
    patch = folder / "0001-answer-the-right-one.patch"
    patch.write_text(patch.read_text().replace("A reason.", "A better reason."))
    before = snapshot(targets.parent)
    git(tmp_path, "init", "--quiet")
    done = call("lock", "--target", "w-dev", "--catalog", targets, "--git", tmp_path)
    assert done.code == 8
    assert project.commits["dev"] in done.err
    assert "--git" in done.err
    assert snapshot(targets.parent) == before
    assert _lock(project, targets, "--target", "w-dev").code == 0
    done = call("verify", "--dry-run", "--target", "w-dev", "--catalog", targets,
                "--git", project.repository)  # fmt: skip
    assert done.code == 0


def test_a_series_that_does_not_apply_is_not_locked(
    project: Project, targets: Path, tmp_path: Path
) -> None:
    files = dict(project.releases["1.0"])
    substitute("src/widget/core.py", b"    total = 0\n", b"    total = None\n")(files)
    wheel = build_wheel(tmp_path, files, "1.0")
    before = snapshot(targets.parent)
    done = call("lock", "--target", "w-1.0", "--catalog", targets, "--wheel", wheel)
    assert done.code == 3
    assert "hunk 1 matches nowhere" in done.err
    assert "0001-answer-the-right-one.patch:" in done.err
    assert snapshot(targets.parent) == before


def test_two_wheels_of_one_release_must_agree(
    project: Project, targets: Path, tmp_path: Path
) -> None:
    """A release has a wheel per Python and platform; their sources are the same."""
    files = dict(project.releases["1.0"])
    same = build_wheel(tmp_path, files, "1.0")
    same = same.rename(tmp_path / "widget_kit-1.0-cp312-cp312-manylinux_2_34_x86_64.whl")
    arguments: list[str | Path] = ["lock", "--target", "w-1.0", "--catalog", targets]
    done = call(*arguments, "--wheel", project.wheel("1.0"), "--wheel", same)
    assert done.code == 0
    names = [w["name"] for w in _read(targets, "v1.0")["revision"][0]["wheel"]]
    assert names == sorted([same.name, project.wheel("1.0").name])
    substitute("src/widget/core.py", b"LIMIT = 32", b"LIMIT = 31")(files)
    other = build_wheel(tmp_path, files, "1.0")
    done = call(*arguments, "--wheel", project.wheel("1.0"), "--wheel", other)
    assert done.code == 8
    assert "one release with different sources" in done.err


def test_a_lock_is_not_written_past_a_missing_source(targets: Path) -> None:
    before = snapshot(targets.parent)
    done = call("lock", "--allow-missing", "--catalog", targets)
    assert done.code == 2
    assert "--allow-missing needs --check" in done.err
    assert snapshot(targets.parent) == before


def test_a_revision_without_an_entry_is_named_with_its_target(
    project: Project, targets: Path
) -> None:
    commit = "5" * 40
    with targets.open("a") as file:
        file.write(f'\n[[target.alias]]\nname = "nightly"\ncommit = "{commit}"\n')
    done = _lock(project, targets, "--check")
    assert done.code == 8
    name = tomllib.loads(targets.read_text())["target"][-1]["name"]
    assert f"lock.toml has no entry for {commit} of {name}" in done.err


def test_a_catalog_that_cannot_be_written(
    project: Project, targets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the one inside an installed distribution."""

    def refuse(*_arguments: object) -> None:
        raise PermissionError(13, "Permission denied", "lock.toml")

    for path in targets.parent.glob("patches/*/*/lock.toml"):
        path.write_text(path.read_text() + "# old\n")
    monkeypatch.setattr("os.replace", refuse)
    before = snapshot(targets.parent)
    done = _lock(project, targets)
    assert done.code == 7
    assert "Permission denied" in done.err
    monkeypatch.undo()
    assert snapshot(targets.parent) == before
