"""Check, over the whole package, that theirs still has what the lines of ours use.

Only what was right before is held against theirs: a call that fitted its function, a decorator
that the functions beside it had. Each finding says what is different now.
"""

import re
from collections.abc import Callable, Collection
from typing import Final

import tree_sitter

from pkgtools.merge.checks.calls import called, fits, resolve_call
from pkgtools.merge.checks.landing import LandedLines, nodes_on
from pkgtools.merge.checks.signatures import (
    given_twice,
    misfit,
    number_of_values,
    other_result,
    returns_of,
    signature_of,
)
from pkgtools.merge.syntax.modules import Definition, Module
from pkgtools.merge.syntax.names import (
    definition_at,
    definitions_in,
    inside,
    name_of,
    owners,
    qualified_name,
    statements_of,
)
from pkgtools.merge.syntax.tokens import DEFINITIONS, field_text, text_of, tokens_of

_LITERALS: Final = ("dictionary", "float", "integer", "list", "set", "string", "tuple")
_SHARED: Final[dict[str, Callable[[Definition], tuple[bytes, ...]]]] = {
    "decorator": lambda one: one.decorators,
    "base class": lambda one: one.base_names,
}


def refused_call(use: LandedLines) -> str | None:
    """Return a call that fitted what it calls, which takes or gives something else now."""
    before = [c for c in nodes_on(use.ours.root, use.lines) if c.type == "call"]
    for call in nodes_on(use.made.root, use.rows) if before else ():
        name = called(call) if call.type == "call" else b""
        twins = [c for c in before if called(c) == name] if name else []
        found = resolve_call(use.made, call) if twins else None
        old = resolve_call(use.ours, twins[0]) if found else None
        # A class has its base classes, too.
        is_same = old and found and not old[0].is_class and old[0].whole.text == found[0].whole.text
        if found is None or is_same:
            continue
        roles = [c.parent.type if c.parent is not None else "" for c in (call, twins[0])]
        changed = other_result(old[0], found[0], roles[0]) if old and len({*roles}) == 1 else None
        changed = changed or (old and _renamed(old[0], found[0]))
        if changed:
            return f"`{name.decode()}` {changed}"
        signature = signature_of(found[0], bound=found[1])
        is_as_given = any(tokens_of(c) == tokens_of(call) for c in twins)
        before_it = signature_of(old[0], bound=old[1]) if old and is_as_given else None
        why = misfit(call, signature, before_it) if signature else None
        if why and any(fits(use.ours, c) for c in twins):
            return f"`{name.decode()}` does not take this call any more: {why}"
    return None


def _renamed(old: Definition, new: Definition) -> str | None:
    """Return that upstream gave a function another name, and its name to another function."""
    outer, known = new.node.parent, old.node.parent
    if outer is None or known is None or old.is_class:
        return None
    names, body = {name_of(n) for n in known.children}, field_text(old.node, "body")
    for node in (n for n in outer.children if n.type == old.node.type and n != new.node):
        if field_text(node, "body") == body and name_of(node) not in names:
            return f"is another function now: upstream calls it `{name_of(node).decode()}`"
    return None


def keyword_twice(use: LandedLines) -> str | None:
    """Return a keyword of a call that a dictionary has, too, and in neither side alone."""
    for function in nodes_on(use.made.root, use.rows):
        if function.type != "function_definition" or b"**" not in text_of(function):
            continue
        found, path = given_twice(function), (*owners(function), function)
        for there in use.on_sides(path) if found else ():
            found -= given_twice(there)
        for name, key in sorted(found):
            shown = key.decode(), name.decode()
            return "a call would get the keyword `{}` twice, once in `**{}`".format(*shown)
    return None


def other_number_of_values(use: LandedLines) -> str | None:
    """Return a call whose values some lines unpack, and that returns another number of them."""
    for node in nodes_on(use.made.root, use.rows):
        if node.type != "assignment" or node.children[-1].type != "call":
            continue
        left, right = node.children[0], node.children[-1]
        wanted = number_of_values([left])
        new = _values(use.made, right)
        if wanted is None or new in (None, wanted):
            continue
        twins = (n for n in nodes_on(use.ours.root, use.lines) if n.type == "call")
        if any(called(c) == called(right) and _values(use.ours, c) == wanted for c in twins):
            return f"`{called(right).decode()}` returns {new} values now, not {wanted}"
    return None


def _values(module: Module, call: tree_sitter.Node) -> int | None:
    """Return how many values a call returns each time; None where that differs or is one."""
    found = resolve_call(module, call)
    if not found or found[0].is_class:
        return None
    counts = {number_of_values(n.named_children) for n in returns_of(found[0].node)}
    return counts.pop() if len(counts) == 1 else None


