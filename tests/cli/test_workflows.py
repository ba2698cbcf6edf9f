"""The workflows: valid, safe, and run as a runner runs their steps."""

from __future__ import annotations

import importlib.resources
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema.validators
import pytest
import yaml
from commands import tool
from project import git
from ruamel.yaml import YAML
from small import MERGED, stale

if TYPE_CHECKING:
    from small import Small

ROOT = Path(__file__).resolve().parent.parent.parent
WORKFLOWS = ".github/workflows"


def test_no_input_becomes_code_and_strangers_actions_are_pinned() -> None:
    done = subprocess.run(
        [tool("zizmor"), "--offline", "--no-progress", WORKFLOWS, "action.yml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", sorted((ROOT / WORKFLOWS).glob("*.yml"))),
        ("github-actions", [ROOT / "action.yml"]),
        ("gitlab-ci", [ROOT / "examples" / "gitlab-ci.yml"]),
    ],
)
def test_files_fit_their_published_schema(schema: str, files: list[Path]) -> None:
    assert files
    folder = importlib.resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    published = json.loads((folder / f"{schema}.json").read_text())
    validator = jsonschema.validators.validator_for(published)(published)
    for path in files:
        # YAML 1.2: `on` is a text.
        validator.validate(YAML(typ="safe").load(path))


GH = """\
#!/bin/sh
echo "$*" >>"$RUNNER_TEMP/gh-calls"
case "$1 $2" in "pr list"|"issue list") cat "$RUNNER_TEMP/known" 2>/dev/null;; esac
exit 0
"""


