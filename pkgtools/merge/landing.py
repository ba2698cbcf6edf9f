"""Lines of ours, and the module into which they were merged."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

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


def nodes_on(root: tree_sitter.Node, rows: Collection[int]) -> Iterator[tree_sitter.Node]:
    """Yield the syntax nodes of which some row is among `rows`."""
    wanted = sorted(rows)
    stack = [root]
    while stack:
        node = stack.pop()
        at = bisect_left(wanted, node.start_point.row)
        if at < len(wanted) and wanted[at] <= node.end_point.row:
            yield node
            stack += reversed(node.children)
