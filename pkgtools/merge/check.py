"""Never silently wrong: what a merge made is held against what the patch does."""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pkgtools.merge.blocks import is_sound

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from pkgtools.merge.blocks import Node

T = TypeVar("T", bound="Hashable")


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
    if not all(reads_as_well(made, theirs) for theirs, made in change.ported):
        return "the result is not Python"
    wanted = _difference(change.base.counted, change.ours.counted)
    wanted.subtract(change.absorbed)
    made = _sum(_difference(old.counted, new.counted) for old, new in change.ported)
    if _differ(wanted, made):
        return "the patch's change is not in the result, once and whole"
    if renested or change.absorbed:
        return None
    deep = _difference(change.base.counted_by_depth, change.ours.counted_by_depth)
    made_deep = _sum(
        _difference(old.counted_by_depth, new.counted_by_depth) for old, new in change.ported
    )
    if _differ(deep, made_deep):
        return "the patch's change is in the result, but not in the same block"
    return None


def reads_as_well(made: Node, theirs: Node) -> bool:
    """Whether a result is Python, to tree-sitter and, as upstream's file was, to Python itself.

    tree-sitter takes more than Python does, and newer Python than the one that runs this.
    """
    return is_sound(made) and (_compiles(made) or not _compiles(theirs))


def _compiles(module: Node) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # upstream's own
            ast.parse(module.source)
    except (SyntaxError, ValueError):
        return False
    return True


def _difference(old: Counter[T], new: Counter[T]) -> Counter[T]:
    found = Counter(new)
    found.subtract(old)
    return found


def _sum(counters: Iterable[Counter[T]]) -> Counter[T]:
    total: Counter[T] = Counter()
    for counter in counters:
        total.update(counter)
    return total


def _differ(one: Counter[T], other: Counter[T]) -> bool:
    """Whether two changes differ in more than what a formatter adds and takes away."""
    return any(one[key] != other[key] for key in {*one, *other} if not _is_layout(key))


def _is_layout(key: object) -> bool:
    token = key[1] if isinstance(key, tuple) else key
    return token in (b",", b"(", b")")
