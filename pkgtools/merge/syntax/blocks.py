"""Python source as nested blocks over its own bytes: definitions, statements, list elements.

Nothing here is ever printed back: a `Block` is a span of the source it was read
from. What a merge does not touch keeps its bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Final

import tree_sitter

from pkgtools.merge.syntax.keys import definition, sibling_key
from pkgtools.merge.syntax.reparse import syntax_tree
from pkgtools.merge.syntax.tokens import raw_walk, text_of, tokens

_DEEPEST: Final = 500
"""Nodes of the syntax tree; CPython's own parser takes 200 nested parentheses."""
_ONE_QUOTE: Final = bytes.maketrans(b"'", b'"')
_BODIES: Final = {"module", "block"}
_LISTS: Final = {
    *("argument_list", "dictionary", "expression_list", "lambda_parameters", "list", "parameters"),
    *("pattern_list", "set", "tuple", "tuple_pattern", "with_clause"),
}
_RECORDS: Final = {
    *("assert_statement", "assignment", "augmented_assignment", "await", "call", "case_clause"),
    *("class", "conditional_expression", "default_parameter", "elif_clause", "else_clause"),
    *("except_clause", "finally_clause", "for_statement", "function", "if_statement"),
    *("import_from_statement", "keyword_argument", "match_statement", "pair"),
    *("parenthesized_expression", "raise_statement", "return_statement", "try_statement"),
    *("typed_default_parameter", "typed_parameter", "while_statement", "with_item"),
    "with_statement",
}
"""Kinds whose named parts do not depend on the other parts."""
_DEFINITIONS: Final = {"function_definition": "function", "class_definition": "class"}
_NESTING: Final = {
    *("block", "for_statement", "if_statement", "match_statement", "module", "try_statement"),
    *("while_statement",),
}
_CLAUSES: Final = {"elif_clause", "else_clause", "except_clause", "finally_clause"}


class Shape(Enum):
    """How the parts of a node go together."""

    BODY = "body"
    """Statements, each on lines of its own."""
    LIST = "list"
    """Elements with commas between them."""
    CLAUSES = "clauses"
    """The branches behind a statement's first one: elif, else, except, finally."""
    DECORATORS = "decorators"
    RECORD = "record"
    """Parts that are told apart by their role."""
    ATOM = "atom"
    """One thing: merged whole or not at all."""


@dataclass(frozen=True, eq=False)
class Block:
    """A span of one source. Nodes are equal only to themselves; see `same`."""

    source: bytes
    kind: str
    shape: Shape
    start: int
    end: int
    raw: tuple[tree_sitter.Node, ...]
    """The syntax nodes that it spans."""
    block_comments: tuple[tree_sitter.Node, ...] = ()
    """Comments between a header and its block, which belong to the block."""

    @property
    def text(self) -> bytes:
        """Its bytes."""
        return self.source[self.start : self.end]

    @property
    def line(self) -> int:
        """The 1-based line on which it starts."""
        return self.source.count(b"\n", 0, self.start) + 1

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        """Where each line of the source starts, and where the last one ends."""
        lines = self.source.splitlines(keepends=True)
        return tuple(accumulate(map(len, lines), initial=0))

    @property
    def is_definition(self) -> bool:
        """Whether it is a class or a function."""
        return self.kind in ("class", "function")

    @property
    def is_comment(self) -> bool:
        """Whether it is a comment."""
        return self.kind == "comment"

    @cached_property
    def tokens(self) -> tuple[bytes, ...]:
        """Its tokens, comments too, without what a formatter adds and takes away."""
        return tuple(tokens((*self.block_comments, *self.raw)))

    @cached_property
    def squeezed(self) -> bytes:
        """See `squeezed`."""
        return squeezed(self.text)

    @cached_property
    def counted(self) -> Counter[bytes]:
        """The count of each token in it."""
        return Counter(self.tokens)

    @cached_property
    def name(self) -> bytes | None:
        """A definition's name."""
        if not self.is_definition:
            return None
        node = definition(self.raw[0]).child_by_field_name("name")
        return node.text if node is not None else None

    @cached_property
    def key(self) -> tuple[str, bytes] | None:
        """Its name among its siblings, if it has one."""
        return sibling_key(self)

    @cached_property
    def elements(self) -> tuple[Block, ...]:
        """The parts of a body or a list, in order; comments count in a body."""
        if self.shape is Shape.BODY:
            return tuple(_statements(self))
        if self.shape is Shape.LIST:
            # tree-sitter makes comments named children of a list.
            raw = self.raw[0]
            is_import = raw.type == "import_from_statement"
            raws = raw.children_by_field_name("name") if is_import else raw.named_children
            return tuple(_make(self.source, c) for c in raws if c.type != "comment")
        if self.shape in (Shape.CLAUSES, Shape.DECORATORS):
            return tuple(_make(self.source, r) for r in self.raw)
        return ()

    @cached_property
    def parts(self) -> dict[str, Block]:
        """The parts of a record, by role."""
        return _parts(self) if self.shape is Shape.RECORD else {}

    @cached_property
    def skeleton(self) -> tuple[bytes, ...]:
        """A record's keywords and operators, which its parts do not have."""
        raw = [definition(r) for r in self.raw]
        words = [text_of(c) for r in raw for c in r.children if not c.is_named]
        return tuple(w for w in words if w not in (b",", b"(", b")"))

    @property
    def children(self) -> tuple[Block, ...]:
        """Elements or parts, whichever it has."""
        return self.elements or tuple(self.parts.values())

    def walk(self, within: bytes = b"") -> Iterator[Block]:
        """Yield itself and everything below it, but parts without the bytes of `within`."""
        yield self
        for child in self.children:
            if within in child.text:
                yield from child.walk(within)


