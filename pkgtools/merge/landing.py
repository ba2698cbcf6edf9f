"""Lines of ours, and the module into which they were merged."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache

import tree_sitter

from pkgtools.merge.modules import Module
from pkgtools.merge.names import inside, last_name


@dataclass(frozen=True)
class Landing:
    """Lines of ours, and the module into which they were merged."""

    base: Module
    ours: Module
    theirs: Module
    made: Module
    home: Module
    """The file of theirs for which ours has the patch: `theirs`, unless a definition moved."""
    lines: range
    """In ours."""
    rows: Collection[int]
    """The same lines in what was made. All count from 0."""
    words: Collection[bytes]
    """The words in the lines that the merge adds to theirs."""
    is_lost: Callable[[bytes], object]
    """Returns whether the package defined an attribute before, and nowhere does now."""

    def attributes(self) -> Iterator[tree_sitter.Node]:
        """Yield the attributes in the lines of ours that the result still has."""
        for raw in inside(self.ours.root, self.lines):
            if raw.type == "attribute" and last_name(raw) in self.words:
                yield raw


def nodes_on(root: tree_sitter.Node, rows: Collection[int]) -> tuple[tree_sitter.Node, ...]:
    """Return the syntax nodes of which some row is among `rows`."""
    return _nodes_on(root, tuple(sorted(rows)))


@lru_cache(maxsize=8)  # each check of a chunk asks for the same rows
def _nodes_on(root: tree_sitter.Node, rows: tuple[int, ...]) -> tuple[tree_sitter.Node, ...]:
    found = []
    stack = [root]
    while stack:
        node = stack.pop()
        at = bisect_left(rows, node.start_point.row)
        if at < len(rows) and rows[at] <= node.end_point.row:
            found.append(node)
            stack += reversed(node.children)
    return tuple(found)
