"""Which lines, and which blocks, of two versions are each other's."""

import bisect
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, TypeVar

from pkgtools.merge.lines import Chunk
from pkgtools.merge.syntax.blocks import Block, similarity

T = TypeVar("T")

ALIKE: Final = 0.6
"""The least share of common tokens of two versions of one statement."""
_MARGIN: Final = 0.1
"""The least lead of a counterpart over the next best one."""


def matching_blocks(
    old: Sequence[Hashable], new: Sequence[Hashable]
) -> Iterator[tuple[int, int, int]]:
    """Yield runs of equal items as (old start, new start, length), in order.

    Items that are unique on both sides are anchors (patience diff); between the
    anchors `difflib` decides, which alone would take seconds on a large file.
    """
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    if start:
        yield 0, 0, start
    yield from _between(old, new, (start, len(old) - end), (start, len(new) - end))
    if end:
        yield len(old) - end, len(new) - end, end


def gaps(old: Sequence[Hashable], new: Sequence[Hashable]) -> Iterator[Chunk]:
    """Yield the changes between the runs of equal items."""
    at_old = at_new = 0
    for one, other, size in [*matching_blocks(old, new), (len(old), len(new), 0)]:
        if (at_old, at_new) != (one, other):
            yield Chunk(at_old, one, at_new, other)
        at_old, at_new = one + size, other + size


def _between(
    old: Sequence[Hashable], new: Sequence[Hashable], a: tuple[int, int], b: tuple[int, int]
) -> Iterator[tuple[int, int, int]]:
    if a[0] == a[1] or b[0] == b[1]:
        return
    # Patience diff (Bram Cohen): unique lines do not pair braces and blank lines by chance.
    anchors = _anchors(old, new, a, b)
    if not anchors:
        # autojunk would drop items that are frequent in long sequences.
        matcher = SequenceMatcher(None, old[a[0] : a[1]], new[b[0] : b[1]], autojunk=False)
        for one, other, size in matcher.get_matching_blocks():
            if size:
                yield a[0] + one, b[0] + other, size
        return
    at_a, at_b = a[0], b[0]
    for one, other in anchors:
        if one < at_a or other < at_b:
            continue
        first_a, first_b = one, other
        while first_a > at_a and first_b > at_b and old[first_a - 1] == new[first_b - 1]:
            first_a, first_b = first_a - 1, first_b - 1
        yield from _between(old, new, (at_a, first_a), (at_b, first_b))
        at_a, at_b = one + 1, other + 1
        while at_a < a[1] and at_b < b[1] and old[at_a] == new[at_b]:
            at_a, at_b = at_a + 1, at_b + 1
        yield first_a, first_b, at_a - first_a
    yield from _between(old, new, (at_a, a[1]), (at_b, b[1]))


def _anchors(
    old: Sequence[Hashable], new: Sequence[Hashable], a: tuple[int, int], b: tuple[int, int]
) -> list[tuple[int, int]]:
    """Return the longest run, in order on both sides, of items unique on both."""
    olds, news = Counter(old[a[0] : a[1]]), Counter(new[b[0] : b[1]])
    where = {new[j]: j for j in range(*b) if news[new[j]] == 1}
    pairs = [(i, where[old[i]]) for i in range(*a) if olds[old[i]] == 1 and old[i] in where]
    return _increasing(pairs)


def _increasing(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence whose second numbers increase."""
    tails: list[int] = []
    where: list[int] = []
    before: list[int] = []
    for index, (_, number) in enumerate(pairs):
        # Patience sorting: the longest increasing subsequence in O(n log n).
        at = bisect.bisect_left(tails, number)
        before.append(where[at - 1] if at else -1)
        tails[at : at + 1] = [number]
        where[at : at + 1] = [index]
    chain = []
    index = where[-1] if where else -1
    while index >= 0:
        chain.append(pairs[index])
        index = before[index]
    return chain[::-1]


def clearly_best(scores: Iterable[tuple[float, T]], *, least: float, lead: float) -> T | None:
    """Return the item with the highest score, if that and its lead over the next are enough."""
    ranked = sorted(scores, key=lambda pair: -pair[0])
    rival = ranked[1][0] if len(ranked) > 1 else 0.0
    found = next(iter(ranked), None)
    return found[1] if found and found[0] >= least and found[0] - rival >= lead else None


def align(old: Sequence[Block], new: Sequence[Block]) -> dict[int, int]:
    """Return which of `old` is which of `new`, by index.

    Equal ones in order first; then those that are called the same, or are equal,
    wherever they stand; then those between the same neighbours that are alike.
    """
    pairs: dict[int, int] = {}
    for one, other, size in matching_blocks([n.text for n in old], [n.text for n in new]):
        pairs.update(zip(range(one, one + size), range(other, other + size), strict=True))
    # The surest label first: a name identifies a definition even after it was rewritten.
    _pair_unique(old, new, pairs, lambda node: node.key)
    _pair_unique(old, new, pairs, lambda node: (node.kind, node.squeezed))
    _pair_unique(old, new, pairs, lambda node: None if node.is_comment else node.text)
    _pair_alike(old, new, pairs)
    return pairs


def _pair_unique(
    old: Sequence[Block],
    new: Sequence[Block],
    pairs: dict[int, int],
    label: Callable[[Block], Hashable],
) -> None:
    taken = set(pairs.values())
    left = {i: label(n) for i, n in enumerate(old) if i not in pairs}
    right = {j: label(n) for j, n in enumerate(new) if j not in taken}
    olds, news = Counter(left.values()), Counter(right.values())
    where = {name: j for j, name in right.items() if name is not None and news[name] == 1}
    for i, name in left.items():
        if olds[name] == 1 and name in where:
            pairs[i] = where[name]


def _pair_alike(old: Sequence[Block], new: Sequence[Block], pairs: dict[int, int]) -> None:
    """Pair what is left between the same neighbours, where only one fits well."""
    taken = set(pairs.values())
    left = [i for i, n in enumerate(old) if i not in pairs and not n.is_comment]
    right = [j for j, n in enumerate(new) if j not in taken and not n.is_comment]
    fits: list[tuple[float, int, int]] = []
    for i in left:
        low = max(((k, m) for k, m in pairs.items() if k < i), default=(-1, -1))[1]
        high = min(((k, m) for k, m in pairs.items() if k > i), default=(0, len(new)))[1]
        fits += [
            (similarity(old[i], new[j], at_least=ALIKE - _MARGIN), i, j)
            for j in right
            if low < j < high and old[i].kind == new[j].kind and not _is_special(old[i], new[j])
        ]
    fits.sort(key=lambda fit: (-fit[0], fit[1], fit[2]))
    for ratio, i, j in fits:
        if ratio < ALIKE:
            break
        # Of two that fit nearly as well, the choice would be a guess.
        rivals = [r for r, k, m in fits if (k == i) != (m == j)]
        if ratio - max(rivals, default=0.0) >= _MARGIN:
            pairs[i] = j


def _is_special(old: Block, new: Block) -> bool:
    """Whether Python calls one of two definitions by its name, which the other one lacks."""
    names = {n.name or b"" for n in (old, new)}
    return len(names) > 1 and any(n.startswith(b"__") and n.endswith(b"__") for n in names)
