"""A program in the background: its own process group, its output in a file."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType


def free_port() -> int:
    """Return a port below those that the system gives out, and below 55,536.

    One that is given out may be taken again before it is used; and SGLang takes the
    port that is 10,000 further on for gRPC.
    """
    while True:
        port = 20_000 + secrets.randbelow(10_000)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class NotReadyError(RuntimeError):
    """The program ended, or took too long."""


class Process:
    def __init__(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                cwd=log.parent,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """The number of the process, and of the group of all that it starts."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def log(self) -> str:
        return self._log.read_text("utf-8", "replace")

    def wait_until(self, is_ready: Callable[[], bool], timeout: float) -> None:
        """Wait for a program that has started to serve.

        Raises:
            NotReadyError: it ended, or did not in time; with the end of its log.

        """
        deadline = time.monotonic() + timeout
        while not is_ready():
            late = time.monotonic() > deadline
            if late or not self.is_running:
                what = "is not ready" if late else f"ended with {self._process.returncode}"
                raise NotReadyError(f"{self._log.name} {what}:\n{self.log()[-4000:]}")
            time.sleep(0.2)

    def wait(self, timeout: float) -> int:
        return self._process.wait(timeout)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the program and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self._process.wait()
