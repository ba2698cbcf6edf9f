"""Three-way merging of lines: what git's merge does, chunk by chunk and without markers."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

import pygit2
from pygit2.enums import DiffOption

T = TypeVar("T")

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

    @property
    def old_lines(self) -> range:
        """The lines that it replaces."""
        return range(self.old, self.old_end)

    @property
    def new_lines(self) -> range:
        """The lines that it puts there."""
        return range(self.new, self.new_end)

    @property
    def growth(self) -> int:
        """How many lines it adds."""
        return len(self.new_lines) - len(self.old_lines)

    def is_at(self, other: "Chunk") -> bool:
        """Whether both replace the same lines, or are at the same place between two."""
        return (self.old, self.old_end) == (other.old, other.old_end)


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
    spans = ((c.new_lines, base[c.old : c.old_end]) for c in chunks)
    return b"".join(splice(lines, spans))


def splice(items: Sequence[T], changes: Iterable[tuple[range, Iterable[T]]]) -> list[T]:
    """Return a sequence with others in the place of some spans, which come in order."""
    out: list[T] = []
    at = 0
    for span, others in changes:
        out += [*items[at : span.start], *others]
        at = span.stop
    return [*out, *items[at:]]


def encoding_of(lines: Sequence[bytes]) -> bytes:
    """Return the encoding that a Python file names in one of its first two lines (PEP 263)."""
    found = [m[1] for line in lines[:2] if (m := _CODING.match(line))]
    return found[0].lower().replace(b"_", b"-") if found else b"utf-8"
