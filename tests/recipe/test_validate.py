"""The steps that need no running deployment, their order, and the report."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest
from commands import call
from recipes import SITE, Variant, write_variant

from pkgtools.recipe.validate import STEPS

if TYPE_CHECKING:
    from pathlib import Path

    from commands import Result
    from project import Project


def _variant(folder: Path, edits: dict[str, str] | None = None) -> Variant:
    return write_variant(
        folder, {'target = "kimi-k3-ee560a2"': 'target = "w-1.0"', **(edits or {})}
    )


def _validate(
    project: Project, variant: Variant, tree: Path, up_to: str, *more: str | Path
) -> Result:
    return call(
        *("recipe", "validate", variant.recipe, "--site", variant.site, "--up-to", up_to),
        *("--tree", tree, "--catalog", project.targets, *more),
    )


def test_the_order() -> None:
    assert list(STEPS) == ["plan", "patches", "artifacts", "store", "server", "sample", "update"]


@pytest.mark.parametrize("state", ["pristine", "patched"])
def test_the_plan_and_the_patches(project: Project, tmp_path: Path, state: str) -> None:
    site = project.install(tmp_path / "site").parent
    if state == "patched":
        applied = call("apply", "-t", "w-1.0", "--tree", site, "--catalog", project.targets)
        assert applied.code == 0
    variant, report = _variant(tmp_path), tmp_path / "report.json"
    done = _validate(project, variant, site, "patches", "--report", report, "--json")
    assert done.code == 0, done
    facts = done.facts
    assert json.loads(report.read_text()) == facts
    assert facts["recipe"] == "kimi-k3-capture"
    assert facts["files"] == {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (variant.recipe, variant.site)
    }
    assert (facts["passed"], facts["left"], facts["up_to"]) == (True, [], "patches")
    plan, patches = facts["steps"]
    assert {f["outcome"] for f in plan["evidence"]["findings"]} == {"ok"}
    assert patches["evidence"]["state"] == ("applies" if state == "pristine" else "patched")
    assert patches["evidence"]["series"] == project.catalog().target("w-1.0").series.digest


def test_a_broken_plan_stops_all(project: Project, tmp_path: Path) -> None:
    variant = _variant(tmp_path, {"size = -1": "size = 4096"})
    report = tmp_path / "report.json"
    done = _validate(project, variant, tmp_path, "update", "--report", report)
    assert done.code == 8
    assert "failed plan" in done.out
    assert "it has to be -1" in done.out
    assert "left   update" in done.out
    facts = json.loads(report.read_text())
    assert facts["left"] == list(STEPS)
    assert facts["steps"][0]["evidence"]["findings"]


def test_a_site_that_has_yet_to_speak(project: Project, tmp_path: Path) -> None:
    variant = _variant(tmp_path)
    variant.site.write_text(SITE.read_text().replace("[link]\ngigabits_per_second = 10.0\n", ""))
    done = _validate(project, variant, tmp_path, "plan", "--json")
    assert done.code == 8
    (step,) = done.facts["steps"]
    assert step["evidence"] == {"missing": ["link.gigabits_per_second"]}


def test_trees_that_are_refused(project: Project, tmp_path: Path) -> None:
    variant = _variant(tmp_path)
    edited = project.install(tmp_path / "edited").parent
    (edited / "widget/answer.py").write_text("mine\n")
    for tree, message in (
        (project.install(tmp_path / "newer", "1.1").parent, "w-1.0 does not apply"),
        (edited, "is not a revision that the catalog knows"),
        (tmp_path / "nowhere", "nowhere"),
    ):
        done = _validate(project, variant, tree, "artifacts", "--json")
        assert done.code == 8
        assert [s["passed"] for s in done.facts["steps"]] == [True, False]
        assert message in done.facts["steps"][1]["message"]


def test_a_target_that_is_not_there(project: Project, tmp_path: Path) -> None:
    variant = write_variant(tmp_path, {})
    done = _validate(project, variant, tmp_path, "patches", "--json")
    assert done.code == 8
    assert "there is no target 'kimi-k3-ee560a2'" in done.facts["steps"][1]["message"]


def test_artifacts_that_are_not_there(project: Project, tmp_path: Path) -> None:
    site = project.install(tmp_path / "site").parent
    done = _validate(project, _variant(tmp_path), site, "sample", "--json")
    assert done.code == 8
    assert [s["step"] for s in done.facts["steps"]] == ["plan", "patches", "artifacts"]
    assert "model not found: /srv/models/kimi-k3" in done.facts["steps"][2]["message"]
    assert done.facts["left"] == ["artifacts", "store", "server", "sample"]


def test_an_artifact_that_cannot_be_read_fails_its_step(project: Project, tmp_path: Path) -> None:
    """The evidence of the steps before it is kept all the same."""
    model = tmp_path / "model"
    (model / ".cache/huggingface/download/config.json.metadata").mkdir(parents=True)
    variant = _variant(tmp_path, {'path = "/srv/models/kimi-k3"': f'path = "{model}"'})
    site, report = project.install(tmp_path / "site").parent, tmp_path / "report.json"
    done = _validate(project, variant, site, "artifacts", "--report", report)
    assert done.code == 8
    steps = json.loads(report.read_text())["steps"]
    assert [step["passed"] for step in steps] == [True, True, False]
    assert "config.json.metadata: Is a directory" in steps[2]["message"]


def test_what_a_file_says_is_printed_with_nothing_that_a_terminal_acts_on(
    project: Project, tmp_path: Path
) -> None:
    records = tmp_path / "model/.cache/huggingface/download"
    records.mkdir(parents=True)
    (records / "config.json.metadata").write_text("\x1b[2Jcdd2e49\n")
    edits = {'path = "/srv/models/kimi-k3"': f'path = "{tmp_path / "model"}"'}
    site = project.install(tmp_path / "site").parent
    done = _validate(project, _variant(tmp_path, edits), site, "artifacts")
    assert done.code == 8
    assert r"the folder names \u001b[2Jcdd2e49" in done.out
    assert "\x1b" not in done.out


def test_a_tree_and_an_image_are_two_things(project: Project, tmp_path: Path) -> None:
    done = _validate(project, _variant(tmp_path), tmp_path, "plan", "--image")
    assert done.code == 2
    assert "--image and --tree" in done.err


def test_evidence_that_cannot_be_written_is_refused_before_the_first_step(
    project: Project, tmp_path: Path
) -> None:
    """The plan, which does not hold, would fail next."""
    variant = _variant(tmp_path, {"size = -1": "size = 4096"})
    (tmp_path / "folder").mkdir()
    done = _validate(project, variant, tmp_path, "plan", "--report", tmp_path / "folder")
    assert "folder cannot be written: it is a folder" in done.err
