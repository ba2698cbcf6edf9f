"""Locks: computed from real sources, and held against them again."""

from __future__ import annotations

import shutil
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
from commands import call
from project import PREFIX, Project, git, lock_all

from pkgtools.blob import blob_id
from pkgtools.catalog import load_catalog
from pkgtools.errors import CheckFailedError, DoesNotApplyError, SourceUnavailableError
from pkgtools.lock import check_locks, write_locks
from pkgtools.report import Silent
from pkgtools.source.at_hand import AtHand
from pkgtools.source.git import Repository
from pkgtools.source.release import sha256

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pkgtools.catalog import Catalog


def _lock(targets: Path, series: str) -> dict[str, Any]:
    return tomllib.loads((targets.parent / "patches" / "widget" / series / "lock.toml").read_text())


def _at_hand(project: Project, *versions: str, commits: bool = True) -> AtHand:
    repositories = [Repository(project.repository)] if commits else []
    return AtHand(Silent(), [project.wheel(version) for version in versions], repositories)


def test_ids_are_those_of_git_hash_object(project: Project, tmp_path: Path) -> None:
    scratch = tmp_path / "blob"
    (revision,) = _lock(project.targets, "v1.0")["revision"]
    before, after = project.releases["1.0"], project.patched["v1.0"]
    for file in revision["file"]:
        path = file["path"]
        for side, tree in (("before", before), ("after", after)):
            blob = tree.get(path)
            expected = ""
            if blob is not None:
                scratch.write_bytes(blob.data)
                git_id = git(project.repository, "hash-object", "--no-filters", scratch).strip()
                expected = f"{blob.mode:o}:{git_id}" if ":" in file[side] else git_id
            assert file[side] == expected, path
    touched = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    assert {file["path"] for file in revision["file"]} == touched


def test_the_steps_between_are_recorded(project: Project) -> None:
    (revision,) = _lock(project.targets, "v1.0")["revision"]
    core = next(f for f in revision["file"] if f["path"] == f"{PREFIX}widget/core.py")
    assert [name[:4] for name in core["patches"]] == ["0001", "0003"]
    (middle,) = core["between"]
    data = project.releases["1.0"][f"{PREFIX}widget/core.py"].data
    data = data.replace(b"total = 0\n", b"total = 0.0\n")
    data = data.replace(b"spread {spread(values)}", b"{spread(values)} apart")
    assert middle == blob_id(data)


def test_a_wheel_is_recorded_with_its_digest(project: Project) -> None:
    (revision,) = _lock(project.targets, "v1.0")["revision"]
    wheel = project.wheel("1.0")
    assert revision["wheel"] == [{"name": wheel.name, "sha256": sha256(wheel)}]


def test_every_validated_commit_is_in_it(project: Project) -> None:
    revisions = _lock(project.targets, "dev")["revision"]
    assert [r["commit"] for r in revisions] == [project.commits["dev"], project.commits["dev-base"]]


def test_writing_again_changes_no_byte(project: Project, tmp_path: Path) -> None:
    targets = project.copy_catalog(tmp_path / "catalog")
    lock_all(targets, project.repository, project)
    for path in project.targets.parent.rglob("lock.toml"):
        copy = tmp_path / "catalog" / path.relative_to(project.targets.parent)
        assert copy.read_bytes() == path.read_bytes()


def test_a_check_proves_every_revision(project: Project) -> None:
    proofs = check_locks(project.catalog().targets, _at_hand(project, "1.0", "1.1"))
    assert [(p.target, p.outcome) for p in proofs] == [
        ("w-1.0", "proven"),
        ("w-1.1", "proven"),
        ("w-dev", "proven"),
        ("w-dev", "proven"),
    ]


def test_a_check_says_what_it_could_not_prove(project: Project) -> None:
    targets = project.catalog().targets
    proofs = check_locks(targets, _at_hand(project, "1.0", "1.1", commits=False))
    assert [p.outcome for p in proofs] == ["proven", "proven", "unverified", "unverified"]


def test_a_tag_is_a_source_of_a_release(project: Project) -> None:
    proofs = check_locks(project.catalog().targets[:1], _at_hand(project))
    assert [p.outcome for p in proofs] == ["proven"]
    assert str(project.repository) in proofs[0].sources[0]


def test_a_lock_that_says_something_else_is_found(project: Project, tmp_path: Path) -> None:
    targets = project.copy_catalog(tmp_path / "catalog")
    path = targets.parent / "patches" / "widget" / "v1.0" / "lock.toml"
    after = blob_id(project.patched["v1.0"][f"{PREFIX}widget/core.py"].data)
    path.write_text(path.read_text().replace(after, "0" * 40))
    with pytest.raises(CheckFailedError, match=r"1\.0 is not what its sources say"):
        check_locks(load_catalog(targets).targets, _at_hand(project, "1.0", "1.1"))


