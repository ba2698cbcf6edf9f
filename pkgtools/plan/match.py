"""Find the place of a hunk: its whole pre-image, at a line boundary.

No fuzz. A file either lies exactly as its patch's headers say, or every hunk
of it must match in exactly one place. The anchors are git's: a hunk that starts
at line 1 matches at the start of a file only, and one without trailing context
at its end only (``apply.c``, ``match_beginning`` and ``match_end``). Stricter
than git: a hunk without any context (``-U0``) is never moved to that end.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

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
        """The distance in lines below the stated place."""
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


class Text:
    """The content of a file, searched by whole lines.

    A search starts from the line of the block that the file has in the fewest places, so that
    placing every hunk of a large patch takes time in the order of the file's size.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data

    @cached_property
    def _starts(self) -> list[int]:
        # bytes.splitlines() also splits at a lone CR, where git does not.
        lengths = (len(line) + 1 for line in self.data.split(b"\n")[:-1])
        return [0, *accumulate(lengths)]

    @cached_property
    def _numbers(self) -> dict[bytes, list[int]]:
        return numbers_of(self.data.split(b"\n"))

    def line_of(self, offset: int) -> int:
        """Return the 1-based line that starts at byte `offset`."""
        return bisect_left(self._starts, offset) + 1

    def offset_of(self, line: int) -> int | None:
        """Return the offset of a 1-based line, or None."""
        return self._starts[line - 1] if 0 < line <= len(self._starts) else None

    def stands_at(self, block: bytes, offset: int) -> bool:
        """Whether the data has the whole lines of `block` at `offset`, the start of a line."""
        end = offset + len(block)
        return self.data.startswith(block, offset) and (
            block.endswith(b"\n") or end == len(self.data)
        )

    def find(self, block: bytes) -> Iterator[int]:
        """Yield each offset at which the whole lines of `block` stand."""
        if not block:
            return
        none: list[int] = []
        lines = block.removesuffix(b"\n").split(b"\n")
        places = [self._numbers.get(line, none) for line in lines]
        # Only places of the rarest line are compared: blank lines and `return` are everywhere.
        rarest = min(range(len(lines)), key=lambda number: len(places[number]))
        for number in places[rarest]:
            if number >= rarest and self.stands_at(block, at := self._starts[number - rarest]):
                yield at


def numbers_of(lines: Iterable[bytes]) -> dict[bytes, list[int]]:
    """Return the 0-based numbers of equal lines, by the line."""
    numbers: dict[bytes, list[int]] = {}
    for number, line in enumerate(lines):
        numbers.setdefault(line, []).append(number)
    return numbers


@lru_cache(maxsize=1)  # every hunk of a file is placed and explained in turn
def text_of(data: bytes) -> Text:
    """Return the content of a file to search in."""
    return Text(data)


def apply_hunks(
    data: bytes, hunks: Sequence[Hunk]
) -> tuple[bytes, tuple[Placement, ...], tuple[Misfit, ...]]:
    """Place every hunk in `data` and return the new content.

    All hunks are matched against the same content, so none can match what
    another one adds. With misfits, the returned content is `data`.
    """
    text = text_of(data)
    chosen = _as_stated(text, hunks)
    misfits: list[Misfit] = []
    if chosen is None:
        chosen = []
        for number, hunk in enumerate(hunks, 1):
            places = list(_candidates(text, hunk))
            lines = tuple(text.line_of(at) for at in places)
            present = _made_nearer(text, hunk, lines[0]) if len(places) == 1 else None
            if len(places) == 1 and present is None:
                chosen.append((places[0], number))
            else:
                misfits.append(Misfit(number, lines, present=present))
    chosen.sort()
    # Hunks may move independently, so those in order in the patch can meet in the file.
    misfits += _overlaps(text, hunks, chosen)
    if misfits:
        return data, (), tuple(misfits)
    line_of = {number: text.line_of(at) for at, number in chosen}
    placements = (Placement(n, h.first_old_line, line_of[n]) for n, h in enumerate(hunks, 1))
    return _replace(data, hunks, chosen), tuple(placements), ()


def _candidates(text: Text, hunk: Hunk) -> Iterator[int]:
    if not hunk.old:  # only an empty file has room for a hunk without a pre-image
        return iter(() if text.data else (0,))
    return (at for at in text.find(hunk.old) if _is_anchored(text, hunk, at))


def _is_anchored(text: Text, hunk: Hunk, at: int) -> bool:
    """Whether a hunk may go to a place that has its pre-image."""
    if hunk.old_start == 1 and at != 0:
        return False
    if hunk.trailing_context == 0 and at + len(hunk.old) != len(text.data):
        return False
    return hunk.has_context or text.line_of(at) == hunk.first_old_line


def _made_nearer(text: Text, hunk: Hunk, line: int) -> int | None:
    """Return where the hunk's result stands, if that is nearer to the stated place than `line`.

    A patch that is applied twice finds its first place taken by its own result and
    the only pre-image in a twin: in the same lines of another function. What is
    left where lines were only removed is mere context: it counts at that very place.
    """
    adds = any(tag == b"+" for tag, _ in hunk.lines)
    if not adds and not (hunk.lines[0][0] == b" " and hunk.trailing_context):
        return None
    made = [text.line_of(at) for at in text.find(hunk.new)]
    if not made:
        return None
    nearest = min(made, key=lambda found: abs(found - hunk.first_new_line))
    away = min(abs(nearest - hunk.first_new_line), abs(nearest - hunk.first_old_line))
    other = abs(line - hunk.first_old_line)
    return nearest if away < other and (adds or not away) else None


def _as_stated(text: Text, hunks: Sequence[Hunk]) -> list[tuple[int, int]] | None:
    """Return every hunk's stated place, or None unless all lie exactly there.

    The headers must also agree with each other: one whose new start is not its
    old start plus what the hunks before it added was edited by hand, and which
    of its numbers is right cannot be known.
    """
    chosen: list[tuple[int, int]] = []
    grown = 0
    for number, hunk in enumerate(hunks, 1):
        if hunk.first_new_line != hunk.first_old_line + grown:
            return None
        grown += hunk.new_count - hunk.old_count
        at = text.offset_of(hunk.first_old_line)
        if at is None:
            return None
        has_room = bool(hunk.old) or not text.data
        if not (has_room and text.stands_at(hunk.old, at) and _is_anchored(text, hunk, at)):
            return None
        chosen.append((at, number))
    return chosen


def _overlaps(text: Text, hunks: Sequence[Hunk], chosen: list[tuple[int, int]]) -> Iterator[Misfit]:
    end, before = 0, 0
    for at, number in chosen:
        # Two insertions at one place have no order.
        if at < end or (at == end and before and not hunks[number - 1].old):
            yield Misfit(number, (text.line_of(at),), overlaps=before)
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