def other_return(use: LandedLines) -> str | None:
    """Return that some lines return what the other returns of the function do not any more."""
    for node, twin in use.pairs("return_statement"):
        others, before = _returns(node, use.rows), _returns(twin, use.lines)
        count = number_of_values(node.named_children)
        counts = {number_of_values(n.named_children) for n in others}
        known = {number_of_values(n.named_children) for n in before} | {count}
        if count is not None and len(counts) == len(known) == 1 and counts != known:
            wanted = counts.pop()
            values = f"{wanted} values" if wanted else "one value"
            return f"the other returns of the function have {values} now, not {count}"
        was_truth = _is_truth(node) and any(map(_is_truth, before))
        if was_truth and others and all(map(_is_other, others)):
            return "the other returns of the function are not true or false any more"
    return None


def returned_by_generator(use: LandedLines) -> str | None:
    """Return that a generator gets a return with a value, which a caller does not see."""
    for node in nodes_on(use.made.root, use.rows):
        function = owners(node)[-1:] if node.type in ("return_statement", "yield") else ()
        if any(map(_is_mixed, function)) and not any(map(_is_mixed, use.on_sides(owners(node)))):
            return "one side makes the function a generator, and the other one returns a value"
    return None


def _is_mixed(function: tree_sitter.Node) -> bool:
    """Whether a function yields values, and returns one as well."""
    yields = any(n.type == "yield" for n in statements_of(function))
    return yields and any(n.named_children for n in returns_of(function))


def _returns(node: tree_sitter.Node, lines: Collection[int]) -> list[tree_sitter.Node]:
    """Return the returns with a value of the function around a node that are not on some lines."""
    found = (n for function in owners(node)[-1:] for n in returns_of(function))
    return [n for n in found if n.named_children and n.start_point.row not in lines]


def _is_truth(node: tree_sitter.Node) -> bool:
    return [n.type for n in node.named_children] in (["true"], ["false"])


def _is_other(node: tree_sitter.Node) -> bool:
    """Whether a return has a literal or a member of an enumeration."""
    (value,) = node.named_children[:1]
    return value.type in _LITERALS or re.match(rb"_*[A-Z]\w*\.\w+\Z", text_of(value)) is not None


def lone_definition(use: LandedLines) -> str | None:
    """Return what upstream took from the definitions beside one that the lines add."""
    for node in inside(use.ours.root, use.lines):
        if node.type not in DEFINITIONS:
            continue
        added, path = Definition(node, use.ours), qualified_name(owners(node))
        old, new = (_definitions(module, path, node.type) for module in (use.base, use.theirs))
        if old is None or new is None:
            continue
        made = (_definitions(use.made, path, node.type) or {}).get(name_of(node), added)
        known = old.get(name_of(node))
        if changed := _changed_base(use, (added, made), known):
            return changed
        shared = ((what, text) for what, of in _SHARED.items() for text in of(made) if not known)
        for what, text in shared:
            if lost := _lost_by(text, old, new, _SHARED[what]):
                shown = text.decode(errors="replace")
                return f"upstream took the {what} `{shown}` from {lost}, beside what is added"
    return None


def _changed_base(
    use: LandedLines, added: tuple[Definition, Definition], known: Definition | None
) -> str | None:
    """Return that a base class that is added is not the class, or dataclass, that it was."""
    ours, made = added
    for name in sorted({*ours.base_names} - {*(known.base_names if known else ())}):
        old, new = use.ours.resolve(name), use.made.resolve(name)
        if old and new and old.is_class > new.is_class:
            return f"the base class `{name.decode()}` is a function now"
        if old and new and old.is_final < new.is_final:
            return f"the base class `{name.decode()}` is final now"
        lost = set(old.decorators) - set(new.decorators) if old and new else set()
        lost -= set(ours.decorators) - set(made.decorators)
        if lost:
            shown = ", ".join(f"`{text.decode()}`" for text in sorted(lost))
            return f"the base class `{name.decode()}` has lost its decorator {shown}"
    return None


def _lost_by(
    text: bytes,
    before: dict[bytes, Definition],
    behind: dict[bytes, Definition],
    of: Callable[[Definition], tuple[bytes, ...]],
) -> str | None:
    """Return the definitions that lost something, if most that had it did."""
    had = [name for name, one in before.items() if text in of(one) and name in behind]
    lost = [name for name in had if text not in of(behind[name])]
    if 2 * len(lost) <= len(had):
        return None
    return ", ".join(f"`{name.decode()}`" for name in lost[:3]) + (" ..." if lost[3:] else "")


def _definitions(
    module: Module, path: tuple[bytes, ...], kind: str
) -> dict[bytes, Definition] | None:
    scope = definition_at(module.root, path)
    nodes = (n for n in definitions_in(scope) if n.type == kind) if scope else ()
    return {name_of(n): Definition(n, module) for n in nodes} if scope else None
