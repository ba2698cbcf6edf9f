"""Syntax trees, each made from the tree of a similar source where one is known.

The versions of a file and the results of a merge differ in a few lines. tree-sitter takes what an
edit left from the old tree, in a fifth of the time:
https://tree-sitter.github.io/tree-sitter/using-parsers/3-advanced-parsing.html#editing
"""

from collections import deque
from collections.abc import Callable
from typing import Final

import tree_sitter
import tree_sitter_python

_PARSER: Final = tree_sitter.Parser(tree_sitter.Language(tree_sitter_python.language()))
_HEAD: Final = 1000
_TAIL: Final = 100
"""Bytes at the start and at the end of a source; a similar one has the same at one of them."""
_recent: Final[deque[tuple[bytes, tree_sitter.Tree]]] = deque(maxlen=128)
"""The last sources without a syntax error."""


def syntax_tree(source: bytes) -> tree_sitter.Tree:
    """Return the tree that tree-sitter makes of `source`."""
    head, tail = source[:_HEAD], source[-_TAIL:]
    likely = [kept for kept in _recent if kept[0].startswith(head) or kept[0].endswith(tail)]
    near = [(_common(old, source), old, tree) for old, tree in likely]
    (start, end), old, kept = max(near, key=lambda n: sum(n[0]), default=((0, 0), b"", None))
    tree = None
    if kept is not None and 2 * (start + end) > len(source):
        edited = kept.copy()
        gone, made = len(old) - end, len(source) - end
        points = _point(old, start), _point(old, gone), _point(source, made)
        edited.edit(start, gone, made, *points)
        tree = _PARSER.parse(source, edited)
    # What tree-sitter makes of an error can depend on the tree before it.
    if tree is None or tree.root_node.has_error:
        tree = _PARSER.parse(source)
    if not tree.root_node.has_error:
        _recent.append((source, tree))
    return tree


def _common(one: bytes, other: bytes) -> tuple[int, int]:
    """Return how many bytes two sources share at their starts, and then at their ends."""
    most = min(len(one), len(other))
    start = _longest(most, lambda a, b: one[a:b] == other[a:b])
    mine, yours = len(one), len(other)
    end = _longest(
        most - start, lambda a, b: one[mine - b : mine - a] == other[yours - b : yours - a]
    )
    return start, end


def _longest(most: int, is_same: Callable[[int, int], bool]) -> int:
    """Return up to where two sources are the same, by halves; `is_same` compares a span."""
    same = 0
    while same < most:
        middle = (same + most + 1) // 2
        if is_same(same, middle):
            same = middle
        else:
            most = middle - 1
    return same


def _point(source: bytes, at: int) -> tuple[int, int]:
    """Return the row and the column, in bytes, of a place in a source."""
    return source.count(b"\n", 0, at), at - source.rfind(b"\n", 0, at) - 1
