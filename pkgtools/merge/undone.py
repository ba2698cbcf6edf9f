"""Changes of both sides that undo each other: two ways to correct one mistake.

Example: of ``x = a if c else b`` ours makes ``x = b if c else a`` and theirs
``x = a if not c else b``. Both together are what base was.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from pkgtools.merge.landing import Landed
from pkgtools.merge.lines import Chunk
from pkgtools.merge.versions import Versions

_WORD: Final = re.compile(rb"[\w\x80-\xff]+|[^\w\s,()]")
_NEGATIONS: Final = frozenset(b"not is ! = < >".split())
_NEAR: Final = 2
"""Lines between two changes of one statement, as an ``else:`` is."""


def undone(file: Landed) -> dict[Chunk, str]:
    """Return the chunks carried by a rule that only exchange words, where upstream does so, too.

    And those that only negate, where upstream exchanges words, or the other way round.
    """
    reason = "one side exchanges what the other one exchanges or negates"
    found = _undone(file.versions) if file.by_rule else ()
    return {c: reason for c in found if c in file.by_rule}


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
