"""Run a program in a temporary container of an image."""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING, Any, Final, Self

import requests
from docker.errors import DockerException
from docker.types import LogConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import docker

_SHARED_MEMORY: Final = "1g"
"""The shared memory of a container. Docker's default of 64 MiB is too small for servers."""
_LOG_SIZE: Final = "1g"
"""Far beyond what any program here prints, and a bound for one that never ends."""


class Container:
    """A container without network that runs one program.

    Args:
        client: of the engine.
        image: the image's id.
        command: the program and its arguments; the image's entry point is not run.
        files: a tar archive that is unpacked at the container's root first.

    """

    def __init__(
        self, client: docker.DockerClient, image: str, command: Sequence[str], files: bytes = b""
    ) -> None:
        name = f"pkgtools-{secrets.token_hex(8)}"
        try:
            self._container = self._create(client, image, command, name)
            if files:
                self._container.put_archive("/", files)
        except BaseException:  # the engine may have created it without answering
            with contextlib.suppress(DockerException, requests.RequestException):
                client.api.remove_container(name, force=True, v=True)
            raise

    def _create(
        self, client: docker.DockerClient, image: str, command: Sequence[str], name: str
    ) -> Any:
        return client.containers.create(
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """End the program and remove the container."""
        with contextlib.suppress(DockerException, requests.RequestException):
            self._container.remove(force=True, v=True)

    def lines(self) -> Iterator[str]:
        """Start the program and yield what it prints on stdout, line by line.

        Raises:
            docker.errors.APIError: the image does not contain the program.

        """
        self._container.start()
        left = b""
        for chunk in self._container.logs(stdout=True, stderr=False, stream=True, follow=True):
            *whole, left = (left + chunk).split(b"\n")
            yield from (line.decode(errors="replace") for line in whole)
        if left:
            yield left.decode(errors="replace")

    def end(self) -> tuple[int, str]:
        """Wait for the program; return its exit status and stderr."""
        status = self._container.wait()["StatusCode"]
        said = self._container.logs(stdout=False, stderr=True, tail=100)
        return int(status), said.decode(errors="replace").strip()
