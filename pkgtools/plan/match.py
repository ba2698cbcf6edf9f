"""Where a hunk goes: whole pre-images, at line boundaries, nowhere else.

No fuzz. A file either lies exactly as its patch's headers say, or every hunk
of it must match in exactly one place. The anchors are git's: a hunk that starts
at line 1 matches at the start of a file only, and one without trailing context
at its end only (``apply.c``, ``match_beginning`` and ``match_end``). Stricter
than git: a hunk without any context (``-U0``) is never moved to that end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pkgtools.patch import Hunk


@dataclass(frozen=True, slots=True)
class Placement:
    """One hunk's place in a file; lines are 1-based."""

    hunk: int
    """Its 1-based number among the file's hunks."""
    stated: int
    line: int

    @property
    def offset(self) -> int:
        """By how many lines the place lies below the stated one."""
        return self.line - self.stated


@dataclass(frozen=True)
class Misfit:
    """A hunk with no place, or with more than one, or one that another hunk needs too."""

    hunk: int
    places: tuple[int, ...]
    """Every 1-based line where its pre-image stands."""
    overlaps: int | None = None
    """The number of the hunk with which it overlaps."""
    present: int | None = None
    """The line where its post-image stands, when that is nearer than its only place."""


def find_block(data: bytes, block: bytes) -> Iterator[int]:
    """Yield each offset in bytes at which the whole lines of `block` stand in `data`."""
    if not block:
        return
    at = data.find(block)
    while at >= 0:
        end = at + len(block)
        starts_line = at == 0 or data[at - 1] == 0x0A
        ends_line = block.endswith(b"\n") or end == len(data)
        if starts_line and ends_line:
            yield at
        at = data.find(block, at + 1)


def line_of(data: bytes, offset: int) -> int:
    """Return the 1-based line that starts at byte `offset`."""
    return data.count(b"\n", 0, offset) + 1


def apply_hunks(
    data: bytes, hunks: Sequence[Hunk]
) -> tuple[bytes, tuple[Placement, ...], tuple[Misfit, ...]]:
    """Place every hunk in `data` and return the new content.

    All hunks are matched against the same content, so none can match what
    another one adds. With misfits, the returned content is `data`.
    """
    candidates = [list(_candidates(data, hunk)) for hunk in hunks]
    chosen = _as_stated(data, hunks, candidates)
    misfits: list[Misfit] = []
    if chosen is None:
        chosen = []
        for number, places in enumerate(candidates, 1):
            lines = tuple(line_of(data, at) for at in places)
            present = _made_nearer(data, hunks[number - 1], lines[0]) if len(places) == 1 else None
            if len(places) == 1 and present is None:
                chosen.append((places[0], number))
            else:
                misfits.append(Misfit(number, lines, present=present))
    chosen.sort()
    misfits += _overlaps(data, hunks, chosen)
    if misfits:
        return data, (), tuple(misfits)
    placements = sorted(
        (
            Placement(number, hunks[number - 1].first_old_line, line_of(data, at))
            for at, number in chosen
        ),
        key=lambda placement: placement.hunk,
    )
    return _replace(data, hunks, chosen), tuple(placements), ()


def _candidates(data: bytes, hunk: Hunk) -> Iterator[int]:
    if not hunk.old:  # only an empty file has room for a hunk without a pre-image
        if not data:
            yield 0
        return
    for at in find_block(data, hunk.old):
        if hunk.old_start == 1 and at != 0:
            continue
        if hunk.trailing_context == 0 and at + len(hunk.old) != len(data):
            continue
        if not hunk.has_context and line_of(data, at) != hunk.first_old_line:
            continue
        yield at


def _made_nearer(data: bytes, hunk: Hunk, line: int) -> int | None:
    """Return where the hunk's result stands, if that is nearer to the stated place than `line`.

    A patch that is applied twice finds its first place taken by its own result and
    the only pre-image in a twin: in the same lines of another function. What is
    left where lines were only removed is mere context: it counts at that very place.
    """
    adds = any(tag == b"+" for tag, _ in hunk.lines)
    if not adds and not (hunk.lines[0][0] == b" " and hunk.trailing_context):
        return None
    made = [line_of(data, at) for at in find_block(data, hunk.new)]
    nearest = min(made, key=lambda found: abs(found - hunk.first_new_line), default=None)
    if nearest is None:
        return None
    away = min(abs(nearest - hunk.first_new_line), abs(nearest - hunk.first_old_line))
    other = abs(line - hunk.first_old_line)
    return nearest if away < other and (adds or not away) else None


def _as_stated(
    data: bytes, hunks: Sequence[Hunk], candidates: list[list[int]]
) -> list[tuple[int, int]] | None:
    """Return every hunk's stated place, or None unless all lie exactly there.

    The headers must also agree with each other: one whose new start is not its
    old start plus what the hunks before it added was edited by hand, and which
    of its numbers is right cannot be known.
    """
    chosen: list[tuple[int, int]] = []
    grown = 0
    for number, (hunk, places) in enumerate(zip(hunks, candidates, strict=True), 1):
        if hunk.first_new_line != hunk.first_old_line + grown:
            return None
        grown += hunk.new_count - hunk.old_count
        for at in places:
            if line_of(data, at) == hunk.first_old_line:
                chosen.append((at, number))
                break
        else:
            return None
    return chosen


def _overlaps(
    data: bytes, hunks: Sequence[Hunk], chosen: list[tuple[int, int]]
) -> Iterator[Misfit]:
    end, before = 0, 0
    for at, number in chosen:
        if at < end or (at == end and before and not hunks[number - 1].old):
            yield Misfit(number, (line_of(data, at),), overlaps=before)
        end, before = at + len(hunks[number - 1].old), number


def _replace(data: bytes, hunks: Sequence[Hunk], chosen: list[tuple[int, int]]) -> bytes:
    parts: list[bytes] = []
    end = 0
    for at, number in chosen:
        hunk = hunks[number - 1]
        parts += [data[end:at], hunk.new]
        end = at + len(hunk.old)
    parts.append(data[end:])
    return b"".join(parts)
