"""Three-way merging of lines: what git's merge does, chunk by chunk and without markers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import pygit2
from pygit2.enums import DiffOption

_CODING: Final = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")

_DOES: Final = re.compile(rb"\w\(|\s[-+*/]?=\s")
"""A short line that is a call or an assignment."""


@dataclass(frozen=True)
class Chunk:
    """A run of lines that one version has instead of another's; line numbers count from 0."""

    old: int
    old_end: int
    new: int
    new_end: int


def has_crlf(data: bytes) -> bool:
    """Whether every line ends with a carriage return and a line feed."""
    return 0 < data.count(b"\r\n") == data.count(b"\n") == data.count(b"\r")


def diff(old: Sequence[bytes], new: Sequence[bytes]) -> list[Chunk]:
    """Return the chunks that lead from `old` to `new`, as ``git merge-file`` cuts them.

    libgit2 has git's own diff: which of several equal lines a chunk takes decides whether
    two changes touch, so another diff would merge what git leaves as a conflict.
    """
    return [*_diff(b"".join(old), b"".join(new))]


@lru_cache(maxsize=32)  # each stage asks for the changes of the same versions
def _diff(old: bytes, new: bytes) -> tuple[Chunk, ...]:
    patch = pygit2.Patch.create_from(old, new, context_lines=0, flag=DiffOption.FORCE_TEXT)
    chunks = []
    for hunk in patch.hunks:
        # Where a side has no lines, its start is the line before.
        at_old = hunk.old_start - (hunk.old_lines > 0)
        at_new = hunk.new_start - (hunk.new_lines > 0)
        chunks.append(Chunk(at_old, at_old + hunk.old_lines, at_new, at_new + hunk.new_lines))
    return tuple(chunks)


def touches(one: Chunk, other: Chunk) -> bool:
    """Whether two chunks on the same old lines leave no line between them, as git sees it."""
    return one.old_end >= other.old and other.old_end >= one.old


def moves(one: Chunk, other: Chunk, old: Sequence[bytes], new: Sequence[bytes]) -> bool:
    """Whether most lines that the first chunk takes away are what the second one puts elsewhere."""
    # Moved code is often indented anew.
    gone = [x.strip() for x in old[one.old : one.old_end]]
    gone = [x for x in gone if len(x) > 8 or _DOES.search(x)]
    there = {x.strip() for x in new[other.new : other.new_end]} if gone else set()
    return bool(gone) and 2 * sum(x in there for x in gone) > len(gone)


def shift(chunks: Sequence[Chunk], line: int) -> int:
    """Return where old line `line`, which no chunk touches, is in the new version."""
    moved = 0
    for chunk in chunks:
        if chunk.old_end <= line and chunk.old < line + (chunk.old == chunk.old_end):
            moved = chunk.new_end - chunk.old_end
    return line + moved


def without(lines: Sequence[bytes], base: Sequence[bytes], chunks: Sequence[Chunk]) -> bytes:
    """Return `lines`, the new version, with some of the chunks taken back."""
    out: list[bytes] = []
    at = 0
    for chunk in chunks:
        out += lines[at : chunk.new]
        out += base[chunk.old : chunk.old_end]
        at = chunk.new_end
    return b"".join([*out, *lines[at:]])


def encoding_of(lines: Sequence[bytes]) -> bytes:
    """Return the encoding that a Python file names in one of its first two lines (PEP 263)."""
    found = [m[1] for line in lines[:2] if (m := _CODING.match(line))]
    return found[0].lower().replace(b"_", b"-") if found else b"utf-8"