@lru_cache(maxsize=128)  # a patch asks for the same few versions again and again
def parse(source: bytes) -> Block:
    """Return the module that `source` is; see `is_sound` for whether it is one."""
    root = syntax_tree(source).root_node
    return Block(source, "module", Shape.BODY, 0, len(source), (root,))


@lru_cache(maxsize=32)
def is_deep(source: bytes) -> bool:
    """Whether `source` nests deeper than people write: alignment takes the square of the depth."""
    stack = [(parse(source).raw[0], 0)]
    while stack:
        node, depth = stack.pop()
        if depth > _DEEPEST:
            return True
        # Each level takes a node: most definitions have too few to be looked into.
        stack += [
            (child, depth + 1)
            for child in node.children
            if depth + child.descendant_count > _DEEPEST
        ]
    return False


def is_sound(module: Block) -> bool:
    """Whether the source was read without a syntax error."""
    return not module.raw[0].has_error


def squeezed(text: bytes) -> bytes:
    """Return source without the bytes that may differ between equal tokens.

    Where the rest differs, so do the tokens. This is much faster than reading these.
    """
    # What black adds or removes: magic trailing commas, parentheses, quotes and line breaks.
    return text.translate(_ONE_QUOTE, b" \t\r\n\f,()\\")


def same(one: Block, other: Block) -> bool:
    """Whether two nodes differ in formatting alone."""
    if one.end - one.start == other.end - other.start and one.text == other.text:
        return True
    if one.squeezed != other.squeezed or one.tokens != other.tokens:
        return False
    return _nesting(one) == _nesting(other)


def _nesting(block: Block) -> list[int]:
    """Return how many parts each compound statement in it has: no token says where one ends."""
    inner = (raw for raw in raw_walk(block.raw) if raw.type in _NESTING)
    return [sum(c.type != "comment" for c in raw.named_children) for raw in inner]


def is_linted(base: Block, theirs: Block) -> bool:
    """Whether upstream changed the formatting alone, or took an f from strings without values."""
    pairs = zip(base.tokens, theirs.tokens, strict=False)
    is_same = len(base.tokens) == len(theirs.tokens) and all(
        a == b or (a[:2] in (b'f"', b"f'") and b"{" not in a and a[1:] == b) for a, b in pairs
    )
    return is_same and _nesting(base) == _nesting(theirs)


