"""Scopes of a module, and the names in them."""

import builtins
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

import tree_sitter

from pkgtools.merge.syntax.blocks import Block
from pkgtools.merge.syntax.effects import imported_names
from pkgtools.merge.syntax.tokens import (
    DEFINITIONS,
    ancestors,
    field_text,
    identifiers,
    raw_walk,
    text_of,
)

_BUILTINS: Final = {n.encode() for n in (*dir(builtins), "__doc__", "__file__", "__name__")}
IMPORTS: Final = ("import_statement", "import_from_statement", "future_import_statement")
COMPREHENSIONS: Final = (
    *("dictionary_comprehension", "generator_expression", "lambda", "list_comprehension"),
    "set_comprehension",
)
"""Expressions that are a scope, lambdas among them."""
_AROUND_DEFINITIONS: Final = {
    *("block", "decorated_definition", "case_clause", "elif_clause", "else_clause"),
    *("except_clause", "except_group_clause", "finally_clause", "for_statement", "if_statement"),
    *("match_statement", "try_statement", "while_statement", "with_statement"),
}
_TARGETS: Final = {
    *("as_pattern_target", "dictionary_splat_pattern", "list_pattern", "list_splat_pattern"),
    *("pattern_list", "tuple_pattern", "typed_parameter"),
}
_ROLES: Final = {
    "attribute": "attribute",
    "keyword_argument": "name",
    "function_definition": "name",
    "class_definition": "name",
    "default_parameter": "name",
    "typed_default_parameter": "name",
    "assignment": "left",
}
"""Where an identifier names an attribute, a keyword or a definition, and is not read."""
_BINDING: Final = {
    *("dotted_name", "global_statement", "lambda_parameters", "parameters", "typed_parameter"),
}
_RECORD: Final = re.compile(rb"\b(?:dataclass|attrs?|define|frozen|NamedTuple|Struct)\b")
_ATTRIBUTE: Final = re.compile(
    rb"\bself\.(\w+)\s*(?::(?:[^=\n\[]|\[[^=\]]*\])*)?(?:,[^=\n]*)?=(?!=)"
)


def sets(root: tree_sitter.Node, lines: range, name: bytes) -> bool:
    """Whether some lines give a name or an attribute a value that is not made of itself."""
    for raw in (n for n in inside(root, lines) if last_name(n) == name):
        ends = (n for n in ancestors(raw) if n.type.endswith(("assignment", "block", "module")))
        statement = next(ends, root)
        if raw.type == "attribute":
            is_plain = statement.type == "assignment"
            is_set = is_plain and raw.start_byte < statement.children[0].end_byte
        else:
            is_set = is_bound_here(raw) and statement.type != "augmented_assignment"
        right = raw_walk(statement.children_by_field_name("right"))
        if is_set and all(last_name(n) != name for n in right):
            return True
    return False


def last_name(raw: tree_sitter.Node) -> bytes:
    """Return what a name or an attribute is called."""
    if raw.type == "attribute":
        raw = raw.child_by_field_name("attribute") or raw
    return text_of(raw) if raw.type == "identifier" else b""


@lru_cache(maxsize=8192)
def owners(raw: tree_sitter.Node) -> tuple[tree_sitter.Node, ...]:
    """Return the definitions around a syntax node, outermost first."""
    return tuple(reversed([n for n in ancestors(raw) if n.type in DEFINITIONS]))


def qualified_name(path: Sequence[tree_sitter.Node]) -> tuple[bytes, ...]:
    """Return the names of definitions around something."""
    return tuple(map(name_of, path))


def name_of(node: tree_sitter.Node) -> bytes:
    """Return the name of a definition; empty for a node without one."""
    return field_text(node, "name")


@lru_cache(maxsize=8)
def definitions(module: Block) -> frozenset[tuple[bytes, ...]]:
    """Return the qualified names of all definitions of a module."""
    return frozenset(qualified_name((*owners(n), n)) for n in all_definitions(module.raw[0]))


@lru_cache(maxsize=32)
def all_definitions(module: tree_sitter.Node) -> tuple[tree_sitter.Node, ...]:
    """Return the classes and functions of a module, also those in one another."""
    found = []
    stack = [*reversed(definitions_in(module))]
    while stack:
        found.append(stack.pop())
        stack += reversed(definitions_in(found[-1]))
    return tuple(found)


def owner_of_lines(module: Block, lines: range) -> tuple[bytes, ...]:
    """Return the qualified name of the definition around the first of some lines that is not empty.

    Lines count from 0.
    """
    at = first_byte(module, lines)
    raw = module.raw[0].descendant_for_byte_range(at, at)
    around = (raw, *ancestors(raw)) if raw is not None else ()
    path = [n for n in around if n.type in DEFINITIONS and n.start_byte < at]
    return qualified_name(path[::-1])


