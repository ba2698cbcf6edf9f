"""Changes of both sides that undo each other, or that use one name for different things.

Example: of ``x = a if c else b`` ours makes ``x = b if c else a`` and theirs
``x = a if not c else b``: two ways to correct one mistake. Both together are what base was.

Another one: of ``run(c.a, c.b, 1)`` ours makes ``run(c.a, c.b, c.a)`` and theirs
``run(c.b, c.a, 1)``. Where theirs exchanged the names of the attributes, ours' new ``c.a`` is its
``c.b``; where it exchanged the parameters of `run`, it is not.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from keyword import iskeyword
from typing import Final

from pkgtools.merge.checks.landing import LandedFile
from pkgtools.merge.lines import Chunk, touches
from pkgtools.merge.model import How
from pkgtools.merge.syntax.align import gaps, matching_blocks
from pkgtools.merge.syntax.names import IMPORTS, inside
from pkgtools.merge.syntax.tokens import ancestors
from pkgtools.merge.versions import Versions

_WORD: Final = re.compile(rb"[\w\x80-\xff]+|[^\w\s,()]")
_NEGATIONS: Final = frozenset(b"not is ! = < >".split())
_LEAF: Final = re.compile(rb"\.?[\w\x80-\xff]+|[^\w\s]")
"""A word, an attribute with its point, or a sign."""
_NAME: Final = re.compile(rb"\.?(?!self\b|cls\b)[^\W\d]\w*")
_PROVEN: Final = {"joined-import", "joined-names", "same-value", "words-in-text"}
"""Rules that read the words of both sides themselves."""
_CONDITION: Final = re.compile(rb"\s*(?:if|elif|while)\b")
_ADDING: Final = frozenset(("import-restored", "neighbour-changed"))
"""Rules that only add statements or arguments."""
_NEAR: Final = 2
"""Lines between two changes of one statement, as an ``else:`` is."""


def undone(file: LandedFile) -> dict[Chunk, str]:
    """Return the chunks carried by a rule that do not fit what upstream changes there.

    Either both sides only exchange or negate words, and one at least exchanges; or one negates the
    condition of lines that the other one adds; or one uses a name that the other one replaces.
    """
    reason = "one side exchanges what the other one exchanges or negates"
    by_rule = {m.chunk: m.rules for m in file.merged.chunks if m.how is How.MERGED}
    faults = {c: reason for c in _undone(file.versions) if c in by_rule} if by_rule else {}
    for chunk, rules in by_rule.items():
        if not _PROVEN.isdisjoint(rules) or _is_import(file, chunk):
            continue
        if _negates(file.versions, chunk):
            faults[chunk] = "one side negates the condition under which the other one adds lines"
        names = _reused(file.versions, chunk, apart=_ADDING.issuperset(rules))
        if names:
            shown = min(names).removeprefix(b".").decode(errors="replace")
            faults[chunk] = f"one side replaces `{shown}`, which the other one uses there"
    return faults


def _is_import(file: LandedFile, chunk: Chunk) -> bool:
    """Whether the lines are part of an import, in which each name stands for itself."""
    nodes = inside(file.ours.root, chunk.new_lines)
    names = (n for n in nodes if n.type == "identifier")
    return all(any(outer.type in IMPORTS for outer in ancestors(n)) for n in names)


def _undone(versions: Versions) -> Iterator[Chunk]:
    for mine, upstream in _near(versions):
        start = min(c.old for c in (*mine, *upstream))
        end = max(c.old_end for c in (*mine, *upstream))
        base = versions.lines[0][start:end]
        kinds = []
        for chunks, lines in ((mine, versions.lines[1]), (upstream, versions.lines[2])):
            first = chunks[0].new - (chunks[0].old - start)
            last = chunks[-1].new_end + end - chunks[-1].old_end
            kinds.append(_kind(base, lines[first:last]))
        if "exchange" in kinds and "" not in kinds:
            yield from mine


def _negates(versions: Versions, chunk: Chunk) -> bool:
    """Whether a side only negates a condition, and the other one changes the lines behind it."""
    base = versions.lines[0]
    for rival in versions.upstream:
        sides = [(chunk, versions.lines[1]), (rival, versions.lines[2])]
        (one, lines), (other, _) = sorted(sides, key=lambda side: (side[0].old, side[0].old_end))
        last = [*base[one.old : one.old_end][-1:], *lines[one.new : one.new_end][-1:]]
        words = [Counter(_WORD.findall(line)) for line in last if _CONDITION.match(line)]
        if len(words) == 2 and one.old_end == other.old:
            changed = {*(words[0] - words[1]), *(words[1] - words[0])}
            if changed and changed <= {b"not", b"!", b"="}:
                return True
    return False


def _reused(versions: Versions, chunk: Chunk, *, apart: bool) -> set[bytes]:
    """Return the names that one side gives to something else where the other one uses them.

    Args:
        versions: the files.
        chunk: a chunk of ours.
        apart: whether ours only adds statements or arguments.
    """
    found: set[bytes] = set()
    for rival in versions.upstream:
        if not touches(chunk, rival):
            continue
        changes = [
            (versions.lines[0][c.old : c.old_end], lines[c.new : c.new_end])
            for c, lines in ((chunk, versions.lines[1]), (rival, versions.lines[2]))
        ]
        for side, other in (changes, reversed(changes)):
            pairs = {*_exchanged(*side)}
            old, new = ({pair[n] for pair in pairs} for n in (0, 1))
            gone, come, beside = _changed(*other)
            found |= old & new & (gone | come | beside) | (set() if apart else old & come - gone)
    return found


def _exchanged(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the names that stand in each other's place in lines with the same signs."""
    sides = [[_LEAF.findall(line) for line in lines] for lines in (old, new)]
    shapes = [[tuple(map(_shape, leaves)) for leaves in side] for side in sides]
    for one, other, size in matching_blocks(*shapes):
        for n in range(size):
            pairs = [*zip(sides[0][one + n], sides[1][other + n], strict=True)]
            if _are_of_one_line(pairs):
                yield from (pair for pair in pairs if pair[0] != pair[1])


