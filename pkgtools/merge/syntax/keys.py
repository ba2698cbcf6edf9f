"""The names by which blocks are told apart among their siblings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pkgtools.merge.syntax.tokens import arguments, raw_tokens, text_of

if TYPE_CHECKING:
    import tree_sitter

    from pkgtools.merge.syntax.blocks import Block

_GETTER: Final = re.compile(rb"@\s*(?:[\w.]+\.(?:setter|getter|deleter)|(?:\w+\.)*overload)\b")
_FIELDS: Final = {
    "assignment": "left",
    "call": "function",
    "import_from_statement": "module_name",
    "import_statement": "name",
    "keyword_argument": "name",
    "pair": "key",
    "default_parameter": "name",
    "typed_default_parameter": "name",
    "if_statement": "condition",
    "elif_clause": "condition",
    "while_statement": "condition",
    "for_statement": "right",
}
_PARAMETERS: Final = {"default_parameter": "parameter", "typed_default_parameter": "parameter"}


def sibling_key(node: Block) -> tuple[str, bytes] | None:
    """Return the name of a block among its siblings, if it has one."""
    raw = node.raw[0]
    if node.is_definition:
        mark = b"".join(_GETTER.findall(node.source[node.start : definition(raw).start_byte]))
        return node.kind, (node.name or b"") + mark
    if node.kind in _FIELDS:
        fields = raw.children_by_field_name(_FIELDS[node.kind])[:1]
        text = b" ".join(token for field in fields for token in raw_tokens(field))
        if node.kind == "call":
            # The string that a call names something with, as in ``add_argument("--port")``.
            named = (text_of(n) for n in arguments(raw)[:1] if n.type == "string")
            text += b"(" + b"".join(named)
        return _PARAMETERS.get(node.kind, node.kind), text
    if node.kind == "typed_parameter" or (
        node.kind == "identifier" and raw.parent is not None and raw.parent.type == "parameters"
    ):
        return "parameter", next(iter(node.tokens), b"")
    if node.kind in ("else_clause", "finally_clause"):
        return node.kind, b""
    if node.kind in ("with_statement", "case_clause", "except_clause"):
        block = next((c for c in raw.children if c.type == "block"), None)
        end = block.start_byte if block is not None else raw.end_byte
        return node.kind, node.source[raw.start_byte : end].strip()
    if node.kind in ("decorator", "with_item", "dotted_name", "aliased_import", "string"):
        return node.kind, node.text
    return None


def definition(raw: tree_sitter.Node) -> tree_sitter.Node:
    """Return the class or function below its decorators."""
    inner = raw.child_by_field_name("definition") if raw.type == "decorated_definition" else None
    return inner if inner is not None else raw
