"""What is meant where a user does not say: the catalog, the interpreter, the target."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
from commands import call
from trees import snapshot

from pkgtools.source.python import default_python

if TYPE_CHECKING:
    from pathlib import Path

    from project import Project


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_the_files_say_which_target_is_meant(
    version: str, project: Project, tmp_path: Path
) -> None:
    """The default is w-1.1."""
    project.install(tmp_path, version)
    where = ("--tree", tmp_path, "--catalog", project.targets)
    done = call("apply", *where)
    assert done.code == 0
    assert (f"is w-{version} by its files" in done.err) == (version != "1.1")
    assert f"applied w-{version}" in done.out
    assert f"is exactly w-{version}" in call("verify", *where).out
    again = call("apply", *where)
    assert (again.code, "nothing to do" in again.out) == (0, True)


def test_a_tree_of_no_target_is_refused_with_the_nearest(project: Project, tmp_path: Path) -> None:
    project.install(tmp_path)
    (tmp_path / "widget/core.py").write_text("CORE = 1\n")
    before = snapshot(tmp_path)
    done = call("apply", "--tree", tmp_path, "--catalog", project.targets)
    assert done.code == 5
    assert "nearest is w-1.0 (1.0)" in done.err
    assert snapshot(tmp_path) == before


def test_of_several_targets_that_fit_one_is_named_or_the_default(
    project: Project, tmp_path: Path
) -> None:
    targets = project.copy_catalog(tmp_path / "catalog")
    text = targets.read_text()
    block = next(part for part in text.split("[[target]]") if '"w-1.0"' in part)
    text += "\n[[target]]" + block.replace('name = "w-1.0"', 'name = "w-twin"')
    targets.write_text(text)
    project.install(tmp_path / "site")
    where = ("--tree", tmp_path / "site", "--catalog", targets)
    done = call("apply", *where)
    assert done.code == 2
    assert "several targets fit: w-1.0 or w-twin" in done.err
    assert "next: name one: `pkgtools apply --target w-1.0 --tree " in done.err
    targets.write_text(text.replace('default = "w-1.1"', 'default = "w-twin"'))
    assert "applied w-twin" in call("apply", *where).out


def test_the_catalog_of_the_environment_and_its_folder(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = call("targets", "--catalog", project.targets).out
    assert call("targets", "--catalog", project.targets.parent).out == listed
    for value in (project.targets, project.targets.parent):
        monkeypatch.setenv("PKGTOOLS_CATALOG", str(value))
        assert call("targets", cwd=tmp_path).out == listed
    monkeypatch.setenv("PKGTOOLS_CATALOG", "")
    assert call("targets", cwd=project.targets.parent).out == listed
    other = call("targets", "--catalog", tmp_path)  # an option goes before the variable
    assert other.code == 2
    assert str(tmp_path / "targets.toml") in other.err


def test_the_series_that_a_tree_has_or_the_only_one(project: Project, tmp_path: Path) -> None:
    catalog = project.copy_catalog(tmp_path / "catalog")
    project.install(tmp_path / "site", "1.0")
    wheel = ("--catalog", catalog, "--wheel", project.wheel("1.0"))
    tree = ("--tree", tmp_path / "site", "--catalog", catalog)
    asked = call("new", "more", "-m", "More", *tree)
    assert asked.code == 2
    assert "--series is missing" in asked.err
    assert "w-1.0" in asked.err
    assert call("apply", *tree).code == 0
    core = tmp_path / "site/widget/core.py"
    core.write_text(core.read_text() + "MORE = 1\n")
    made = call("new", "more", "-m", "More", *tree, *wheel[2:])
    assert made.code == 0, made.err
    assert "the series is that of w-1.0" in made.err
    refreshed = call("refresh", *tree, *wheel[2:])
    assert refreshed.code == 0, refreshed.err
    assert (catalog.parent / "patches/widget/v1.0/more.patch").is_file()
    for verb in (("drop", "more.patch"), ("rename", "more.patch", "x"), ("checkout", "w")):
        done = call(*verb, *wheel[: 2 if verb[0] == "rename" else 4])
        assert (done.code, f"`pkgtools {verb[0]} --series w-dev " in done.err) == (2, True)
    text = catalog.read_text()
    first, *blocks = text.split("[[target]]")
    block = next(block for block in blocks if '"w-1.0"' in block)
    catalog.write_text(f"{first}[[target]]{block}".replace('default = "w-1.1"', ""))
    done = call("export", "-o", tmp_path / "diff", *wheel)
    assert done.code == 0, done.err
    assert b"MORE = 1" in (tmp_path / "diff").read_bytes()


@pytest.mark.parametrize("mark", ["pipx_metadata.json", "uv-receipt.toml", ""])
def test_a_tool_means_the_active_environment(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, active = tmp_path / "own", tmp_path / "active"
    own = plain if mark else tmp_path / "uv/archive-v0/eS26QZqJFS9IbIZi"  # of uvx
    for folder in {plain, own, active, tmp_path / "path"}:
        (folder / "bin").mkdir(parents=True)
        (folder / "bin/python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "prefix", str(plain))
    monkeypatch.setenv("VIRTUAL_ENV", str(active))
    assert default_python() == sys.executable  # installed beside the packages, as ever
    monkeypatch.setattr(sys, "prefix", str(own))
    if mark:
        (own / mark).write_text("")
    assert default_python() == str(active / "bin/python")
    monkeypatch.delenv("VIRTUAL_ENV")
    first = (str(own / "bin"), str(tmp_path / "path/bin"), os.environ["PATH"])
    monkeypatch.setenv("PATH", os.pathsep.join(first))  # as uvx sets it
    assert default_python() == str(tmp_path / "path/bin/python")
