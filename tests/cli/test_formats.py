"""Checks in the formats of continuous integration, the action, and the hooks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from commands import call
from image.building import SYSTEM, write_base
from image.images import installed_entries
from project import build_wheel, git, substitute
from sarif_pydantic import Sarif

from pkgtools.cli.findings import Finding, _annotation, junit
from pkgtools.cli.image import _report
from pkgtools.image.checks import CheckResult

if TYPE_CHECKING:
    from commands import Result
    from project import Project

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def ours(project: Project, tmp_path: Path) -> Path:
    """Commit the catalog to a repository, in a folder."""
    targets = project.copy_catalog(tmp_path / "repository" / "ours")
    git(tmp_path / "repository", "init", "--quiet")
    git(tmp_path / "repository", "add", "--all")
    git(tmp_path / "repository", "commit", "--quiet", "--message", "all")
    return targets


def dry_run(targets: Path, kind: str, wheel: Path) -> Result:
    return call(
        *("verify", "--dry-run", "--target", "w-1.0", "--format", kind),
        *("--wheel", str(wheel), "--catalog", str(targets)),
    )


def test_json_is_json(project: Project, ours: Path) -> None:
    done = dry_run(ours, "json", project.wheel("1.0"))
    assert [v["outcome"] for v in done.facts] == ["applies"]


FILE = "ours/patches/widget/v1.0/0001-answer-the-right-one.patch"


@pytest.fixture
def foreign(project: Project, tmp_path: Path) -> Path:
    """Build a wheel of 1.0 with another line where the first patch of w-1.0 changes one."""
    files = dict(project.releases["1.0"])
    substitute("src/widget/answer.py", b"ANSWER = 41", b"ANSWER = 40")(files)
    return build_wheel(tmp_path / "foreign", files, "1.0")


def test_github_has_the_line_of_the_patch(ours: Path, foreign: Path) -> None:
    text = dry_run(ours, "text", foreign)
    done = dry_run(ours, "github", foreign)
    assert done.code == text.code != 0
    (line,) = done.out.splitlines()
    match = re.fullmatch(r"::error file=(.*),line=(\d+),title=(.*?)::(.*)", line)
    assert match is not None
    assert match[1] == FILE
    shown = (ours.parent.parent / FILE).read_text().splitlines()[int(match[2]) - 1]
    assert shown.startswith("@@ ")
    assert "src/widget/answer.py: hunk 1 matches nowhere" in match[4]


def test_github_says_nothing_of_what_holds(project: Project, ours: Path) -> None:
    done = dry_run(ours, "github", project.wheel("1.0"))
    assert (done.code, done.out.strip()) == (0, "")


def test_annotations_are_escaped() -> None:
    made = _annotation(Finding("a,b:c", "x", "50%\r\nnext ::error::", file="f,1:2", line=3))
    assert made == "::error file=f%2C1%3A2,line=3,title=a%2Cb%3Ac::50%25%0D%0Anext ::error::\n"


def test_junit(project: Project, ours: Path, foreign: Path) -> None:
    done = dry_run(ours, "junit", project.wheel("1.0"))
    suite = ET.fromstring(done.out).find("testsuite")  # noqa: S314 - our own
    assert suite is not None
    assert suite.attrib == {
        "name": "pkgtools verify",
        "tests": "1",
        "failures": "0",
        "skipped": "0",
    }
    done = dry_run(ours, "junit", foreign)
    assert done.code != 0
    suite = ET.fromstring(done.out).find("testsuite")  # noqa: S314
    assert suite is not None
    assert suite.attrib["failures"] == "1"
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert FILE in (failure.text or "")


def test_junit_is_xml_whatever_a_file_says() -> None:
    found = Finding("n\0<&", "x", "\x1b[31m <b> \ud800 &amp;")
    suite = ET.fromstring(junit("verify", [found])).find("testsuite")  # noqa: S314
    assert suite is not None
    case = suite.find("testcase")
    assert case is not None
    assert case.attrib["name"] == "n\ufffd<&"


def test_report_of_an_image_is_xml_whatever_its_checks_say() -> None:
    checks = [CheckResult("n\x1b[1m", None, 0.5), CheckResult("b", "no\0", 1, "do it")]
    suites = ET.fromstring(_report("img", checks))  # noqa: S314 - our own
    assert [(case.get("name"), case.get("time")) for case in suites.iter("testcase")] == [
        ("img: n\ufffd[1m", "0.500"),
        ("img: b", "1.000"),
    ]
    assert [failure.text for failure in suites.iter("failure")] == ["no\ufffd\ndo it"]


def sarif(text: str) -> list[dict[str, Any]]:
    """Return the results of a log that has what SARIF 2.1.0 and GitHub require."""
    Sarif.model_validate_json(text)
    log = json.loads(text)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    for result in run["results"]:
        assert result["ruleId"] in rules
        assert result["level"] in ("error", "warning")
        assert result["message"]["text"]
        (location,) = result["locations"]
        uri = location["physicalLocation"]["artifactLocation"]["uri"]
        assert uri
        assert not uri.startswith("/")
    results: list[dict[str, Any]] = run["results"]
    return results


def test_sarif(project: Project, ours: Path, foreign: Path) -> None:
    assert sarif(dry_run(ours, "sarif", project.wheel("1.0")).out) == []
    (result,) = sarif(dry_run(ours, "sarif", foreign).out)
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == FILE
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] > 1


def test_a_missing_source_is_a_warning(project: Project, ours: Path) -> None:
    done = call(
        *("lock", "--check", "--target", "w-dev", "--allow-missing", "--format", "sarif"),
        *("--catalog", str(ours), "--wheel", str(project.wheel("1.0"))),
    )
    assert done.code == 0, done.err
    assert {result["level"] for result in sarif(done.out)} == {"warning"}


def test_every_fault_of_a_changelog_has_its_place(ours: Path) -> None:
    changelog = ours.with_name("CHANGELOG.md")
    changelog.write_text("# Changelog\n\n## Unreleased\n\n- `w-1.0`: TBD\n")
    done = call("changelog", "check", "--format", "github", "--catalog", ours)
    assert done.code == 8
    lines = done.out.splitlines()
    assert len(lines) > 1
    assert all(line.startswith("::error file=ours/CHANGELOG.md,") for line in lines)
    assert any("file=ours/CHANGELOG.md,line=5," in line for line in lines)


def test_a_malformed_series_has_its_place(ours: Path) -> None:
    series = ours.parent / "patches/widget/v1.0/series"
    series.write_text(f"{series.read_text()}none.patch\n")
    done = call("lock", "--check", "--target", "w-1.0", "--format", "github", "--catalog", ours)
    assert done.code == 6
    assert done.out.startswith("::error file=ours/")


def _action(project: Project, targets: Path, tmp_path: Path, **inputs: str) -> Result:
    """Run the last step of the action as a runner does."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    assert action["runs"]["using"] == "composite"
    step = action["runs"]["steps"][-1]
    given = {name: str(value.get("default", "")) for name, value in action["inputs"].items()}
    given |= {"catalog": str(targets), "wheel": str(project.wheel("1.0")), **inputs}
    assert set(inputs) <= set(action["inputs"])
    environment = {
        name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda m: given[m[1]], value)
        for name, value in step["env"].items()
    }
    tool = tmp_path / "runner/pkgtools/bin/pkgtools"
    tool.parent.mkdir(parents=True)
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} -m pkgtools "$@"\n')
    tool.chmod(0o755)
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        env={**os.environ, **environment, "RUNNER_TEMP": str(tmp_path / "runner")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    from commands import Result as Done  # noqa: PLC0415 - a type elsewhere

    return Done(done.returncode, done.stdout, done.stderr)


def test_the_action_verifies(project: Project, ours: Path, foreign: Path, tmp_path: Path) -> None:
    done = _action(project, ours, tmp_path, command="verify", target="w-1.0", wheel=str(foreign))
    assert done.code != 0
    assert f"::error file={FILE}," in done.out


def test_the_action_builds_a_wheel(project: Project, ours: Path, tmp_path: Path) -> None:
    done = _action(project, ours, tmp_path, command="build wheel", target="w-1.0", attest="attest")
    assert done.code == 0, done.err
    assert len(list((tmp_path / "dist").glob("*.whl"))) == 1
    assert len(list((tmp_path / "attest").iterdir())) == 2


def test_the_action_builds_an_image(
    project: Project, ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    widget = installed_entries(project, tmp_path / "installed")
    base = write_base(tmp_path / "layout", [SYSTEM, widget])
    inputs = {"base": base, "tag": f"{base}-patched", "attest": "attest"}
    done = _action(project, ours, tmp_path, command="build image", target="w-1.0", **inputs)
    assert done.code == 0, done.err
    assert len(list((tmp_path / "attest").iterdir())) == 2
    inspected = call("image", "inspect", f"{base}-patched", "--catalog", ours, "--json")
    assert (inspected.code, inspected.facts["status"]["state"]) == (0, "patched")


def test_the_action_refuses_another_command(project: Project, ours: Path, tmp_path: Path) -> None:
    done = _action(project, ours, tmp_path, command="apply; touch it")
    assert done.code == 2
    assert not (tmp_path / "it").exists()


def test_the_hooks_check_the_catalog_of_the_repository(ours: Path, tmp_path: Path) -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    files = [p.relative_to(ours.parent).as_posix() for p in ours.parent.rglob("*.patch")]
    for hook in hooks:
        assert {"id", "name", "entry", "language"} <= set(hook)
        assert all(re.search(hook["files"], name) for name in ["targets.toml", *files])
    commands = {hook["id"]: [*hook["entry"].split()[1:], *hook["args"]] for hook in hooks}
    assert {hook["entry"].split()[0] for hook in hooks} == {"pkgtools"}
    (tmp_path / "empty").mkdir()
    for words in commands.values():
        refused = call(*words, cwd=tmp_path / "empty")
        assert (refused.code, "targets.toml is not" in refused.err) == (2, True), words
    assert call(*commands["pkgtools-series"], cwd=ours.parent).code == 0
    patch = next(ours.parent.rglob("0001-*.patch"))
    patch.write_text(patch.read_text().replace("+ANSWER = 42", "+ANSWER = 43"))
    for name in ("pkgtools-series", "pkgtools-lock"):
        assert call(*commands[name], cwd=ours.parent).code == 6
