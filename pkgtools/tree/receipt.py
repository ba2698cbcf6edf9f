"""The receipt: what was applied to a tree, and everything needed to undo it.

It lies in the package's .dist-info, so that replacing the package removes it
too, or under the git directory, so that a checkout stays clean.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from pkgtools.blob import EXECUTABLE, LIMIT, REGULAR, SYMLINK, Blob
from pkgtools.errors import TreeError
from pkgtools.patch.paths import safe_path
from pkgtools.tree.record import RecordEdit  # noqa: TC001 - msgspec reads the annotation
from pkgtools.util.files import read_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from pkgtools.source import Source, Tree

NAME: Final = "pkgtools.json"
PROVENANCE: Final = "pkgtools-provenance.json"
"""Lies in the .dist-info instead, where a patched wheel was installed."""
_LEVEL: Final = 4
"""Of zlib: half the time of its default, for 4 % more bytes of SGLang's files."""
_LAST: Final = 2**63 - 1
"""Nanoseconds: 2262, and the first is as far before the epoch. File systems go further."""
_Line = Annotated[str, msgspec.Meta(pattern=r"^[^\n]*\Z")]
"""A word that is printed beside others: with a line end, it would be a line that nobody said."""


class Original(msgspec.Struct, forbid_unknown_fields=True):
    """A file as it was: its bytes, deflated, and what the file system said of it."""

    data: bytes
    mode: int
    """A git mode."""
    permissions: Annotated[int, msgspec.Meta(ge=0, le=0o7777)]
    mtime_ns: Annotated[int, msgspec.Meta(ge=-_LAST, le=_LAST)]

    @classmethod
    def pack(cls, blob: Blob, permissions: int, mtime_ns: int) -> Original:
        """Keep a file; a time that is too far away comes back as the nearest that can be kept."""
        mtime_ns = max(-_LAST, min(mtime_ns, _LAST))
        return cls(zlib.compress(blob.data, _LEVEL), blob.mode, permissions, mtime_ns)

    def blob(self) -> Blob:
        """Return the file's content.

        Raises:
            ValueError: it is damaged.

        """
        inflate = zlib.decompressobj()
        try:
            data = inflate.decompress(self.data, LIMIT)
        except zlib.error as error:
            raise ValueError(str(error)) from None
        if not inflate.eof:
            raise ValueError("an original is cut short or too large")
        if self.mode not in (REGULAR, EXECUTABLE, SYMLINK) or (self.is_link and b"\0" in data):
            raise ValueError("an original is neither a file nor a symbolic link")
        return Blob(data, self.mode)

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return self.mode == SYMLINK


class PatchedFile(msgspec.Struct, forbid_unknown_fields=True):
    """One changed path of the source tree."""

    path: str
    after: str
    """Git's blob id of what was written; empty where the file was deleted."""
    is_link: bool = False
    original: Original | None = None
    """None where there was no file."""


class Bytecode(msgspec.Struct, forbid_unknown_fields=True):
    """A compiled file that the package manager had listed and that went stale."""

    name: str
    """Relative to the tree's root."""
    original: Original


class Receipt(msgspec.Struct, forbid_unknown_fields=True):
    """The whole file."""

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
    record: RecordEdit | None = None

    def original(self, path: str) -> Blob | None:
        """Return what was at a changed path before."""
        for file in self.files:
            if file.path == path:
                return file.original.blob() if file.original else None
        raise KeyError(path)

    def drifted(self, tree: Source) -> list[str]:
        """Return the changed paths that are no longer as they were written."""
        return [f.path for f in self.files if not _is_as_written(f, tree.read(f.path))]

    def is_undone(self, tree: Source) -> bool:
        """Whether every changed path is what it was before."""
        return all(tree.read(file.path) == self.original(file.path) for file in self.files)

    def encode(self) -> bytes:
        """Return the file's bytes, the same for the same receipt."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"


class Before:
    """A patched tree as it was before: its receipt's originals over its files."""

    def __init__(self, tree: Tree, receipt: Receipt) -> None:
        self._tree = tree
        self.upstream = tree.upstream
        self.label = f"{tree.label}, as it was before {receipt.target}"
        self._originals = {file.path: receipt.original(file.path) for file in receipt.files}

    def read(self, path: str) -> Blob | None:
        """Return the content that was at `path`."""
        return self._originals[path] if path in self._originals else self._tree.read(path)


def standing_receipt(tree: Tree) -> Receipt | None:
    """Return the tree's receipt, if the tree still is what it says.

    Raises:
        TreeError: the receipt is damaged.

    """
    receipt = load_receipt(tree.home)
    return None if receipt is None or receipt.drifted(tree) else receipt


def _is_as_written(file: PatchedFile, blob: Blob | None) -> bool:
    if blob is None:
        return file.after == ""
    same_kind = not blob.is_directory and (blob.mode == SYMLINK) == file.is_link
    return blob.id == file.after and same_kind


def load_receipt(home: Path) -> Receipt | None:
    """Return the receipt that lies in `home`, or None.

    Raises:
        TreeError: it is damaged, or names a path outside the tree.

    """
    path = home / NAME
    try:
        receipt = msgspec.json.decode(read_bytes(path), type=Receipt)
        for name in [f.path for f in receipt.files] + [b.name for b in receipt.bytecode]:
            safe_path(name.encode())
        for original in [f.original for f in receipt.files] + [
            b.original for b in receipt.bytecode
        ]:
            if original is not None:
                original.blob()
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, ValueError) as error:
        raise TreeError(
            f"the receipt {path} cannot be read: {error}",
            remedy="reinstall the package, or check its files out again, and delete the receipt",
        ) from None
    return receipt
