"""Never silently wrong: what a merge made is held against what the patch does."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from pkgtools.merge.blocks import is_sound

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from pkgtools.merge.blocks import Block

T = TypeVar("T", bound="Hashable")


@dataclass(frozen=True)
class Comparison:
    """The versions of a file around one merge."""

    base: Block
    ours: Block
    ported: tuple[tuple[Block, Block], ...]
    """Theirs and what was made of it: the file, and others into which definitions moved."""
    absorbed: Counter[bytes]
    """Tokens of ours' change that theirs had already."""


def problem(merge: Comparison, *, renested: bool) -> str | None:
    """Return what is wrong with a merge, or None.

    Args:
        merge: the versions around it.
        renested: whether a rule put statements at another depth than ours has them.

    """
    if not all(reads_as_well(made, theirs) for theirs, made in merge.ported):
        return "the result is not Python"
    wanted = _difference(merge.base, merge.ours, _tokens)
    wanted.subtract(merge.absorbed)
    made = _sum(_difference(old, new, _tokens) for old, new in merge.ported)
    if _differ(wanted, made):
        return "the patch's change is not in the result, once and whole"
    if renested or merge.absorbed:
        return None
    deep = _difference(merge.base, merge.ours, _deep_tokens)
    made_deep = _sum(_difference(old, new, _deep_tokens) for old, new in merge.ported)
    if _differ(deep, made_deep):
        return "the patch's change is in the result, but not in the same block"
    return None


def reads_as_well(made: Block, theirs: Block) -> bool:
    """Whether a result is Python, to tree-sitter and, as upstream's file was, to Python itself.

    tree-sitter takes more than Python does, and newer Python than the one that runs this.
    """
    return is_sound(made) and (
        syntax_error(made.source) is None or syntax_error(theirs.source) is not None
    )


@lru_cache(maxsize=12)
def syntax_error(source: bytes) -> str | None:
    """Return why Python does not compile a file, with the line; None if it does."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # upstream's own
            compile(source, "", "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, MemoryError, RecursionError) as error:  # a null byte, absurd nesting
        return str(error) or type(error).__name__
    return None


def _tokens(block: Block) -> Counter[bytes]:
    return block.counted


def _deep_tokens(block: Block) -> Counter[tuple[int, bytes]]:
    return block.counted_by_depth


def _difference(old: Block, new: Block, count: Callable[[Block], Counter[T]]) -> Counter[T]:
    """Return how many more of each token the new module has; equal statements are not read."""
    common = Counter(n.text for n in old.elements) & Counter(n.text for n in new.elements)
    found: Counter[T] = Counter()
    for module, add in ((new, found.update), (old, found.subtract)):
        left = Counter(common)
        for block in module.elements:
            if left[block.text]:
                left[block.text] -= 1
            else:
                add(count(block))
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
