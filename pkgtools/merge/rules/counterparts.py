"""Find what upstream moved away from the same siblings."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import tree_sitter

from pkgtools.merge.rules.layout import WORTH
from pkgtools.merge.syntax.align import ALIKE, clearly_best
from pkgtools.merge.syntax.blocks import Block, Shape, same, similarity, squeezed
from pkgtools.merge.syntax.tokens import DEFINITIONS, ancestors, text_of, tokens_of

_RENAMED: Final = 0.8
"""The least share of common tokens of a definition and its renamed form."""
_CLEARLY: Final = 0.15
"""The least lead of the best candidate over the next one."""


def moved_definition(block: Block, new: Sequence[Block], module: Block) -> tuple[Block, str] | None:
    """Return where a definition went, and by which rule.

    That is where its name stands once in the file, or a definition that is it renamed.

    Args:
        block: the definition in base.
        new: what upstream adds beside it.
        module: theirs.
    """
    scores = ((similarity(block, n), n) for n in new if n.kind == block.kind)
    renamed = clearly_best(scores, least=_RENAMED, lead=_CLEARLY)
    if renamed is not None:
        return renamed, "renamed-definition"
    named = [
        n for n in module.walk(block.name or b"") if n.kind == block.kind and n.key == block.key
    ]
    if len(named) == 1 and similarity(block, named[0]) >= 0.5:
        return named[0], "moved-definition"
    return None


def moved_statement(block: Block, theirs: Sequence[Block]) -> tuple[Block, str] | None:
    """Return a statement that upstream moved below one of its siblings."""
    bodies = (n for e in theirs for n in e.walk() if n.shape is Shape.BODY)
    blocks = [n for body in bodies for n in body.elements if n.kind == block.kind]
    found = [n for n in blocks if similarity(n, block, at_least=ALIKE) >= ALIKE]
    if len(found) != 1 or not same(found[0], block):
        return None
    return found[0], "moved-statement"


def made_within(base: Block, ours: Block, new: Sequence[Block]) -> Block | None:
    """Return what upstream has in a block in the place of a statement, as the patch has it."""
    outer = (n for n in new if n.kind != ours.kind)
    inner = [n for one in outer for n in one.walk() if n.kind in (base.kind, ours.kind)]
    made = [n for n in inner if same(n, ours)]
    return made[0] if len(made) == 1 and not any(same(n, base) for n in inner) else None


def is_elsewhere(base: tree_sitter.Node, theirs: tree_sitter.Node) -> bool:
    """Whether upstream has a part of a definition at another place of it."""
    # Most of what a patch changes is not at another place, which its bytes show without tokens.
    if squeezed(text_of(base)) not in _squeezed(_definition(theirs)):
        return False
    told = tokens_of(base)
    if len(told) < WORTH or told == tokens_of(theirs):
        return False
    text = _marks(told)[1:-1]
    counts = [
        _marked(_definition(node)).count(text) - _marked(node).count(text)
        for node in (base, theirs)
    ]
    return counts[1] > counts[0]


def is_moved_away(block: Block, theirs: Block) -> bool:
    """Whether the module of theirs has a statement as often as that of base."""
    if len(block.tokens) < WORTH:
        return False
    text = _marks(block.tokens)[1:-1]
    *_, root = ancestors(block.raw[0])
    return 0 < _marked(root).count(text) <= _marked(theirs.raw[0]).count(text)


def _definition(node: tree_sitter.Node) -> tree_sitter.Node:
    """Return the definition around a node, or the module."""
    outer = node
    for outer in ancestors(node):
        if outer.type in DEFINITIONS:
            break
    return outer


@lru_cache(maxsize=256)  # every change in a definition asks for these
def _squeezed(node: tree_sitter.Node) -> bytes:
    return squeezed(text_of(node))


@lru_cache(maxsize=256)
def _marked(node: tree_sitter.Node) -> bytes:
    return _marks(tokens_of(node))


def _marks(tokens: Sequence[bytes]) -> bytes:
    """Return tokens so that a run of them is found as bytes, and no part of one is."""
    return b"\0\0".join([b"", *tokens, b""])
