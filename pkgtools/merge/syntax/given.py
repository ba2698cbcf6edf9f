"""The names that blocks give among their siblings, and which of them may stand there once.

Example: of ``p.add_argument("--port", dest="p")``, the option ``--port`` and the place ``p``.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import islice
from typing import Final

from pkgtools.merge.syntax.blocks import Block
from pkgtools.merge.syntax.effects import imported_names
from pkgtools.merge.syntax.names import IMPORTS
from pkgtools.merge.syntax.tokens import ancestors, arguments, field_text, text_of, tokens_of

_EXCLUSIVE: Final = {
    *("assignment", "class", "default_parameter", "function", "identifier", "keyword_argument"),
    *("pair", "typed_default_parameter", "typed_parameter"),
}
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


def is_exclusive(node: Block) -> bool:
    """Whether siblings must have different names."""
    return node.kind in _EXCLUSIVE


def is_import(node: Block) -> bool:
    """Whether it is an import statement, or a name in one."""
    return node.kind in (*IMPORTS, "dotted_name", "aliased_import")


def is_registration(block: Block) -> bool:
    """Whether a call registers something under a name of its own, as argparse does."""
    if block.kind != "call" or block.key is None:
        return False
    called, _, argument = block.key[1].rpartition(b"(")
    name = called.split(b" ")[-1]
    return bool(argument) and (name == b"add_argument" or name.startswith(b"register"))


@lru_cache(maxsize=4096)  # for each block that a side adds, all beside it are asked
def given_names(block: Block) -> frozenset[tuple[str, bytes]]:
    """Return the names that a block gives among its siblings, each of which can be given once."""
    if block.kind in IMPORTS:
        return frozenset(("name", name) for name in imported_names(block.raw[0]))
    if is_import(block):  # a name in an import
        return frozenset([("name", block.tokens[-1])])
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
        options = [text_of(n).strip(b"\"'") for n in given if n.type == "string"]
        stored = [n.children[-1] for n in given if text_of(n).startswith(b"dest=")]
        yield from (("option", called + b" " + option) for option in options)
        # argparse stores the value under the first long option, unless `dest` names another.
        long = [option for option in options if option.startswith(b"--")] or options[:1]
        under = [text_of(n).strip(b"\"'") for n in stored] or long[:1]
        yield from (("dest", called + name.lstrip(b"-").replace(b"-", b"_")) for name in under)
    elif block.is_definition and "decorators" in block.parts:
        texts = (b"".join(n.tokens) for n in block.parts["decorators"].elements)
        yield from (("registered", found[0]) for text in texts if (found := _KEYED.match(text)))
    elif block.kind == "assignment":
        value = raw.child_by_field_name("right")
        if value is None or value.type not in _LITERALS:
            return
        outer = next(islice(ancestors(raw), 2, None), None)
        if _ENUM.search(field_text(outer, "superclasses")):
            yield "value", b"".join(tokens_of(value))  # the later member would be an alias


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
        if (within and within not in block.text) or (
            wanted and not any(r <= block.raw[-1].end_point.row for r in wanted[at : at + 1])
        ):
            continue
        given = Counter(n for one in block.elements if one.kind in _ONCE for n in given_names(one))
        found |= Counter({name: number for (_, name), number in given.items() if number > 1})
        stack += block.children
    return found
