"""Images and containers, through the docker command: what a user of docker/ has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from engine import docker
from files import REPOSITORY, SECRET

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

_START_TIMEOUT_S: Final = 240


def make_context(folder: Path) -> Path:
    """Make a build context with what lies about in a checkout, and wheels for what it needs."""
    ignore = shutil.ignore_patterns("__pycache__")
    for name in ("checks", "docker", "patches", "pkgtools"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=ignore)
    for path in REPOSITORY.iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    for name in (".env", "docker/.env", "pkgtools/__pycache__/x.pyc", "wheels/pip.conf"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"HF_TOKEN={SECRET}\n")
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    needed = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:"),
            *("--python-version=3.11", f"--dest={folder / 'wheels'}", *needed),
        ],
        check=True,
    )
    return folder


def find_buildkit(folder: Path) -> str | None:
    """Return the first docker on the PATH that builds with BuildKit: one may lack buildx."""
    (folder / "Dockerfile").write_text("FROM scratch\nLABEL a=b\n")
    for program in _programs():
        try:
            docker("build", "--quiet", folder, program=program, DOCKER_BUILDKIT="1")
        except subprocess.CalledProcessError:
            continue
        return program
    return None


def find_compose() -> list[str] | None:
    """Return the command of the compose that there is: docker's own, or the one before it."""
    for command in (["docker", "compose"], ["docker-compose"]):
        try:
            subprocess.run([*command, "version"], capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return command
    return None


def _programs() -> Iterator[str]:
    for folder in os.get_exec_path():
        path = Path(folder) / "docker"
        if os.access(path, os.X_OK):
            yield str(path)


class Running:
    """A container that was started.

    Args:
        container_id: the engine's.

    """

    def __init__(self, container_id: str) -> None:
        self.id = container_id

    def state(self) -> Any:
        return json.loads(docker("inspect", "--format={{json .State}}", self.id))

    def log(self) -> str:
        """Return what the program printed and what it complained of, in turn."""
        done = subprocess.run(
            ["docker", "logs", self.id],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
        )
        return done.stdout

    def run(self, *command: str) -> str:
        return docker("exec", self.id, *command)

    def wait_until_healthy(self) -> None:
        """Wait for the image's own health check to pass.

        Raises:
            RuntimeError: it does not in time, or the container ended; with the end of its log.

        """
        deadline = time.monotonic() + _START_TIMEOUT_S
        while (state := self.state())["Health"]["Status"] != "healthy":
            if not state["Running"] or time.monotonic() > deadline:
                raise RuntimeError(f"{state}\n{self.log()[-4000:]}")
            time.sleep(0.5)

    def stop(self, seconds: int) -> tuple[int, float]:
        """Send SIGTERM, and SIGKILL after some seconds; return the exit code and what it took."""
        start = time.monotonic()
        docker("stop", f"--time={seconds}", self.id)
        return self.state()["ExitCode"], time.monotonic() - start


class Container(Running):
    """A container in the host's network, from its start until it is removed.

    Args:
        image: its image.
        arguments: those of the image's entry point.
        environment: variables.
        files: folders that it has, by their path in it; copied, so that any engine will do.
        options: more options of ``docker create``.

    """

    def __init__(
        self,
        image: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        files: Mapping[str, Path] | None = None,
        options: Sequence[str] = (),
    ) -> None:
        variables = [f"--env={name}={value}" for name, value in environment.items()]
        created = docker(
            "create", "--network=host", "--health-interval=1s", *options, *variables, image,
            *arguments,
        )  # fmt: skip
        super().__init__(created)
        try:
            for path, folder in (files or {}).items():
                docker("cp", f"{folder}/.", f"{self.id}:{path}")
            docker("start", self.id)
        except BaseException:
            self.remove()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()

    def remove(self) -> None:
        docker("rm", "--force", "--volumes", self.id)
