"""The tokens of Python source, without what only a formatter sees."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

import tree_sitter

_LEAVES: Final = {"string", "concatenated_string"}
"""Compared as one token: whitespace inside them means something."""
_CLOSING: Final = (b")", b"]", b"}")
DEFINITIONS: Final = ("function_definition", "class_definition")


def raw_walk(raws: Sequence[tree_sitter.Node]) -> Iterator[tree_sitter.Node]:
    """Yield syntax nodes and everything below them."""
    for raw in raws:
        cursor = raw.walk()  # lists of all `children` take four times as long
        is_inside = True
        while is_inside and cursor.node is not None:
            yield cursor.node
            is_inside = cursor.goto_first_child() or _goto_next(cursor)


def _goto_next(cursor: tree_sitter.TreeCursor) -> bool:
    """Go to the node behind this one and all below it; without one, to the start."""
    while not cursor.goto_next_sibling():
        if not cursor.goto_parent():
            return False
    return True


def text_of(raw: tree_sitter.Node | None) -> bytes:
    """Return the text of a syntax node; nothing without one."""
    return (raw.text or b"") if raw is not None else b""


def field_text(raw: tree_sitter.Node | None, *fields: str) -> bytes:
    """Return the text of the first of some fields that a syntax node has; nothing without one."""
    for field in fields:
        found = raw.child_by_field_name(field) if raw is not None else None
        if found is not None:
            return found.text or b""
    return b""


def field_parts(raw: tree_sitter.Node, field: str) -> list[tree_sitter.Node]:
    """Return the named children of a field but comments; nothing without the field."""
    found = raw.child_by_field_name(field)
    return [n for n in (found.named_children if found else ()) if n.type != "comment"]


def is_within(raw: tree_sitter.Node, *kinds: str) -> bool:
    """Whether a syntax node is right in one of some kinds."""
    outer = raw.parent  # it takes long to find
    return outer is not None and outer.type in kinds


def ancestors(raw: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    """Yield the syntax nodes around one, innermost first."""
    outer = raw.parent
    while outer is not None:
        yield outer
        outer = outer.parent


def identifiers(root: tree_sitter.Node, name: bytes) -> Iterator[tree_sitter.Node]:
    """Yield the identifiers of one name at or below a syntax node, in order.

    The bytes show where they can be, which is faster than a walk.
    """
    # A look behind at the start of the pattern would make the search slow.
    word, text = re.compile(re.escape(name) + rb"(?![\w\x80-\xff])"), root.text or b""
    for found in word.finditer(text):
        start, end = found.span()
        if text[start - 1 : start].isalnum():
            continue
        node = root.descendant_for_byte_range(root.start_byte + start, root.start_byte + end)
        if node is not None and node.type == "identifier" and node.text == name:
            yield node


def arguments(call: tree_sitter.Node) -> list[tree_sitter.Node]:
    """Return the arguments of a call."""
    return field_parts(call, "arguments")


def tokens_of(raw: tree_sitter.Node) -> tuple[bytes, ...]:
    """Return a syntax node's tokens, as `Block.tokens` does."""
    return tuple(tokens((raw,)))


def block_tokens(module: tree_sitter.Node) -> Iterator[tuple[int, bytes]]:
    """Yield each token with the number of blocks around it, counted from its definition."""
    stack = [(module, 0)]
    while stack:
        node, depth = stack.pop()
        if not node.child_count or node.type in _LEAVES:
            yield depth, _plain(node)
            continue
        inner = depth
        if node.type == "tuple" and node.named_child_count == 1:
            yield depth, b"(1-tuple)"
        if node.type == "block":
            owner = node.parent.type if node.parent is not None else ""
            inner = 0 if owner in DEFINITIONS else depth + 1
        stack += [(child, inner) for child in node.children]


def tokens(raws: tuple[tree_sitter.Node, ...]) -> Iterator[bytes]:
    """Yield tokens; a comma before a closing bracket stays only where it makes a tuple."""
    held = None
    for raw in raws:
        for token in raw_tokens(raw):
            if held is not None and token not in _CLOSING:
                yield held
            held = None
            if token == b",":
                held = token
            else:
                yield token
    if held is not None:
        yield held


def raw_tokens(raw: tree_sitter.Node) -> Iterator[bytes]:
    """Yield every token below a syntax node."""
    stack = [raw]
    while stack:
        node = stack.pop()
        if not node.child_count or node.type in _LEAVES:
            yield _plain(node)
            continue
        if node.type == "tuple" and node.named_child_count == 1:
            yield b"(1-tuple)"
        if node.type == "import_from_statement" or _is_wrapper(node):
            stack += [c for c in reversed(node.children) if c.type not in ("(", ")")]
        else:
            stack += reversed(node.children)


def _plain(node: tree_sitter.Node) -> bytes:
    """Return a token; a string with the quotes that formatters prefer."""
    text = node.text or b""
    if node.type != "string":
        return text
    kinds = {child.type for child in node.children}
    if kinds == {"string_start", "string_content", "string_end"} and text[:1] == b"'":
        inner = text[1:-1]
        if not any(mark in inner for mark in (b'"', b"'", b"\\")):
            return b'"' + inner + b'"'
    return text


_FREE_OF_PRECEDENCE: Final = {
    *("argument_list", "assert_statement", "assignment", "elif_clause", "if_statement"),
    *("keyword_argument", "pair", "return_statement", "while_statement"),
}
"""Nodes in which parentheses around an expression are optional."""


def _is_wrapper(node: tree_sitter.Node) -> bool:
    """Whether these parentheses only serve to break a line."""
    return node.type == "parenthesized_expression" and is_within(node, *_FREE_OF_PRECEDENCE)
