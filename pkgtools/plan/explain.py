"""Why a hunk has no place: the nearest look-alike, and whether it is there already."""

from __future__ import annotations

import difflib
from collections import Counter

from pkgtools.patch.lines import text
from pkgtools.plan.match import find_block, line_of
from pkgtools.plan.model import Nearest

_CANDIDATES = 5
_COMMON = 50
"""A line that stands in more places than this says nothing about where a hunk belongs."""


def nearest_place(data: bytes, block: bytes) -> Nearest | None:
    """Return the place in `data` whose lines resemble those of `block` most."""
    wanted, lines = block.splitlines(), data.splitlines()
    where: dict[bytes, list[int]] = {}
    for number, line in enumerate(lines):
        where.setdefault(line.strip(), []).append(number)
    votes: Counter[int] = Counter()
    for number, line in enumerate(wanted):
        places = where.get(line.strip(), [])
        if line.strip() and len(places) <= _COMMON:
            for place in places:
                votes[max(place - number, 0)] += 1
    best: Nearest | None = None
    for start, _ in votes.most_common(_CANDIDATES):
        window = lines[start : start + len(wanted)]
        ratio = difflib.SequenceMatcher(None, wanted, window, autojunk=False).ratio()
        if best is None or ratio > best.similarity:
            shown = difflib.ndiff([text(x) for x in wanted], [text(x) for x in window])
            diff = tuple(line for line in shown if not line.startswith("?"))
            best = Nearest(start + 1, round(ratio, 3), diff)
    return best


def absorbed_at(path: str, data: bytes, before: bytes, after: bytes) -> int | None:
    """Return the 1-based line where `data` already holds `after`, if it does.

    Python is compared without comments, so that an upstream which took the same
    change over with a remark of its own is recognised. A post-image without a
    single added line proves nothing in an ordinary place, so only one that
    stands exactly once counts.
    """
    if not after.strip():
        return None
    found = list(find_block(data, after))
    if not found and path.endswith(".py"):
        plain = _without_comments(data)
        bare = _without_comments(after)
        if bare != _without_comments(before):
            found, data = list(find_block(plain, bare)), plain
    return line_of(data, found[0]) if len(found) == 1 else None


def _without_comments(source: bytes) -> bytes:
    """Return `source` with each line cut at its comment; the number of lines stays."""
    return b"\n".join(_cut_comment(line) for line in source.split(b"\n"))


def _cut_comment(line: bytes) -> bytes:
    quote = 0
    at = 0
    while at < len(line):
        byte = line[at]
        if quote:
            if byte == 0x5C:  # a backslash takes the next byte with it
                at += 1
            elif byte == quote:
                quote = 0
        elif byte in b"'\"":
            quote = byte
        elif byte == 0x23:  # '#'
            return line[:at].rstrip()
        at += 1
    return line.rstrip()
