"""Lines that a patch only adds, between two statements that upstream still has side by side."""

from collections.abc import Sequence

from pkgtools.merge.align import align
from pkgtools.merge.blocks import Block, Shape, starts_line
from pkgtools.merge.layout import indent_at, line_end
from pkgtools.merge.lines import Chunk
from pkgtools.merge.result import Edit


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