def first_byte(module: Block, lines: range) -> int:
    """Return where the first of some lines that is not empty has its first character."""
    starts = module.line_starts
    at = starts[min(lines.start, len(starts) - 1)]
    for first, last in pairwise(starts[lines.start : lines.stop + 1]):
        line = module.source[first:last]
        if line.strip():
            return first + len(line) - len(line.lstrip())
        at = last
    return min(at, max(len(module.source) - 1, 0))


def header_at(module: Block, at: int) -> bytes:
    """Return the line that heads the block with byte `at`; of a clause, the clause before it."""
    raw = module.raw[0].descendant_for_byte_range(at, at)
    node = raw if raw is not None else module.raw[0]
    around = [n for n in (node, *ancestors(node)) if n.start_byte == at]
    for one, outer in ((n, n.parent) for n in (*around, *ancestors(node))):
        if one.type.endswith("_clause") and one in around and outer is not None:
            before = [n for n in outer.children if n.type.endswith("_clause") and n.end_byte <= at]
            return text_of([outer, *before][-1]).partition(b"\n")[0].rstrip()
        if one.type == "block" and one not in around:
            return text_of(outer).partition(b"\n")[0].rstrip()
    return b""


@lru_cache(maxsize=64)  # each check of a file asks for the lines of the same chunks
def inside(module: tree_sitter.Node, lines: range) -> tuple[tree_sitter.Node, ...]:
    """Return the syntax nodes that start on some lines."""
    found = []
    stack = [module] if lines else []
    while stack:
        node = stack.pop()
        first = node.start_point.row
        if first < lines.stop and lines.start <= node.end_point.row:
            if first >= lines.start:
                found.append(node)
            stack += reversed(node.children)
    return tuple(found)


def is_read(raw: tree_sitter.Node) -> bool:
    """Whether an identifier is the name of something, and not of an attribute or argument."""
    parent = raw.parent
    if parent is None:
        return False
    role = _ROLES.get(parent.type)
    if role is not None and parent.child_by_field_name(role) == raw:
        return False
    return parent.type not in _BINDING


def reads(module: tree_sitter.Node, path: Sequence[tree_sitter.Node], name: bytes) -> bool:
    """Whether the outermost function of a path, or else definition or module, reads a name."""
    found = scopes(module, qualified_name(path))
    functions = (n for n in found if n.type == "function_definition")
    root = next(functions, [*found, module][0])
    return any(map(is_read, identifiers(root, name)))


def means(module: tree_sitter.Node, path: Sequence[tree_sitter.Node], name: bytes) -> bool:
    """Whether a name is bound in the definitions of that path, in the module, or built in."""
    if name in _BUILTINS or name in bound(module):
        return True
    if not path or name not in text_of(module):
        return False
    names = qualified_name(path)
    found = scopes(module, names)
    if len(found) == len(names):
        return any(binds(scope, name) for scope in found)
    # A definition around it moved or was renamed: look in what is called like the innermost.
    functions = _functions(module)
    return any(binds(f, name) for f in functions.get(names[-1], functions[None]))


def functions_in(module: tree_sitter.Node) -> list[tree_sitter.Node]:
    """Return all functions of a module."""
    return _functions(module)[None]


@lru_cache(maxsize=32)
def _functions(module: tree_sitter.Node) -> dict[bytes | None, list[tree_sitter.Node]]:
    """Return the functions of each name; under None, all of them."""
    found: dict[bytes | None, list[tree_sitter.Node]] = {None: []}
    for raw in all_definitions(module):
        if raw.type == "function_definition":
            found[None].append(raw)
            found.setdefault(name_of(raw), []).append(raw)
    return found


def scopes(module: tree_sitter.Node, names: Sequence[bytes]) -> list[tree_sitter.Node]:
    """Return the definitions that a qualified name leads through, as far as it does."""
    found: list[tree_sitter.Node] = []
    scope: tree_sitter.Node | None = module
    for name in names:
        scope = _named(scope).get(name) if scope is not None else None
        if scope is None:
            break
        found.append(scope)
    return found


def definition_at(module: tree_sitter.Node, names: Sequence[bytes]) -> tree_sitter.Node | None:
    """Return the definition to which a qualified name leads; the module for no names."""
    found = scopes(module, names)
    if len(found) < len(names):
        return None
    return found[-1] if found else module


@lru_cache(maxsize=2048)
def _named(scope: tree_sitter.Node) -> dict[bytes, tree_sitter.Node]:
    """Return the classes and functions in a scope by name; the last of one name counts."""
    return {name_of(raw): raw for raw in definitions_in(scope)}


@lru_cache(maxsize=2048)  # each name of each chunk asks for the same few scopes
def definitions_in(scope: tree_sitter.Node) -> tuple[tree_sitter.Node, ...]:
    """Return the classes and functions in a scope that are not in one of these."""
    return tuple(_in_blocks(scope, DEFINITIONS))


@lru_cache(maxsize=256)
def imports_in(scope: tree_sitter.Node) -> tuple[tree_sitter.Node, ...]:
    """Return the import statements in a scope that are not in a class or function inside it."""
    return tuple(_in_blocks(scope, ("import_statement", "import_from_statement")))


