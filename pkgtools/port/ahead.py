"""A second process that merges the files to come while the port is at those before them."""

import contextlib
import gc
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
from pkgtools.port.patched import Digests, FileMerge, FileUpdate, PatchedFiles
from pkgtools.port.upstream import Movement
from pkgtools.source import Source

_WORTH: Final = 500_000
"""Bytes of patched files from which a process saves more time than its start takes."""
_READY: Final = b"ready\n"
_SCRIPT: Final = (
    "import gc, pickle, sys; sys.path[:], threshold = pickle.load(sys.stdin.buffer); "
    "gc.set_threshold(*threshold); from pkgtools.port.ahead import serve; "
    "serve(sys.stdin.buffer, sys.stdout.buffer)"
)


@dataclass(frozen=True)
class _Task:
    """A merge for the process, with what it needs to have the files as the port has them."""

    file: FileMerge
    news: dict[int, Sequence[FileUpdate]]
    """What changes make, as far as the process does not know it."""
    step: tuple[Source, Source, Upstream, Sequence[FileChange]] | None
    """The sources and the changes of a new step."""


@dataclass(frozen=True)
class _Made:
    """A merge, what it makes of files, and what it is true of."""

    merged: Merge
    updates: Sequence[FileUpdate]
    looked: CheckedFile
    seen: Digests


@dataclass(frozen=True)
class _Job:
    """A merge that somebody makes."""

    files: PatchedFiles
    file: FileMerge
    found: Future[_Made | None]

    def end(self, made: _Made | None) -> None:
        """Tell what was made; the merges to come take it for what the change makes."""
        if made is not None and self.file.number >= self.files.number:
            self.files.made[self.file.number] = made.updates
        self.found.set_result(made)


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
        if self._size >= _WORTH and _cpus() > 1 and sys.executable:
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
            job.end(_made(job.files, job.file))
        made = found.result() if found is not None else None
        if made is None or self._files.is_outdated(made.looked, made.seen):
            return None
        return made.merged

    def _next(self) -> _Job | None:
        """Return a merge that nobody else makes from now on; if it can be, one that is ready."""
        with self._changed:
            if not self._wanted:
                return None
            known = self._files.made.keys()
            file = min(self._wanted, key=lambda file: (not file.needs <= known, file.number))
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
        pickle.dump((sys.path, gc.get_threshold()), wanted)
        wanted.flush()
        if made.readline() != _READY:  # until it has started, the port does not wait for it
            return
        files: PatchedFiles | None = None
        known: dict[int, Sequence[FileUpdate]] = {}
        while (job := self._wait()) is not None:
            found, step = None, None
            try:
                if job.files is not files:
                    files, known = job.files, {}
                    old, new = (listing.source for listing in files.movement.listings)
                    step = old, new, files.upstream, files.changes
                now = files.made.copy()
                news = {number: one for number, one in now.items() if known.get(number) is not one}
                known = now
                wanted.write(pickle.dumps(_Task(job.file, news, step)))
                wanted.flush()
                found = pickle.load(made)  # noqa: S301 - our own process
            finally:
                job.end(found)

    def _wait(self) -> _Job | None:
        """Return the next merge for the process; None where the port is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._wanted)
            return None if self._is_closed else self._next()


def _cpus() -> int:
    """Return how many CPUs this process may use; batch systems and taskset(1) grant a part."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
            files.made |= task.news
            pickle.dump(_made(files, task.file), made)
            made.flush()


def _made(files: PatchedFiles, file: FileMerge) -> _Made:
    """Make a merge with the files as they probably are before it, and note what it looked at."""
    files = files.before(file.number)
    seen = files.digests.copy()
    merged = files.merge(file)
    return _Made(merged, file.probable_updates(merged), files.looked, seen)
