"""Run a program in a temporary container of an image."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import requests
from docker.errors import DockerException
from docker.types import LogConfig

if TYPE_CHECKING:
    import docker

_SHARED_MEMORY: Final = "1g"
"""The shared memory of a container. Docker's default of 64 MiB is too small for servers."""
_LOG_SIZE: Final = "1g"
"""Far beyond what any program here prints, and a bound for one that never ends."""


@contextlib.contextmanager
def new_container(
    client: docker.DockerClient, image: str, command: Sequence[str], files: bytes = b""
) -> Iterator[Any]:
    """Create a container without network, and remove it, with its program, on leaving.

    Args:
        client: of the engine.
        image: the image's id.
        command: the program and its arguments; the image's entry point is not run.
        files: a tar archive that is unpacked at the container's root first.
    """
    name = f"pkgtools-{secrets.token_hex(8)}"
    try:
        container = client.containers.create(
            image,
            name=name,
            entrypoint=[command[0]],
            command=list(command[1:]),
            network_disabled=True,
            shm_size=_SHARED_MEMORY,
            environment={"PYTHONDONTWRITEBYTECODE": "1"},
            # Its output is read from the log, so the log must keep all of it. Engine defaults can
            # rotate the log at 1 MB or drop lines.
            log_config=LogConfig(
                type="json-file", config={"max-size": _LOG_SIZE, "mode": "blocking"}
            ),
        )
        if files:
            container.put_archive("/", files)
        yield container
    finally:  # by name: the engine may have created it without answering
        with contextlib.suppress(DockerException, requests.RequestException):
            client.api.remove_container(name, force=True, v=True)


def run_lines(container: Any) -> Iterator[str]:
    """Start a container's program and yield what it prints on stdout, line by line.

    Raises:
        docker.errors.APIError: the image does not contain the program.
    """
    container.start()
    left = b""
    for chunk in container.logs(stdout=True, stderr=False, stream=True, follow=True):
        *whole, left = (left + chunk).split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)
    if left:
        yield left.decode(errors="replace")


def wait_for(container: Any) -> tuple[int, str]:
    """Wait for a container's program; return its exit status and stderr."""
    status = container.wait()["StatusCode"]
    said = container.logs(stdout=False, stderr=True, tail=100)
    return int(status), said.decode(errors="replace").strip()
