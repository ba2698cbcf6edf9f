"""``NEWDIR.port/port.json``: what is ported, what a person decided, and what waits for one."""

from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from pkgtools.errors import MalformedError, UsageError
from pkgtools.patch.paths import safe_path
from pkgtools.util.files import read_bytes, replace_file

STATE: Final = "port.json"
_SUFFIX: Final = ".port"
_Path = Annotated[str, msgspec.Meta(pattern=r"^[^\0]+\Z")]
"""A path of the file system, which cannot hold NUL: Python raises ValueError for one."""


class Answer(msgspec.Struct, forbid_unknown_fields=True):
    """A file as a person left it."""

    step: int
    patch: str
    path: str
    key: str
    """That of the conflicted file which it resolves."""
    mode: int
    file: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{40}\Z")] | None
    """Its content, in ``answers/``; None where the person took the file away."""
    accepted: list[int] = []
    """The numbers of the proposals that the person took."""


class Conflict(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One place in a file that a person must resolve."""

    line: int | None
    """In the old source, 1-based; None where the whole file is meant."""
    reason: str
    proposal: int | None = None
    """Its number in the file, if there is a likely answer."""


class Waiting(msgspec.Struct, forbid_unknown_fields=True):
    """A file in ``conflicts/`` that a person works on."""

    step: int
    patch: str
    path: str
    key: str
    questions: tuple[Conflict, ...] = ()
    compiles: bool = False
    """Whether both sides are Python that compiles: then so must be what a person makes of them."""
    markers: int | None = None
    """The lines of the sides that look like markers; None if a side is not text."""
    is_removed: bool = False
    """Whether a side does not have the file: then the answer can be that it is gone."""
    is_emptied: bool = False
    """Whether nothing is in the file of a side: then the answer can be empty, too."""
    accepted: list[int] = []
    """The numbers of the proposals that the person took so far."""


class PortState(msgspec.Struct, forbid_unknown_fields=True):
    """port.json."""

    version: Literal[1]
    series: _Path
    stops: Annotated[list[_Path], msgspec.Meta(min_length=2)]
    """The sources on the way, the first and the last included."""
    upstream: str
    catalog: _Path
    wheels: list[_Path]
    repositories: list[_Path]
    answers: list[Answer] = []
    waiting: list[Waiting] = []


def work_folder(output: Path) -> Path:
    """Return where the conflicts of a port to `output` lie."""
    return output.with_name(output.name + _SUFFIX)


def read_state(output: Path) -> PortState:
    """Return what is known of a port that is not finished.

    Raises:
        UsageError: there is none.
        MalformedError: its port.json cannot be read.

    """
    path = work_folder(output) / STATE
    if not path.is_file():
        is_work = output.suffix == _SUFFIX and (output / STATE).is_file()
        raise UsageError(
            f"no port to {output} is under way: there is no {path}",
            remedy=f"leave {_SUFFIX} out: -o {output.with_suffix('')}"
            if is_work
            else "name the folder that the port was started with: -o NEWDIR",
        )
    try:
        state = msgspec.json.decode(read_bytes(path), type=PortState)
        for waiting in state.waiting:
            safe_path(waiting.path.encode())
    except (OSError, msgspec.DecodeError, ValueError) as error:
        raise MalformedError(
            f"{path} is damaged: {error}", remedy=f"remove {path.parent}, and start the port again"
        ) from None
    return state


def write_state(output: Path, state: PortState) -> None:
    """Write what is known of a port to `output`, whose work folder is there."""
    replace_file(work_folder(output) / STATE, encode_state(state))


def encode_state(state: PortState) -> bytes:
    """Return the content of port.json."""
    return msgspec.json.format(msgspec.json.encode(state), indent=2) + b"\n"
