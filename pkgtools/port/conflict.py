"""A conflict as a person gets it: the file with markers, and what its answer must keep."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from pkgtools.blob import SYMLINK, Blob
from pkgtools.merge.check import syntax_error
from pkgtools.merge.markers import Markers, mark, mark_whole

if TYPE_CHECKING:
    from pkgtools.authoring.gitdiff import FileChange
    from pkgtools.merge import Merge


def marked_file(
    change: FileChange, theirs: Blob | None, merged: Merge | None, markers: Markers
) -> Blob | None:
    """Return the file as a person gets it."""
    ours = change.after or Blob(b"", (theirs or change.before or Blob(b"")).mode)
    if merged is None:
        blobs = [b for b in (change.before, change.after, theirs) if b is not None]
        if not is_text(*blobs):
            return theirs
        base, other = change.before or Blob(b""), theirs or Blob(b"")
        return Blob(mark_whole(base.data, ours.data, other.data, markers), ours.mode)
    assert change.before is not None  # noqa: S101 - see `describe`
    marked = mark(change.before.data, ours.data, merged, markers)
    return Blob(marked, theirs.mode if theirs else ours.mode)


def is_text(*blobs: Blob) -> bool:
    """Whether all are text files, which can have conflict markers."""
    return all(blob.mode != SYMLINK and b"\0" not in blob.data for blob in blobs)


def compile_all(*blobs: Blob | None) -> bool:
    """Whether Python compiles each of the files that are there."""
    return all(syntax_error(blob.data) is None for blob in blobs if blob is not None)


def digest_of(*blobs: Blob | None) -> str:
    """Return a digest of the three versions: an answer belongs to no others."""
    ids = " ".join(f"{b.mode:o}:{b.id}" if b is not None else "none" for b in blobs)
    return hashlib.sha256(ids.encode()).hexdigest()
