"""The place of what a patch adds: between two statements or lines, past what upstream adds there.

Example: in base, `a` stands above `c`, and ours puts `b` between. In theirs `x` is there. Imports
are sorted; of other statements, which do not touch what the other one does, `b` goes below `x`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import tree_sitter

from pkgtools.merge.lines import Chunk
from pkgtools.merge.result import Edit, Unsure
from pkgtools.merge.rules.layout import indent_at, line_end
from pkgtools.merge.rules.order import Order, commute, place_by_module
from pkgtools.merge.syntax.align import align
from pkgtools.merge.syntax.blocks import Block, Shape, same, starts_line
from pkgtools.merge.syntax.effects import effects
from pkgtools.merge.syntax.tokens import ancestors, identifiers, raw_walk

_CLAUSES: Final = (b"elif", b"else", b"except", b"except*", b"finally")
_LEAVES: Final = ("break_statement", "continue_statement")


@dataclass(frozen=True)
class Place:
    """The place of an insertion."""

    at: int
    """The index in theirs before which."""
    rule: str
    before: bool = False
    """Whether it belongs to what follows, where blank lines separate both sides."""


def place_regrouped(previous: int | None, following: int | None) -> Place | Unsure:
    """Choose a place beside the neighbours that are left, where upstream moved these apart."""
    if previous is not None:
        return Place(previous + 1, "neighbours-moved")
    if following is not None:
        return Place(following, "neighbours-moved", before=True)
    return Unsure("both neighbours of the insertion are gone")


def place_between(
    kind: Order,
    added: Sequence[Block],
    theirs: Sequence[Block],
    span: tuple[int, int],
    lost: tuple[bool, bool],
) -> Place | Unsure:
    """Choose a place between the neighbours, past additions of upstream.

    Args:
        kind: what the order means.
        added: what the patch adds.
        theirs: the statements or elements of theirs.
        span: between which of them.
        lost: which of the neighbours, before and behind, upstream has not.
    """
    low, high = span
    between = theirs[low:high]
    others = [n for n in between if not n.is_comment]
    if not between:
        return Place(low, "neighbour-removed" if any(lost) else "neighbour-changed")
    is_last = low == 0 or lost[0]
    if not others:
        return Place(high if is_last else low, "comment-above")
    if any(lost) and kind is Order.STRICT:
        return Unsure("upstream replaced a neighbour of the insertion")
    if not commute(kind, added, others):
        return Unsure("upstream inserts at the same place, and the order matters")
    if kind is Order.SORTED and len(others) == len(between):
        return Place(low + place_by_module(others, added), "insertion-beside-insertion")
    is_last = is_last or kind is Order.APPEND
    return Place(high if is_last else low, "insertion-beside-insertion")


def between_in_block(
    theirs: Sequence[Block], one: Block, other: Block
) -> tuple[Sequence[Block], Place] | None:
    """Return the only block of theirs in which two statements are neighbours, and where."""
    found = [
        (body.elements, Place(at, "neighbours-moved"))
        for body in (n for outer in theirs for n in outer.walk() if n.kind == "block")
        for at, pair in enumerate(pairwise(body.elements), 1)
        if same(one, pair[0]) and same(other, pair[1])
    ]
    return found[0] if len(found) == 1 else None


def reaches_out(added: Sequence[Block], beside: Block) -> bool:
    """Whether statements do something else in the block that upstream put around their place.

    They set a name for what follows the block, or leave a loop that is another one there.

    Args:
        added: the statements, in ours.
        beside: a statement of theirs beside which they would stand.
    """
    scope, loops = _around(added[0].raw[0])
    span = range(added[0].start, added[-1].end)
    names = {name for name in effects(added).writes if b"." not in name}
    if any(n.start_byte not in span for name in names for n in identifiers(scope, name)):
        return True
    ends = [n for b in added for n in raw_walk(b.raw) if n.type in _LEAVES]
    return _around(beside.raw[0])[1] > loops and any(_around(n)[1] == loops for n in ends)


def _around(raw: tree_sitter.Node) -> tuple[tree_sitter.Node, int]:
    """Return the function or module around a node, and the number of loops between."""
    loops, outer = 0, raw
    for outer in ancestors(raw):
        if outer.type == "function_definition":
            break
        loops += outer.type in ("for_statement", "while_statement")
    return outer, loops


def place_lines(
    group: Sequence[Chunk], ours: Sequence[bytes], base: Block, theirs: Block
) -> Edit | None:
    """Return the edit for one chunk that only adds lines, which may end a block and start another.

    Such lines (a function cut in two) have no counterpart as blocks; what counts
    is that both neighbours are there, next to each other.
    """
    if len(group) != 1 or group[0].old != group[0].old_end:
        return None
    added = b"".join(ours[group[0].new : group[0].new_end])
    # In base the chunk was taken back: it goes where it stood in ours.
    at = sum(map(len, ours[: group[0].new]))
    while True:
        pairs = align(base.children, theirs.children)
        inside = [i for i, n in enumerate(base.children) if n.start < at < n.end]
        if not inside:
            break
        if inside[0] not in pairs:
            return None
        base, theirs = base.children[inside[0]], theirs.children[pairs[inside[0]]]
    behind = next((i for i, n in enumerate(base.children) if n.start >= at), None)
    if base.shape is not Shape.BODY or theirs.shape is not Shape.BODY or not behind:
        return None
    before, after = pairs.get(behind - 1), pairs.get(behind)
    if before is None or after != before + 1:
        return None
    one, other = theirs.children[before], theirs.children[after]
    first = next((line for line in added.splitlines() if line.strip()), b"")
    depths = {
        indent_at(first, 0),  # deeper, it would go on with a block that ends here
        indent_at(base.source, base.children[behind].start),
        indent_at(theirs.source, other.start),
    }
    # An `else` would belong to what is above it, which may be another statement now.
    is_clause = first.split(b":")[0].split()[:1] in ([word] for word in _CLAUSES)
    if is_clause or len(depths) > 1 or not starts_line(theirs.source, other.start):
        return None
    start = line_end(theirs.source, one.end)
    return Edit(theirs.source, start, start, added)