class Runner:
    """Runs the scripts of the upgrade workflow in a clone of a catalog's repository."""

    def __init__(self, small: Small, folder: Path) -> None:
        self._wheels = sorted((small.root / "wheels").iterdir())
        self.origin, self.clone, self.temp = folder / "origin", folder / "clone", folder / "temp"
        git(folder, "clone", "--quiet", "--bare", str(small.catalog.parent), str(self.origin))
        self.temp.mkdir()
        programs = {"gh": GH, "pkgtools": self._pkgtools()}
        for name, script in programs.items():
            (self.temp / name).write_text(script)
            (self.temp / name).chmod(0o755)

    def _pkgtools(self) -> str:
        """Return a program that finds releases in the wheels alone."""
        wheels = " ".join(f"--wheel {path}" for path in self._wheels)
        code = (
            "import sys; import pkgtools.port.route as route; from pkgtools.cli import run; "
            "route.released_versions = lambda _: []; run()"
        )
        return f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@" {wheels}\n'

    def run(self, **inputs: str) -> tuple[int, str, dict[str, str]]:
        """Run the job; return its exit code, what it printed, and the outputs of its steps."""
        git(self.temp, "clone", "--quiet", str(self.origin), str(self.clone))
        workflow = yaml.safe_load((ROOT / WORKFLOWS / "upgrade.yml").read_text())
        # YAML 1.1 reads the key `on` as true.
        given = {k: v["default"] for k, v in workflow[True]["workflow_call"]["inputs"].items()}
        given |= inputs
        outputs: dict[str, str] = {}
        printed = ""
        for step in workflow["jobs"]["upgrade"]["steps"][3:]:
            if "if" in step and not self._holds(step["if"], outputs):
                continue
            code, text = self._step(step, given, outputs)
            printed += text
            if code:
                return code, printed, outputs
        return 0, printed, outputs

    @staticmethod
    def _holds(condition: str, outputs: dict[str, str]) -> bool:
        match = re.fullmatch(
            r"contains\(fromJSON\('(.*)'\), steps\.upgrade\.outputs\.outcome\)", condition
        )
        assert match
        return outputs["outcome"] in json.loads(match[1])

    def _step(
        self, step: dict[str, Any], inputs: dict[str, str], outputs: dict[str, str]
    ) -> tuple[int, str]:
        values = {f"inputs.{k}": v for k, v in inputs.items()} | {"github.token": "t"}
        values |= {f"steps.upgrade.outputs.{k}": v for k, v in outputs.items()}
        environment = {
            name: re.sub(r"\$\{\{ (.*?) \}\}", lambda m: values[m[1]], value)
            for name, value in step["env"].items()
        }
        files = {n: str(self.temp / n) for n in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        done = subprocess.run(
            ["bash", "-e", "-c", step["run"]],  # as a runner does where no shell is named
            cwd=self.clone,
            env={
                **os.environ,
                **environment,
                **files,
                "RUNNER_TEMP": str(self.temp),
                "PATH": f"{self.temp}:{os.environ['PATH']}",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        if (self.temp / "GITHUB_OUTPUT").exists():
            lines = (self.temp / "GITHUB_OUTPUT").read_text().splitlines()
            outputs |= dict(line.split("=", 1) for line in lines)
        return done.returncode, done.stdout + done.stderr

    @property
    def asked(self) -> list[str]:
        """What was asked of gh."""
        path = self.temp / "gh-calls"
        return path.read_text().splitlines() if path.exists() else []


def test_the_upgrade_workflow_opens_a_pull_request(tmp_path: Path) -> None:
    runner = Runner(stale(tmp_path, MERGED), tmp_path)
    code, printed, outputs = runner.run(check="true")
    assert code == 0, printed
    assert outputs == {"outcome": "upgraded", "title": "widget-kit 1.2"}
    branch = "upgrade/widget-kit-1.2"
    made = git(runner.origin, "show", "--stat", "--format=%an %s", branch)
    assert made.startswith("github-actions[bot] Port the series to widget-kit 1.2")
    assert "patches/widget/v1.2/lock.toml" in made
    (create,) = (line for line in runner.asked if line.startswith("pr create"))
    assert create.startswith(f"pr create --head {branch} --title widget-kit 1.2 --body-file ")
    assert "--draft" not in create
    text = (runner.temp / "text.md").read_text()
    assert text.startswith("The series of `one` on [widget-kit 1.2]")
    assert (runner.temp / "GITHUB_STEP_SUMMARY").read_text() == text


def test_the_upgrade_workflow_leaves_a_branch_that_a_person_pushed_to(tmp_path: Path) -> None:
    runner = Runner(stale(tmp_path, MERGED), tmp_path)
    git(tmp_path, "clone", "--quiet", str(runner.origin), "theirs")
    branch = "upgrade/widget-kit-1.2"
    theirs = tmp_path / "theirs"
    git(theirs, "switch", "--quiet", "--create", branch)
    git(theirs, "commit", "--quiet", "--allow-empty", "--message", "mine")
    git(theirs, "push", "--quiet", "origin", branch)
    code, printed, _ = runner.run()
    assert code == 0, printed
    assert git(runner.origin, "log", "-1", "--format=%s", branch).strip() == "mine"
    assert runner.asked == ["auth setup-git"]


def test_the_upgrade_workflow_tells_a_conflict_in_an_issue(tmp_path: Path) -> None:
    runner = Runner(stale(tmp_path, "OTHER = 1\n"), tmp_path)
    code, printed, outputs = runner.run()
    assert (code, outputs["outcome"]) == (0, "conflict"), printed
    assert git(runner.origin, "branch", "--list", "upgrade/*") == ""
    assert runner.asked[-1].startswith("issue create --title widget-kit 1.2 --body-file ")
    assert "- [ ] decide `0002-fields-one-more.patch`" in (runner.temp / "text.md").read_text()


def test_the_catalog_workflow_checks_lockfiles_and_the_changelog(tmp_path: Path) -> None:
    """Also where the first check fails, the second one runs."""
    small = stale(tmp_path)
    catalog, wheel = small.catalog.parent, small.wheel("1.0")
    program = tmp_path / "bin/pkgtools"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\n[ "$1" != lock ] || set -- "$@" --wheel {wheel}\n'
        f'exec {sys.executable} -m pkgtools "$@"\n'
    )
    program.chmod(0o755)
    job = yaml.safe_load((ROOT / WORKFLOWS / "catalog.yml").read_text())["jobs"]["check"]

    def check() -> list[tuple[int, str]]:
        found = []
        for step in job["steps"][3:]:
            assert step["env"] == {"PKGTOOLS_CATALOG": "${{ inputs.catalog }}"}
            done = subprocess.run(
                ["bash", "-e", "-c", step["run"]],
                cwd=catalog,
                env={
                    **os.environ,
                    "PKGTOOLS_CATALOG": "targets.toml",
                    "PATH": f"{program.parent}:{os.environ['PATH']}",
                },
                capture_output=True,
                text=True,
                check=False,
            )
            found.append((done.returncode, done.stdout + done.stderr))
        return found

    assert [code for code, _ in check()] == [0, 0]
    patch = next(small.series.glob("0001-*.patch"))
    patch.write_text(patch.read_text().replace("+LINE_15 = 0", "+LINE_15 = 1"))
    (catalog / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n")
    (locked, lock), (logged, log) = check()
    assert (locked, logged) == (6, 8)
    assert lock.startswith("::error file=patches/widget/one/")
    assert log.startswith("::error file=CHANGELOG.md")
    assert job["steps"][4]["if"] == "${{ !cancelled() }}"


CURL = """\
#!/bin/sh
for word in "$@"; do echo "$word"; done >"$RUNNER_TEMP/curl-calls"
"""


@pytest.mark.parametrize(("last", "code"), [(MERGED, 0), ("OTHER = 1\n", 3)])
def test_the_gitlab_job_opens_a_merge_request(last: str, code: int, tmp_path: Path) -> None:
    runner = Runner(stale(tmp_path, last), tmp_path)
    git(tmp_path, "clone", "--quiet", str(runner.origin), str(runner.clone))
    (runner.temp / "curl").write_text(CURL)
    (runner.temp / "curl").chmod(0o755)
    job = YAML(typ="safe").load(ROOT / "examples" / "gitlab-ci.yml")["upgrade"]
    project = {
        "CI_SERVER_HOST": "gitlab.invalid",
        "CI_PROJECT_PATH": "acme/catalog",
        "CI_PROJECT_ID": "7",
        "CI_API_V4_URL": "https://gitlab.invalid/api/v4",
        "CI_DEFAULT_BRANCH": "main",
        "CI_BUILDS_DIR": str(runner.temp),
        "UPGRADE_TOKEN": "secret",
    }
    pushed = "https://upgrade:secret@gitlab.invalid/acme/catalog.git"
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", "\n".join(job["script"])],
        cwd=runner.clone,
        env={
            **os.environ,
            **project,
            "RUNNER_TEMP": str(runner.temp),
            "PATH": f"{runner.temp}:{os.environ['PATH']}",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.{runner.origin}.insteadOf",
            "GIT_CONFIG_VALUE_0": pushed,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    made = git(runner.origin, "branch", "--list", "--format=%(refname:short)", "upgrade/*")
    assert made.split() == ([] if code else ["upgrade/widget-kit-1.2"])
    calls = runner.temp / "curl-calls"
    assert calls.exists() == (code == 0)
    if code == 0:
        asked = calls.read_text().splitlines()
        assert asked[-1] == "https://gitlab.invalid/api/v4/projects/7/merge_requests"
        assert f"description@{runner.temp}/text.md" in asked
        assert (runner.temp / "text.md").read_text().startswith("The series of `one` on ")
        names = git(runner.origin, "show", "--name-only", "--format=", "upgrade/widget-kit-1.2")
        assert "upgrade.json" not in names
