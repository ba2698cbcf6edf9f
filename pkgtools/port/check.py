"""Never silently wrong: what a merge made is held against what the patch does."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pkgtools.port.blocks import is_sound
from pkgtools.port.tokens import block_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pkgtools.port.blocks import Node


@dataclass(frozen=True)
class Change:
    """The versions of a file around one merge."""

    base: Node
    ours: Node
    ported: tuple[tuple[Node, Node], ...]
    """Theirs and what was made of it: the file, and others into which definitions moved."""
    absorbed: Counter[bytes]
    """Tokens of ours' change that theirs had already."""


def problem(change: Change, *, renested: bool) -> str | None:
    """Return what is wrong with a merge, or None.

    Args:
        change: the merge.
        renested: whether a rule put statements at another depth than ours has them.

    """
    if not all(is_sound(made) for _, made in change.ported):
        return "the result is not Python"
    wanted = _difference(change.base, change.ours, flat=True)
    wanted.subtract({(0, token): count for token, count in change.absorbed.items()})
    if _differ(wanted, _made(change, flat=True)):
        return "the patch's change is not in the result, once and whole"
    if renested or change.absorbed:
        return None
    wanted = _difference(change.base, change.ours, flat=False)
    if _differ(wanted, _made(change, flat=False)):
        return "the patch's change is in the result, but not in the same block"
    return None


def _made(change: Change, *, flat: bool) -> Counter[tuple[int, bytes]]:
    total: Counter[tuple[int, bytes]] = Counter()
    for theirs, made in change.ported:
        for key, count in _difference(theirs, made, flat=flat).items():
            total[key] += count
    return total


def _difference(old: Node, new: Node, *, flat: bool) -> Counter[tuple[int, bytes]]:
    found = Counter(depths(new, flat=flat))
    found.subtract(Counter(depths(old, flat=flat)))
    return found


def _differ(one: Counter[tuple[int, bytes]], other: Counter[tuple[int, bytes]]) -> bool:
    """Whether two changes differ in more than what a formatter adds and takes away."""
    return any(one[key] != other[key] for key in {*one, *other} if key[1] not in (b",", b"(", b")"))


def depths(module: Node, *, flat: bool) -> Iterator[tuple[int, bytes]]:
    """Yield each token with how many blocks of its definition it stands in."""
    if flat:
        yield from ((0, token) for token in module.tokens)
        return
    yield from block_tokens(module.raw[0])
