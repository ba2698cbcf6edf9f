"""The receipt: what was applied to a tree, and everything needed to undo it.

It lies in the package's .dist-info, so that replacing the package removes it
too, or under the git directory, so that a checkout stays clean.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from pkgtools.blob import SYMLINK, Blob
from pkgtools.errors import TreeError
from pkgtools.patch.paths import PathError, safe_path
from pkgtools.record import RecordEdit  # noqa: TC001 - msgspec reads the annotation

if TYPE_CHECKING:
    from pathlib import Path

    from pkgtools.source import Source, Tree

NAME: Final = "pkgtools.json"
PROVENANCE: Final = "pkgtools-provenance.json"
"""Lies in the .dist-info instead, where a patched wheel was installed."""
_LIMIT: Final = 256 * 1024 * 1024


class Original(msgspec.Struct, forbid_unknown_fields=True):
    """A file as it was: its bytes, deflated, and what the file system said of it."""

    data: bytes
    mode: int
    """A git mode."""
    permissions: int
    mtime_ns: int

    @classmethod
    def pack(cls, blob: Blob, permissions: int, mtime_ns: int) -> Original:
        """Keep a file."""
        return cls(zlib.compress(blob.data, 9), blob.mode, permissions, mtime_ns)

    def blob(self) -> Blob:
        """Return the file's content."""
        inflate = zlib.decompressobj()
        data = inflate.decompress(self.data, _LIMIT)
        if not inflate.eof:
            raise zlib.error("an original is cut short or too large")
        return Blob(data, self.mode)


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
    pkgtools: str
    """The version of the tool."""
    upstream: str
    target: str
    revisions: list[str]
    """The commits or versions that the tree was: more than one where their files are the same."""
    series: str
    """The digest of the series."""
    patches: list[str]
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
    return blob.id == file.after and (blob.mode == SYMLINK) == file.is_link


def load_receipt(home: Path) -> Receipt | None:
    """Return the receipt that lies in `home`, or None.

    Raises:
        TreeError: it is damaged, or names a path outside the tree.

    """
    path = home / NAME
    try:
        receipt = msgspec.json.decode(path.read_bytes(), type=Receipt)
        for name in [f.path for f in receipt.files] + [b.name for b in receipt.bytecode]:
            safe_path(name.encode())
        for original in [f.original for f in receipt.files] + [
            b.original for b in receipt.bytecode
        ]:
            if original is not None:
                original.blob()
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, PathError, zlib.error) as error:
        raise TreeError(
            f"the receipt {path} cannot be read: {error}",
            remedy="reinstall the package, or check its files out again, and delete the receipt",
        ) from None
    return receipt
