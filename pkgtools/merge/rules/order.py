"""Whether the order of two insertions at one place matters."""

import re
from collections.abc import Sequence
from enum import Enum
from typing import Final

import tree_sitter

from pkgtools.merge.syntax.blocks import Block
from pkgtools.merge.syntax.effects import effects, independent, share
from pkgtools.merge.syntax.given import is_registration
from pkgtools.merge.syntax.names import IMPORTS, is_record
from pkgtools.merge.syntax.tokens import field_text, text_of, tokens_of

_DEFAULTED: Final = {"default_parameter", "typed_default_parameter"}
_NAME: Final = re.compile(rb"""(["'])[A-Za-z_][\w.]*\1""")
_TAKES: Final = re.compile(rb":=|\bnext\(|\.(?:pop|popitem|popleft|read|readline|recv)\(")
"""What gives another value each time."""

_PLACED: Final = re.compile(rb"add_argument\([\"'](?!-)")


class Order(Enum):
    """The meaning of the order of siblings."""

    SET = "set"
    """Nothing."""
    SORTED = "sorted"
    """Nothing to Python, but people keep it sorted: imports."""
    APPEND = "append"
    """A position that callers may count on: what upstream adds keeps the one it has."""
    FLOW = "flow"
    """They run one after the other."""
    STRICT = "strict"
    """Something that cannot be told."""


def order_of(siblings: Block, added: Sequence[Block]) -> Order:
    """Return what the order means among `siblings`, for what a patch adds to them."""
    code = [n for n in added if not n.is_comment]
    raw = siblings.raw[0]
    owner = raw.parent.type if raw.parent is not None else ""
    if siblings.kind == "import_names":
        return Order.SORTED
    if siblings.kind in ("module", "block"):
        if code and all(n.kind in IMPORTS for n in code):
            return Order.SORTED
        # The order of a dataclass's fields is that of its positional arguments.
        typed = [n.kind == "assignment" and field_text(n.raw[0], "type") for n in code]
        if owner == "class_definition" and all(typed):
            is_plain = all(n.raw[0].child_by_field_name("right") is not None for n in code)
            return Order.APPEND if is_plain or not is_record(raw.parent) else Order.STRICT
        if owner == "match_statement":
            return Order.SET if all(_is_literal_case(n) for n in code) else Order.STRICT
        return Order.FLOW
    if siblings.kind == "argument_list":
        keywords = all(n.kind == "keyword_argument" for n in code)
        # In a class's argument list, base classes have an order: the MRO.
        return Order.SET if keywords and owner != "class_definition" else Order.STRICT
    if siblings.kind in ("parameters", "lambda_parameters"):
        # PEP 3102: keyword-only parameters have no position.
        if _behind_star(siblings, added):
            return Order.SET
        return Order.APPEND if all(n.kind in _DEFAULTED for n in code) else Order.STRICT
    if siblings.kind == "dictionary":
        # `**other` overrides the keys before it.
        return Order.SET if all(n.kind == "pair" for n in code) else Order.STRICT
    if siblings.kind == "set":
        return Order.SET
    # A string that is not a name may be an argument of a command line: these have an order.
    names = [n for n in (*siblings.elements, *added) if not n.is_comment]
    is_named = siblings.kind == "list" and all(_NAME.fullmatch(n.text) for n in names)
    return Order.APPEND if is_named else Order.STRICT


def commute(kind: Order, added: Sequence[Block], others: Sequence[Block]) -> bool:
    """Whether the additions of a patch and of upstream can be in either order."""
    if kind is Order.STRICT:
        return False
    kinds = {n.kind for n in others}
    if any(n.kind == "case_clause" for n in added):
        cases = [n for n in (*added, *others) if not n.is_comment]
        patterns = [_pattern(n) for n in cases if all(map(_is_literal_case, others))]
        kinds = {raw.type for raw in patterns if raw is not None}
        return len({tokens_of(raw) for raw in patterns if raw}) == len(cases) and len(kinds) == 1
    # Two reads of one stream or container get each other's value if they change places.
    taking = [any(_TAKES.search(n.text) for n in side) for side in (added, others)]
    if all(taking) or (any(taking) and share(effects(added), effects(others))):
        return False
    if all(n.kind in ("keyword_argument", "pair", "string", *_DEFAULTED) for n in added):
        return kinds <= {"keyword_argument", "pair", "string", *_DEFAULTED}
    if kind is Order.SET:
        return kinds == {n.kind for n in added}
    if _are_registrations(added, others):
        return True
    return independent(effects(added), effects(others))


