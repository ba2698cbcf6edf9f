"""Additions of both sides to one block: added once, or left as a conflict.

A merge of lines takes two equal additions at different places as two changes, and makes
them twice: two methods of one name, of which the later wins, or an option that is registered
twice, with which the program does not start.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final

from pkgtools.merge.rules.order import Order, is_exclusive, is_import, is_registration, order_of
from pkgtools.merge.syntax.align import align
from pkgtools.merge.syntax.blocks import Block, Shape, same
from pkgtools.merge.syntax.effects import effects, imported_names, independent
from pkgtools.merge.syntax.tokens import ancestors, arguments, raw_walk, tokens_of

_NAMED: Final = {"assignment", "class", "function"}
"""Statements that give one name in their block a meaning."""
_ONCE: Final = {
    *("call", "class", "default_parameter", "function", "keyword_argument", "pair"),
    *("typed_default_parameter", "typed_parameter"),
}
"""Statements that must not repeat in one block; assignments may."""
_BRANCHES: Final = {"case_clause", "elif_clause", "except_clause"}
_LITERALS: Final = {"integer", "string"}
_ENUM: Final = re.compile(rb"(?:Enum|Flag)\b")
_KEYED: Final = re.compile(rb"""@[\w.]*(?:\bregister\w*\(["'][^"']*["']|\w\(["']/[^"']*["'])""")
"""A decorator that puts a definition under a key: of a registry, or a path of a server."""
_OVERRIDES: Final = {"dictionary_splat": ("keyword_argument", "pair")}


@lru_cache(maxsize=8)  # each round of a merge asks for the same versions
def doubled(base: Block, ours: Block, theirs: Block) -> tuple[Block, ...]:
    """Return what ours adds to a block to which theirs adds the same, or another of that name."""
    return tuple(_doubled(base, ours, theirs))


def _doubled(base: Block, ours: Block, theirs: Block) -> Iterator[Block]:
    if same(base, ours) or same(base, theirs):
        return
    if base.elements or base.shape in (Shape.BODY, Shape.LIST):
        to_ours = align(base.elements, ours.elements)
        to_theirs = align(base.elements, theirs.elements)
        known = set(to_ours.values())
        for index, block in enumerate(ours.elements):
            if index not in known and not block.is_comment:
                lists = base.elements, theirs.elements
                if twins(block, *lists) or rival(block, *lists):
                    yield block
        for index, other in to_ours.items():
            if index in to_theirs:
                one, three = base.elements[index], theirs.elements[to_theirs[index]]
                made = ours.elements[other]
                is_new = not (made.is_comment or same(one, made))
                found = twins(made, base.elements, theirs.elements) if is_new else []
                if found and three not in found:
                    yield made
                yield from _doubled(one, made, three)
        return
    for role, part in base.parts.items():
        if role in ours.parts and role in theirs.parts:
            yield from _doubled(part, ours.parts[role], theirs.parts[role])


def twins(block: Block, base: Sequence[Block], theirs: Sequence[Block]) -> list[Block]:
    """Return what is the same as `block` in theirs, if there is more of it than in base."""
    found = [n for n in theirs if _has_all(n, block)]
    return found if len(found) > sum(_has_all(n, block) for n in base) else []


def rival(block: Block, base: Sequence[Block], theirs: Sequence[Block]) -> Block | None:
    """Return what theirs adds under a name that `block` gives, or what may override it."""
    names = _names(block)
    known = {name for n in base for name in _names(n)}
    for other in theirs:
        if (names & _names(other)) - known:
            return other
        if block.kind in _OVERRIDES.get(other.kind, ()) and not any(same(other, n) for n in base):
            return other
        if _sets_the_same(block, other) and all(n.key != other.key for n in base):
            return other
    return None


def _sets_the_same(one: Block, other: Block) -> bool:
    """Whether two `if` statements on one condition give a value to the same thing."""
    if not one.kind == other.kind == "if_statement" or one.key != other.key:
        return False
    return not _assigned(one).isdisjoint(_assigned(other))


def _assigned(block: Block) -> set[bytes]:
    nodes = (n for n in raw_walk(block.raw) if n.type == "assignment")
    return {left.text or b"" for n in nodes if (left := n.child_by_field_name("left"))}


def _has_all(one: Block, block: Block) -> bool:
    """Whether a statement is the same as another one, or imports all that the other one does."""
    if one.kind == block.kind == "import_from_statement" and one.key == block.key:
        names = {n.tokens for n in _imported(block)}
        return bool(names) and names <= {n.tokens for n in _imported(one)}
    return same(one, block)


def _imported(block: Block) -> Sequence[Block]:
    return block.parts["names"].elements if "names" in block.parts else ()


@lru_cache(maxsize=4096)  # for each block that a side adds, all beside it are asked
def _names(block: Block) -> frozenset[tuple[str, bytes]]:
    """Return the names that a block gives among its siblings, each of which can be given once."""
    if is_import(block) and block.kind.endswith("_statement"):
        return frozenset(("name", name) for name in imported_names(block.raw[0]))
    if block.key is None:
        return frozenset()
    kind, name = block.key
    names = {*_registered(block)} if kind in ("call", *_NAMED) else set()
    if is_exclusive(block) or is_registration(block) or kind in _BRANCHES:
        names.add(("name" if kind in _NAMED else kind, name))
    return frozenset(names)


def _registered(block: Block) -> Iterator[tuple[str, bytes]]:
    """Yield what a block gives beside its name: options, a key of a registry, an enum's value."""
    raw = block.raw[0]
    if is_registration(block) and block.key and b"add_argument" in block.key[1]:
        called = block.key[1].partition(b"(")[0]
        given = arguments(raw)
        options = [(n.text or b"").strip(b"\"'") for n in given if n.type == "string"]
        stored = [n.children[-1] for n in given if (n.text or b"").startswith(b"dest=")]
        yield from (("option", called + b" " + option) for option in options)
        # argparse stores the value under the first long option, unless `dest` names another.
        long = [option for option in options if option.startswith(b"--")] or options[:1]
        under = [(n.text or b"").strip(b"\"'") for n in stored] or long[:1]
        yield from (("dest", called + name.lstrip(b"-").replace(b"-", b"_")) for name in under)
    elif block.is_definition and "decorators" in block.parts:
        texts = (b"".join(n.tokens) for n in block.parts["decorators"].elements)
        yield from (("registered", found[0]) for text in texts if (found := _KEYED.match(text)))
    elif block.kind == "assignment":
        value = raw.child_by_field_name("right")
        if value is None or value.type not in _LITERALS:
            return
        outer = next(islice(ancestors(raw), 2, None), None)
        bases = outer.child_by_field_name("superclasses") if outer is not None else None
        if bases is not None and _ENUM.search(bases.text or b""):
            yield "value", b"".join(tokens_of(value))  # the later member would be an alias


def as_good_behind(outer: Block, block: Block, between: Sequence[Block]) -> bool:
    """Whether a twin of `block` in `outer` is as good at the other side of what is between."""
    code = [n for n in between if not n.is_comment]
    if is_import(block) and block.kind.endswith("_statement"):
        return all(n.is_definition or is_import(n) for n in code)
    if not code or is_exclusive(block) or is_import(block) or is_registration(block):
        return True
    if outer.shape is Shape.LIST or block.kind == "decorator":
        return order_of(outer, [block]) is not Order.STRICT
    return independent(effects([block]), effects(code))


def repeated(module: Block, *, rows: Collection[int] = (), within: bytes = b"") -> Counter[bytes]:
    """Return how often a class, a dictionary, a call or parameters give a name more than once.

    Args:
        module: where.
        rows: look only at what stands on some of these lines, which count from 0.
        within: look only at what has these bytes.
    """
    found: Counter[bytes] = Counter()
    wanted = sorted(rows)
    stack = [module]
    while stack:
        block = stack.pop()
        at = bisect_left(wanted, block.raw[0].start_point.row)
        if within not in block.text or (
            wanted and not any(r <= block.raw[-1].end_point.row for r in wanted[at : at + 1])
        ):
            continue
        given = Counter(n for one in block.elements if one.kind in _ONCE for n in _names(one))
        found |= Counter({name: number for (_, name), number in given.items() if number > 1})
        stack += block.children
    return found
