"""Changes of both sides in the words of one comment, docstring or message.

Example: of ``# Remove the old override from argv`` ours makes ``# Remove the old flag from argv``
and theirs ``# Take the old override from argv``. The result is ``# Take the old flag from argv``.

No check can tell what a sentence means. So this holds only where

- one side changes nothing but prose, and no code changes beside a comment;
- most of the words stay; no word is added by both, and few are added again;
- the words are each other's in one way only: the same comes out from the last word to the first.

A string is prose if it is a docstring, or goes to a person: in ``raise``, ``assert`` or a call of
a logger. Placeholders and examples (``>>>``) are code.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pkgtools.merge.align import ALIKE, matching_blocks
from pkgtools.merge.apart import changes, has_word
from pkgtools.merge.effects import is_log
from pkgtools.merge.tokens import raw_walk
from pkgtools.util.lines import split

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import tree_sitter

    from pkgtools.merge.blocks import Block
    from pkgtools.merge.lines import Chunk
    from pkgtools.merge.markers import ConflictLines

    _Pieces = Sequence[tuple[bytes, str]]
    """Words, marks and whitespace; the second of each is empty."""
    _Change = tuple[Chunk, int]
    """A change of ours (1) or of theirs (2)."""

_PIECE: Final = re.compile(rb"%[-#+.\d]*[a-zA-Z]|[\w\x80-\xff]+|\s+|[^\w\s]")
_PLACEHOLDER: Final = re.compile(rb"[%{}\\]")
_COMMENT: Final = "comment"
_STRING: Final = "string"
_TOLD: Final = ("assert_statement", "raise_statement")
_FILLERS: Final = frozenset(
    b"a an and are as at be by for from in is it not of on or that the to with".split()
)
_EXAMPLE: Final = re.compile(rb" *(?:>>>|\.\.\.) ")
_REPEATED: Final = 3
"""With so many words of the text in what one side adds, it is no longer clear which are which."""
_MOST: Final = 2000
"""Pieces of a side; difflib takes the square of them in time."""


def merge_prose(conflict: ConflictLines, ours: Block, theirs: Block) -> bytes | None:
    """Return the lines of a conflict with the words of both sides; None unless it is prose."""
    texts = [
        [(piece, "") for piece in _PIECE.findall(text)]
        for text in (conflict.base, conflict.ours, conflict.theirs)
    ]
    if max(map(len, texts)) > _MOST:
        return None
    back = [text[::-1] for text in texts]
    found, again = _in_order(texts), _in_order(back)
    if found is None or again is None or _made(texts, found) != _made(back, again)[::-1]:
        return None
    kinds = (
        _kinds(conflict.ours, ours, conflict.mine.start),
        _kinds(conflict.theirs, theirs, conflict.lines.start),
    )
    return b"".join(_made(texts, found)) if _is_prose(texts, found, kinds) else None


def _in_order(texts: Sequence[_Pieces]) -> list[_Change] | None:
    """Return the changes of both sides; None if two of them touch."""
    mine, upstream = changes(texts[0], texts[1]), changes(texts[0], texts[2])
    theirs = [(c.old, c.old_end, texts[2][c.new : c.new_end]) for c in upstream]
    mine = [c for c in mine if (c.old, c.old_end, texts[1][c.new : c.new_end]) not in theirs]
    both = sorted(
        [*((c, 1) for c in mine), *((c, 2) for c in upstream)],
        key=lambda x: (x[0].old, x[0].old_end),
    )
    return None if any(a[0].old_end >= b[0].old for a, b in pairwise(both)) else both


def _made(texts: Sequence[_Pieces], found: Sequence[_Change]) -> list[bytes]:
    """Return the pieces of base with the changes made."""
    out: list[tuple[bytes, str]] = []
    at = 0
    for chunk, side in found:
        out += [*texts[0][at : chunk.old], *texts[side][chunk.new : chunk.new_end]]
        at = chunk.old_end
    return [piece for piece, _ in (*out, *texts[0][at:])]


def _is_prose(
    texts: Sequence[_Pieces], found: Sequence[_Change], kinds: Sequence[Sequence[str]]
) -> bool:
    """Whether both change prose, one of them nothing else, and the text stays the same one."""
    base = _base_kinds(texts, kinds)
    told = {change: _kinds_of(change, texts, (base, *kinds)) for change in found}
    sides = [[told[c] for c in found if c[1] == side] for side in (1, 2)]
    has_code = ["" in set().union(*side) for side in sides]
    if all(has_code) or not all(any(one - {""} for one in side) for side in sides):
        return False
    if any(has_code) and any(_COMMENT in one for one in told.values()):
        return False
    if not all(_are_apart(*pair, texts, (base, *kinds)) for pair in pairwise(found)):
        return False
    new = [[p for c, of in found if of == n for p in texts[n][c.new : c.new_end]] for n in (1, 2)]
    added = [{p for p in pieces if has_word([p]) and p[0] not in _FILLERS} for pieces in new]
    words = {n for n, piece in enumerate(texts[0]) if base[n] and has_word([piece])}
    gone = {n for chunk, _ in found for n in range(chunk.old, chunk.old_end)}
    known = {texts[0][n] for n in words}
    is_new = all(len(one & known) < _REPEATED for one in added) and added[0].isdisjoint(added[1])
    return is_new and len(words - gone) >= ALIKE * len(words)


def _are_apart(
    one: _Change, other: _Change, texts: Sequence[_Pieces], kinds: Sequence[Sequence[str]]
) -> bool:
    """Whether a word is between two changes, or both are prose where they face each other."""
    if one[1] == other[1] or has_word(texts[0][one[0].old_end : other[0].old]):
        return True
    facing = [
        kinds[0][one[0].old : one[0].old_end][-1:],
        kinds[0][other[0].old : other[0].old_end][:1],
    ]
    facing += [kinds[one[1]][one[0].new : one[0].new_end][-1:]]
    facing += [kinds[other[1]][other[0].new : other[0].new_end][:1]]
    return all(kind for found in facing for kind in found)


def _kinds_of(
    change: _Change, texts: Sequence[_Pieces], kinds: Sequence[Sequence[str]]
) -> set[str]:
    """Return of which kinds the pieces are that a change takes away and adds."""
    chunk, side = change
    pieces = [*texts[0][chunk.old : chunk.old_end], *texts[side][chunk.new : chunk.new_end]]
    told = [*kinds[0][chunk.old : chunk.old_end], *kinds[side][chunk.new : chunk.new_end]]
    named = {kind for (piece, _), kind in zip(pieces, told, strict=True) if piece.strip()}
    return named or {*told}


def _base_kinds(texts: Sequence[_Pieces], kinds: Sequence[Sequence[str]]) -> list[str]:
    """Return the kinds of base's pieces: each piece is in ours or in theirs as well."""
    found = [""] * len(texts[0])
    for side in (1, 2):
        for one, other, size in matching_blocks(texts[0], texts[side]):
            found[one : one + size] = kinds[side - 1][other : other + size]
    return found


