"""Additions of both sides that are the same in part.

Where both sides add one statement or definition, and one of the two has all that the other has,
making both would be wrong: the larger one holds both changes. Comments and docstrings do not
count. ::

    ours                       theirs                     both
    def clear(self):           def clear(self):           def clear(self):
        self.abort()               "Remove everything."       "Remove everything."
        self.queue.clear()         self.queue.clear()         self.abort()
                                                              self.queue.clear()
"""

from collections.abc import Sequence
from typing import Final

from pkgtools.merge.result import Edit, Unsure
from pkgtools.merge.rules.layout import apply_edits, line_end, line_start
from pkgtools.merge.syntax.blocks import Block, Shape, is_sound, parse, same
from pkgtools.merge.syntax.effects import dotted_name, effects
from pkgtools.merge.syntax.names import class_around, owners, statements_of

_DEFAULTED: Final = {
    "identifier": "default_parameter",
    "typed_parameter": "typed_default_parameter",
}
_KEYWORDS: Final = ("keyword_argument", "dictionary_splat")
_DEFAULTS: Final = (*_DEFAULTED.values(), "keyword_separator", "dictionary_splat_pattern")


def extends(whole: Block, part: Block) -> bool:
    """Whether `whole` is the same statement as `part`, with more in it: arguments, statements."""
    if same(whole, part):
        return True
    if _DEFAULTED.get(part.kind) == whole.kind and whole.key == part.key:
        given = part.parts.get("type"), whole.parts.get("type")
        return given == (None, None) or (None not in given and same(*filter(None, given)))
    if whole.kind != part.kind or whole.shape is not part.shape:
        return False
    if whole.shape is Shape.BODY:
        return _extends_body(_code(whole), _code(part))
    if whole.shape is Shape.LIST:
        return _extends_list(whole, part)
    if whole.shape is Shape.RECORD:
        roles = set(whole.parts) == set(part.parts) and whole.skeleton == part.skeleton
        return roles and all(
            same(whole.parts[role], inner)
            or (role != "condition" and extends(whole.parts[role], inner))
            for role, inner in part.parts.items()
        )
    pairs = zip(whole.elements, part.elements, strict=False)
    return len(whole.elements) == len(part.elements) != 0 and all(extends(*p) for p in pairs)


def _code(body: Block) -> list[Block]:
    """Return a body's statements that do something."""
    return [n for n in body.elements if not (n.is_comment or _is_idle(n))]


def _is_idle(node: Block) -> bool:
    inner = node.raw[0].named_children
    is_docstring = len(inner) == 1 and inner[0].type in ("string", "ellipsis")
    return node.kind == "pass_statement" or (node.kind == "expression_statement" and is_docstring)


def _extends_body(whole: Sequence[Block], part: Sequence[Block]) -> bool:
    left = list(part)
    for node in whole:
        if left and extends(node, left[0]):
            del left[0]
        elif (done := effects([node])).leaves or done.ends:
            return False
    return not left


def _extends_list(whole: Block, part: Block) -> bool:
    if not part.elements or len(part.elements) > len(whole.elements):
        return False
    if whole.kind == "argument_list":
        sides = [[n for n in one.elements if n.kind not in _KEYWORDS] for one in (whole, part)]
        named = [n for n in part.elements if n.kind in _KEYWORDS]
        others = [n for n in whole.elements if n.kind in _KEYWORDS]
        in_order = all(map(same, *(side[: len(sides[1])] for side in sides)))
        enough = len(sides[0]) >= len(sides[1])
        return enough and in_order and all(any(same(n, o) for o in others) for n in named)
    if whole.kind == "parameters":
        size = len(part.elements)
        return all(map(extends, whole.elements, part.elements)) and all(
            n.kind in _DEFAULTS for n in whole.elements[size:]
        )
    return False


def guards(whole: Block, part: Block) -> bool:
    """Whether `whole` is `part` under the condition that an object is there that it uses."""
    if not is_under_condition(part, whole):
        return False
    tokens = whole.parts["condition"].tokens
    name = b"".join(tokens[:-3]) if tokens[-3:] == (b"is", b"not", b"None") else b"".join(tokens)
    # Without the object the statement would fail before it does anything.
    return part.kind == "call" and b"".join(part.tokens).startswith(name + b".")


def is_under_condition(part: Block, whole: Block) -> bool:
    """Whether `whole` does `part` under a condition, and nothing else."""
    if whole.kind != "if_statement" or set(whole.parts) != {"condition", "consequence"}:
        return False
    code = _code(whole.parts["consequence"])
    return len(code) == 1 and same(code[0], part)


def is_call_of(other: Block, run: Sequence[Block], module: Block) -> bool:
    """Whether a statement calls a function whose body is some statements, with the same names."""
    call = other.raw[0]
    function, given = (call.child_by_field_name(role) for role in ("function", "arguments"))
    done = effects(run)
    # A local variable of the function would not be the caller's.
    if done.leaves or done.ends or not all(b"." in name for name in done.writes):
        return False
    if other.kind != "call" or function is None or given is None:
        return False
    name = dotted_name(function)
    is_method = name.startswith(b"self.")
    scope = class_around(module.raw[0], owners(call)) if is_method else module.raw[0]
    name = name.removeprefix(b"self.")
    called = [n for n in module.walk(name) if n.kind == "function" and n.name == name]
    if len(called) != 1 or scope is None or called[0].raw[0] not in statements_of(scope):
        return False
    names = [next(iter(p.tokens)) for p in called[0].parts["parameters"].elements]
    arguments = [*([b"self"] if is_method else []), *(n.text for n in given.named_children)]
    if names != arguments or b"async" in called[0].skeleton:
        return False
    body, wanted = _code(called[0].parts["body"]), [n for n in run if not n.is_comment]
    return len(body) == len(wanted) and all(map(same, body, wanted))


def without_remarks(block: Block) -> Block | None:
    """Return a statement without its comments and docstrings; None if nothing is left."""
    source = block.source
    idle = [n for n in block.walk() if n.is_comment or _is_idle(n)]
    spans = ((line_start(source, n.start), line_end(source, n.end)) for n in idle)
    made = apply_edits(source, [Edit(source, start, end, b"") for start, end in spans])
    if isinstance(made, Unsure) or not is_sound(parse(made)):
        return None
    nodes = (n for n in parse(made).walk() if n.kind == block.kind)
    return next((n for n in nodes if n.start == block.start), None)


def has_at_end(outer: Block, node: Block, end: int) -> bool:
    """Whether a block of `outer`, or of what it ends (or starts) with, ends with `node`."""
    if outer.kind not in ("if_statement", "try_statement", "with_statement"):
        return False
    inner = [part.elements[end] for part in outer.parts.values() if part.kind == "block"]
    return any(same(one, node) or has_at_end(one, node, end) for one in inner)


def is_part(part: Sequence[Block], whole: Sequence[Block]) -> bool:
    """Whether `whole` has the tokens of `part` in the same order."""
    rest = iter([t for node in whole for t in node.tokens])
    return all(token in rest for node in part for token in node.tokens)
