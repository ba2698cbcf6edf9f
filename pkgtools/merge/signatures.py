"""Which calls a function or a class takes, and how many values it returns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import tree_sitter

from pkgtools.merge.modules import Definition
from pkgtools.merge.names import name_of, statements_of
from pkgtools.merge.tokens import raw_walk

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


def signature_of(found: Definition, *, bound: bool) -> Signature | None:
    """Return what a call of a definition can give; None where that cannot be told.

    Args:
        found: a function or a class.
        bound: whether it is a method that is called on an object.
    """
    if not found.is_class:
        static = any(b"staticmethod" in d for d in found.decorators)
        if found.decorators and not (static or any(b"classmethod" in d for d in found.decorators)):
            return None  # the decorator may change it
        return _of_function(found.node, skip=bound and not static)
    init = found.method(b"__init__")
    if init is not None:
        return _of_function(init.node, skip=True)
    lineage = list(found.lineage())
    known = {n.rpartition(b".")[2] for one in lineage for n in one.base_names}
    resolved = {name_of(one.node) for one in lineage}
    is_record = any(b"dataclass" in d for one in lineage for d in one.decorators) or bool(
        known & set(_RECORDS)
    )
    if not is_record or known - resolved - set(_RECORDS) - {b"ABC", b"object", b"Generic"}:
        return None
    fields = [f for one in reversed(lineage) for f in _fields(one.node)]
    return Signature(
        tuple(dict.fromkeys(name for name, _ in fields)),
        frozenset(name for name, _ in fields),
        frozenset(name for name, has_default in fields if not has_default),
    )


def misfit(call: tree_sitter.Node, signature: Signature) -> str | None:
    """Return why a signature does not take a call, or None."""
    arguments = call.child_by_field_name("arguments")
    given = arguments.named_children if arguments is not None else []
    given = [n for n in given if n.type != "comment"]
    splats = {n.type for n in given if n.type in ("list_splat", "dictionary_splat")}
    named = [n.child_by_field_name("name") for n in given if n.type == "keyword_argument"]
    keywords = {n.text or b"" for n in named if n is not None}
    count = len(given) - len(named) - sum(n.type in splats for n in given)
    for name in sorted(keywords):
        if name not in signature.keywords and not signature.takes_any:
            return f"it has no parameter `{name.decode()}`"
    if "list_splat" in splats:
        return None
    if count > len(signature.positional) and not signature.takes_more:
        return f"it takes {len(signature.positional)} positional arguments at most, not {count}"
    missing = signature.required - keywords - set(signature.positional[:count])
    if missing and not splats:
        return f"it needs `{min(missing).decode()}`"
    return None


def returned_values(function: tree_sitter.Node) -> int | None:
    """Return how many values a function returns each time; None where that differs or is one."""
    returns = [n for n in statements_of(function) if n.type == "return_statement"]
    counts = {number_of_values(n.named_children) for n in returns}
    return counts.pop() if len(counts) == 1 else None


def number_of_values(values: Sequence[tree_sitter.Node]) -> int | None:
    """Return the length of a tuple, or None for another node or a tuple with a star."""
    if len(values) != 1 or values[0].type not in ("expression_list", "tuple", "pattern_list"):
        return None
    parts = [n for n in values[0].named_children if n.type != "comment"]
    stars = ("list_splat", "list_splat_pattern")
    return None if any(n.type in stars for n in parts) else len(parts)


def _of_function(function: tree_sitter.Node, *, skip: bool) -> Signature:
    listed = function.child_by_field_name("parameters")
    nodes = list(listed.named_children if listed is not None else [])
    positional: list[bytes] = []
    keywords: set[bytes] = set()
    required: set[bytes] = set()
    more = anything = behind_star = False
    for node in nodes:
        kind = node.type
        if kind == "typed_parameter":
            kind = node.named_children[0].type
        if kind in ("list_splat_pattern", "keyword_separator"):
            behind_star = True
            more = more or kind == "list_splat_pattern"
        elif kind == "dictionary_splat_pattern":
            anything = True
        elif kind == "positional_separator":
            keywords.clear()
        elif kind in ("identifier", "default_parameter", "typed_default_parameter"):
            name = _parameter(node)
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


def _parameter(node: tree_sitter.Node) -> bytes:
    name = node.child_by_field_name("name")
    if name is None:
        name = node.named_children[0] if node.type == "typed_parameter" else node
    return name.text or b""


def _fields(scope: tree_sitter.Node) -> list[tuple[bytes, bool]]:
    """Return the fields of a class, each with whether it has a default."""
    body = scope.child_by_field_name("body")
    found = []
    for statement in body.named_children if body is not None else []:
        node = statement.named_children[0] if statement.named_children else statement
        kind = node.child_by_field_name("type") if node.type == "assignment" else None
        left = node.child_by_field_name("left")
        if kind is None or left is None or (kind.text or b"").startswith(b"ClassVar"):
            continue
        found.append((left.text or b"", node.child_by_field_name("right") is not None))
    return found


def given_twice(scope: tree_sitter.Node) -> set[tuple[bytes, bytes]]:
    """Return dictionaries and keys that calls of a scope get as ``**`` and as a keyword.

    Python refuses such a call. A key counts where the scope puts it into the dictionary.
    """
    put: set[tuple[bytes, bytes]] = set()
    taken: set[tuple[bytes, bytes]] = set()
    given: set[tuple[bytes, bytes]] = set()
    for node in raw_walk([scope]):
        if node.type == "assignment":
            left = node.child_by_field_name("left")
            if left is not None and left.type == "subscript":
                put |= _entry(left, left.named_children[1:])
        elif node.type == "delete_statement":
            taken |= {e for n in node.named_children for e in _entry(n, n.named_children[1:])}
        elif node.type == "call":
            function, arguments = (node.child_by_field_name(r) for r in ("function", "arguments"))
            inner = arguments.named_children if arguments is not None else []
            method = function.child_by_field_name("attribute") if function is not None else None
            if function is not None and method is not None:
                done = {b"setdefault": put, b"pop": taken}.get(method.text or b"")
                if done is not None:
                    done |= _entry(function, inner)
            names = {name_of(n) for n in inner if n.type == "keyword_argument"}
            splats = [n.named_children[0] for n in inner if n.type == "dictionary_splat"]
            given |= {(n.text or b"", name) for n in splats for name in names}
    return (put & given) - taken


def _entry(owner: tree_sitter.Node, keys: Sequence[tree_sitter.Node]) -> set[tuple[bytes, bytes]]:
    """Return a dictionary and its key, where that is a plain string."""
    if not keys or keys[0].type != "string" or not owner.named_children:
        return set()
    return {(owner.named_children[0].text or b"", (keys[0].text or b"").strip(b"\"'"))}
