"""Verifying: would it apply, and is it what its target makes? Across every kind of source."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from commands import call
from project import PREFIX, Project, git, git_environment
from scenarios import apply, apply_changed
from trees import snapshot

from pkgtools.source.release import cached_wheel

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def _verify(project: Project, *arguments: str | Path) -> tuple[int, list[Mapping[str, object]]]:
    done = call("verify", "--catalog", project.targets, "--json", *arguments)
    return done.code, done.facts


def _outcomes(verdicts: list[Mapping[str, object]]) -> list[tuple[object, object]]:
    return [(verdict["target"], verdict["outcome"]) for verdict in verdicts]


def test_a_wheel_is_held_against_the_target_it_belongs_to(project: Project) -> None:
    code, verdicts = _verify(project, "--dry-run", "--wheel", project.wheel("1.1"))
    assert (code, _outcomes(verdicts)) == (0, [("w-1.1", "applies")])


def test_a_wheel_of_another_release_is_refused_with_the_right_target(project: Project) -> None:
    code, (verdict,) = _verify(
        project, "--dry-run", "--target", "w-1.0", "--wheel", project.wheel("1.1")
    )
    assert (code, verdict["outcome"]) == (3, "refused")
    assert str(verdict["remedy"]).startswith(
        "use `pkgtools verify --target w-1.1 --dry-run --wheel "
    )


def test_a_commit_is_verified_without_a_worktree(project: Project, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "--quiet", "--bare", project.repository, bare)
    before = snapshot(bare)
    code, (verdict,) = _verify(project, "--dry-run", "--git", bare, "--rev", project.commits["dev"])
    assert (code, verdict["target"], verdict["outcome"]) == (0, "w-dev", "applies")
    assert snapshot(bare) == before


@pytest.mark.parametrize(
    ("name", "code", "outcomes"),
    [
        ("w-dev", 0, [("w-dev", "applies")]),
        ("w-dev-base", 0, [("w-dev", "applies")]),
        ("w-1.0", 0, [("w-1.0", "applies")]),  # by its tag
    ],
)
def test_a_name_is_looked_for_in_the_repositories(
    project: Project, name: str, code: int, outcomes: list[tuple[str, str]]
) -> None:
    found = _verify(project, "--dry-run", "--target", name, "--git", project.repository)
    assert (found[0], _outcomes(found[1])) == (code, outcomes)


def test_an_alias_that_was_not_validated_is_unverified(project: Project) -> None:
    code, facts = _verify(
        project, "--dry-run", "--target", "w-dev-short", "--git", project.repository
    )
    assert code == 8
    assert facts["error"]["code"] == "unverified"  # type: ignore[call-overload]


def test_every_target_with_every_source_at_hand(project: Project) -> None:
    wheels = [x for v in ("1.0", "1.1") for x in ("--wheel", project.wheel(v))]
    code, verdicts = _verify(project, "--dry-run", *wheels, "--git", project.repository)
    assert code == 0
    assert _outcomes(verdicts) == [
        ("w-1.0", "applies"),
        ("w-1.1", "applies"),
        ("w-dev", "applies"),
        ("w-dev", "applies"),
    ]


def test_a_target_without_a_source_is_unverified_and_fails(project: Project) -> None:
    arguments: list[str | Path] = [
        "--dry-run",
        "--wheel",
        project.wheel("1.0"),
        "--wheel",
        project.wheel("1.1"),
    ]
    code, verdicts = _verify(project, *arguments)
    assert code == 8
    assert ("w-dev", "unverified") in _outcomes(verdicts)
    assert _verify(project, *arguments, "--allow-missing")[0] == 0


def test_a_wheel_whose_files_are_another_releases_does_not_pass(
    project: Project, tmp_path: Path
) -> None:
    liar = tmp_path / project.wheel("1.0").name
    shutil.copyfile(project.wheel("1.1"), liar)
    code, verdicts = _verify(
        project, "--dry-run", "--wheel", liar, "--wheel", project.wheel("1.1"), "--target", "w-1.0"
    )
    assert (code, _outcomes(verdicts)) == (3, [("w-1.0", "refused")])


def test_a_dry_run_touches_nothing(project: Project, tmp_path: Path) -> None:
    project.install(tmp_path / "site", compiled=True)
    before = snapshot(tmp_path)
    code, verdicts = _verify(project, "--dry-run", "--tree", tmp_path / "site")
    assert (code, _outcomes(verdicts)) == (0, [("w-1.0", "applies")])
    assert snapshot(tmp_path) == before


def test_a_patched_tree_is_verified(project: Project, tmp_path: Path) -> None:
    project.install(tmp_path)
    apply(project, project.tree(tmp_path))
    code, match = _verify(project, "--tree", tmp_path)
    assert (code, match["target"], match["state"]) == (0, "w-1.0", "patched")  # type: ignore[call-overload]
    assert _verify(project, "--dry-run", "--tree", tmp_path)[1][0]["outcome"] == "patched"


def test_a_pristine_tree_is_not_patched(project: Project, tmp_path: Path) -> None:
    project.install(tmp_path)
    done = call("verify", "--catalog", project.targets, "--tree", tmp_path)
    assert done.code == 8
    assert "pristine: the series is not in it" in done.err
    assert f"pkgtools apply --target w-1.0 --tree {tmp_path}" in done.err


def test_an_edited_tree_is_foreign(project: Project, tmp_path: Path) -> None:
    project.install(tmp_path)
    apply(project, project.tree(tmp_path))
    core = tmp_path / "widget" / "core.py"
    core.write_bytes(core.read_bytes() + b"\n# mine\n")
    done = call("verify", "--catalog", project.targets, "--tree", tmp_path)
    assert done.code == 5
    assert f"{PREFIX}widget/core.py" in done.err


def test_a_half_patched_tree_is_partial(project: Project, tmp_path: Path) -> None:
    project.write_archive(tmp_path / "tree")
    patch = next(project.targets.parent.glob("patches/widget/v1.0/0001-*"))
    subprocess.run(["patch", "-p1", "-i", patch], cwd=tmp_path / "tree", check=True)
    for arguments in ([], ["--dry-run"]):
        code, _ = _verify(project, *arguments, "--tree", tmp_path / "tree")
        assert code == 4


def test_record_must_agree(project: Project, tmp_path: Path) -> None:
    info = project.install(tmp_path)
    apply(project, project.tree(tmp_path))
    record = info / "RECORD"
    rows = record.read_bytes().splitlines(keepends=True)
    record.write_bytes(b"".join(row for row in rows if b"core.py" not in row))
    done = call("verify", "--catalog", project.targets, "--tree", tmp_path)
    assert done.code == 8
    assert "widget/core.py" in done.err


def test_a_tree_with_an_older_series_is_told_apart_from_an_edited_one(
    project: Project, tmp_path: Path
) -> None:
    project.install(tmp_path)
    apply(project, project.tree(tmp_path))
    newer: list[str | Path] = ["--catalog", project.changed_targets, "--tree", tmp_path]
    done = call("verify", *newer)
    assert done.code == 8
    assert "older series of w-1.0" in done.err
    assert f"pkgtools apply --target w-1.0 --tree {tmp_path}" in done.err
    assert call("verify", "--dry-run", *newer).code == 0
    assert "newer series: `pkgtools apply" in call("status", *newer).out
    apply_changed(project, project.tree(tmp_path))
    assert call("verify", *newer).code == 0


def test_a_tree_that_was_patched_from_another_catalog(project: Project, tmp_path: Path) -> None:
    project.install(tmp_path)
    tree = project.tree(tmp_path)
    apply(project, tree)
    receipt = tree.home / "pkgtools.json"
    receipt.write_bytes(receipt.read_bytes().replace(b'"w-1.0"', b'"theirs"'))
    done = call("verify", "--catalog", project.changed_targets, "--tree", tmp_path)
    assert done.code == 5
    assert f"is patched with theirs, which {project.changed_targets} does not know" in done.err
    assert "(--catalog)" in done.err


def test_a_tree_whose_series_changed_since_its_lock(project: Project, tmp_path: Path) -> None:
    """The lock is what is wrong, and no other target is what the tree should be."""
    site = tmp_path / "site"
    project.install(site)
    targets = project.copy_catalog(tmp_path / "ours")
    words = "--catalog", targets, "--tree", site
    assert call("apply", "--target", "w-1.0", *words).code == 0
    patch = next((targets.parent / "patches/widget/v1.0").glob("0001-*"))
    patch.write_bytes(patch.read_bytes().replace(b"A reason.", b"A reason!"))
    done = call("verify", *words)
    assert done.code == 6
    assert "the series changed since it was locked" in done.err
    assert "pkgtools lock --target w-1.0" in done.err


def test_a_catalog_without_a_lock_says_so(project: Project, tmp_path: Path) -> None:
    site = tmp_path / "site"
    project.install(site)
    targets = project.copy_catalog(tmp_path / "ours")
    for lock in targets.parent.glob("patches/*/*/lock.toml"):
        lock.unlink()
    for command in ("identify", "status", "verify"):
        done = call(command, "--catalog", targets, "--tree", site)
        assert done.code == 5
        assert "the series was never proven" in done.err
        assert "pkgtools targets --catalog" in done.err


def test_a_patched_tree_is_not_called_pristine(project: Project, tmp_path: Path) -> None:
    project.install(tmp_path)
    apply(project, project.tree(tmp_path))
    done = call("apply", "--catalog", project.targets, "--target", "w-1.1", "--tree", tmp_path)
    assert done.code == 3
    assert "as it was before w-1.0 is w-1.0 (1.0), pristine" in done.err


def test_line_ends_that_were_converted_are_named(project: Project, tmp_path: Path) -> None:
    tree = project.write_archive(tmp_path / "tree")
    for path in tree.rglob("*.py"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    done = call("apply", "--catalog", project.targets, "--target", "w-1.0", "--tree", tree)
    assert done.code == 5
    assert "have CRLF line ends" in done.err
    assert "autocrlf" in done.err


def test_releases_come_through_pip_into_a_cache_when_nothing_is_installed(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(project.wheel("1.0").parent))
    code, verdicts = _verify(project, "--dry-run", "--allow-missing")
    assert code == 0
    assert _outcomes(verdicts)[:2] == [("w-1.0", "applies"), ("w-1.1", "applies")]
    assert {verdict["outcome"] for verdict in verdicts[2:]} == {"unverified"}
    target = project.catalog().target("w-1.0")
    wheel = cached_wheel(target.upstream, "1.0", {})
    assert wheel is not None
    assert wheel.read_bytes() == project.wheel("1.0").read_bytes()
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    assert _outcomes(_verify(project, "--dry-run", "--allow-missing")[1])[0][1] == "applies"


def test_a_wheel_of_another_digest_than_the_lock_has_is_not_taken(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    index.mkdir()
    wheel = index / project.wheel("1.0").name
    wheel.write_bytes(project.wheel("1.0").read_bytes() + b"trailing")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    code, (verdict,) = _verify(project, "--dry-run", "--target", "w-1.0")
    assert (code, verdict["outcome"]) == (8, "unverified")
    assert "the lockfile has" in str(verdict["message"])
    assert cached_wheel(project.catalog().target("w-1.0").upstream, "1.0", {}) is None


def test_git_in_a_hook_does_not_lead_astray(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook sets GIT_DIR, which would win over the repository that is named."""
    git(tmp_path, "init", "--quiet", "other")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    code, verdicts = _verify(
        project, "--dry-run", "--git", project.repository, "--rev", project.commits["dev"]
    )
    assert (code, _outcomes(verdicts)) == (0, [("w-dev", "applies")])
    assert os.environ["GIT_DIR"] == str(tmp_path / "other" / ".git")


def test_a_git_directory_without_a_config_file_is_read(project: Project, tmp_path: Path) -> None:
    bare = tmp_path / "repo"
    git(tmp_path, "clone", "--quiet", "--bare", project.repository, bare)
    (bare / "config").unlink()
    code, _ = _verify(project, "--dry-run", "--git", bare, "--rev", project.commits["dev"])
    assert code == 0


def test_git_apply_agrees(project: Project, tmp_path: Path) -> None:
    """What a dry run says applies, git applies too; what it refuses, git refuses."""
    for name, series in (("1.0", "v1.0"), ("1.1", "v1.1"), ("1.1", "v1.0"), ("1.0", "v1.1")):
        tree = project.write_archive(tmp_path / f"{name}-{series}", name)
        patches = sorted((project.targets.parent / "patches" / "widget" / series).glob("*.patch"))
        codes = [
            subprocess.run(
                ["git", "apply", patch],
                cwd=tree,
                env=git_environment(),
                capture_output=True,
                check=False,
            ).returncode
            for patch in patches
        ]
        code, _ = _verify(
            project, "--dry-run", "--target", f"w-{series[1:]}", "--wheel", project.wheel(name)
        )
        assert (code == 0) == (codes == [0] * len(patches)), (name, series, code, codes)