def _kinds(text: bytes, module: Block, first: int) -> list[str]:
    """Return the kinds of the pieces of some lines of a module; of code, nothing."""
    start = sum(map(len, split(module.source)[:first]))
    spans = sorted(_spans(module.raw[0], start, start + len(text)))
    found = []
    for piece in _PIECE.finditer(text):
        at = start + piece.start()
        kind = next((kind for a, b, kind in spans if a <= at < b), "")
        line = module.source[module.source.rfind(b"\n", 0, at) + 1 : at]
        is_code = kind == _STRING and (_PLACEHOLDER.match(piece[0]) or _EXAMPLE.match(line))
        found.append("" if is_code else kind)
    return found


def _spans(module: tree_sitter.Node, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """Yield where comments, and the texts of strings that are prose, are."""
    for raw in raw_walk([module]):
        if raw.end_byte <= start or end <= raw.start_byte:
            continue
        if raw.type == "comment":
            yield raw.start_byte, raw.end_byte, _COMMENT
        elif raw.type == "string_content" and b" " in (raw.text or b"") and _is_told(raw):
            yield raw.start_byte, raw.end_byte, _STRING


def _is_told(content: tree_sitter.Node) -> bool:
    """Whether a string is a docstring, or goes to a person."""
    node = content.parent
    while node is not None and not node.type.endswith("_statement"):
        function = node.child_by_field_name("function") if node.type == "call" else None
        if function is not None and is_log(function):
            return True
        node = node.parent
    is_docstring = node is not None and node.named_children[0] == content.parent
    return is_docstring or (node is not None and node.type in _TOLD)
