"""Which calls a function or a class takes, and how many values it returns.

Example: ``def f(a, b=1)`` takes ``f(2)`` and ``f(a=2, b=3)``, and not ``f()``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import tree_sitter

from pkgtools.merge.syntax.modules import Definition
from pkgtools.merge.syntax.names import is_record, name_of, statements_of
from pkgtools.merge.syntax.tokens import arguments, field_parts, field_text, raw_walk, text_of

_MANAGER: Final = b"contextmanager"
_KEEPING: Final = re.compile(
    rb"@(?:\w+\.)?(?:abstractmethod|(?:class|static)method|final|override|(?:async)?contextmanager"
    rb"|(?:no_grad|inference_mode)\(.*\)|cache|lru_cache(?:\(.*\))?)"
)
"""Decorators with which a function takes what it takes without."""
_RECORDS: Final = (b"NamedTuple", b"Struct", b"TypedDict")
"""Base classes whose subclasses take their fields."""


@dataclass(frozen=True)
class Signature:
    """The parameters of a function, without ``self``."""

    positional: tuple[bytes, ...] = ()
    keywords: frozenset[bytes] = frozenset()
    required: frozenset[bytes] = frozenset()
    takes_more: bool = False
    """Whether it has ``*args``."""
    takes_any: bool = False
    """Whether it has ``**kwargs``."""

    def refuses_more_than(self, other: Signature) -> bool:
        """Whether some call fits `other` and not this one."""
        keeps_names = self.takes_any or other.keywords <= self.keywords
        keeps_places = self.positional[: len(other.positional)] == other.positional
        keeps_more = self.takes_any >= other.takes_any and self.takes_more >= other.takes_more
        return not (keeps_names and keeps_places and keeps_more and self.required <= other.required)


def signature_of(found: Definition, *, bound: bool) -> Signature | None:
    """Return what a call of a definition can give; None where that cannot be told.

    Args:
        found: a function or a class.
        bound: whether it is a method that is called on an object.
    """
    if not found.is_class:
        static = found.is_marked(b"staticmethod")
        if not all(map(_KEEPING.fullmatch, found.decorators)):
            return None  # a decorator may change it
        return _of_function(found.node, skip=bound and not static)
    init = found.method(b"__init__")
    if init is not None:
        return _of_function(init.node, skip=True)
    lineage = list(found.lineage())
    known = {n.rpartition(b".")[2] for one in lineage for n in one.base_names}
    resolved = {name_of(one.node) for one in lineage}
    takes_fields = known & {*_RECORDS} or any(one.is_marked(b"dataclass") for one in lineage)
    if not takes_fields or known - resolved - {*_RECORDS, b"ABC", b"object", b"Generic"}:
        return None
    fields = [f for one in reversed(lineage) for f in _fields(one.node)]
    placed = [one for one in reversed(lineage) if not one.has_option(b"kw_only")]
    return Signature(
        tuple(dict.fromkeys(name for one in placed for name, _ in _fields(one.node))),
        frozenset(name for name, _ in fields),
        frozenset(name for name, has_default in fields if not has_default),
    )


def misfit(
    call: tree_sitter.Node, signature: Signature, before: Signature | None = None
) -> str | None:
    """Return why a signature does not take a call as the one before did, or None."""
    given = arguments(call)
    splats = {n.type for n in given if n.type in ("list_splat", "dictionary_splat")}
    keywords = sorted(name_of(n) for n in given if n.type == "keyword_argument")
    count = len(given) - len(keywords) - sum(n.type in splats for n in given)
    for name in keywords:
        if name not in signature.keywords and not signature.takes_any:
            return f"it has no parameter `{name.decode()}`"
    if "list_splat" in splats:
        return None
    if count > len(signature.positional) and not signature.takes_more:
        return f"it takes {len(signature.positional)} positional arguments at most, not {count}"
    missing = signature.required - {*keywords, *signature.positional[:count]}
    if missing and not splats:
        return f"it needs `{min(missing).decode()}`"
    positions = zip(before.positional[:count] if before else (), signature.positional, strict=False)
    moved = [pair for pair in positions if pair[0] != pair[1] and pair[0] in signature.keywords]
    if moved:
        was, now = (name.decode() for name in moved[0])
        return f"its value for `{was}` would be that for `{now}`"
    return None


def returns_of(function: tree_sitter.Node) -> list[tree_sitter.Node]:
    """Return the return statements of a function, without those of functions in it."""
    return [n for n in statements_of(function) if n.type == "return_statement"]


def other_result(old: Definition, new: Definition, role: str) -> str | None:
    """Return what else a call gives now, if that shows in the definition.

    Args:
        old: what the call called.
        new: what it calls.
        role: the type of the syntax node around the call.
    """
    managers = [next((d for d in one.decorators if _MANAGER in d), b"") for one in (old, new)]
    if managers[0] != managers[1]:
        return (
            f"is `{managers[1].decode()}` now" if managers[1] else "is no context manager any more"
        )
    if old.is_class or new.is_class or old.decorators != new.decorators:
        return None
    kinds = _kind(old.node), _kind(new.node)
    if kinds[0] != kinds[1]:
        return f"is {kinds[1]} now, not {kinds[0]}"
    shapes = [_shapes(one.node) for one in (old, new)]
    is_used = role not in ("await", "expression_statement")
    is_stub = re.search(rb"NotImplemented|\.\.\.", text_of(new.node)) is not None
    if is_used and not is_stub and None in shapes[0] and None not in shapes[1]:
        count = max(n or 0 for n in shapes[1])
        return f"returns {count} values now, not one" if count else "returns nothing any more"
    return None


def result_of(function: tree_sitter.Node) -> tuple[str, frozenset[int | None]]:
    """Return what kind of function it is, and the numbers of values that it returns."""
    return _kind(function), frozenset(_shapes(function))


def _kind(function: tree_sitter.Node) -> str:
    is_coroutine = function.children[0].type == "async"
    may_yield = b"yield" in text_of(function)
    if may_yield and any(n.type == "yield" for n in statements_of(function)):
        return "an asynchronous generator" if is_coroutine else "a generator"
    return "a coroutine function" if is_coroutine else "a plain function"


def _shapes(function: tree_sitter.Node) -> set[int | None]:
    """Return the numbers of values that a function returns; None for one, 0 for nothing."""
    values = [n.named_children for n in returns_of(function)]
    return {number_of_values(each) if each else 0 for each in values} or {0}


def number_of_values(values: Sequence[tree_sitter.Node]) -> int | None:
    """Return the length of a tuple, or None for another node or a tuple with a star."""
    if len(values) != 1 or values[0].type not in ("expression_list", "tuple", "pattern_list"):
        return None
    parts = [n for n in values[0].named_children if n.type != "comment"]
    stars = ("list_splat", "list_splat_pattern")
    return None if any(n.type in stars for n in parts) else len(parts)


def _of_function(function: tree_sitter.Node, *, skip: bool) -> Signature:
    positional: list[bytes] = []
    keywords: set[bytes] = set()
    required: set[bytes] = set()
    more = anything = behind_star = False
    for node in field_parts(function, "parameters"):
        inner = node.named_children[0] if node.type == "typed_parameter" else node
        kind = inner.type
        if kind in ("list_splat_pattern", "keyword_separator"):
            behind_star = True
            more = more or kind == "list_splat_pattern"
        elif kind == "dictionary_splat_pattern":
            anything = True
        elif kind == "positional_separator":
            keywords.clear()
        elif kind in ("identifier", "default_parameter", "typed_default_parameter"):
            name = name_of(inner) or text_of(inner)
            keywords.add(name)
            if kind == "identifier":
                required.add(name)
            if not behind_star:
                positional.append(name)
    if skip and positional:
        keywords.discard(positional[0])
        required.discard(positional[0])
        positional = positional[1:]
    return Signature(tuple(positional), frozenset(keywords), frozenset(required), more, anything)


def _fields(scope: tree_sitter.Node) -> list[tuple[bytes, bool]]:
    """Return the fields of a class, each with whether it has a default."""
    nodes = (n for statement in field_parts(scope, "body") for n in statement.named_children[:1])
    typed = ((n, field_text(n, "type")) for n in nodes if n.type == "assignment")
    return [
        (field_text(n, "left"), n.child_by_field_name("right") is not None)
        for n, kind in typed
        if kind and not kind.startswith(b"ClassVar")
    ]


def misordered_field(scope: tree_sitter.Node) -> bytes | None:
    """Return a field of a class without a default behind one with a default, which fails."""
    if not is_record(scope) or b"KW_ONLY" in text_of(scope):
        return None
    has_default = False
    for name, is_set in _fields(scope):
        if has_default and not is_set:
            return name
        has_default = has_default or is_set
    return None


def given_twice(scope: tree_sitter.Node) -> set[tuple[bytes, bytes]]:
    """Return dictionaries and keys that calls of a scope get as ``**`` and as a keyword.

    Python refuses such a call. A key counts where the scope puts it into the dictionary.
    """
    put: set[tuple[bytes, bytes]] = set()
    taken: set[tuple[bytes, bytes]] = set()
    given: set[tuple[bytes, bytes]] = set()
    for node in raw_walk([scope]):
        if node.type == "assignment" and node.children[0].type == "subscript":
            put |= _entry(node.children[0], node.children[0].named_children[1:])
        elif node.type == "delete_statement":
            taken |= {e for n in node.named_children for e in _entry(n, n.named_children[1:])}
        elif node.type == "call":
            function, inner = node.children[0], arguments(node)
            done = {b"setdefault": put, b"pop": taken}.get(field_text(function, "attribute"))
            if done is not None:
                done |= _entry(function, inner)
            names = {name_of(n) for n in inner if n.type == "keyword_argument"}
            splats = [n.named_children[0] for n in inner if n.type == "dictionary_splat"]
            given |= {(text_of(n), name) for n in splats for name in names}
    return (put & given) - taken


def _entry(owner: tree_sitter.Node, keys: Sequence[tree_sitter.Node]) -> set[tuple[bytes, bytes]]:
    """Return a dictionary and its key, where that is a plain string."""
    if not keys or keys[0].type != "string" or not owner.named_children:
        return set()
    return {(text_of(owner.named_children[0]), text_of(keys[0]).strip(b"\"'"))}