def test_a_wheel_that_was_built_again_is_told_apart(project: Project, tmp_path: Path) -> None:
    wheel = tmp_path / project.wheel("1.0").name
    wheel.write_bytes(project.wheel("1.0").read_bytes() + b"\n")
    at_hand = AtHand(Silent(), [wheel])
    with pytest.raises(CheckFailedError, match="is not the wheel that the lock was computed from"):
        check_locks(project.catalog().targets[:1], at_hand)


def test_wheels_of_one_release_must_agree(project: Project, tmp_path: Path) -> None:
    liar = tmp_path / "widget_kit-1.0-py2.py3-none-any.whl"
    shutil.copyfile(project.wheel("1.1"), liar)
    targets = load_catalog(project.copy_catalog(tmp_path / "catalog")).targets[:1]
    with pytest.raises((CheckFailedError, DoesNotApplyError)):
        write_locks(targets, AtHand(Silent(), [project.wheel("1.0"), liar]))


def test_an_entry_without_a_source_is_kept_while_the_series_is_the_same(
    project: Project, tmp_path: Path
) -> None:
    targets = project.copy_catalog(tmp_path / "catalog")
    before = _lock(targets, "dev")
    proofs = write_locks(
        load_catalog(targets).targets, _at_hand(project, "1.0", "1.1", commits=False)
    )
    assert [p.outcome for p in proofs] == ["proven", "proven", "kept", "kept"]
    assert _lock(targets, "dev") == before


def test_an_entry_without_a_source_is_not_kept_when_the_series_changed(
    project: Project, tmp_path: Path
) -> None:
    targets = project.copy_catalog(tmp_path / "catalog")
    patch = next((targets.parent / "patches" / "widget" / "dev").glob("0001-*"))
    patch.write_bytes(patch.read_bytes().replace(b"A reason.", b"A reason!"))
    with pytest.raises(SourceUnavailableError, match=project.commits["dev"]):
        write_locks(load_catalog(targets).targets, _at_hand(project, "1.0", "1.1", commits=False))


def test_a_changed_series_is_locked_again_from_pips_wheel(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(project.wheel("1.0").parent))
    targets = project.copy_catalog(tmp_path / "catalog")
    patch = next((targets.parent / "patches" / "widget" / "v1.0").glob("0001-*"))
    patch.write_bytes(patch.read_bytes().replace(b"A reason.", b"A reason!"))
    done = call("lock", "--catalog", targets, "--target", "w-1.0")
    assert done.code == 0, done.err
    assert load_catalog(targets).target("w-1.0").lock.find("1.0") is not None


def test_a_series_that_does_not_apply_is_not_locked(project: Project, tmp_path: Path) -> None:
    targets = project.copy_catalog(tmp_path / "catalog")
    text = targets.read_text().replace('series = "v1.0"', 'series = "v1.1"')
    targets.write_text(text)
    done = call(
        "lock",
        "--catalog",
        targets,
        "--target",
        "w-1.0",
        "--wheel",
        project.wheel("1.0"),
        "--wheel",
        project.wheel("1.1"),
    )
    assert done.code == 3
    assert "w-1.0: its series does not apply to widget_kit-1.0" in done.err
    assert "hunk 1" in done.err


def test_what_is_called_absorbed_is_proven(project: Project, tmp_path: Path) -> None:
    """The command makes a release that carries a patch, and then one that does not."""
    targets = project.copy_catalog(tmp_path / "catalog")
    patches = targets.parent / "patches" / "widget"
    (patches / "v1.0" / "series").write_text("0002-extra-a-new-part.patch\n")
    taken = patches / "taken"
    taken.mkdir()
    for name in ("0001-answer-the-right-one.patch", "0003-legacy-retire-it.patch"):
        (patches / "v1.0" / name).rename(taken / name)
    text = targets.read_text()
    entry = 'absorbed = ["taken/0001-answer-the-right-one.patch"]\n\n[[target]]\nname = "w-1.1"'
    targets.write_text(text.replace('[[target]]\nname = "w-1.1"', entry))
    with pytest.raises(CheckFailedError, match="does not carry hunk 1"):
        write_locks(load_catalog(targets).targets[:1], AtHand(Silent(), [project.wheel("1.0")]))


def test_the_real_locks_hold_against_the_real_releases(
    sglang: Catalog, release: Callable[[str], Path]
) -> None:
    releases = [t for t in sglang.targets if t.revision.version]
    wheels = [release(t.revision.name) for t in releases]
    proofs = check_locks(releases, AtHand(Silent(), wheels))
    assert {p.outcome for p in proofs} == {"proven"}
    newest = sglang.target("v0.5.23").lock.revision[0]
    (absorbed,) = newest.absorbed
    assert absorbed.patch == "v0.5.22/0001-attn-residual-64-bit-token-offsets.patch"
    assert len(absorbed.at) == 2


def test_the_real_locks_hold_against_the_k3_commits(
    sglang: Catalog, sglang_git: list[Path]
) -> None:
    at_hand = AtHand(Silent(), [], [Repository(path) for path in sglang_git])
    proofs = check_locks([sglang.target("kimi-k3-ee560a2")], at_hand)
    assert [p.outcome for p in proofs] == ["proven", "proven"]
