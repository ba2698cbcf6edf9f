"""The content of a patch file."""

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from pkgtools.patch.binary import BinaryChange
from pkgtools.patch.hunks import Hunk
from pkgtools.patch.mail import subject_of

_AROUND: Final = re.compile(r"^\d+[-_]|\.(?:patch|diff)$")


def bare_name(name: str) -> str:
    """Return the name of a patch file without folder, number and suffix."""
    return _AROUND.sub("", name.rpartition("/")[2])


class Kind(StrEnum):
    """The kind of a change."""

    MODIFY = "modify"
    CREATE = "create"
    DELETE = "delete"
    RENAME = "rename"
    COPY = "copy"


@dataclass(frozen=True)
class FilePatch:
    """The part of a patch that makes one file."""

    kind: Kind
    old_path: str
    """The path of the old content; differs from `new_path` in renames and copies."""
    new_path: str
    old_mode: int | None
    """Git modes; None where the patch does not name one."""
    new_mode: int | None
    old_id: str | None
    """Blob ids of the ``index`` line, often abbreviated; None without one."""
    new_id: str | None
    hunks: tuple[Hunk, ...]
    binary: BinaryChange | None
    line: int
    """Its first line in the patch file."""
    end: int
    """The line behind it."""
    lost_line_ends: bool = False
    """Whether the patch file was converted to CRLF: its hunks have LF here, and get the line
    ends of the file that they change."""


@dataclass(frozen=True)
class Patch:
    """One patch file."""

    name: str
    data: bytes
    """The file, byte by byte, mail headers included."""
    files: tuple[FilePatch, ...]
    path: Path | None = None
    """The file, or the folder of added files, that a catalog has it in."""
    is_shared: bool = False
    """Whether other series can use it: its file is above the series' folder."""
    decoded: bytes | None = None
    """What the file says where it is an encoded mail, or starts with a byte order mark."""
    level: int = 1
    """The number of folders before its names."""

    @property
    def change_id(self) -> str:
        """SHA-256 over the changes without line numbers and blob ids, hexadecimal.

        Patches with the same id make the same change in different revisions, as ``git
        patch-id`` tells it (https://git-scm.com/docs/git-patch-id).
        """
        return hashlib.sha256(repr([_change(file) for file in self.files]).encode()).hexdigest()

    @property
    def text(self) -> bytes:
        """The patch as its author wrote it: what line numbers count in."""
        return self.data if self.decoded is None else self.decoded

    @property
    def subject(self) -> str:
        """The mail's subject, unfolded and without its ``[PATCH]``; else the file name."""
        return subject_of(self.text) or self.name

    @property
    def digest(self) -> str:
        """SHA-256 of the file, hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def paths(self) -> frozenset[str]:
        """Every path that the patch reads or writes."""
        return frozenset(p for f in self.files for p in (f.old_path, f.new_path))


def is_same_id(one: str | None, other: str | None) -> bool:
    """Whether two blob ids can be one; git abbreviates them to different lengths."""
    return not (one and other) or one.startswith(other) or other.startswith(one)


def _change(file: FilePatch) -> tuple[object, ...]:
    lines = [hunk.lines for hunk in file.hunks]
    binary = (file.old_id, file.new_id) if file.binary else None
    return file.kind, file.old_path, file.new_path, file.new_mode, lines, binary
