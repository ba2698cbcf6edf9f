"""Three-way merging of lines: what git's merge does, hunk by hunk and without markers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pkgtools.merge.align import matching_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

_LINE: Final = re.compile(rb"[^\n]*\n|[^\n]+")


@dataclass(frozen=True)
class Hunk:
    """A run of lines that one version has instead of another's; line numbers count from 0."""

    old: int
    old_end: int
    new: int
    new_end: int


def split(data: bytes) -> list[bytes]:
    """Return the lines of `data`, each with its line end."""
    return _LINE.findall(data)


def diff(old: Sequence[bytes], new: Sequence[bytes]) -> list[Hunk]:
    """Return the hunks that lead from `old` to `new`, without context."""
    hunks = []
    at_old = at_new = 0
    for one, other, size in [*matching_blocks(old, new), (len(old), len(new), 0)]:
        if at_old < one or at_new < other:
            hunks.append(Hunk(at_old, one, at_new, other))
        at_old, at_new = one + size, other + size
    return hunks


def touches(one: Hunk, other: Hunk) -> bool:
    """Whether two hunks on the same old lines leave no line between them, as git sees it."""
    return one.old_end >= other.old and other.old_end >= one.old


def shift(hunks: Sequence[Hunk], line: int) -> int:
    """Return where old line `line`, which no hunk touches, is in the new version."""
    moved = 0
    for hunk in hunks:
        if hunk.old_end <= line and hunk.old < line + (hunk.old == hunk.old_end):
            moved = hunk.new_end - hunk.old_end
    return line + moved


def without(lines: Sequence[bytes], base: Sequence[bytes], hunks: Sequence[Hunk]) -> bytes:
    """Return `lines`, the new version, with some of the hunks taken back."""
    out: list[bytes] = []
    at = 0
    for hunk in hunks:
        out += lines[at : hunk.new]
        out += base[hunk.old : hunk.old_end]
        at = hunk.new_end
    return b"".join([*out, *lines[at:]])
