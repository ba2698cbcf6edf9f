"""Additions of both sides to one block: added once, or left as a conflict.

A merge of lines takes two equal additions at different places as two changes, and makes
them twice: two methods of one name, of which the later wins, or an option that is registered
twice, with which the program does not start.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from pkgtools.merge.rules.order import Order, order_of
from pkgtools.merge.syntax.align import align
from pkgtools.merge.syntax.blocks import Block, Shape, same
from pkgtools.merge.syntax.effects import effects, independent
from pkgtools.merge.syntax.given import given_names, is_exclusive, is_import, is_registration
from pkgtools.merge.syntax.names import IMPORTS
from pkgtools.merge.syntax.tokens import field_text, raw_walk

_OVERRIDES: Final = {"dictionary_splat": ("keyword_argument", "pair")}


@lru_cache(maxsize=8)  # each round of a merge asks for the same versions
def doubled(base: Block, ours: Block, theirs: Block) -> tuple[Block, ...]:
    """Return what ours adds to a block to which theirs adds the same, or another of that name."""
    return tuple(_doubled(base, ours, theirs))


def _doubled(base: Block, ours: Block, theirs: Block) -> Iterator[Block]:
    if same(base, ours) or same(base, theirs):
        return
    if base.elements or base.shape in (Shape.BODY, Shape.LIST):
        to_ours = align(base.elements, ours.elements)
        to_theirs = align(base.elements, theirs.elements)
        known = set(to_ours.values())
        for index, block in enumerate(ours.elements):
            if index not in known and not block.is_comment:
                lists = base.elements, theirs.elements
                if twins(block, *lists) or rival(block, *lists):
                    yield block
        for index, other in to_ours.items():
            if index in to_theirs:
                one, three = base.elements[index], theirs.elements[to_theirs[index]]
                made = ours.elements[other]
                is_new = not (made.is_comment or same(one, made))
                found = twins(made, base.elements, theirs.elements) if is_new else []
                if found and three not in found:
                    yield made
                yield from _doubled(one, made, three)
        return
    for role, part in base.parts.items():
        if role in ours.parts and role in theirs.parts:
            yield from _doubled(part, ours.parts[role], theirs.parts[role])


def twins(block: Block, base: Sequence[Block], theirs: Sequence[Block]) -> list[Block]:
    """Return what is the same as `block` in theirs, if there is more of it than in base."""
    found = [n for n in theirs if _has_all(n, block)]
    return found if len(found) > sum(_has_all(n, block) for n in base) else []


def rival(block: Block, base: Sequence[Block], theirs: Sequence[Block]) -> Block | None:
    """Return what theirs adds under a name that `block` gives, or what may override it."""
    names = given_names(block)
    known = {name for n in base for name in given_names(n)}
    for other in theirs:
        if (names & given_names(other)) - known:
            return other
        if block.kind in _OVERRIDES.get(other.kind, ()) and not any(same(other, n) for n in base):
            return other
        if _sets_the_same(block, other) and all(n.key != other.key for n in base):
            return other
    return None


def _sets_the_same(one: Block, other: Block) -> bool:
    """Whether two `if` statements on one condition give a value to the same thing."""
    if not one.kind == other.kind == "if_statement" or one.key != other.key:
        return False
    nodes = ([n for n in raw_walk(b.raw) if n.type == "assignment"] for b in (one, other))
    mine, yours = ({field_text(n, "left") for n in side} for side in nodes)
    return not mine.isdisjoint(yours)


def _has_all(one: Block, block: Block) -> bool:
    """Whether a statement is the same as another one, or imports all that the other one does."""
    if one.kind == block.kind == "import_from_statement" and one.key == block.key:
        names = {n.tokens for n in _imported(block)}
        return bool(names) and names <= {n.tokens for n in _imported(one)}
    return same(one, block)


def _imported(block: Block) -> Sequence[Block]:
    return block.parts["names"].elements if "names" in block.parts else ()


def as_good_behind(outer: Block, block: Block, between: Sequence[Block]) -> bool:
    """Whether a twin of `block` in `outer` is as good at the other side of what is between."""
    code = [n for n in between if not n.is_comment]
    if block.kind in IMPORTS:
        return all(n.is_definition or is_import(n) for n in code)
    if not code or is_exclusive(block) or is_import(block) or is_registration(block):
        return True
    if outer.shape is Shape.LIST or block.kind == "decorator":
        return order_of(outer, [block]) is not Order.STRICT
    return independent(effects([block]), effects(code))
