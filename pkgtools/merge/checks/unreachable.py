"""Statements that nothing reaches.

Example: the patch adds lines at the end of a function, and upstream a ``return`` above them; or the
patch adds ``except FileNotFoundError``, and upstream ``except OSError`` above it.
"""

import builtins
import re
from collections.abc import Iterable
from itertools import combinations, pairwise
from typing import Final

import tree_sitter

from pkgtools.merge.checks.landing import LandedFile
from pkgtools.merge.lines import Chunk
from pkgtools.merge.syntax.names import inside
from pkgtools.merge.syntax.tokens import raw_walk, text_of

_LEAVES: Final = {"break_statement", "continue_statement", "raise_statement", "return_statement"}


def unreachable(file: LandedFile) -> dict[Chunk, str]:
    """Return the chunks if lines of the merge are behind a `return` as in none of the sides."""
    nodes = (n for rows in file.spans for n in inside(file.made.root, rows))
    new = _cut_off(nodes) if file.done else {}
    for side in (file.versions.ours, file.versions.theirs) if new else ():
        known = _cut_off(raw_walk(side.raw))
        new = {text: leaves for text, leaves in new.items() if text not in known}
    if not new:
        return {}
    lines = {text.partition(b"\n")[0] for pair in new.items() for text in pair}
    guilty = [c for c in file.done if any(line in file.text(c) for line in lines)]
    return dict.fromkeys(
        guilty or file.done, "nothing reaches it: a `return`, or a wider `except`, is above it now"
    )


def _cut_off(nodes: Iterable[tree_sitter.Node]) -> dict[bytes, bytes]:
    """Return the statements that nothing reaches, near some nodes, and what leaves before them."""
    found: dict[bytes, bytes] = {}
    for node in nodes:
        if node.parent is not None and node.parent.type in ("block", "module"):
            near = [n for n in (_beside(node, -1), node, _beside(node, 1)) if n is not None]
            pairs = ((one, n) for one, n in pairwise(near) if one.type in _LEAVES)
            found |= {text_of(n): text_of(one) for one, n in pairs}
        if node.type == "except_clause" and node.parent is not None:
            clauses = [n for n in node.parent.named_children if n.type == node.type]
            pairs = (pair for pair in combinations(clauses, 2) if _catches_all(*pair))
            found |= {text_of(n): text_of(one) for one, n in pairs}
    return found


def _catches_all(one: tree_sitter.Node, other: tree_sitter.Node) -> bool:
    """Whether an ``except`` catches all builtin exceptions of another one."""
    names = (re.findall(rb"[\w.]+", re.split(rb":| as ", text_of(n))[0])[1:] for n in (one, other))
    first, second = ([getattr(builtins, name.decode(), None) for name in side] for side in names)
    known = tuple(kind for kind in first if isinstance(kind, type))
    return bool(second) and all(isinstance(k, type) and issubclass(k, known) for k in second)


def _beside(node: tree_sitter.Node, way: int) -> tree_sitter.Node | None:
    """Return the statement before (-1) or behind (1) another one."""
    while True:
        beside = node.prev_named_sibling if way < 0 else node.next_named_sibling
        if beside is None or beside.type != "comment":
            return beside
        node = beside