def _in_blocks(scope: tree_sitter.Node, kinds: Sequence[str]) -> Iterator[tree_sitter.Node]:
    """Yield statements of some kinds, without a look into expressions."""
    stack = list(reversed(_body(scope)))
    while stack:
        node = stack.pop()
        if node.type in kinds:
            yield node
        elif node.type in _AROUND_DEFINITIONS:
            stack += reversed(node.named_children)


def _body(scope: tree_sitter.Node) -> list[tree_sitter.Node]:
    body = scope if scope.type == "module" else scope.child_by_field_name("body")
    return body.children if body is not None else []


@lru_cache(maxsize=2048)
def statements_of(scope: tree_sitter.Node) -> tuple[tree_sitter.Node, ...]:
    """Return everything in a scope that is not in a scope inside it."""
    stack = list(reversed(_body(scope)))
    found = []
    while stack:
        node = stack.pop()
        found.append(node)
        if node.type not in DEFINITIONS:
            stack += reversed(node.named_children)
    return tuple(found)


def binds(scope: tree_sitter.Node, name: bytes) -> bool:
    """Whether a name is one of those that `bound` returns, without looking for all of them."""
    if scope.type != "function_definition":
        return name in bound(scope)
    return any(is_bound_here(n) or _is_name_of(n) for n in identifiers(scope, name))


def _is_name_of(raw: tree_sitter.Node) -> bool:
    """Whether an identifier is the name of a definition, or what an import binds."""
    node = raw.parent
    if node is not None and node.type in DEFINITIONS:
        return node.child_by_field_name("name") == raw
    while node is not None and node.type in ("aliased_import", "dotted_name"):
        node = node.parent
    return node is not None and node.type in IMPORTS and raw.text in imported_names(node)


@lru_cache(maxsize=2048)
def bound(scope: tree_sitter.Node) -> frozenset[bytes]:
    """Return the names that a scope binds; a function's with those of the functions in it."""
    names: set[bytes] = set()
    is_function = scope.type == "function_definition"
    nodes = raw_walk([scope]) if is_function else statements_of(scope)
    for raw in nodes:
        if raw.type in IMPORTS:
            names |= set(imported_names(raw))
        elif raw.type in DEFINITIONS:
            names.add(name_of(raw))
        elif raw.type == "wildcard_import":
            names.add(b"*")
        elif raw.type == "identifier" and is_bound_here(raw):
            names.add(text_of(raw))
    return frozenset(names)


def is_bound_here(raw: tree_sitter.Node) -> bool:
    """Whether an identifier gives a name to something."""
    node = raw
    parent = node.parent
    while parent is not None and parent.type in _TARGETS:
        node, parent = parent, parent.parent
    if parent is None:
        return False
    if node.type == "as_pattern_target" or parent.type in ("parameters", "lambda_parameters"):
        return True
    if parent.type == "as_pattern":
        return node != parent.named_children[0]
    if parent.type in ("assignment", "augmented_assignment", "for_statement", "for_in_clause"):
        return parent.child_by_field_name("left") == node
    if parent.type in ("default_parameter", "typed_default_parameter", "named_expression"):
        return parent.child_by_field_name("name") == node
    if parent.type == "type" and parent.parent is not None:
        return is_type_parameter(raw) or parent.parent.child_by_field_name("left") == parent
    return parent.type in ("global_statement", "nonlocal_statement", "case_pattern")


def is_type_parameter(raw: tree_sitter.Node) -> bool:
    """Whether an identifier is a parameter of a generic definition (PEP 695).

    tree-sitter calls the arguments of a generic type by the same name.
    """
    listed = raw.parent and raw.parent.parent
    if listed is None or listed.type != "type_parameter" or listed.parent is None:
        return False
    head = listed.parent.parent  # of `type A[T] = ...`
    alias = head and head.parent
    if alias is None or alias.type != "type_alias_statement":
        return listed.parent.type in DEFINITIONS
    return alias.child_by_field_name("left") == head


def class_around(
    module: tree_sitter.Node, path: Sequence[tree_sitter.Node]
) -> tree_sitter.Node | None:
    """Return the innermost class of a path, in another version of the module."""
    ends = [n for n, raw in enumerate(path, 1) if raw.type == "class_definition"]
    return definition_at(module, qualified_name(path[: ends[-1]])) if ends else None


@lru_cache(maxsize=32)
def own_attributes(scope: tree_sitter.Node) -> frozenset[bytes]:
    """Return what a class gives its instances, without its base classes."""
    return bound(scope) | set(_ATTRIBUTE.findall(text_of(scope)))


def is_record(scope: tree_sitter.Node | None) -> bool:
    """Whether a class takes its fields by position, in their order."""
    outer = scope and scope.parent
    marks = outer.named_children[:-1] if outer and outer.type == "decorated_definition" else []
    text = b"\n".join((*map(text_of, marks), field_text(scope, "superclasses")))
    return _RECORD.search(text) is not None and b"kw_only=True" not in text
