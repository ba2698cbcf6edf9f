"""A second process that merges the files to come while the port is at those before them."""

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from subprocess import DEVNULL, PIPE
from threading import Condition, Thread
from typing import IO, Final, Self

from pkgtools.authoring.gitdiff import FileChange
from pkgtools.catalog import Upstream
from pkgtools.merge import Merge
from pkgtools.port.memory import CheckedFile, StepMemory
from pkgtools.port.patched import FileMerge, FileUpdate, PatchedFiles
from pkgtools.port.upstream import Movement
from pkgtools.source import Source

_WORTH: Final = 500_000
"""Bytes of patched files from which a process saves more time than its start takes."""
_READY: Final = b"ready\n"
_SCRIPT: Final = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from pkgtools.port.ahead import serve; serve(sys.stdin.buffer, sys.stdout.buffer)"
)


@dataclass(frozen=True)
class _Task:
    """A merge for the process, with what it needs to have the files as the port has them."""

    file: FileMerge
    updates: list[FileUpdate]
    """Since the task before."""
    step: tuple[Source, Source, Upstream, Sequence[FileChange]] | None
    """The sources and the changes of a new step."""


@dataclass(frozen=True)
class _Made:
    """A merge, and what it is true of."""

    merged: Merge
    looked: CheckedFile
    seen: int
    """How many updates of the files the process had."""


@dataclass(frozen=True)
class _Job:
    """A merge that somebody makes."""

    files: PatchedFiles
    file: FileMerge
    found: Future[_Made | None]


class Ahead:
    """Merges that another process makes ahead.

    They count only if nothing of what they looked at has changed since: the result of a port is
    the same with and without them.
    """

    def __init__(self, size: int = 0) -> None:
        """Prepare for patched files of `size` bytes; without these, no process starts."""
        self._size = size
        self._changed = Condition()
        """Guards what follows, and tells of a merge that is wanted."""
        self._wanted: list[FileMerge] = []
        self._merges: dict[FileMerge, Future[_Made | None]] = {}
        self._is_closed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: Thread | None = None
        self._files: PatchedFiles

    def __enter__(self) -> Self:
        if self._size >= _WORTH and (os.cpu_count() or 1) > 1 and sys.executable:
            thread = Thread(target=self._exchange, daemon=True)
            with contextlib.suppress(RuntimeError):  # too many threads
                thread.start()
                self._thread = thread
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._process is not None:
            self._process.kill()
        if self._thread is not None:
            self._thread.join()

    def follow(self, files: PatchedFiles) -> None:
        """Make merges of a new step."""
        with self._changed:
            self._files, self._wanted, self._merges = files, [], {}

    def ask(self, file: FileMerge) -> None:
        """Have a file merged ahead."""
        if self._thread is not None:
            with self._changed:
                self._wanted.append(file)
                self._changed.notify()

    def take(self, file: FileMerge) -> Merge | None:
        """Return a merge; None if nobody is at it yet, or its result is outdated."""
        with self._changed:
            if file in self._wanted:
                self._wanted.remove(file)
            found = self._merges.get(file)
        while found is not None and not found.done() and (job := self._next()):
            job.found.set_result(_made(job.files, job.file))
        made = found.result() if found is not None else None
        if made is None or self._files.is_outdated(made.looked, made.seen):
            return None
        return made.merged

    def _next(self) -> _Job | None:
        """Return a merge that nobody else makes from now on; if it can be, one that is ready."""
        with self._changed:
            ready = (file for file in self._wanted if file.behind <= self._files.number)
            file = next(ready, self._wanted[0] if self._wanted else None)
            if file is None:
                return None
            self._wanted.remove(file)
            self._merges[file] = Future()
            return _Job(self._files, file, self._merges[file])

    def _exchange(self) -> None:
        """Send a process what is wanted, and take what it makes, until it or the port ends."""
        command = [sys.executable, "-I", "-c", _SCRIPT]
        # The port makes each merge itself that fails here: the process can be killed, lack memory,
        # or get a source of another library that it cannot open.
        with (
            contextlib.suppress(Exception),
            subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL) as self._process,
        ):
            assert self._process.stdin is not None  # noqa: S101 - both are pipes
            assert self._process.stdout is not None  # noqa: S101
            self._feed(self._process.stdin, self._process.stdout)

    def _feed(self, wanted: IO[bytes], made: IO[bytes]) -> None:
        pickle.dump(sys.path, wanted)
        wanted.flush()
        if made.readline() != _READY:  # until it has started, the port does not wait for it
            return
        known, seen = None, 0
        while (job := self._wait()) is not None:
            found, step = None, None
            try:
                if job.files is not known:
                    known, seen = job.files, 0
                    old, new = (listing.source for listing in known.movement.listings)
                    step = old, new, known.upstream, known.changes
                updates = known.updates[seen:]
                seen += len(updates)
                wanted.write(pickle.dumps(_Task(job.file, updates, step)))
                wanted.flush()
                found = pickle.load(made)  # noqa: S301 - our own process
            finally:
                job.found.set_result(found)

    def _wait(self) -> _Job | None:
        """Return the next merge for the process; None where the port is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._wanted)
            return None if self._is_closed else self._next()


def serve(wanted: IO[bytes], made: IO[bytes]) -> None:
    """Make each merge that is read, until the port closes the pipe."""
    made.write(_READY)
    made.flush()
    memory = StepMemory()
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            task: _Task = pickle.load(wanted)  # noqa: S301 - the port wrote it
            if task.step is not None:
                *sources, upstream, changes = task.step
                old, new = (memory.listing(source, upstream) for source in sources)
                files = PatchedFiles(Movement(old, new, upstream), upstream, changes)
            for update in task.updates:
                files.update(update)
            pickle.dump(_made(files, task.file), made)
            made.flush()


def _made(files: PatchedFiles, file: FileMerge) -> _Made:
    """Make a merge, and note what it looked at."""
    number, looked, files.looked = files.number, files.looked, CheckedFile()
    files.go_to(file.number)
    try:
        return _Made(files.merge(file), files.looked, len(files.updates))
    finally:
        files.looked = looked
        files.go_to(number)
