"""A second process that drafts merges while the port checks those before them."""

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import BinaryIO, Final, Self

from pkgtools.merge import Draft, Sides, draft

_WORTH: Final = 500_000
"""Bytes of patched files from which a process saves more time than its start takes."""
_SCRIPT: Final = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from pkgtools.port.ahead import serve; serve(sys.stdin.buffer, sys.stdout.buffer)"
)


class Drafts:
    """The drafts of merges, as far as they are made when the port comes to them.

    The result of a port does not depend on them: `draft` returns the same wherever it runs.
    """

    def __init__(self, size: int = 0) -> None:
        self._size = size
        self._wanted: SimpleQueue[Sides | None] = SimpleQueue()
        self._drafts: dict[Sides, Future[Draft | None]] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if self._size >= _WORTH and (os.cpu_count() or 1) > 1:
            with contextlib.suppress(OSError):  # too many processes: the port does all itself
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-c", _SCRIPT],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
                self._thread = Thread(target=self._exchange, args=(self._process,), daemon=True)
                self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._wanted.put(None)
            self._thread.join()

    def ask(self, merges: Sequence[Sides]) -> None:
        """Have some merges drafted."""
        for sides in merges if self._process is not None else ():
            if sides not in self._drafts:
                self._drafts[sides] = Future()
                self._wanted.put(sides)

    def take(self, sides: Sides) -> Draft | None:
        """Return the draft of a merge; None if the process is not yet at it."""
        drafted = self._drafts.get(sides)
        return None if drafted is None or drafted.cancel() else drafted.result()

    def _exchange(self, process: subprocess.Popen[bytes]) -> None:
        """Send the process what is wanted, and take what it makes, until one of both ends."""
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101
        with contextlib.suppress(OSError), process:
            pickle.dump(sys.path, process.stdin)
            process.stdin.flush()
            process.stdout.readline()  # until it has started, the port does not wait for it
            while (sides := self._wanted.get()) is not None:
                drafted = self._drafts[sides]
                if not drafted.set_running_or_notify_cancel():
                    continue  # the port was faster
                made = None
                try:
                    pickle.dump(sides, process.stdin)
                    process.stdin.flush()
                    made = pickle.load(process.stdout)  # noqa: S301 - our own process
                except (EOFError, pickle.UnpicklingError):
                    return
                finally:
                    drafted.set_result(made)


def serve(wanted: BinaryIO, made: BinaryIO) -> None:
    """Draft each merge that is read, until the port closes the pipe."""
    made.write(b"ready\n")
    made.flush()
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            pickle.dump(draft(*pickle.load(wanted)), made)  # noqa: S301 - the port wrote it
            made.flush()
