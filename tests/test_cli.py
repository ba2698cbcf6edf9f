"""The command line itself: help, errors, JSON, completion, and what it imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import call, python, run

from pkgtools import __version__
from pkgtools.cli import main

if TYPE_CHECKING:
    from project import Project

COMMANDS = sorted(main.list_commands(None))  # type: ignore[arg-type]
GROUPS = {"build": ["wheel"]}
EVERY = [(name,) for name in COMMANDS] + [(g, c) for g, names in GROUPS.items() for c in names]
LEAVES = [words for words in EVERY if words[0] not in GROUPS or len(words) == 2]


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_every_command_has_help_with_examples(words: tuple[str, ...]) -> None:
    text = call(*words, "--help").out
    assert "Examples:" in text
    assert f"  pkgtools {words[0]}" in text.partition("Examples:")[2]


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_every_command_has_json(words: tuple[str, ...]) -> None:
    assert "--json" in call(*words, "--help").out


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_every_example_has_options_that_exist(words: tuple[str, ...]) -> None:
    text = call(*words, "--help").out
    options = text.partition("Options:")[2]
    for line in text.partition("Examples:")[2].partition("Options:")[0].splitlines():
        for word in line.split():
            if word.startswith("--"):
                assert word in options, line


def test_help_lists_every_command_with_a_line() -> None:
    text = call("--help").out
    for name in COMMANDS:
        assert f"\n  {name} " in text
    assert "Exit codes:" in text


def test_version_is_the_packages() -> None:
    assert run("--version").out == f"pkgtools, version {__version__}\n"


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        (["--version"], set()),
        (["--help"], set()),
        (["targets", "--help"], {"msgspec"}),
        (["verify", "--dry-run", "--wheel", "@wheel"], {"msgspec"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_imports_only_what_it_needs(
    project: Project, words: list[str], allowed: set[str]
) -> None:
    code = (
        "import sys\n"
        "from pkgtools.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print()\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    arguments = [str(project.wheel("1.0")) if word == "@wheel" else word for word in words]
    catalog = ["--catalog", str(project.targets)] if "--wheel" in words else []
    loaded = set(python(code, *arguments, *catalog).splitlines()[-1].split())
    heavy = {"docker", "git", "rich", "msgspec", "tomlkit", "unidiff", "filelock", "requests"}
    seen = loaded & heavy
    assert "docker" not in seen
    assert seen - {"filelock", "tomlkit"} <= allowed


def test_a_typing_error_in_a_command_offers_the_nearest() -> None:
    done = call("aply")
    assert done.code == 2
    assert "Did you mean 'apply'?" in done.err


def test_an_empty_tree_is_not_the_current_folder(project: Project) -> None:
    done = call("status", "--catalog", project.targets, "--tree", "")
    assert done.code == 2
    assert "it is empty" in done.err


@pytest.mark.parametrize("words", [["apply", "--nope"], ["aply"], ["apply", "extra"]], ids=" ".join)
def test_with_json_a_usage_error_is_json(words: list[str]) -> None:
    done = run(*words, "--json")
    assert (done.code, done.err) == (2, "")
    assert json.loads(done.out)["error"]["code"] == "usage"


def test_with_json_a_refusal_is_json(project: Project, tmp_path: Path) -> None:
    project.install(tmp_path, "1.1")
    done = run(
        "apply", "--catalog", project.targets, "--target", "w-1.0", "--tree", tmp_path, "--json"
    )
    assert (done.code, done.err) == (3, "")
    error = json.loads(done.out)["error"]
    assert (error["code"], error["remedy"]) == ("does-not-apply", "use --target w-1.1")
    assert error["details"]["nearest"]["target"] == "w-1.1"
    rejection = error["details"]["rejections"][0]
    assert {"patch", "path", "hunk", "stated", "expected", "nearest", "absorbed"} <= set(rejection)


def test_targets_go_on_when_one_is_broken(project: Project, tmp_path: Path) -> None:
    targets = project.copy_catalog(tmp_path / "catalog")
    (targets.parent / "patches" / "widget" / "v1.1" / "lock.toml").unlink()
    done = call("targets", "--catalog", targets)
    assert done.code == 6
    assert "w-1.0" in done.out
    assert "error: w-1.1: " in done.err
    assert "pkgtools lock --target w-1.1" in done.err


def test_an_unlocked_target_is_refused_and_others_work(project: Project, tmp_path: Path) -> None:
    targets = project.copy_catalog(tmp_path / "catalog")
    (targets.parent / "patches" / "widget" / "v1.1" / "lock.toml").unlink()
    project.install(tmp_path / "old", "1.0")
    project.install(tmp_path / "new", "1.1")
    options: list[str | Path] = ["--catalog", targets, "--tree"]
    assert call("apply", "--target", "w-1.0", *options, tmp_path / "old").code == 0
    assert call("status", *options, tmp_path / "old").code == 0
    done = call("apply", "--target", "w-1.1", *options, tmp_path / "new")
    assert done.code == 6
    assert "was never proven" in done.err


def test_completion_knows_commands_and_targets(project: Project) -> None:
    assert "apply" in _complete("pkgtools ap", 1)
    words = f"pkgtools apply --catalog {project.targets} --target w-d"
    assert _complete(words, 5) == ["w-dev", "w-dev-base", "w-dev-short"]


def _complete(words: str, at: int) -> list[str]:
    done = run(
        env={"_PKGTOOLS_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(at)}
    )
    return [line.partition(",")[2] for line in done.out.splitlines()]


def test_a_venv_or_a_wheel_given_as_a_tree_says_what_to_give(
    project: Project, tmp_path: Path
) -> None:
    (tmp_path / "pyvenv.cfg").write_text("")
    done = call("status", "--catalog", project.targets, "--tree", tmp_path)
    assert f"--python {tmp_path / 'bin' / 'python'}" in done.err
    done = call("status", "--catalog", project.targets, "--tree", project.wheel("1.0"))
    assert "--wheel" in done.err
    done = call("status", "--catalog", project.targets, "--python", tmp_path)
    assert f"--python {tmp_path / 'bin' / 'python'}" in done.err


def test_a_note_says_that_an_alias_was_not_validated(project: Project, tmp_path: Path) -> None:
    project.write_archive(tmp_path / "tree", "dev")
    done = call(
        "apply",
        "--catalog",
        project.targets,
        "--target",
        "w-dev-short",
        "--tree",
        tmp_path / "tree",
    )
    assert done.code == 0
    assert "w-dev-short was not validated" in done.err


def test_the_command_and_the_module_are_one() -> None:
    script = Path(sys.executable).with_name("pkgtools")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == run("--version").out
