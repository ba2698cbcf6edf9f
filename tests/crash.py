"""Making a program fail, or die, at its n-th call into the operating system."""

from __future__ import annotations

import builtins
import contextlib
import errno
import os
import signal
import time
import traceback
import warnings
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, Self

from pkgtools.util import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CALLS: Final = (
    "open",
    "link",
    "symlink",
    "rename",
    "replace",
    "unlink",
    "mkdir",
    "rmdir",
    "fsync",
    "fchmod",
    "chown",
    "utime",
)
"""Every call of ``os`` by which the transaction changes a tree, or makes a change last."""

GROWING: Final = frozenset({"open", "link", "symlink", "mkdir", "fsync", "write"})
"""The calls that a full disk refuses."""


KILLS: Final = int(os.environ.get("PKGTOOLS_KILLS", "8"))
"""How often tests kill at moments as they come."""

SHORT: Final = KILLS < 100
"""Whether this is the short form of the searches: `make test` runs all of them."""

STRIDE: Final = 17 if SHORT else 1
"""From one call that fails to the next: each of them, or, in the short form, some."""


class Call(NamedTuple):
    """One call into the operating system."""

    name: str
    arguments: tuple[str, ...]


@dataclass
class Fault:
    """Counts calls, and acts on the n-th one, before it happens."""

    act: Callable[[Call], None]
    at: int
    """The 1-based number of the call; 0 for never, to count them."""
    lasting: bool = False
    """Whether every later call meets the same fate."""
    seen: list[Call] = field(default_factory=list)

    def meet(self, call: Call) -> None:
        """Count one call."""
        self.seen.append(call)
        if len(self.seen) == self.at or (self.lasting and 0 < self.at < len(self.seen)):
            self.act(call)


@contextlib.contextmanager
def faulty(fault: Fault) -> Iterator[None]:
    """Let `fault` meet each call of `CALLS`, and each write of a new file's content."""

    def wrap(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **options: Any) -> Any:
            if name == "open" and arguments[1] & os.O_NONBLOCK:  # a checked read changes nothing
                return call(*arguments, **options)
            fault.meet(Call(name, tuple(str(argument) for argument in arguments)))
            return call(*arguments, **options)

        return called

    def torn_open(*arguments: Any, **options: Any) -> Any:
        return _Torn(builtins.open(*arguments, **options), fault)  # noqa: PTH123

    kept = {name: getattr(os, name) for name in CALLS}
    try:
        for name, call in kept.items():
            setattr(os, name, wrap(name, call))
        files.__dict__["open"] = torn_open
        yield
    finally:
        for name, call in kept.items():
            setattr(os, name, call)
        del files.__dict__["open"]


class _Torn:
    """A file whose first half is written when the fault strikes."""

    def __init__(self, file: IO[bytes], fault: Fault) -> None:
        self._file = file
        self._fault = fault

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: bytes) -> None:
        half = len(data) // 2
        self._file.write(data[:half])
        self._file.flush()
        self._fault.meet(Call("write", ()))
        self._file.write(data[half:])


def raising(number: int) -> Callable[[Call], None]:
    """Return the act of failing with an error of the operating system."""

    def act(call: Call) -> None:
        raise OSError(number, os.strerror(number), " ".join(call.arguments))

    return act


def full_disk(call: Call) -> None:
    """Fail as a full disk does: what needs no space goes on."""
    if call.name in GROWING:
        raising(errno.ENOSPC)(call)


def die(_call: Call) -> None:
    """Be killed, here and now."""
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Child:
    """How a forked child ended."""

    killed: bool
    failed: bool


class Running:
    """A forked child at work."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def kill(self) -> None:
        """End it, now."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> Child:
        """Return how it ended, when it has."""
        _, status = os.waitpid(self._pid, 0)
        return Child(os.WIFSIGNALED(status), os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0)


def fork(work: Callable[[], object]) -> Running:
    """Run `work` in a forked child.

    A fork costs a hundredth of a new interpreter, so that hundreds of kills are cheap.
    """
    with warnings.catch_warnings():
        # The child calls nothing that another thread could hold a lock of.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - whatever it is, it must not return into pytest
            traceback.print_exc()
        finally:
            os._exit(code)
    return Running(child)


def in_child(work: Callable[[], object], *, kill_after: float | None = None) -> Child:
    """Run `work` in a forked child to its end, or kill it after some seconds."""
    child = fork(work)
    if kill_after is not None:
        time.sleep(kill_after)
        child.kill()
    return child.wait()
