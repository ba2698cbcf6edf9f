"""Never silently wrong: what a merge made is held against what the patch does."""

import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from functools import lru_cache
from typing import Final, TypeVar

import tree_sitter

from pkgtools.merge.syntax.blocks import Block, is_sound
from pkgtools.merge.syntax.tokens import block_tokens, is_within, text_of

_DEFINITIONS: Final = {"class_definition", "decorated_definition", "function_definition"}

T = TypeVar("T", bound="Hashable")


def problem(
    base: Block,
    ours: Block,
    ported: Iterable[tuple[Block, Block]],
    *,
    absorbed: Counter[bytes],
    renested: bool,
) -> str | None:
    """Return what is wrong with a merge, or None.

    Args:
        base: the file before the change of ours.
        ours: the file with it.
        ported: theirs and what was made of it: the file, and others into which definitions moved.
        absorbed: tokens of ours' change that theirs had already.
        renested: whether a rule put statements at another depth than ours has them.
    """
    wanted, made = _difference(base, ours), Counter[tuple[int, bytes]]()
    for old, new in ported:
        if not reads_as_well(new, old):
            return "the result is not Python"
        made.update(_difference(old, new))
    flat = _without_depth(wanted)
    flat.subtract(absorbed)
    if _differ(flat, _without_depth(made)):
        return "the patch's change is not in the result, once and whole"
    if renested or absorbed:
        return None
    if _differ(wanted, made):
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


def _difference(old: Block, new: Block) -> Counter[tuple[int, bytes]]:
    """Return how many more of each token, in how many blocks, the new module has.

    Most of a module stays as it is: what stands in both is not read.
    """
    before, behind = (
        Counter((text_of(raw), raw.type) for raw in units)
        for units in (_units(old.raw[0]), _units(new.raw[0]))
    )
    found: Counter[tuple[int, bytes]] = Counter()
    for module, left, add in (
        (new, behind - before, found.update),
        (old, before - behind, found.subtract),
    ):
        for raw in _units(module.raw[0]) if left else ():
            key = text_of(raw), raw.type
            if left[key]:
                left[key] -= 1
                add(block_tokens(raw))
    return found


def _units(module: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    """Yield the statements of a module, and definitions in parts: headers and statements.

    All of them have no block around them, as `block_tokens` counts.
    """
    stack = list(module.children)
    while stack:
        raw = stack.pop()
        if raw.type in _DEFINITIONS or (raw.type == "block" and is_within(raw, *_DEFINITIONS)):
            stack += raw.children
        else:
            yield raw


def _without_depth(counts: Counter[tuple[int, bytes]]) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    for (_, token), number in counts.items():
        found[token] += number
    return found


def _differ(one: Counter[T], other: Counter[T]) -> bool:
    """Whether two changes differ in more than what a formatter adds and takes away."""
    changed = (key for key in {*one, *other} if one[key] != other[key])
    tokens = (key[1] if isinstance(key, tuple) else key for key in changed)
    return any(token not in (b",", b"(", b")") for token in tokens)
