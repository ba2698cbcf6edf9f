"""What a patch file says, once read."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

_TAG: Final = re.compile(r"^\s*(\[[^]]*\]\s*)+")

if TYPE_CHECKING:
    from pathlib import Path

    from pkgtools.patch.binary import BinaryChange
    from pkgtools.patch.hunks import Hunk


class Kind(StrEnum):
    """What happens to a file."""

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
    """Where the content comes from; the same as `new_path` but for renames and copies."""
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
    """Where it starts in the patch file."""


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
    """Whether other series can name it too: it is kept above the series' own folder."""

    @property
    def change_id(self) -> str:
        """SHA-256 over the changes without line numbers and blob ids, hexadecimal.

        Patches with the same id make the same change in different revisions, as ``git
        patch-id`` tells it (https://git-scm.com/docs/git-patch-id).
        """
        return hashlib.sha256(repr([_change(file) for file in self.files]).encode()).hexdigest()

    @property
    def subject(self) -> str:
        """The mail's subject, unfolded and without its ``[PATCH]``; else the file name."""
        import email.parser  # noqa: PLC0415 - slow to import, and only people ask
        import email.policy  # noqa: PLC0415

        headers = self.data
        if headers.startswith(b"From "):  # an mbox line, not a header
            _, _, headers = headers.partition(b"\n")
        message = email.parser.BytesHeaderParser(policy=email.policy.default).parsebytes(headers)
        subject = " ".join(str(message["Subject"] or self.name).split())
        return _TAG.sub("", subject)

    @property
    def digest(self) -> str:
        """SHA-256 of the file, hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def paths(self) -> frozenset[str]:
        """Every path that the patch reads or writes."""
        return frozenset(p for f in self.files for p in (f.old_path, f.new_path))


def _change(file: FilePatch) -> tuple[object, ...]:
    lines = [hunk.lines for hunk in file.hunks]
    binary = (file.old_id, file.new_id) if file.binary else None
    return file.kind, file.old_path, file.new_path, file.new_mode, lines, binary
