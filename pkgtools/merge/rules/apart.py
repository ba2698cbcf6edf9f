"""Changes of both sides in different parts of one statement, word by word.

Example: of ``[e.wake.remote() for e in engines]`` ours makes ``e.wake.remote(tags=t)`` and theirs
``e.resume.remote()``. The result has ``e.resume.remote(tags=t)``.

Four things have to hold:

- Between a change of ours and one of theirs stands a word that neither changes. ``x < 3`` that
  becomes ``x <= 3`` and ``x < 4`` stays a conflict: both may correct the same mistake.
- They are in different parts of the syntax tree. Of ``a``, ``a + b`` and ``2 * a`` there are two
  sums. A name with dots is one part.
- They are not in the text of one string: that is read as a whole (see
  `pkgtools.merge.rules.prose`).
- The words are each other's in one way only: the same comes out from the last word to the first.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import tree_sitter

from pkgtools.merge.lines import Chunk
from pkgtools.merge.result import Carried, Edit
from pkgtools.merge.rules.counterparts import is_elsewhere
from pkgtools.merge.rules.layout import (
    apply_edits,
    is_in_its_like,
    replace_span,
    stays_whole,
    wraps,
)
from pkgtools.merge.syntax.align import ALIKE, gaps
from pkgtools.merge.syntax.blocks import Block, parse
from pkgtools.merge.syntax.tokens import is_within, raw_walk, text_of, tokens_of

_Nodes = tuple[tree_sitter.Node, tree_sitter.Node, tree_sitter.Node]
"""Of base, ours and theirs."""

_TEXTS: Final = ("comment", "string_content")
_SUMS: Final = ("binary_operator", "comparison_operator")
"""Nodes of which the sides belong together."""
_VALUES: Final = ("concatenated_string", "false", "float", "integer", "none", "string", "true")
_WHOLE: Final = ("block", "concatenated_string", "dotted_name", "string")
_NAMES: Final = ("attribute", "dotted_name")
_PIECE: Final = re.compile(rb"[\w\x80-\xff]+|\s+|[^\w\s]")
_WORD: Final = re.compile(rb"[\w\x80-\xff]")
_MOST: Final = 400
"""Words of a statement; difflib takes the square of them in time."""


@dataclass(frozen=True)
class _Word:
    """A word of a statement, or of a string or comment in it."""

    text: bytes
    start: int
    end: int
    kind: str
    """Of its leaf in the syntax tree, if that has several words."""


def carry_apart(base: Block, ours: Block, theirs: Block) -> Carried | None:
    """Carry ours' change over to `theirs` where it is apart from that of theirs."""
    if len(base.raw) == len(ours.raw) == len(theirs.raw) == 1:
        nodes = edits_of_operands((base.raw[0], ours.raw[0], theirs.raw[0]), (ours, theirs))
        if nodes:
            return Carried(tuple(nodes), ("tokens-disjoint",))
    edits = _apart(base, ours, theirs)
    made = edits and apply_edits(theirs.source, edits)
    if not edits or not isinstance(made, bytes):
        return None
    grown = len(made) - len(theirs.source)
    text = parse(made[theirs.start : theirs.end + grown])
    # A string in which both change values is another one than ours and theirs have.
    absorbed = Counter(ours.counted)
    absorbed.subtract(base.counted)
    absorbed.subtract(text.counted)
    absorbed.update(theirs.counted)
    strings = {key: n for key, n in absorbed.items() if n and key[-1:] in (b"'", b'"')}
    return Carried(tuple(edits), ("words-apart",), Counter(strings))


def edits_of_operands(nodes: _Nodes, blocks: tuple[Block, Block]) -> list[Edit] | None:
    """Return the edits of theirs for an expression in which both change different operands."""
    edits = _node_edits(nodes, blocks)
    whole = edits and all(stays_whole(edit, 0, len(edit.text)) for edit in edits)
    return edits if whole else None


def _node_edits(nodes: _Nodes, blocks: tuple[Block, Block]) -> list[Edit] | None:
    base, ours, theirs = map(tokens_of, nodes)
    if base == ours:
        return []
    if base == theirs:
        sources = blocks[0].source, blocks[1].source
        edit = replace_span(sources, nodes[1].byte_range, nodes[2].byte_range)
        return [edit] if isinstance(edit, Edit) else None
    if is_elsewhere(nodes[0], nodes[2]):
        return None
    inner = nodes[0].type == "parenthesized_expression"
    told = nodes[0].named_children[0] if inner else nodes[0]
    held = [nodes[0].type != "argument_list" and wraps(node, told) for node in nodes[1:]]
    if held[0] or (held[1] and inner):
        return None
    if held[1]:
        if nodes[0].type in _VALUES:
            return None  # the same value inside of upstream's expression may mean another thing
        found = [raw for raw in raw_walk(nodes[2].children) if tokens_of(raw) == base]
        found = [raw for raw in found if raw.parent is None or tokens_of(raw.parent) != base]
        if any(map(is_in_its_like, found)):
            return None
        return _node_edits((nodes[0], nodes[1], found[0]), blocks) if len(found) == 1 else None
    children = [node.children for node in nodes]
    kinds = {tuple(c.type for c in side if not c.is_named) for side in children}
    if len({len(side) for side in children}) > 1 or len({node.type for node in nodes}) > 1:
        return None
    if len(kinds) > 1 or nodes[0].type in _WHOLE or not children[0] or _is_dotted(nodes[0]):
        return None
    triples = list(zip(*children, strict=True))
    changed = [len({*map(tokens_of, triple)}) > 1 for triple in triples]
    if nodes[0].type in _SUMS and sum(changed) > 1:
        return None
    edits = [_node_edits(triple, blocks) for triple in triples]
    return None if None in edits else [edit for found in edits for edit in found or ()]


