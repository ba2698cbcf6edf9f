"""The README's examples do what they show."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

README = Path(__file__).parent.parent / "README.md"


def _examples() -> Iterator[tuple[str, str]]:
    """Yield each command of a console block with the output under it."""
    for block in re.findall(r"```console\n(.*?)```", README.read_text(), re.DOTALL):
        for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = example.partition("\n")
            yield command, output


def _pattern(output: str) -> str:
    """Return a regular expression in which ``...`` stands for anything."""
    return ".*?".join(re.escape(part) for part in output.split("..."))


def test_every_example_prints_what_the_readme_shows(
    release: Callable[[str], Path], tmp_path: Path
) -> None:
    with zipfile.ZipFile(release("0.5.23")) as wheel:
        wheel.extractall(tmp_path / "site-packages")
    code, seen = 0, 0
    for command, shown in _examples():
        if command == "echo $?":
            printed = f"{code}\n"
        else:
            program, *arguments = command.split()
            assert program == "pkgtools"
            done = subprocess.run(
                [sys.executable, "-m", "pkgtools", *arguments],
                cwd=tmp_path,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
            printed, code = done.stdout, done.returncode
        if not re.fullmatch(_pattern(shown), printed, re.DOTALL):
            pytest.fail(f"$ {command}\nshown:\n{shown}\nprinted:\n{printed}")
        seen += 1
    assert seen >= 8
