"""A series: an ordered set of patches in one directory, as quilt keeps it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from pkgtools.errors import MalformedError
from pkgtools.patch import Patch, parse_patch

if TYPE_CHECKING:
    from pathlib import Path

_LIST: Final = "name the patches in it, one a line, in order: ls *.patch > series"


@dataclass(frozen=True)
class Series:
    """The patches of one directory, in the order of its ``series`` file."""

    name: str
    directory: Path
    patches: tuple[Patch, ...]

    @cached_property
    def digest(self) -> str:
        """``sha256:`` and the SHA-256 over each patch's name and digest, in order."""
        whole = hashlib.sha256()
        for patch in self.patches:
            whole.update(f"{patch.digest}  {patch.name}\n".encode())
        return f"sha256:{whole.hexdigest()}"

    @property
    def short_digest(self) -> str:
        """The digest's first 12 digits, for the names of what is built."""
        return self.digest.removeprefix("sha256:")[:12]

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that the series reads or writes, sorted."""
        return tuple(sorted({path for patch in self.patches for path in patch.paths}))


def load_series(directory: Path) -> Series:
    """Read the series in `directory`, and lint every patch of it.

    Raises:
        MalformedError: the ``series`` file or a patch is not well-formed, or a
            patch lies in the directory and the series does not name it.

    """
    listing = directory / "series"
    try:
        lines = listing.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise MalformedError(f"{listing} is missing", remedy=_LIST) from None
    except (OSError, UnicodeDecodeError) as error:
        raise MalformedError(f"{listing} cannot be read: {error}") from None
    patches: dict[str, Patch] = {}
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where = f"{listing}:{number}"
        if words[1:] not in ([], ["-p1"]):
            raise MalformedError(f"{where}: only -p1 can follow a patch, not {words[1:]}")
        name = words[0]
        if name == listing.name:
            raise MalformedError(
                f"{where}: {name} is this list, not a patch",
                remedy=_LIST,
            )
        if "/" in name or name in patches:
            problem = "is no plain file name" if "/" in name else "stands here twice"
            raise MalformedError(f"{where}: {name} {problem}")
        patches[name] = _load_patch(directory / name, where)
    if not patches:
        raise MalformedError(f"{listing} names no patch")
    _refuse_unlisted(directory, patches)
    return Series(directory.name, directory, tuple(patches.values()))


def _load_patch(path: Path, where: str) -> Patch:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise MalformedError(f"{where}: {path} cannot be read: {error.strerror}") from None
    patch = parse_patch(str(path), data)
    return Patch(path.name, patch.data, patch.files)


def _refuse_unlisted(directory: Path, patches: dict[str, Patch]) -> None:
    for path in sorted(directory.iterdir()):
        if path.suffix in (".patch", ".diff") and path.name not in patches:
            raise MalformedError(
                f"{path} is not named in {directory / 'series'}",
                remedy="add it to the series file, or move it away",
            )
