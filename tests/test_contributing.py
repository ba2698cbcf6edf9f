"""CONTRIBUTING.md and the hooks say what `make` and pytest do."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PAGE = (ROOT / "CONTRIBUTING.md").read_text()


def test_the_hooks_run_the_pinned_ruff() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = [hook for repository in config["repos"] for hook in repository["hooks"]]
    assert {hook["id"] for hook in hooks} == {"ruff-check", "ruff-format", "mypy"}
    (pinned,) = (d for d in PROJECT["dependency-groups"]["dev"] if str(d).startswith("ruff"))
    ruffs = [hook["additional_dependencies"] for hook in hooks if hook["language"] == "python"]
    assert ruffs == [[pinned], [pinned]]


def test_the_page_names_every_marker() -> None:
    markers = PROJECT["tool"]["pytest"]["ini_options"]["markers"]
    names = {marker.partition(":")[0] for marker in markers}
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == names


def test_the_page_says_how_much_runs() -> None:
    makefile = (ROOT / "Makefile").read_text()
    code = "".join(p.read_text() for p in (ROOT / "tests").rglob("*.py"))
    rows = re.findall(r"^\| `(PKGTOOLS_\w+)`:.*\| (\d+) \| ([\d,]+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 2
    for variable, default, full in rows:
        assert f'"{variable}", "{default}"' in code
        assert f"{variable}=$${{{variable}:-{full.replace(',', '')}}}" in makefile


def test_what_the_page_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"\bmake (\w+)  ?#|`make (\w+)`", PAGE):
        assert re.search(rf"^{''.join(target)}:", makefile, re.MULTILINE), target
    for path in re.findall(r"\]\(([^)#:]+)\)|`(tests/[\w/.]*|benchmarks/[\w.]+)`", PAGE):
        assert (ROOT / "".join(path)).exists(), path
    code = "".join(p.read_text() for p in (ROOT / "tests").rglob("*.py"))
    for variable in re.findall(r"`(PKGTOOLS_\w+)`", PAGE):
        assert variable in code, variable
