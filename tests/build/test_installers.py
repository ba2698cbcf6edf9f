"""pip and uv install a patched wheel from the folder that it was built into, pinned by its hash."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from commands import call, python
from uv import find_uv_bin

if TYPE_CHECKING:
    from pathlib import Path

    from project import Project

_ANSWER = "import sys; sys.path.insert(0, sys.argv[1]); from widget.answer import ANSWER; "
_PYPROJECT = """\
[project]
name = "user"
version = "1"
requires-python = ">=3.11"
dependencies = ["{requirement}"]

[tool.uv]
no-index = true
find-links = ["{links}"]
"""


@pytest.fixture
def requirement(project: Project, tmp_path: Path) -> str:
    """Build w-1.0 beside the upstream's wheels, as a folder of a team has them; return its pin."""
    links = tmp_path / "dist"
    links.mkdir()
    for version in ("1.0", "1.1"):
        (links / project.wheel(version).name).write_bytes(project.wheel(version).read_bytes())
    arguments = ("build", "wheel", "--target", "w-1.0", "--wheel", project.wheel("1.0"))
    done = call(*arguments, "--catalog", project.targets, "-o", links)
    assert done.code == 0, done.err
    (line,) = (line for line in done.out.splitlines() if "requirement: " in line)
    made = call(*arguments, "--catalog", project.targets, "-o", links, "--json").facts
    assert line.strip() == f"requirement: {made['requirement']}"
    return str(made["requirement"])


def _run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("UV_", "PIP_", "VIRTUAL_ENV"))}
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, env=kept, timeout=120
    )


def _pip(requirement: str, where: Path) -> subprocess.CompletedProcess[str]:
    (where / "requirements.txt").write_text(f"{requirement}\n")
    return _run(
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
        *("--no-index", "--find-links", "dist", "--require-hashes", "-r", "requirements.txt"),
        *("--target", "site"),
        cwd=where,
    )


def test_pip_takes_it_by_its_hash(requirement: str, project: Project, tmp_path: Path) -> None:
    done = _pip(requirement, tmp_path)
    assert done.returncode == 0, done.stderr
    site = tmp_path / "site"
    assert python(f"{_ANSWER}print(ANSWER)", site) == "42\n"
    (sbom,) = site.glob("*.dist-info/sboms/*")
    assert sbom.name == "pkgtools.cdx.json"
    verified = call("verify", "--tree", site, "--catalog", project.targets)
    assert verified.code == 0, verified.err


def test_pip_refuses_another_file_of_that_name(requirement: str, tmp_path: Path) -> None:
    head, _, digest = requirement.partition("sha256:")
    done = _pip(f"{head}sha256:{digest[::-1]}", tmp_path)
    assert done.returncode != 0
    assert "DO NOT MATCH" in done.stderr
    assert not (tmp_path / "site").exists()


def test_uv_locks_it_and_syncs_it(requirement: str, project: Project, tmp_path: Path) -> None:
    """A lock of uv has no hashes for files of a folder: the version names the series' digest."""
    pinned = requirement.partition(" --hash=")[0]
    work = tmp_path / "user"
    work.mkdir()
    uv = [find_uv_bin(), "--offline", "--cache-dir", str(tmp_path / "cache")]
    text = _PYPROJECT.format(requirement=pinned, links=tmp_path / "dist")
    (work / "pyproject.toml").write_text(text)
    for words in (["lock"], ["sync", "--frozen"]):
        done = _run(*uv, *words, "--python", sys.executable, cwd=work)
        assert done.returncode == 0, done.stderr
    assert f"widget_kit-{pinned.partition('==')[2]}-py3" in (work / "uv.lock").read_text()
    interpreter = work / ".venv/bin/python"
    site = next((work / ".venv/lib").glob("python*/site-packages"))
    assert python(f"{_ANSWER}print(ANSWER)", site) == "42\n"
    arguments = ("verify", "--python", interpreter, "--catalog", project.targets)
    assert call(*arguments, "--target", "w-1.0").code == 0

    (work / "pyproject.toml").write_text(text.replace(pinned, "widget-kit==1.1"))
    for words in (["lock"], ["sync"]):
        done = _run(*uv, *words, "--python", sys.executable, cwd=work)
        assert done.returncode == 0, done.stderr
    refused = call(*arguments, "--target", "w-1.0")
    assert refused.code != 0
    assert "w-1.1" in refused.err
