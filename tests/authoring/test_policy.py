"""The policy of a catalog, and the pages that show what patches say about themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from commands import call
from project import lock_all

if TYPE_CHECKING:
    from pathlib import Path

    from commands import Result
    from project import Project


def changed(project: Project, where: Path, policy: str, headers: str) -> Path:
    """Copy the catalog with a policy, and other headers in the first patch of each series."""
    targets = project.copy_catalog(where)
    text = targets.read_text()
    targets.write_text(text.replace("[[upstream]]", f"{policy}\n[[upstream]]", 1))
    for path in (targets.parent / "patches/widget").glob("*/0001*"):
        path.write_text(path.read_text().replace("Upstream-Status: Pending\n", headers))
    lock_all(targets, project.repository, project)
    return targets


def check(project: Project, targets: Path, *more: str) -> Result:
    source = ("--wheel", project.wheel("1.0"), "--catalog", targets)
    return call("lock", "--check", "--target", "w-1.0", *source, *more)


@pytest.mark.parametrize(
    ("names", "headers", "faults"),
    [
        ('"Upstream-Status"', "Upstream-Status: Pending\n", []),
        ('"Upstream-Status"', "Upstream-Status: Backport [1.1]\n", []),
        ('"Upstream-Status"', "", ["no Upstream-Status header"]),
        ('"Upstream-Status"', "Upstream-Status: Later\n", ["Upstream-Status is 'Later', not one"]),
        ('"Upstream-Status"', "Upstream-Status:\n", ["no Upstream-Status header"]),
        ("", "", []),
    ],
)
def test_a_policy(
    names: str, headers: str, faults: list[str], project: Project, tmp_path: Path
) -> None:
    policy = f"[policy]\nheaders = [{names}]\n"
    targets = changed(project, tmp_path / "catalog", policy, headers)
    done = check(project, targets)
    assert done.code == (8 if faults else 0), done.err
    for fault in faults:
        (first,) = (targets.parent / "patches/widget/v1.0").glob("0001*")
        assert f"  {first}: {fault}" in done.err
        facts = check(project, targets, "--json").facts["error"]
        assert facts["code"] == "policy"
        assert [f["file"] for f in facts["details"]["faults"]] == [str(first)]


def test_every_patch_and_every_header_is_told(project: Project, tmp_path: Path) -> None:
    policy = '[policy]\nheaders = ["Removal-Plan", "Origin"]\n'
    targets = changed(project, tmp_path / "catalog", policy, "Origin: vendor\n")
    faults = check(project, targets, "--json").facts["error"]["details"]["faults"]
    told = [(f["file"].rpartition("/")[2][:4], f["message"]) for f in faults]
    assert told == [
        ("0001", "no Removal-Plan header"),
        *((n, f"no {h} header") for n in ("0002", "0003") for h in ("Removal-Plan", "Origin")),
    ]


def test_a_policy_with_an_unknown_header(project: Project, tmp_path: Path) -> None:
    policy = '[policy]\nheaders = ["Upstream-Satus"]\n'
    targets = project.copy_catalog(tmp_path / "catalog")
    targets.write_text(targets.read_text().replace("[[upstream]]", f"{policy}\n[[upstream]]", 1))
    done = call("targets", "--catalog", targets)
    assert done.code == 6
    assert "Upstream-Satus" in done.err
    assert "policy" in done.err


def test_targets_shows_the_headers(project: Project, tmp_path: Path) -> None:
    headers = "Upstream-Status: Backport [of 1.1]\nCVE: CVE-2026-1234\nRemoval-Plan: with 1.1\n"
    targets = changed(project, tmp_path / "catalog", "", headers)
    plain = call("targets", "--catalog", targets)
    assert "Removal-Plan" not in plain.out
    shown = call("targets", "--patches", "--catalog", targets).out
    assert shown.count("Upstream-Status: Backport [of 1.1]\n") == 3
    assert shown.count("Upstream-Status: Pending\n") == 5
    assert "  CVE: CVE-2026-1234\n" in shown
    rows = call("targets", "--json", "--catalog", targets).facts["targets"]
    assert rows[0]["headers"][0]["removal_plan"] == "with 1.1"


def test_a_waiver_page(project: Project, tmp_path: Path) -> None:
    headers = (
        "# not a heading\n<b>not bold</b>\n\nUpstream-Status: Denied [too | special]\n"
        "Bug: https://git.example.invalid/1\nRemoval-Plan: never\n"
    )
    targets = changed(project, tmp_path / "catalog", "", headers)
    output = tmp_path / "page.md"
    done = call(
        *("export", "--series", "w-1.0", "--waiver", "-o", output),
        *("--catalog", targets, "--wheel", project.wheel("1.0")),
    )
    assert done.code == 0, done.err
    lines = output.read_text().splitlines()
    assert lines[0].startswith("# Patches of v1.0 on widget_kit-1.0")
    assert [line for line in lines[1:] if line.startswith("#")] == [
        "## answer: the right one",
        "## extra: a new part",
        "## legacy: retire it",
    ]
    assert "| Upstream status | Denied (too \\| special) |" in lines
    assert "| Bug | https://git.example.invalid/1 |" in lines
    assert "| Removal plan | never |" in lines
    assert lines.count("| Removal plan | not said |") == 2
    assert "    # not a heading" in lines
    assert "    <b>not bold</b>" in lines
    assert str(tmp_path) not in output.read_text()
    both = call("export", "--waiver", "--format", "mail", "-o", output, "--catalog", targets)
    assert (both.code, "give one" in both.err) == (2, True)