def _is_dotted(node: tree_sitter.Node) -> bool:
    """Whether it is a name with dots, which is one thing."""
    while node.type == "attribute":
        node = node.children[0]
        if node.type == "identifier":
            return True
    return False


def _apart(base: Block, ours: Block, theirs: Block) -> list[Edit] | None:
    if any(raw.type == "block" for raw in raw_walk(base.raw)):
        return None
    sides = [_words(block) for block in (base, ours, theirs)]
    if len(base.raw) != 1 or max(map(len, sides)) > _MOST:
        return None
    texts = [[(w.text, w.kind) for w in words] for words in sides]
    mine, upstream = changes(texts[0], texts[1]), changes(texts[0], texts[2])
    made = _merged(texts, mine, upstream)
    back = [list(reversed(words)) for words in texts]
    again = _merged(back, changes(back[0], back[1]), changes(back[0], back[2]))
    if made is None or again is None or made != list(reversed(again)):
        return None
    gone = {n for c in upstream for n in c.old_lines}
    told = {n for n, word in enumerate(texts[0]) if has_word([word])}
    if len(told - gone) < ALIKE * len(told):
        return None  # too few words stay for the statement to be the same one
    spans = [[_span(base.raw[0], sides[0], c) for c in side] for side in (mine, upstream)]
    if any(a[0] < b[1] and b[0] < a[1] for a in spans[0] for b in spans[1]):
        return None
    strings = [{_string_at(base.raw[0], a) for a, _ in side} - {None} for side in spans]
    if not strings[0].isdisjoint(strings[1]):
        return None
    edits = [_edit((ours, theirs), sides, upstream, chunk) for chunk in mine]
    return None if None in edits else [edit for edit in edits if edit]


def _words(block: Block) -> list[_Word]:
    found = []
    for raw in raw_walk(block.raw):
        text = text_of(raw)
        if raw.type in _TEXTS and b" " in text:
            at, pieces = raw.start_byte, _PIECE.finditer(text)
            found += [_Word(p[0], at + p.start(), at + p.end(), raw.type) for p in pieces]
        elif text and (raw.type in _TEXTS or not (raw.child_count or is_within(raw, *_TEXTS))):
            found.append(_Word(text, raw.start_byte, raw.end_byte, ""))
    return found


def changes(old: Sequence[object], new: Sequence[object]) -> list[Chunk]:
    """Return the changes; words without a letter or digit between two of them change, too."""
    found: list[Chunk] = []
    for chunk in gaps(old, new):
        if found and not has_word(old[found[-1].old_end : chunk.old]):
            found[-1] = replace(found[-1], old_end=chunk.old_end, new_end=chunk.new_end)
        else:
            found.append(chunk)
    return found


def _merged(
    texts: Sequence[Sequence[tuple[bytes, str]]], mine: Sequence[Chunk], upstream: Sequence[Chunk]
) -> list[tuple[bytes, str]] | None:
    """Return the words of the result; None where two changes have no word between them."""
    both = sorted(
        [*((c, 1) for c in mine), *((c, 2) for c in upstream)],
        key=lambda x: (x[0].old, x[0].old_end),
    )
    out: list[tuple[bytes, str]] = []
    at, last = 0, 0
    for chunk, side in both:
        between = texts[0][at : chunk.old]
        if chunk.old < at or (last and last != side and not has_word(between)):
            return None
        out += [*between, *texts[side][chunk.new : chunk.new_end]]
        at, last = chunk.old_end, side
    return [*out, *texts[0][at:]]


def has_word(words: Sequence[object]) -> bool:
    """Whether one of some words has a letter or a digit."""
    return any(_WORD.search(word[0]) for word in words if isinstance(word, tuple))


def _span(root: tree_sitter.Node, words: Sequence[_Word], chunk: Chunk) -> tuple[int, int]:
    """Return the bytes of the part of the syntax tree in which a change is."""
    first, last = chunk.old, chunk.old_end - 1
    if first > last:
        first, last = last, first
        if first < 0 or last == len(words):
            return root.start_byte, root.end_byte
    start, end = words[first].start, words[last].end
    node = root.descendant_for_byte_range(start, end)
    if node is None or node.type in _TEXTS:
        return start, end
    while node.parent is not None and node.parent.type in _NAMES:
        node = node.parent
    return node.start_byte, node.end_byte


def _string_at(root: tree_sitter.Node, at: int) -> int | None:
    """Return where the string starts of which a byte is text."""
    node = root.descendant_for_byte_range(at, at + 1)
    is_text = node is not None and node.type == "string_content"
    return node.parent.start_byte if is_text and node and node.parent else None


def _edit(
    blocks: tuple[Block, Block],
    sides: Sequence[Sequence[_Word]],
    upstream: Sequence[Chunk],
    chunk: Chunk,
) -> Edit | None:
    """Return the edit of theirs between the words around a change of ours."""
    ours, theirs = blocks
    grown = sum(c.growth for c in upstream if c.old_end <= chunk.old)
    before, behind = chunk.old - 1 + grown, chunk.old_end + grown
    start = sides[2][before].end if before >= 0 else theirs.start
    end = sides[2][behind].start if behind < len(sides[2]) else theirs.end
    first = sides[1][chunk.new - 1].end if chunk.new else ours.start
    last = sides[1][chunk.new_end].start if chunk.new_end < len(sides[1]) else ours.end
    made = replace_span((ours.source, theirs.source), (first, last), (start, end))
    return made if isinstance(made, Edit) else None
