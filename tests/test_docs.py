"""The documentation is true: its examples print what it shows, its tables are the program's.

Run as a program, it writes the generated parts of docs/.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import pytest
from click.testing import CliRunner

from pkgtools import errors
from pkgtools.catalog import load_catalog
from pkgtools.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from project import Project

ROOT: Final = Path(__file__).resolve().parent.parent
README: Final = ROOT / "README.md"
DOCS: Final = ROOT / "docs"
PAGES: Final = sorted(
    [*ROOT.glob("*.md"), *DOCS.glob("*.md"), *(ROOT / "patches").rglob("*.md")],
)
_MARK: Final = "<!-- Everything below is written by `python tests/test_docs.py`. -->\n"


def _section(page: str, heading: str) -> str:
    return page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield the language and the text of each fenced block."""
    yield from re.findall(r"^```(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def _pattern(output: str) -> str:
    """Return a regular expression in which ``...`` stands for anything."""
    return ".*?".join(re.escape(part) for part in output.split("..."))


def _follow(text: str, folder: Path) -> int:
    """Do what a reader does: write targets.toml, run each command, compare what it prints."""
    programs = folder / "bin"
    programs.mkdir()
    (programs / "pip").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pip "$@"\n')
    (programs / "pip").chmod(0o755)
    environment = os.environ | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    seen, code = 0, 0
    for language, block in _blocks(text):
        if language == "toml":
            with (folder / "targets.toml").open("a") as targets:
                targets.write(f"{block}\n")
        for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = example.partition("\n")
            code, printed = _run(command, code, folder, environment)
            if not re.fullmatch(_pattern(shown), printed, re.DOTALL):
                pytest.fail(f"$ {command}\nshown:\n{shown}\nprinted:\n{printed}")
            seen += 1
    return seen


def _run(command: str, last: int, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Run a command of a page: pkgtools in this process, everything else in a shell."""
    words = shlex.split(command, comments=True)
    if words[0] == "pkgtools":
        with contextlib.chdir(folder):
            called = CliRunner().invoke(main, words[1:], catch_exceptions=False)
        return called.exit_code, called.output
    done = subprocess.run(
        ["sh", "-c", f"(exit {last}); {command}"],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.fixture
def widget(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty folder, where pip and git find the synthetic upstream as if it were public."""
    for name, value in {
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(project.wheel("1.0").parent),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": str(tmp_path / "gitconfig"),
    }.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "gitconfig").write_text(
        f'[url "{project.repository}"]\n\tinsteadOf = https://github.com/example/widget\n'
        "[user]\n\tname = Widget Maker\n\temail = maker@example.invalid\n"
        "[advice]\n\tdetachedHead = false\n"
    )
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


def test_the_readme_patches_the_readers_own_package(project: Project, widget: Path) -> None:
    series = project.targets.parent / "patches" / "widget" / "v1.0"
    patch = series / "0001-answer-the-right-one.patch"
    answer = patch.read_text().partition("diff --git a/src/widget/core.py")[0]
    (widget / "answer.patch").write_text(answer)
    assert _follow(_section(README.read_text(), "Your own package"), widget) >= 7


def test_the_readme_patches_sglang(release: Callable[[str], Path], tmp_path: Path) -> None:
    with zipfile.ZipFile(release("0.5.23")) as wheel:
        wheel.extractall(tmp_path / "site-packages")
    assert _follow(_section(README.read_text(), "SGLang"), tmp_path) >= 5


def test_the_tutorial(widget: Path) -> None:
    assert _follow((DOCS / "tutorial.md").read_text(), widget) >= 15


def test_the_readme_is_short() -> None:
    assert len(README.read_text().split()) <= 700


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_pages_and_headings(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "README.md").read_text()
    pages = [page.name for page in DOCS.glob("*.md") if page.name != "README.md"]
    assert [name for name in pages if f"({name}" not in index] == []


def _commands(
    command: click.Command = main, name: str = "pkgtools"
) -> Iterator[tuple[str, click.Command]]:
    """Yield every command that does something, with its name."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None
            yield from _commands(found, f"{name} {child}")
    else:
        yield name, command


def test_the_commands_are_those_of_the_program() -> None:
    table = _section("\n#" + (DOCS / "commands.md").read_text(), "Commands")
    listed = re.findall(r"^\| `(.*?)(?: --.*)?` \|", table, re.MULTILINE)
    assert set(listed) == {name for name, _ in _commands()}


def test_the_json_of_every_command_is_described() -> None:
    rows = re.findall(r"^\| (`.*?) \|", (DOCS / "json.md").read_text(), re.MULTILINE)
    described = {name for row in rows for name in re.findall(r"`([a-z][a-z -]*)`", row)}
    assert {name.removeprefix("pkgtools ") for name, _ in _commands()} <= described


def test_the_rules_are_those_of_the_merge() -> None:
    tables = re.findall(r"^\| ([a-z, -]+) \|", (DOCS / "port.md").read_text(), re.MULTILINE)
    named = {name for cell in tables for name in cell.split(", ") if "-" in name}
    modules = [ROOT / "pkgtools/port/outcomes.py", *(ROOT / "pkgtools/merge").rglob("*.py")]
    literal = re.compile(r'"([a-z]+(?:-[a-z]+)+)"')
    assert {rule for path in modules for rule in literal.findall(path.read_text())} == named


def test_the_exit_codes_are_those_of_the_program() -> None:
    table = _section((DOCS / "commands.md").read_text(), "Exit codes")
    listed = {int(code) for code in re.findall(r"^\| (\d) \|", table, re.MULTILINE)}
    raised = {
        error.exit_code
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, errors.PkgtoolsError)
    }
    assert listed == {0} | raised


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_in_examples_are_options_of_the_command(page: Path) -> None:
    known = dict(_commands())
    text = page.read_text().replace("\\\n", " ")
    for line in re.findall(r"pkgtools ((?:[a-z][\w-]* ?)+(?: *--?[\w-].*)?)", text):
        words = re.split(r"`|#|\||;| && ", line)[0].split()
        names = [" ".join(["pkgtools", *words[:count]]) for count in (2, 1)]
        name = next((name for name in names if name in known), None)
        if name is None:
            continue
        options = {option for p in known[name].params for option in (*p.opts, *p.secondary_opts)}
        written = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert written <= options | {"--help", "-h"}, line


def commands_page() -> str:
    """Return the reference as it should be."""
    page = (DOCS / "commands.md").read_text().partition(_MARK)[0] + _MARK
    for name, _ in _commands():
        words = name.split()[1:]
        done = CliRunner().invoke(main, [*words, "--help"], terminal_width=80, prog_name="pkgtools")
        page += f"\n## {name}\n\n```text\n{done.stdout}```\n"
    return page


def series_page() -> str:
    """Return the table of the series as it should be: one row for each patch file."""
    rows: dict[tuple[str, str], list[str]] = {}
    for target in load_catalog(ROOT / "targets.toml").targets:
        for patch in target.series.patches:
            assert patch.path is not None
            path = patch.path.resolve().relative_to(ROOT).as_posix()
            rows.setdefault((patch.subject, path), []).append(target.name)
    page = (DOCS / "series.md").read_text().partition(_MARK)[0] + _MARK
    page += "\n| patch | file | targets |\n|---|---|---|\n"
    for (subject, path), names in sorted(rows.items()):
        link = f"[{path.removeprefix('patches/sglang/')}](../{path})"
        page += f"| {subject} | {link} | {', '.join(f'`{name}`' for name in names)} |\n"
    return page


def test_the_reference_is_what_help_says() -> None:
    assert (DOCS / "commands.md").read_text() == commands_page(), "run python tests/test_docs.py"


def test_the_table_of_series_is_the_catalogs() -> None:
    assert (DOCS / "series.md").read_text() == series_page(), "run python tests/test_docs.py"


if __name__ == "__main__":
    (DOCS / "commands.md").write_text(commands_page())
    (DOCS / "series.md").write_text(series_page())
