"""Statements and expressions that a patch puts into others, when upstream changes them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from pkgtools.merge.result import Carried, Edit, Unsure, carried, join
from pkgtools.merge.rules.layout import (
    WORTH,
    apply_edits,
    edit_of,
    frozen_lines,
    indent_at,
    line_end,
    line_start,
    lines_of,
    reindent,
    stays_whole,
    wraps,
)
from pkgtools.merge.syntax.align import ALIKE
from pkgtools.merge.syntax.blocks import Block, Shape, parse, same, similarity, starts_line
from pkgtools.merge.syntax.tokens import ancestors, raw_walk, tokens_of

_TRUTH: Final = ("assert_statement", "elif_clause", "if_clause", "if_statement", "while_statement")
"""Nodes that ask only whether their condition is true."""


Carry = Callable[[Block, Block, Block], Carried | Unsure]


def carry_wrapped(
    carry: Carry, removed: Sequence[Block], added: Sequence[Block], run: Sequence[Block]
) -> Carried | Unsure | None:
    """Return statements of theirs in what the patch puts around them, if it does.

    Args:
        carry: carries the change of one of the statements.
        removed: the statements in base.
        added: what the patch has instead.
        run: the statements in theirs.
    """
    window = wrapped_window(removed, added) if len(run) == len(removed) else None
    if window is not None:
        inner = join(map(carry, removed, window, run))
        if isinstance(inner, Unsure):
            return inner
        outer = wrap_statements(window, added, run, inner.edits)
        return join([carried("wrapped-statement", outer), replace(inner, edits=())])
    call = wrap_call(removed[0], added, run[0]) if len(removed) == len(run) == 1 else None
    return carried("wrapped-expression", call) if call else None


def wrapped_window(removed: Sequence[Block], added: Sequence[Block]) -> Sequence[Block] | None:
    """Return the statements inside `added` that are those of `removed`, perhaps changed."""
    bodies = [n.elements for a in added for n in a.walk() if n.kind == "block"]
    size = len(removed)
    windows = [b[at : at + size] for b in bodies for at in range(len(b) - size + 1)]
    for match in (same, _is_alike):
        found = [w for w in windows if all(map(match, removed, w))]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _is_alike(one: Block, other: Block) -> bool:
    return one.kind == other.kind and similarity(one, other, at_least=ALIKE) >= ALIKE


def wrap_statements(
    window: Sequence[Block], added: Sequence[Block], run: Sequence[Block], edits: Sequence[Edit]
) -> Edit | Unsure:
    """Return the edit that puts statements of theirs in the place of a window of what is added.

    Args:
        window: the statements inside `added`.
        added: what the patch makes of them.
        run: the statements of theirs.
        edits: what the patch changes in these.
    """
    ours, theirs = added[0].source, run[0].source
    if not all(starts_line(theirs, n.start) for n in run):
        return Unsure("a line holds several statements")
    indent, outer = indent_at(theirs, run[0].start), indent_at(ours, added[0].start)
    deeper = indent_at(ours, window[0].start).removeprefix(outer)
    first, last = line_start(ours, added[0].start), line_end(ours, added[-1].end)
    head = ours[first : line_start(ours, window[0].start)]
    tail = ours[line_end(ours, window[-1].end) : last]
    inner = _edited(run, edits)
    return edit_of(
        *(theirs, line_start(theirs, run[0].start), line_end(theirs, run[-1].end)),
        reindent(head, outer, indent, frozen_lines(added)),
        inner if isinstance(inner, Unsure) else lines_of(inner, indent + deeper),
        reindent(tail, outer, indent, frozenset()),
    )


def _edited(run: Sequence[Block], edits: Sequence[Edit]) -> Sequence[Block] | Unsure:
    made = apply_edits(run[0].source, edits)
    if isinstance(made, Unsure):
        return made
    bodies = (n for n in parse(made).walk() if n.shape is Shape.BODY)
    for body in bodies if edits else ():
        for at, node in enumerate(body.elements):
            if node.start == run[0].start:
                return body.elements[at : at + len(run)]
    return Unsure("both change the same statements") if edits else run


def wrap_call(call: Block, added: Sequence[Block], theirs: Block) -> Edit | None:
    """Return the edit for a call whose value the patch uses, where it was a statement alone."""
    found = [r for r in raw_walk([raw for n in added for raw in n.raw]) if r.type == "call"]
    found = [r for r in found if tokens_of(r) == call.tokens]
    if len(found) != 1 or call.kind != "call" or theirs.kind != "call":
        return None
    if wraps(theirs.raw[0], call.raw[0]):
        return None
    ours = added[0].source
    old, new = indent_at(ours, added[0].start), indent_at(theirs.source, theirs.start)
    if old != new:
        return None
    head, tail = ours[added[0].start : found[0].start_byte], ours[found[0].end_byte : added[-1].end]
    return Edit(theirs.source, theirs.start, theirs.end, head + theirs.text + tail)


def wrapped(base: Block, ours: Block, theirs: Block) -> Edit | None:
    """Return the edit for an expression that the patch only puts into another one."""
    if len(base.tokens) < WORTH or similarity(base, theirs) < 0.5:
        return None
    found = [r for r in raw_walk(ours.raw) if tokens_of(r) == base.tokens]
    found = [r for r in found if r.parent is None or tokens_of(r.parent) != base.tokens]
    if len(found) != 1 or found[0].type != theirs.raw[0].type:
        return None
    if wraps(theirs.raw[0], base.raw[0]) and not _are_conditions(base, ours, theirs):
        return None  # both put it into something: which one is inside of the other?
    head = ours.source[ours.start : found[0].start_byte]
    tail = ours.source[found[0].end_byte : ours.end]
    edit = Edit(theirs.source, theirs.start, theirs.end, head + theirs.text + tail)
    return edit if stays_whole(edit, len(head), len(head) + len(theirs.text)) else None


def _are_conditions(*blocks: Block) -> bool:
    """Whether these are chains of the same operator of which only the truth counts."""
    raws = [block.raw[0] for block in blocks]
    operators = [raw.child_by_field_name("operator") for raw in raws]
    if any(raw.type != "boolean_operator" for raw in raws) or None in operators:
        return False
    if len({operator.type for operator in operators if operator is not None}) > 1:
        return False
    kinds = (n.type for n in ancestors(raws[0]))
    return next((kind for kind in kinds if kind != "parenthesized_expression"), "") in _TRUTH
