"""The effects of a statement, from its text: names it reads and writes, and what it may do."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import tree_sitter

from pkgtools.merge.syntax.blocks import Block
from pkgtools.merge.syntax.tokens import (
    ancestors,
    arguments,
    field_parts,
    field_text,
    identifiers,
    raw_walk,
    text_of,
)

_ENDS: Final = {"assert_statement", "raise_statement", "return_statement"}
"""Statements that end the function."""
_LEAVES_OFF: Final = {
    *("await", "break_statement", "continue_statement", "delete_statement", "global_statement"),
    *("nonlocal_statement", "yield"),
}
"""Statements that change the control flow or the meaning of names in another way."""
_HARMLESS: Final = {
    *(b"abs", b"bool", b"float", b"getattr", b"hasattr", b"int", b"isinstance", b"issubclass"),
    *(b"len", b"max", b"min", b"range", b"repr", b"round", b"str", b"tuple", b"type"),
}
"""Builtins that do not change their arguments."""
_GROWS: Final = {b"add", b"append", b"appendleft", b"discard", b"extend", b"update"}
"""Methods of containers."""
_EMPTY: Final = re.compile(
    rb"(?:list|dict|set|deque|defaultdict|Counter)\((?:list|dict|set|int)?\)"
)
_DISPLAYS: Final = {"dictionary", "list", "list_comprehension", "set"}
_LOOKS: Final = {
    *("argument_list", "attribute", "boolean_operator", "comparison_operator", "interpolation"),
    *("keyword_argument", "not_operator", "return_statement", "subscript"),
}
"""Uses of a container that give it no second name in the function."""
_LOG: Final = re.compile(
    rb"(?:self\._?)?(?:log|logger|logging|_logger|LOGGER)"
    rb"\.(?:critical|debug|error|exception|info|log|warning)"
)
_FRAMES: Final = ("class_definition", "function_definition", "try_statement", "with_statement")
_CLASS: Final = re.compile(rb"[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*")


@dataclass
class Effects:
    """Dotted names that are read and written, and what else may happen."""

    reads: set[bytes] = field(default_factory=set)
    writes: set[bytes] = field(default_factory=set)
    types: set[bytes] = field(default_factory=set)
    """Names in annotations: only another binding of them would matter."""
    handed_over: set[bytes] = field(default_factory=set)
    """Objects that some call gets hold of, and may change."""
    calls: bool = False
    leaves: bool = False
    """Whether it may end the loop or the module, wait, or change the meaning of names."""
    ends: bool = False
    """Whether it may end the function."""
    logs: bool = False
    """Whether it writes to a log."""
    grows: bool = False
    """Whether it changes a container that the function made."""
    in_function: bool = True
    """Whether it stands in a function, and nothing around it catches what ends that."""

    @property
    def names(self) -> set[bytes]:
        """What it reads or writes."""
        return self.reads | self.writes


def effects(nodes: Iterable[Block]) -> Effects:
    """Return what running `nodes` does."""
    return effects_of(raw for node in nodes for raw in node.raw)


def effects_of(raws: Iterable[tree_sitter.Node]) -> Effects:
    """Return what running some syntax nodes does."""
    found = Effects()
    for raw in raws:
        _visit(raw, found)
        frames = (n.type for n in ancestors(raw) if n.type in _FRAMES)
        found.in_function = found.in_function and next(frames, "") == "function_definition"
    return found


def independent(one: Effects, other: Effects) -> bool:
    """Whether two runs of statements seem to have the same effect in either order."""
    if one.leaves or other.leaves or (one.logs and other.logs):
        return False
    for mine, yours in ((one, other), (other, one)):
        if mine.calls and (yours.calls or yours.grows):
            return False
        if mine.ends and not _is_lost_with(yours, mine):
            return False
        if not _last_names(mine.writes).isdisjoint(_last_names(yours.names)):
            return False  # two names may be one object
        if _reaches(mine.writes, yours.names | yours.types):
            return False
        if _reaches(mine.handed_over, yours.names):
            return False
    return True


def _last_names(names: set[bytes]) -> set[bytes]:
    return {name.rpartition(b".")[2] for name in names if b"." in name}


def _is_lost_with(mine: Effects, end: Effects) -> bool:
    """Whether nothing is left of what `mine` does where the function ends in `end`.

    What only one of the two looks at cannot fail because of the other one's condition.
    """
    is_local = (
        not (mine.calls or mine.logs or mine.grows or mine.ends)
        and mine.in_function
        and end.in_function
    )
    return is_local and not any(b"." in name for name in mine.writes) and not share(mine, end)


def share(one: Effects, other: Effects) -> bool:
    """Whether both use one name, or attributes of it."""
    roots = ({name.partition(b".")[0] for name in side.names} for side in (one, other))
    return not next(roots).isdisjoint(next(roots))


def _reaches(writes: set[bytes], names: set[bytes]) -> bool:
    """Whether one of `names` is written, or is an attribute of what is."""
    return any(n == written or n.startswith(written + b".") for written in writes for n in names)


def _visit(raw: tree_sitter.Node, found: Effects) -> None:
    kind = raw.type
    found.leaves = found.leaves or kind in _LEAVES_OFF
    found.ends = found.ends or kind in _ENDS
    if kind == "subscript":
        found.reads |= _item(raw)
    if kind in ("import_statement", "import_from_statement", "future_import_statement"):
        found.writes |= set(imported_names(raw))
    elif kind in ("function_definition", "class_definition"):
        _visit_definition(raw, found)
    elif kind in ("assignment", "augmented_assignment", "named_expression", "for_statement"):
        _visit_assignment(raw, found)
    elif kind == "call":
        _visit_call(raw, found)
    elif kind in ("attribute", "identifier"):
        _read(raw, found)
    elif kind == "keyword_argument":
        _visit(raw.children[-1], found)
    elif kind == "as_pattern_target":
        _write(raw.named_children, found)
    else:
        for child in raw.named_children:
            _visit(child, found)


def _visit_definition(raw: tree_sitter.Node, found: Effects) -> None:
    for child in raw.named_children:
        if child.type == "block":
            if raw.type == "class_definition":  # which runs at once, with names of its own
                body = Effects()
                _visit(child, body)
                found.reads |= body.reads - body.writes
        elif child == raw.child_by_field_name("name"):
            found.writes.add(text_of(child))
        elif child.type == "parameters":
            for parameter in child.named_children:
                for value in parameter.children_by_field_name("value"):
                    _visit(value, found)
                found.types |= _annotated(parameter.children_by_field_name("type"))
        elif child == raw.child_by_field_name("return_type"):
            found.types |= _annotated([child])
        else:
            _visit(child, found)


def _annotated(raws: Sequence[tree_sitter.Node]) -> set[bytes]:
    return {text_of(node) for node in raw_walk(raws) if node.type == "identifier"}


def _visit_assignment(raw: tree_sitter.Node, found: Effects) -> None:
    target = raw.child_by_field_name("left") or raw.child_by_field_name("name")
    for child in raw.named_children:
        if child != target:
            _visit(child, found)
    if target is not None:
        _write([target], found)
        # `a += 1` reads `a`, too.
        if raw.type == "augmented_assignment":
            _visit(target, found)


def _write(targets: Sequence[tree_sitter.Node], found: Effects) -> None:
    for target in targets:
        if target.type in ("identifier", "attribute"):
            found.writes.add(dotted_name(target) or text_of(target))
        elif target.type == "subscript":
            value = target.children[0]
            found.writes |= {dotted_name(value) or text_of(value), *_item(target)}
            for child in target.named_children:
                _visit(child, found)
        else:
            _write(target.named_children, found)


def _item(raw: tree_sitter.Node) -> set[bytes]:
    """Return an item of a container as if it were an attribute: two names may be one object."""
    owner = text_of(raw.children[0])
    key = text_of(raw).removeprefix(owner).replace(b".", b" ")
    return set() if _is_fresh(raw, owner) else {owner + b"." + key}


def _visit_call(raw: tree_sitter.Node, found: Effects) -> None:
    function = raw.children[0]
    name = text_of(function)
    container, _, method = name.rpartition(b".")
    is_log, grows = _LOG.fullmatch(name) is not None, method in _GROWS and _is_fresh(raw, container)
    # It only makes a value; PEP 8: class names are in CapWords.
    harmless = name in _HARMLESS or _CLASS.fullmatch(method) is not None or is_log or grows
    found.calls = found.calls or not harmless
    found.logs = found.logs or is_log
    if grows:
        found.grows = True
        found.writes.add(container)
    _visit(function, found)
    handed = [] if harmless else arguments(raw)
    if function.type == "attribute":
        handed.append(function.children[0])
    values = (n.children[-1] if n.type == "keyword_argument" else n for n in handed)
    found.handed_over |= {*map(dotted_name, values)} - {b""}
    for argument in arguments(raw):
        _visit(argument, found)


def _is_fresh(raw: tree_sitter.Node, name: bytes) -> bool:
    """Whether a function only ever binds a name to a container that it makes itself."""
    outer = next((n for n in ancestors(raw) if n.type == "function_definition"), None)
    if outer is None or not name:
        return False
    uses = list(identifiers(outer, name))
    made = [n.parent for n in uses if n.parent is not None and _use(n) == "assignment"]
    values = [n.child_by_field_name("right") for n in made]
    # A container from elsewhere can have another name, through which it is read.
    is_made = all(
        value is not None and (value.type in _DISPLAYS or _EMPTY.fullmatch(text_of(value)))
        for value in values
    )
    return bool(made) and is_made and {_use(n) for n in uses} <= {"assignment", *_LOOKS}


def _use(raw: tree_sitter.Node) -> str:
    """Return what a name is used in, beyond lists of values."""
    kinds = (n.type for n in ancestors(raw))
    return next((kind for kind in kinds if kind not in ("expression_list", "tuple")), "")


def _read(raw: tree_sitter.Node, found: Effects) -> None:
    name = dotted_name(raw)
    if not name:  # an attribute of an expression
        _visit(raw.children[0], found)
        return
    found.reads.add(name)
    if _is_property(raw):
        found.calls = True
        found.handed_over.add(name.rpartition(b".")[0])


def _is_property(raw: tree_sitter.Node) -> bool:
    """Whether the class around an attribute of `self` has a decorated method of that name."""
    name = text_of(raw).removeprefix(b"self.")
    around = ancestors(raw) if raw.type == "attribute" else ()
    scope = next((n for n in around if n.type == "class_definition"), raw)
    inner = (n.child_by_field_name("definition") for n in field_parts(scope, "body"))
    return any(field_text(n, "name") == name for n in inner)


def dotted_name(raw: tree_sitter.Node) -> bytes:
    """Return ``a.b.c`` for a name and its attributes, else nothing."""
    if raw.type == "identifier":
        return text_of(raw)
    if raw.type != "attribute":
        return b""
    owner = dotted_name(raw.children[0])
    return owner and owner + b"." + field_text(raw, "attribute")


def is_log(function: tree_sitter.Node) -> bool:
    """Whether what a call calls writes to a log."""
    return _LOG.fullmatch(dotted_name(function)) is not None


def imported_names(raw: tree_sitter.Node) -> list[bytes]:
    """Return the names that an import binds."""
    # `import a.b` binds `a`, `from a import b` binds `b`.
    end = b"." if raw.type == "import_statement" else b" "
    nodes = raw.children_by_field_name("name")
    return [field_text(n, "alias") or text_of(n).partition(end)[0] for n in nodes]
