"""`init` ends with a catalog that works: targets, apply, new, lock and reverse come next."""

from __future__ import annotations

import re
import shlex
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from commands import Result, call
from trees import snapshot

from pkgtools.catalog import load_catalog
from pkgtools.cli import init as init_module
from pkgtools.cli import main

if TYPE_CHECKING:
    from project import Project


@pytest.fixture
def site(project: Project, tmp_path: Path) -> Path:
    project.install(tmp_path / "site")
    return tmp_path / "site"


@pytest.fixture
def python(site: Path, tmp_path: Path) -> Path:
    """Return an interpreter that has the package installed."""
    path = tmp_path / "python"
    words = f"PYTHONPATH={shlex.quote(str(site))} exec python3"
    path.write_text(f'#!/bin/sh\n{words} "$@"\n')
    path.chmod(0o755)
    return path


def _next(done: Result) -> list[str]:
    """Return the words of the command that an output names as the next one."""
    line = next(line for line in done.out.splitlines() if "next: " in line)
    return shlex.split(line.partition("`pkgtools ")[2].partition("`")[0])


def test_from_nothing_to_an_applied_patch(
    project: Project, site: Path, python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command is the one that the one before it names."""
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    started = call("init", "widget-kit", "--python", python)
    assert started.code == 0, started.err
    catalog = load_catalog(Path("targets.toml"))
    assert re.fullmatch(r"widget-kit-[0-9a-f]{8}", str(catalog.name))
    (target,) = catalog.targets
    assert (target.name, target.revision.version) == ("v1.0", "1.0")
    assert (target.upstream.package, target.upstream.git) == ("widget", None)
    assert call("targets").code == 0
    for verb in ("apply", "verify", "status", "reverse"):
        assert call(verb, "--python", python).code == 0, verb
    before = snapshot(site)
    answer = site / "widget" / "answer.py"
    answer.write_text(answer.read_text().replace("41", "42"))
    wheel = ["--wheel", str(project.wheel("1.0"))]
    made = call(*_next(started), *wheel)
    assert made.code == 0, made.err
    locked = call(*_next(made))
    assert locked.code == 0, locked.err
    adopt = made.out.partition("then: `pkgtools ")[2].partition("`")[0]
    assert call(*shlex.split(adopt)).code == 0
    assert call("verify", "--python", python).code == 0
    assert call("reverse", "--python", python).code == 0
    assert answer.read_bytes() == before["widget/answer.py"].data


def test_two_catalogs_of_a_package_differ(project: Project, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        assert call("init", "--wheel", project.wheel("1.1"), "-o", tmp_path / folder).code == 0
    names = {load_catalog(tmp_path / folder / "targets.toml").name for folder in ("one", "two")}
    assert len(names - {None}) == 2


def test_a_wheel_says_it_all(project: Project, tmp_path: Path) -> None:
    words: list[str | Path] = [
        "init",
        "--wheel",
        project.wheel("1.1"),
        "-o",
        tmp_path / "new",
        "--json",
    ]
    git = ["--git", "https://git.example.invalid/widget", "--prefix", "src"]
    facts = call(*words, *git).facts
    assert (facts["target"], facts["tag"], facts["package"]) == ("v1.1", "v1.1", "widget")
    upstream = load_catalog(tmp_path / "new" / "targets.toml").upstreams[0]
    assert (upstream.git, upstream.prefix) == ("https://git.example.invalid/widget", "src/")
    locked = call("lock", "--check", "--catalog", tmp_path / "new", "--git", project.repository)
    assert locked.code == 0, locked.err


def test_questions_are_asked_on_a_terminal_alone(
    python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = call("init", "--python", python)
    assert (refused.code, list(tmp_path.glob("targets.toml"))) == (2, [])
    assert "next: name it" in refused.err
    monkeypatch.setattr(init_module, "is_terminal", lambda: True)
    answers = "widget-kit\n\nhttps://git.example.invalid/w\nrelease-1.0\nsrc\n"
    done = CliRunner().invoke(main, ["init", "--python", str(python)], input=answers)
    assert done.exit_code == 0, done.output
    target = load_catalog(tmp_path / "targets.toml").target("v1.0")
    assert (target.revision.tag, target.upstream.prefix) == ("release-1.0", "src/")


@pytest.mark.parametrize("name", ["\n x = 1", "../../x", 'x"', "x y"])
def test_a_wheel_of_no_name_writes_nothing(tmp_path: Path, name: str) -> None:
    wheel = tmp_path / "x-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("x/__init__.py", "")
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        file.writestr("x-1.0.dist-info/METADATA", metadata)
    done = call("init", "--wheel", wheel, "-o", tmp_path / "new")
    assert (done.code, "is not the name of a package" in done.err) == (2, True), done
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("words", "code", "message", "remedy"),
    [
        (["nothing-of-this-name"], 2, "is not installed", "--version"),
        (["widget\nkit", "--version", "1.0"], 2, "is not the name of a package", "as on PyPI"),
        (["widget-kit", "--version", "one"], 2, "is not a version", "1.2.3"),
        (["widget-kit", "--version", "99.9"], 8, "could not download a wheel", "--wheel"),
        (["widget-kit", "--import", "a b"], 2, "not an import package", "correct the option"),
        (["widget-kit", "--prefix", "../x"], 2, "a prefix is a relative path", "correct"),
        (["widget-kit", "-o", "file"], 7, "is not a folder", "-o"),
        (["widget-kit", "-o", "taken"], 2, "exists already", "pkgtools targets"),
    ],
)
def test_what_cannot_be_started_is_refused_and_nothing_written(
    python: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    code: int,
    message: str,
    remedy: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (tmp_path / "file").touch()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "targets.toml").touch()
    before = snapshot(tmp_path)
    done = call("init", *words, "--python", python, "--json")
    assert done.code == code, done.out
    assert message in done.facts["error"]["message"]
    assert remedy in done.facts["error"]["remedy"]
    assert snapshot(tmp_path) == before


def test_a_distribution_of_one_module_is_known_by_it(project: Project, tmp_path: Path) -> None:
    record = project.install(tmp_path / "site") / "RECORD"
    record.write_text("six.py,,\nwidget_kit-1.0.dist-info/RECORD,,\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path / "site"} exec python3 "$@"\n')
    python.chmod(0o755)
    done = call("init", "widget-kit", "--python", python, "-o", tmp_path / "new")
    assert done.code == 0, done.err
    assert 'package = "six"' in (tmp_path / "new" / "targets.toml").read_text()


def test_another_release_is_not_the_target(project: Project, tmp_path: Path) -> None:
    """A series without patches has no file to tell releases apart; the version does."""
    assert call("init", "--wheel", project.wheel("1.0"), "-o", tmp_path / "new").code == 0
    project.install(tmp_path / "site", "1.1")
    where: list[str | Path] = ["--tree", tmp_path / "site", "--catalog", tmp_path / "new"]
    for verb in ("apply", "verify"):
        done = call(verb, "--target", "v1.0", *where)
        assert done.code == 5, done.err
        assert "its version is 1.1" in done.err


def test_import_fills_the_series(project: Project, tmp_path: Path) -> None:
    catalog = tmp_path / "new"
    words: list[str | Path] = [
        "init",
        "--wheel",
        project.wheel("1.0"),
        "--prefix",
        "src",
        "-o",
        catalog,
    ]
    assert call(*words).code == 0
    series = load_catalog(catalog / "targets.toml").target("v1.0").directory
    given = project.targets.parent / "patches" / "widget" / "v1.0"
    done = call("import", given, "-o", series, "--catalog", catalog)
    assert done.code == 0, done.err
    wheel: list[str | Path] = ["--wheel", project.wheel("1.0")]
    assert call("lock", "--catalog", catalog, *wheel).code == 0
    again = call("import", given, "-o", series, "--catalog", catalog)
    assert (again.code, "exists already" in again.err) == (2, True)