def _are_of_one_line(pairs: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether most names of two lines are the same, or all in another order."""
    names = [pair for pair in pairs if _NAME.fullmatch(pair[0])]
    old, new = (sorted(pair[n] for pair in names) for n in (0, 1))
    return old == new or 2 * sum(a != b for a, b in names) <= len(names)


def _shape(leaf: bytes) -> bytes:
    """Return what a name has in common with other names; all of what is none."""
    is_name = _NAME.fullmatch(leaf) and not iskeyword(leaf.decode())
    return leaf[: leaf.startswith(b".")] if is_name else leaf


def _changed(old: Sequence[bytes], new: Sequence[bytes]) -> tuple[set[bytes], ...]:
    """Return the words that some lines lose, those that they get, and those beside."""
    one, other = (_LEAF.findall(b"".join(lines)) for lines in (old, new))
    gone, come, beside = set[bytes](), set[bytes](), set[bytes]()
    for c in gaps(one, other):
        before, behind = one[c.old : c.old_end], other[c.new : c.new_end]
        gone.update(before)
        come.update(behind)
        first, last = ((*before[end], *behind[end]) for end in (slice(1), slice(-1, None)))
        beside.update(one[c.old - 1 : c.old] if b"," not in first else ())
        beside.update(one[c.old_end : c.old_end + 1] if b"," not in last else ())
    return gone, come, beside


def _near(versions: Versions) -> Iterator[tuple[list[Chunk], list[Chunk]]]:
    """Yield the chunks of both sides that are near to each other."""
    both = [(c, 0) for c in versions.mine] + [(c, 1) for c in versions.upstream]
    group: tuple[list[Chunk], list[Chunk]] = [], []
    end = 0
    for chunk, side in sorted(both, key=lambda pair: pair[0].old):
        if chunk.old > end + _NEAR:
            if all(group):
                yield group
            group = [], []
        group[side].append(chunk)
        end = max(end, chunk.old_end)
    if all(group):
        yield group


def _kind(old: list[bytes], new: list[bytes]) -> str:
    words = [_WORD.findall(b"".join(lines)) for lines in (old, new)]
    one, other = map(Counter, words)
    changed = {*(one - other), *(other - one)}
    if words[0] == words[1] or not changed <= _NEGATIONS:
        return ""
    return "negation" if changed else "exchange"
