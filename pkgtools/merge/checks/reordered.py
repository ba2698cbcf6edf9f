"""Check that the statements of a function stay in the order in which a side has them.

Example: the patch puts ``a = x`` into a block further down, and upstream adds ``x = y`` between.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations, pairwise
from typing import Final

import tree_sitter

from pkgtools.merge.checks.landing import LandedFile
from pkgtools.merge.lines import Chunk
from pkgtools.merge.syntax.effects import effects_of, independent
from pkgtools.merge.syntax.names import definition_at, owners, qualified_name, statements_of
from pkgtools.merge.syntax.tokens import DEFINITIONS, text_of

_OPTION: Final = re.compile(rb"[\w.]+\.add_argument\(\s*[\"']-")
"""Options of a command line, which can be in any order."""
_Order = dict[bytes, tuple[int, tree_sitter.Node]]


def reordered(file: LandedFile) -> dict[Chunk, str]:
    """Return the chunks after which statements run in another order than the sides have them in."""
    faults: dict[Chunk, str] = {}
    for made in file.changed_functions if file.done and file.versions.upstream else ():
        path = qualified_name((*owners(made), made))
        ours, theirs = (definition_at(m.root, path) for m in (file.ours, file.theirs))
        if ours is None or theirs is None or made.text in (ours.text, theirs.text):
            continue
        if not any(_has_moved_lines(made, side) for side in (ours, theirs)):
            continue
        found, *sides = map(_order, (made, ours, theirs))
        for pair in (*_swapped(found, *sides), *_swapped(found, *reversed(sides))):
            texts = {c: file.text(c) + file.text(c, 0) for c in file.done}
            heads = [key.partition(b"\n")[0] for key in pair]
            guilty = [c for c, text in texts.items() if any(head in text for head in heads)]
            shown = [head.decode(errors="replace") for head in heads]
            reason = f"`{shown[0]}` would run before `{shown[1]}`, unlike in one side"
            faults.update(dict.fromkeys(guilty or file.done, reason))
    return faults


def _has_moved_lines(made: tree_sitter.Node, side: tree_sitter.Node) -> bool:
    """Whether lines are in another order than in a side; statements take longer to look at."""
    there = _lines(side)
    places = [there[line] for line in _lines(made) if line in there]
    return any(one > two for one, two in pairwise(places))


@lru_cache(maxsize=512)  # each round of a merge asks for the functions of both sides
def _lines(function: tree_sitter.Node) -> dict[bytes, int]:
    """Return the lines that a function has once, by their text, in order."""
    lines = [line.strip() for line in text_of(function).splitlines()]
    numbers = Counter(lines)
    return {line: at for at, line in enumerate(lines) if numbers[line] == 1}


def _order(function: tree_sitter.Node) -> _Order:
    """Return the statements that a function has once, by their first line."""
    source, start = text_of(function), function.start_byte
    found: _Order = {}
    twice = set()
    for at, raw in enumerate(statements_of(function)):
        is_statement = raw.parent is not None and raw.parent.type == "block"
        if is_statement and raw.type not in ("comment", "pass_statement", *DEFINITIONS):
            is_whole = raw.type.startswith("expr")
            end = raw.end_byte - start if is_whole else source.find(b"\n", raw.start_byte - start)
            key = source[raw.start_byte - start : end if end >= 0 else None].rstrip()
            twice |= {key} & {*found}
            found[key] = at, raw
    return {key: one for key, one in found.items() if key not in twice}


def _swapped(made: _Order, side: _Order, other: _Order) -> Iterator[tuple[bytes, bytes]]:
    """Yield statements that are in another order than in a side, and not as the other has them."""
    both = [key for key in made if key in side]
    if all(side[one][0] < side[two][0] for one, two in pairwise(both)):
        return
    for one, two in combinations(both, 2):
        if side[one][0] < side[two][0]:
            continue
        if one in other and two in other and other[one][0] < other[two][0]:
            continue
        if all(map(_OPTION.match, (one, two))):
            continue
        if not independent(effects_of([made[one][1]]), effects_of([made[two][1]])):
            yield one, two
