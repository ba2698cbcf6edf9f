"""Merging a few lines word by word, as wiggle does: for what conflicts as lines.

Example: ours makes ``f(a, b)`` of ``f(a)``, and theirs makes ``g(a)`` of it. By words the
result is ``g(a, b)``.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pkgtools.merge.lines import Chunk, diff
from pkgtools.merge.syntax.align import gaps, matching_blocks
from pkgtools.util.lines import split

_WORD: Final = re.compile(rb"[\w\x80-\xff]+|[ \t]+|\r?\n|.", re.DOTALL)
_MOST: Final = 4000
"""Words of a side; difflib takes the square of them in time."""


def merge_words(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Return theirs with the change from `base` to `ours`; None where both change one word."""
    sides = [split(text) for text in (*_moved_to(theirs, base, ours), theirs)]
    words = [_words(lines) for lines in sides]
    if max(map(len, words)) > _MOST:
        return None
    mine, upstream = (list(_changes(sides[0], side)) for side in sides[1:])
    gone = {n for c in (*mine, *upstream) for n in c.old_lines}
    added: dict[int, list[bytes]] = {}
    for chunk in upstream:
        added.setdefault(chunk.old, []).extend(words[2][chunk.new : chunk.new_end])
    for chunk in mine:
        text = words[1][chunk.new : chunk.new_end]
        twin = next((c for c in upstream if c.is_at(chunk)), None)
        if twin is not None and words[2][twin.new : twin.new_end] == text:
            continue
        if any(_meet(chunk, other) for other in upstream):
            return None
        added.setdefault(chunk.old, []).extend(text)  # behind upstream's, where both add
    out: list[bytes] = []
    for number, word in enumerate([*words[0], b""]):
        out += added.get(number, [])
        out += [word] if number not in gone else []
    return b"".join(out)


def _meet(one: Chunk, other: Chunk) -> bool:
    """Whether two changes want different things of the same words.

    One may take away words that the other one replaces.
    """
    if not (one.old < other.old_end and other.old < one.old_end):
        return False
    writing = [c for c in (one, other) if c.new < c.new_end]
    if len(writing) != 1:
        return bool(writing)
    taking = other if writing[0] is one else one
    return not writing[0].old <= taking.old <= taking.old_end <= writing[0].old_end


def _words(lines: Sequence[bytes]) -> list[bytes]:
    return [word for line in lines for word in _WORD.findall(line)]


def _changes(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[Chunk]:
    """Yield the chunks of words: whole lines that come or go, and words in lines that change."""
    for chunk in diff(old, new):
        at_old, at_new = len(_words(old[: chunk.old])), len(_words(new[: chunk.new]))
        one, two = _words(old[chunk.old : chunk.old_end]), _words(new[chunk.new : chunk.new_end])
        for c in gaps(one, two):
            yield Chunk(at_old + c.old, at_old + c.old_end, at_new + c.new, at_new + c.new_end)


def _moved_to(theirs: bytes, base: bytes, ours: bytes) -> tuple[bytes, bytes]:
    """Return base and ours with each line indented as upstream has it, or the line next to it."""
    lines, mine = split(base), split(ours)
    steps = _steps(lines, split(theirs))
    if not any(steps):
        return base, ours
    own: list[int] = []
    at = 0
    for chunk in diff(lines, mine):
        own += steps[at : chunk.old]
        # What is new goes with the line behind it, unless that is less deep: then it ends a block.
        near = [n for n in (chunk.old_end, chunk.old - 1) if 0 <= n < len(lines)]
        near.sort(key=lambda n: -_indent(lines[n]))
        own += [steps[near[0]] if near else 0] * (chunk.new_end - chunk.new)
        at = chunk.old_end
    own += steps[at:]
    return _indented(lines, steps), _indented(mine, own)


def _steps(old: Sequence[bytes], new: Sequence[bytes]) -> list[int]:
    """Return by how many spaces each line was moved; what went is taken to be moved as the next."""
    found: list[int | None] = [None] * len(old)
    texts = [[line.strip() for line in lines] for lines in (old, new)]
    for one, other, size in matching_blocks(*texts):
        for n in range(size):
            if texts[0][one + n]:
                found[one + n] = _indent(new[other + n]) - _indent(old[one + n])
    steps: list[int] = []
    for number in range(len(old)):
        behind = (step for step in found[number:] if step is not None)
        before = (step for step in reversed(found[:number]) if step is not None)
        steps.append(next(behind, next(before, 0)))
    return steps


def _indent(line: bytes) -> int:
    return len(line) - len(line.lstrip(b" "))


def _indented(lines: Sequence[bytes], steps: Sequence[int]) -> bytes:
    moved = (
        line if not line.strip() else b" " * step + line[min(max(-step, 0), _indent(line)) :]
        for line, step in zip(lines, steps, strict=True)
    )
    return b"".join(moved)
