"""A real Docker engine, through the docker command: what a user of pkgtools has."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def docker(
    *arguments: str | Path, program: str = "docker", stdin: bytes | None = None, **variables: str
) -> str:
    """Run a docker command, and return what it prints, without the last line's end.

    Args:
        arguments: after the program's name.
        program: another docker than the first on the PATH.
        stdin: what the command reads.
        variables: set on top of this process's environment.

    Raises:
        subprocess.CalledProcessError: it fails; with all that it said as `output`.

    """
    done = subprocess.run(
        [program, *arguments],
        env={**os.environ, **variables},
        input=stdin,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        said = (done.stdout + done.stderr).decode()
        error = subprocess.CalledProcessError(done.returncode, done.args, said)
        error.add_note(said[-4000:])
        raise error
    return done.stdout.decode().strip()


def has_engine() -> bool:
    """Whether there is an engine that answers."""
    try:
        docker("info")
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def base_image(variable: str) -> str:
    """Return the image that a variable names; a test that needs it skips where there is none."""
    image = os.environ.get(variable)
    if not image:
        pytest.skip(f"{variable} names no image: .ci/run makes one with docker/base.sh")
    if not has_engine():
        pytest.skip("no Docker engine answers")
    return image