def similarity(one: Block, other: Block, *, at_least: float = 0.0) -> float:
    """Return how many of their tokens two nodes share, 0 to 1.

    Where their lengths alone keep it below `at_least`, the answer is 0.
    """
    # The Dice coefficient of two multisets; with lengths too different, counting is not needed.
    total = len(one.tokens) + len(other.tokens)
    if not total or 2 * min(len(one.tokens), len(other.tokens)) < at_least * total:
        return 0.0 if total else 1.0
    return 2 * sum(min(n, other.counted[t]) for t, n in one.counted.items()) / total


def _statements(body: Block) -> Iterator[Block]:
    """Yield a body's statements; a comment behind one on its line belongs to it."""
    held: Block | None = None
    raws = [c for r in body.raw for c in r.named_children]
    for raw in (*body.block_comments, *raws):
        node = _make(body.source, raw)
        if held and node.is_comment and not starts_line(body.source, node.start):
            held = replace(held, end=node.end, raw=(*held.raw, raw))
            continue
        if held:
            yield held
        held = node
    if held:
        yield held


def _make(source: bytes, raw: tree_sitter.Node) -> Block:
    start, end = raw.start_byte, raw.end_byte
    kind = raw.type
    # tree-sitter wraps calls and assignments; their parts are of the inner node.
    if kind == "expression_statement" and raw.named_child_count == 1:
        inner = raw.named_children[0]
        if inner.type in _RECORDS:
            return Block(source, inner.type, Shape.RECORD, start, end, (inner,))
    if kind == "decorated_definition":
        kind = _DEFINITIONS[definition(raw).type]
    kind = _DEFINITIONS.get(kind, kind)
    kinds = ((_BODIES, Shape.BODY), (_LISTS, Shape.LIST), (_RECORDS, Shape.RECORD))
    shape = next((shape for among, shape in kinds if kind in among), Shape.ATOM)
    return Block(source, kind, shape, start, end, (raw,))


def _parts(node: Block) -> dict[str, Block]:
    """Return a record's parts; a role that stands more than once is counted."""
    parts: dict[str, Block] = {}
    raw = node.raw[0]
    if raw.type == "decorated_definition":
        decorators = tuple(c for c in raw.named_children if c.type == "decorator")
        parts["decorators"] = _group(node.source, "decorators", Shape.DECORATORS, decorators)
        raw = definition(raw)
    if raw.type == "import_from_statement":
        names = raw.children_by_field_name("name")
        if names:
            start, end = names[0].start_byte, names[-1].end_byte
            parts["names"] = Block(node.source, "import_names", Shape.LIST, start, end, (raw,))
        module = raw.child_by_field_name("module_name")
        if module is not None:
            parts["module"] = _make(node.source, module)
        return parts
    clauses: list[tree_sitter.Node] = []
    comments: list[tree_sitter.Node] = []
    counts: Counter[str] = Counter()
    for index, child in enumerate(raw.children):
        if child.type == "comment":
            comments.append(child)
        elif child.type in _CLAUSES:
            clauses.append(child)
        elif child.is_named:
            role = raw.field_name_for_child(index) or child.type
            counts[role] += 1
            role = role if counts[role] == 1 else f"{role}-{counts[role]}"
            part = _make(node.source, child)
            if part.kind == "block":
                part = _with_comments(part, comments)
            parts[role] = part
            comments = []
    if clauses:
        parts["clauses"] = _group(node.source, "clauses", Shape.CLAUSES, tuple(clauses))
    return parts


def _with_comments(block: Block, comments: list[tree_sitter.Node]) -> Block:
    own = tuple(c for c in comments if starts_line(block.source, c.start_byte))
    start = own[0].start_byte if own else block.start
    return replace(block, kind="block", shape=Shape.BODY, start=start, block_comments=own)


def starts_line(source: bytes, at: int) -> bool:
    """Whether only white space precedes `at` on its line."""
    return not source[source.rfind(b"\n", 0, at) + 1 : at].strip()


def _group(source: bytes, kind: str, shape: Shape, raws: tuple[tree_sitter.Node, ...]) -> Block:
    return Block(source, kind, shape, raws[0].start_byte, raws[-1].end_byte, raws)