def sorted_place(siblings: Sequence[Block], added: Sequence[Block]) -> tuple[int, bool] | None:
    """Return where imports go in a sorted run of them, and whether they belong to what follows.

    None where the run that they belong to is not sorted, or there is none.
    """
    code = [n for n in added if not n.is_comment]
    if len(code) != len(added) or not code:
        return None
    if code[0].kind in IMPORTS:
        return _place_statement(siblings, code)
    for key in (_name_key, lambda node: (0, node.text.lower())):
        names = [key(n) for n in siblings]
        if names == sorted(names) and len(code) == 1:
            return sum(n < key(code[0]) for n in names), False
    return None


def place_by_module(others: Sequence[Block], added: Sequence[Block]) -> int:
    """Return before which of upstream's imports at one place those of the patch go."""
    return sum(_module(n) < _module(added[0]) for n in others)


def _place_statement(siblings: Sequence[Block], added: Sequence[Block]) -> tuple[int, bool] | None:
    kind = added[0].kind
    if any(n.kind != kind for n in added):
        return None
    runs: list[list[int]] = []
    for index, node in enumerate(siblings):
        if node.kind != kind:
            continue
        last = siblings[index - 1] if runs and runs[-1][-1] == index - 1 else None
        if last and node.source.count(b"\n", last.end, node.start) <= 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    package = _module(added[0]).split(b".")[0]
    listed = [(run[0], [siblings[i] for i in run]) for run in runs]
    fitting = [r for r in listed if any(_module(n).split(b".")[0] == package for n in r[1])]
    first, run = fitting[0] if len(fitting) == 1 else (0, [])
    if len(run) < 2 or run != sorted(run, key=_module):
        return None
    places = [place_by_module(run, [n]) for n in added]
    if len({*places}) > 1 and _module(run[-1]) >= _module(added[-1]):
        return None
    return first + places[0], places[0] == 0


def _module(node: Block) -> bytes:
    return (node.key[1] if node.key else b"").lower()


def _name_key(node: Block) -> tuple[int, bytes]:
    """Return isort's order of names: constants, classes, the rest."""
    name = node.text
    rank = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return rank, name.lower()


def _is_literal_case(node: Block) -> bool:
    if node.is_comment:
        return True
    pattern = _pattern(node)
    if pattern is None:
        return False
    text = text_of(pattern)
    tests = {"string": True, "integer": text.isdigit(), "dotted_name": b"." in text}
    return tests.get(pattern.type, False)


def _pattern(case: Block) -> tree_sitter.Node | None:
    """Return the pattern of a case that has no guard."""
    raw = case.raw[0]
    patterns = [c for c in raw.children if c.type == "case_pattern"]
    if case.kind != "case_clause" or raw.child_by_field_name("guard") is not None:
        return None
    inner = [n for pattern in patterns for n in pattern.named_children]
    return inner[0] if len(patterns) == len(inner) == 1 else None


def _behind_star(siblings: Block, added: Sequence[Block]) -> bool:
    """Whether a parameter can only be given by name."""
    raw = added[0].raw[0].parent
    before = [c for c in (raw.named_children if raw else []) if c.start_byte < added[0].start]
    stars = ("keyword_separator", "list_splat_pattern")
    return any(c.type in stars for c in before) and any(n.kind in stars for n in siblings.elements)


def _are_registrations(added: Sequence[Block], others: Sequence[Block]) -> bool:
    """Whether both only register things, under different names."""
    blocks = [n for n in (*added, *others) if not n.is_comment]
    # argparse takes positional arguments in the order in which they are added.
    placed = [any(n.key and _PLACED.search(n.key[1]) for n in side) for side in (added, others)]
    is_all = all(map(is_registration, blocks)) and not all(placed)
    return is_all and len({n.key for n in blocks}) == len(blocks)
