"""The receipt: the series that are applied to a tree, and everything needed to undo them.

It lies in the package's .dist-info, so that replacing the package removes it
too, or under the git directory, so that a checkout stays clean. The first series is
the file's own table, as it was before there were stacks; ``above`` lists the later ones.
"""

import os
import zlib
from collections.abc import Callable
from pathlib import Path
from stat import S_IMODE
from typing import Annotated, Final, Literal, Self, TypeVar

import msgspec

from pkgtools.blob import EXECUTABLE, LIMIT, REGULAR, SYMLINK, Blob
from pkgtools.errors import TreeError
from pkgtools.patch.paths import safe_path
from pkgtools.source.record import RecordEdit
from pkgtools.util.files import read_bytes

T = TypeVar("T")

NAME: Final = "pkgtools.json"
PROVENANCE: Final = "pkgtools-provenance.json"
"""Lies in the .dist-info instead, where a patched wheel was installed."""
_LEVEL: Final = 4
"""Of zlib: half the time of its default, for 4 % more bytes of SGLang's files."""
_LAST: Final = 2**63 - 1
"""Nanoseconds: 2262, and the first is as far before the epoch. File systems go further."""
_Line = Annotated[str, msgspec.Meta(pattern=r"^[^\n]*\Z")]
"""A word on one line: a newline would let a receipt add lines to the output."""


class Original(msgspec.Struct, forbid_unknown_fields=True):
    """A file as it was: its bytes, deflated, and what the file system said of it."""

    data: bytes
    mode: int
    """A git mode."""
    permissions: Annotated[int, msgspec.Meta(ge=0, le=0o7777)]
    mtime_ns: Annotated[int, msgspec.Meta(ge=-_LAST, le=_LAST)]

    @classmethod
    def pack(
        cls, blob: Blob, status: os.stat_result, found: Blob | None, mtime_ns: int | None = None
    ) -> Self:
        """Keep a file, with the permissions of what was `found` if that is of the same kind.

        A time that is too far away comes back as the nearest that can be kept.
        """
        is_same = found is not None and found.mode == blob.mode
        permissions = S_IMODE(status.st_mode) if is_same else blob.permissions
        mtime_ns = status.st_mtime_ns if mtime_ns is None else mtime_ns
        mtime_ns = max(-_LAST, min(mtime_ns, _LAST))
        return cls(zlib.compress(blob.data, _LEVEL), blob.mode, permissions, mtime_ns)

    def blob(self) -> Blob:
        """Return the file's content; raise a `ValueError` if it is damaged."""
        inflate = zlib.decompressobj()
        try:
            data = inflate.decompress(self.data, LIMIT)
        except zlib.error as error:
            raise ValueError(str(error)) from None
        if not inflate.eof:
            raise ValueError("an original is cut short or too large")
        is_file = self.mode in (REGULAR, EXECUTABLE)
        if not is_file and (self.mode != SYMLINK or b"\0" in data):
            raise ValueError("an original is neither a file nor a symbolic link")
        return Blob(data, self.mode)


class PatchedFile(msgspec.Struct, forbid_unknown_fields=True):
    """One changed path of the source tree."""

    path: str
    after: str
    """Git's blob id of what was written; empty where the file was deleted."""
    is_link: bool = False
    original: Original | None = None
    """None where there was no file."""

    def before(self) -> Blob | None:
        """Return what was there before."""
        return self.original.blob() if self.original is not None else None

    def is_as_written(self, found: Blob | None) -> bool:
        """Whether what lies there now was written by the series."""
        if found is None:
            return self.after == ""
        same_kind = not found.is_directory and (found.mode == SYMLINK) == self.is_link
        return found.id == self.after and same_kind


class Bytecode(msgspec.Struct, forbid_unknown_fields=True):
    """A compiled file that the package manager had listed and that went stale."""

    name: str
    """Relative to the tree's root."""
    original: Original


class StackEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One series of the stack."""

    format: Literal[1]
    pkgtools: _Line
    """The version of the tool."""
    upstream: _Line
    target: _Line
    revisions: list[_Line]
    """The commits or versions that the tree was: more than one where their files are the same."""
    series: _Line
    """The digest of the series."""
    patches: list[_Line]
    files: list[PatchedFile]
    bytecode: list[Bytecode] = []
    catalog: _Line | None = None
    """The name of the catalog, or if it has none, a digest of its folder; empty in an image.
    None in a receipt of before there were stacks, when a tree held one series at most."""

    @property
    def paths(self) -> frozenset[str]:
        """The changed paths."""
        return frozenset(file.path for file in self.files)


class Receipt(StackEntry, forbid_unknown_fields=True, frozen=True):
    """The whole file: the first entry, and the others above it."""

    record: RecordEdit | None = None
    """What the stack did to RECORD."""
    above: list[StackEntry] = []

    @property
    def entries(self) -> tuple[StackEntry, ...]:
        """The stack, the first entry at the bottom."""
        fields = {name: getattr(self, name) for name in StackEntry.__struct_fields__}
        return (StackEntry(**fields), *self.above)

    def encode(self) -> bytes:
        """Return the file's bytes, the same for the same receipt."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"


def load_receipt(home: Path) -> Receipt | None:
    """Return the receipt that lies in `home`, or None."""
    return load_file(home / NAME, Receipt, _check, "receipt")


def _check(receipt: Receipt) -> None:
    """Raise a `ValueError` where a path leads out of the tree, or an original is damaged."""
    for entry in receipt.entries:
        for file in entry.files:
            safe_path(file.path.encode())
            file.before()
        for compiled in entry.bytecode:
            safe_path(compiled.name.encode())
            compiled.original.blob()


def load_file(path: Path, kind: type[T], check: Callable[[T], None], what: str) -> T | None:
    """Return the receipt or journal at `path`, or None; refuse one that fails its `check`."""
    try:
        found = msgspec.json.decode(read_bytes(path), type=kind)
        check(found)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.DecodeError, ValueError) as error:
        raise TreeError(
            f"the {what} {path} cannot be read: {error}",
            remedy=f"reinstall the package, or check its files out again, and delete the {what}",
        ) from None
    return found
