"""Calling pkgtools as a user does: in a child process, or, for speed, in this one."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from click.testing import CliRunner

from pkgtools.cli import main

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Result:
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def facts(self) -> Any:
        """What it printed with --json."""
        return msgspec.json.decode(self.out)


def call(*arguments: str | Path, cwd: Path | None = None) -> Result:
    """Run a command in this process; an error that is no refusal is raised."""
    with contextlib.chdir(cwd) if cwd else contextlib.nullcontext():
        words = [str(word) for word in arguments]
        done = CliRunner().invoke(main, words, catch_exceptions=False, prog_name="pkgtools")
    return Result(done.exit_code, done.stdout, done.stderr)


def run(
    *arguments: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    python: str | Path = sys.executable,
) -> Result:
    """Run ``python -m pkgtools`` in a child process.

    Args:
        arguments: after the program's name.
        cwd: where.
        env: set on top of this process's environment.
        python: the interpreter.

    """
    done = subprocess.run(
        [python, "-m", "pkgtools", *arguments],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def python(code: str, *arguments: str | Path, cwd: Path | None = None) -> str:
    """Run some code in a fresh interpreter, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def tool(name: str) -> str:
    """Find a program that came with a package of this environment, active or not."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    assert found, f"{name} is not installed: pip install --group dev"
    return found
