"""Lines that a patch only adds, between two statements that upstream still has side by side."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import tree_sitter

from pkgtools.merge.align import align
from pkgtools.merge.blocks import Block, Shape, same, starts_line
from pkgtools.merge.effects import effects
from pkgtools.merge.layout import indent_at, line_end
from pkgtools.merge.lines import Chunk
from pkgtools.merge.result import Edit
from pkgtools.merge.tokens import identifiers, raw_walk

_LEAVES: Final = ("break_statement", "continue_statement")


def between_in_block(
    theirs: Sequence[Block], one: Block, other: Block
) -> tuple[Sequence[Block], int] | None:
    """Return the only block of theirs in which two statements are neighbours, and where."""
    found = [
        (body.elements, at)
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
    loops = 0
    while raw.parent is not None:
        raw = raw.parent
        if raw.type == "function_definition":
            break
        loops += raw.type in ("for_statement", "while_statement")
    return raw, loops


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
    if len(depths) > 1 or not starts_line(theirs.source, other.start):
        return None
    start = line_end(theirs.source, one.end)
    return Edit(theirs.source, start, start, added)
