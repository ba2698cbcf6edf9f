"""Changes of both sides in the words of one comment, docstring or message.

Example: of ``# Remove the old override from argv`` ours makes ``# Remove the old flag from argv``
and theirs ``# Take the old override from argv``. The result is ``# Take the old flag from argv``.

No check can tell what a sentence means. So this holds only where

- one side changes nothing but prose, and no code changes beside a comment;
- each side keeps two thirds of the words, or a word that says something stays between any two
  changes of the two sides; no word is added by both, and few are added again;
- neither says the opposite, and no number is beside a word that the other side changes;
- what another string of a side has of its text is in the result, too: code can look for it;
- the words are each other's in one way only: the same comes out from the last word to the first.

A string is prose if it is a docstring, or goes to a person: in ``raise``, ``assert``, ``help=`` or
a call of a logger, and nothing else there uses its value. Placeholders, examples (``>>>`` with what
follows) and comments for tools (``# type:``) are code. A path or an option is one word.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import tree_sitter

from pkgtools.merge.lines import Chunk, splice
from pkgtools.merge.markers import ConflictLines
from pkgtools.merge.rules.apart import changes, has_word
from pkgtools.merge.syntax.align import matching_blocks
from pkgtools.merge.syntax.blocks import Block
from pkgtools.merge.syntax.effects import is_log
from pkgtools.merge.syntax.tokens import raw_walk, text_of
from pkgtools.util.lines import split

_Piece = tuple[bytes, str]
"""A word, a mark or whitespace, and its kind: of a comment, of a string, or nothing."""

_PIECE: Final = re.compile(
    rb"%(?:\(\w*\))?[-#+.*\d]*[a-zA-Z]|\{[^\s{}\"']*\}|\s+|"
    rb"[\w\x80-\xff]+(?:[-./:@=&+~?!|^$]+[\w\x80-\xff]+)*|[^\w\s]"
)
_PLACEHOLDER: Final = re.compile(rb"[%{}\\]")
_COMMENT: Final = "comment"
_STRING: Final = "string"
_MARKS: Final = frozenset(b"( ) [ ] ` . , ; : ! ?".split())
_PARTS: Final = ("concatenated_string", "parenthesized_expression", "string")
_MESSAGES: Final = (b"detail", b"message", b"msg")
_OPPOSITES: Final = frozenset(b"cannot never no none nor not without".split())
_FILLERS: Final = frozenset(
    b"a an and are as at be by for from in is it not of on or so that the to with".split()
)
_EXAMPLE: Final = re.compile(rb"^\s*>>> ", re.MULTILINE)
_FOR_TOOLS: Final = re.compile(
    rb"#!|#.*?(?:\b(?:coding[:=]|doctest:|fmt:|flake8|isort:|mypy:|noqa|nosec|pragma:|pylint:|"
    rb"pyright:|ruff:|type:|yapf:))"
)
_KEPT: Final = 2 / 3
"""The least share of the words that each side keeps where their changes are side by side."""
_REPEATED: Final = 3
"""With so many words of the text in what one side adds, it is no longer clear which are which."""
_MOST: Final = 2000
"""Pieces of a side; difflib takes the square of them in time."""


@dataclass(frozen=True)
class _TextChange:
    """A change of one side, with the pieces that it takes away and adds."""

    chunk: Chunk
    is_ours: bool
    old: tuple[_Piece, ...]
    new: tuple[_Piece, ...]

    @property
    def kinds(self) -> set[str]:
        """The kinds of the pieces; whitespace counts only alone."""
        pieces = (*self.old, *self.new)
        return {kind for piece, kind in pieces if piece.strip()} or {kind for _, kind in pieces}

    @property
    def is_mark(self) -> bool:
        """Whether it only sets marks in a text: brackets, a full stop."""
        return not self.old and all(kind and piece in _MARKS for piece, kind in self.new)

    @property
    def told(self) -> list[_Piece]:
        """The pieces of prose, without the text of code that is between them."""
        ends: list[_Piece] = []
        for pieces in (self.old, self.new):
            code = [n for n, (piece, kind) in enumerate(pieces) if piece.strip() and not kind]
            ends += [*pieces[: code[0]], *pieces[code[-1] + 1 :]] if code else pieces
        return [(piece, kind) for piece, kind in ends if kind]


def merge_prose(conflict: ConflictLines, ours: Block, theirs: Block) -> bytes | None:
    """Return the lines of a conflict with the words of both sides; None unless it is prose."""
    mine = _pieces(conflict.ours, ours, conflict.mine.start)
    upstream = _pieces(conflict.theirs, theirs, conflict.lines.start)
    base = [(piece, "") for piece in _PIECE.findall(conflict.base)]
    if max(map(len, (base, mine, upstream))) > _MOST:
        return None
    for side in (mine, upstream):  # a piece of base is in one of them, unless both change it
        for at, start, size in matching_blocks(_plain(base), _plain(side)):
            base[at : at + size] = side[start : start + size]
    found = _in_order(base, mine, upstream)
    again = _in_order(base[::-1], mine[::-1], upstream[::-1])
    if found is None or again is None or _made(base, found) != _made(base[::-1], again)[::-1]:
        return None
    text = b"".join(_made(base, found))
    sides = ((ours, conflict.ours), (theirs, conflict.theirs))
    phrases = ((told, phrase) for side, told in sides for phrase in _phrases(side.raw[0], told))
    is_found = all(text.count(phrase) >= told.count(phrase) for told, phrase in phrases)
    return text if is_found and _is_prose(base, found) else None


def _in_order(
    base: Sequence[_Piece], mine: Sequence[_Piece], upstream: Sequence[_Piece]
) -> list[_TextChange] | None:
    """Return the changes of both sides; None if two of them touch."""
    found: dict[tuple[int, int, tuple[bytes, ...]], _TextChange] = {}
    for side in (mine, upstream):
        for c in changes(_plain(base), _plain(side)):
            old, new = tuple(base[c.old : c.old_end]), tuple(side[c.new : c.new_end])
            key = c.old, c.old_end, tuple(piece for piece, _ in new)
            found[key] = _TextChange(c, side is mine, old, new)  # a change of both is theirs
    both = [found[key] for key in sorted(found)]
    return None if any(_touch(*pair) for pair in pairwise(both)) else both


def _touch(one: _TextChange, other: _TextChange) -> bool:
    """Whether the order of two changes is not sure; a mark beside what is replaced has one."""
    start, end = one.chunk.old, other.chunk.old_end
    return one.chunk.old_end > other.chunk.old or (
        one.chunk.old_end == other.chunk.old
        and (start == end or not (one.is_mark or other.is_mark))
    )


def _made(base: Sequence[_Piece], found: Sequence[_TextChange]) -> list[bytes]:
    made = splice(base, ((change.chunk.old_lines, change.new) for change in found))
    return [piece for piece, _ in made]


def _is_prose(base: Sequence[_Piece], found: Sequence[_TextChange]) -> bool:
    """Whether both change prose, one of them nothing else, and the text stays the same one."""
    sides = [[c for c in found if c.is_ours == is_ours] for is_ours in (True, False)]
    kinds = [{kind for c in side for kind in c.kinds} for side in sides]
    has_code = ["" in told for told in kinds]
    if all(has_code) or any(told <= {""} for told in kinds):
        return False
    if any(has_code) and any(_COMMENT in told for told in kinds):
        return False
    pairs = [(a, b) for a, b in pairwise(found) if a.is_ours != b.is_ours]
    between = [base[a.chunk.old_end : b.chunk.old] for a, b in pairs]
    if not all(
        has_word(text) or _are_apart(*pair) for text, pair in zip(between, pairs, strict=True)
    ):
        return False
    if any(piece.lower() in _OPPOSITES for c in found for piece, _ in c.told):
        return False
    added = [{*_saying(p for c in side for p in c.told if p in c.new)} for side in sides]
    words = {n for n, (piece, kind) in enumerate(base) if kind and has_word([(piece,)])}
    gone = [{n for c in side for n in c.chunk.old_lines} for side in sides]
    known = {base[n][0] for n in words}
    is_new = all(len(one & known) < _REPEATED for one in added) and added[0].isdisjoint(added[1])
    is_apart = all(any(_saying(text)) for text in between)
    return is_new and (is_apart or all(len(words - one) >= _KEPT * len(words) for one in gone))


def _saying(pieces: Iterable[_Piece]) -> Iterator[bytes]:
    """Yield the words that say something."""
    return (piece for piece, _ in pieces if has_word([(piece,)]) and piece not in _FILLERS)


def _are_apart(one: _TextChange, other: _TextChange) -> bool:
    """Whether two changes are prose where they face each other, or one is a mark."""
    facing = (*one.old[-1:], *one.new[-1:], *other.old[:1], *other.new[:1])
    is_mark = one.is_mark or other.is_mark
    return all((kind or is_mark) and not piece[:1].isdigit() for piece, kind in facing)


def _plain(pieces: Sequence[_Piece]) -> list[tuple[bytes, ...]]:
    return [(piece,) for piece, _ in pieces]


def _pieces(text: bytes, module: Block, first: int) -> list[_Piece]:
    start = sum(map(len, split(module.source)[:first]))
    spans = sorted(_spans(module.raw[0], start, start + len(text)))
    found: list[_Piece] = []
    for piece in _PIECE.finditer(text):
        at = start + piece.start()
        kind = next((kind for a, b, kind in spans if a <= at < b), "")
        paragraph = module.source[module.source.rfind(b"\n\n", 0, at) + 1 : at + len(">>> ")]
        is_code = kind == _STRING and (_PLACEHOLDER.match(piece[0]) or _EXAMPLE.search(paragraph))
        found.append((piece[0], "" if is_code else kind))
    return found


def _spans(module: tree_sitter.Node, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """Yield where comments, and the texts of strings that are prose, are."""
    stack = [module]
    while stack:
        raw = stack.pop()
        if raw.end_byte <= start or end <= raw.start_byte:
            continue
        stack += raw.children
        if raw.type == "comment" and not _FOR_TOOLS.match(text_of(raw)):
            yield raw.start_byte, raw.end_byte, _COMMENT
        elif raw.type == "string_content" and b" " in text_of(raw) and _is_told(raw):
            yield raw.start_byte, raw.end_byte, _STRING
        elif raw.type == "concatenated_string" and _is_told(raw.children[0].children[0]):
            for one, other in pairwise(raw.children):  # the marks at which a text is cut
                if {one.type, other.type} == {"string"} and other.children[0].text in (b"'", b'"'):
                    yield one.children[-1].start_byte, other.children[0].end_byte, _STRING


def _phrases(module: tree_sitter.Node, told: bytes) -> Iterator[bytes]:
    """Yield the strings of a module that code may look for in what is told."""
    for raw in raw_walk([module]):
        text = raw.text if raw.type == "string_content" else None
        if text and text.strip() and text in told and not _is_told(raw):
            outer = raw.parent and raw.parent.parent
            if b" " in text or (outer and any(c.type in ("in", "not in") for c in outer.children)):
                yield text


def _is_told(content: tree_sitter.Node) -> bool:
    """Whether a string is a docstring, or goes to a person and nowhere else."""
    inner, node = content, content.parent
    while node is not None and (node.type in _PARTS or _is_around(node, inner)):
        inner, node = node, node.parent
    call = node.parent if node is not None and node.type == "argument_list" else None
    if call is not None and call.parent is not None:
        return is_log(call.children[0]) or call.parent.type == "raise_statement"
    if node is None or node.type == "keyword_argument":
        return node is not None and node.children[0].text == b"help"
    if node.type == "assert_statement":
        return inner in node.named_children[1:]
    return node.type == "expression_statement" and node.children == [content.parent]


def _is_around(node: tree_sitter.Node, inner: tree_sitter.Node) -> bool:
    """Whether an expression is the same message with values in it, or an argument with it."""
    if node.type == "binary_operator":
        operator = node.children[1].type
        return operator == "+" or (operator == "%" and node.children[0] == inner)
    if node.type == "attribute":
        return node.children[-1].text == b"format"
    if node.type == "call":
        return node.child_by_field_name("function") == inner
    return node.type == "keyword_argument" and node.children[0].text in _MESSAGES
