"""Check, over the whole package, that theirs still has what the lines of ours use.

Only what was right before is held against theirs: a call that fitted its function, an attribute
that the class or one of its base classes had. Each finding says what is different now.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Final

import tree_sitter

from pkgtools.merge.attributes import (
    attribute_of_a_part,
    lost_attribute,
    undefined_attribute,
    unread_attribute,
)
from pkgtools.merge.derived import derived_option
from pkgtools.merge.landing import Landing, nodes_on
from pkgtools.merge.modules import Definition, Module
from pkgtools.merge.names import (
    binds,
    class_around,
    definitions_in,
    inside,
    name_of,
    owners,
    qualified_name,
    scopes,
    statements_of,
)
from pkgtools.merge.signatures import (
    given_twice,
    misfit,
    number_of_values,
    other_result,
    returned_values,
    signature_of,
)
from pkgtools.merge.tokens import identifiers, tokens_of

_LITERALS: Final = ("dictionary", "float", "integer", "list", "set", "string", "tuple")
_DEFINITIONS: Final = ("function_definition", "class_definition")


def misuse(use: Landing) -> str | None:
    """Return what some lines use in a way that was right for ours, and is not in the result."""
    checks: tuple[Callable[[Landing], str | None], ...] = (
        lost_attribute,
        undefined_attribute,
        unread_attribute,
        attribute_of_a_part,
        _refused_call,
        _keyword_twice,
        _other_number_of_values,
        _other_return,
        _lone_definition,
        derived_option,
    )
    return next((found for check in checks if (found := check(use))), None)


def outdated(use: Landing) -> str | None:
    """Return what new lines of theirs, here as `ours`, use as it was before our change."""
    checks = (lost_attribute, _refused_call, _other_number_of_values)
    return next((found for check in checks if (found := check(use))), None)


def _refused_call(use: Landing) -> str | None:
    before = [c for c in nodes_on(use.ours.root, use.lines) if c.type == "call"]
    for call in nodes_on(use.made.root, use.rows) if before else ():
        name = _called(call) if call.type == "call" else b""
        twins = [c for c in before if _called(c) == name] if name else []
        found = resolve_call(use.made, call) if twins else None
        old = resolve_call(use.ours, twins[0]) if found else None
        if found is None or (old and _is_as_it_was(old[0], found[0])):
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
        if why and any(_fits(use.ours, c) for c in twins):
            return f"`{name.decode()}` does not take this call any more: {why}"
    return None


def _renamed(old: Definition, new: Definition) -> str | None:
    """Return that upstream gave a function another name, and its name to another function."""
    body = old.node.child_by_field_name("body")
    outer, known = new.node.parent, old.node.parent
    if body is None or outer is None or known is None:
        return None
    names = {name_of(n) for n in known.children}
    same = (n for n in outer.children if n.type == old.node.type and name_of(n) not in names)
    found = next(
        (n for n in same if (b := n.child_by_field_name("body")) and b.text == body.text), None
    )
    return (
        f"is another function now: upstream calls it `{name_of(found).decode()}`" if found else None
    )


def _is_as_it_was(old: Definition, new: Definition) -> bool:
    """Whether a function is the same; a class has its base classes, too."""
    return not old.is_class and not new.is_class and old.whole.text == new.whole.text


def unproven_calls(
    sides: tuple[Module, Module], made: Module, rows: Collection[int]
) -> Iterator[tree_sitter.Node]:
    """Yield calls of a result where one side changes what is called, the other what is given.

    Calls that are known to fit are left out.
    """
    ours, theirs = (module.root.text or b"" for module in sides)
    for call in nodes_on(made.root, rows):
        given = call.child_by_field_name("arguments")
        # With all arguments of ours, the function has just another name.
        if call.type != "call" or given is None or (given.text or b"") in ours:
            continue
        mine, known = (_calls_like(module.root, call) for module in sides)
        is_new = (call.text or b"") not in theirs and not mine
        is_new = is_new and all(_arguments(n) != _arguments(call) for n in known)
        if known and is_new and not _fits(made, call):
            yield call


def _calls_like(root: tree_sitter.Node, call: tree_sitter.Node) -> list[tree_sitter.Node]:
    """Return the calls of what a call of another version calls."""
    name = _called(call)
    found = identifiers(root, name.rpartition(b".")[2])
    outer = (n.parent if n.parent and n.parent.type == "attribute" else n for n in found)
    return [n.parent for n in outer if n.text == name and n.parent and n.parent.type == "call"]


def _arguments(call: tree_sitter.Node) -> Counter[bytes]:
    """Return the keywords and stars of a call's arguments; of other values, how many."""
    given = call.child_by_field_name("arguments")
    nodes = [n for n in (given.named_children if given else ()) if n.type != "comment"]
    return Counter(
        name_of(n) or (n.text or b"" if n.type.endswith("splat") else b"") for n in nodes
    )


def _fits(module: Module, call: tree_sitter.Node) -> bool:
    found = resolve_call(module, call)
    signature = signature_of(found[0], bound=found[1]) if found else None
    return signature is not None and misfit(call, signature) is None


def _called(call: tree_sitter.Node) -> bytes:
    function = call.child_by_field_name("function")
    return (function.text or b"") if function is not None else b""


def resolve_call(module: Module, call: tree_sitter.Node) -> tuple[Definition, bool] | None:
    """Return what a call calls, and whether as a method of ``self``."""
    name = _called(call)
    path = owners(call)
    if name.startswith((b"self.", b"cls.", b"super().")):
        scope = class_around(module.root, path)
        owner, _, attribute = name.partition(b".")
        if scope is None or b"." in attribute:
            return None
        around = Definition(scope, module)
        method = (around.inherited if owner == b"super()" else around.method)(attribute)
        return (method, True) if method else None
    if not name.replace(b".", b"").replace(b"_", b"").isalnum():
        return None
    first = name.partition(b".")[0]
    for scope in reversed(path):
        if scope.type == "function_definition" and binds(scope, first):
            local = Module(scope, module.package, module.read).resolve(name)
            return (local, False) if local else None
    owner, _, last = name.rpartition(b".")
    of = module.resolve(owner) if owner else None
    if of is not None and of.is_class:
        method = of.method(last)
        is_bound = method is not None and any(b"classmethod" in d for d in method.decorators)
        return (method, is_bound) if method else None
    found = module.resolve(name)
    return (found, False) if found else None


def _keyword_twice(use: Landing) -> str | None:
    """Return a keyword of a call that a dictionary has, too, and in neither side alone."""
    for function in nodes_on(use.made.root, use.rows):
        if function.type != "function_definition" or b"**" not in (function.text or b""):
            continue
        found, path = given_twice(function), (*owners(function), function)
        for module in (use.ours, use.theirs) if found else ():
            there = scopes(module.root, qualified_name(path))
            found -= given_twice(there[-1]) if len(there) == len(path) else set()
        for name, key in sorted(found):
            shown = key.decode(), name.decode()
            return "a call would get the keyword `{}` twice, once in `**{}`".format(*shown)
    return None


def _other_number_of_values(use: Landing) -> str | None:
    for node in nodes_on(use.made.root, use.rows):
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if node.type != "assignment" or left is None or right is None or right.type != "call":
            continue
        wanted = number_of_values([left])
        new = _values(use.made, right)
        if wanted is None or new in (None, wanted):
            continue
        twins = (n for n in nodes_on(use.ours.root, use.lines) if n.type == "call")
        if any(_called(c) == _called(right) and _values(use.ours, c) == wanted for c in twins):
            return f"`{_called(right).decode()}` returns {new} values now, not {wanted}"
    return None


def _values(module: Module, call: tree_sitter.Node) -> int | None:
    found = resolve_call(module, call)
    return returned_values(found[0].node) if found and not found[0].is_class else None


def _other_return(use: Landing) -> str | None:
    mine = [n for n in inside(use.ours.root, use.lines) if n.type == "return_statement"]
    for node in nodes_on(use.made.root, use.rows) if mine else ():
        twin = next((n for n in mine if n.text == node.text), None)
        if twin is None:
            continue
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


def _returns(node: tree_sitter.Node, lines: Collection[int]) -> list[tree_sitter.Node]:
    """Return the returns with a value of the function around a node that are not on some lines."""
    found = [n for n in statements_of(owners(node)[-1]) if n.type == "return_statement"]
    return [n for n in found if n.named_children and n.start_point.row not in lines]


def _is_truth(node: tree_sitter.Node) -> bool:
    return [n.type for n in node.named_children] in (["true"], ["false"])


def _is_other(node: tree_sitter.Node) -> bool:
    """Whether a return has a literal or a member of an enumeration."""
    (value,) = node.named_children[:1]
    return value.type in _LITERALS or re.match(rb"_*[A-Z]\w*\.\w+\Z", value.text or b"") is not None


def _lone_definition(use: Landing) -> str | None:
    """Return what upstream took from the definitions beside one that the lines add."""
    for node in inside(use.ours.root, use.lines):
        if node.type not in _DEFINITIONS:
            continue
        added = Definition(node, use.ours)
        path = qualified_name(owners(node))
        around = [_definitions(module, path, node.type) for module in (use.base, use.theirs)]
        if None in around or name_of(node) in (around[0] or {}):
            continue
        changed = _changed_base(use, added)
        if changed:
            return changed
        for what, of in (("decorator", _decorators_of), ("base class", _bases_of)):
            for text in of(added):
                lost = _lost_by(text, around[0] or {}, around[1] or {}, of)
                if lost:
                    shown = text.decode(errors="replace")
                    return f"upstream took the {what} `{shown}` from {lost}, beside what is added"
    return None


def _changed_base(use: Landing, added: Definition) -> str | None:
    """Return that a base class of an added class was a class, or a dataclass, and is none now."""
    for name in added.base_names:
        old, new = use.ours.resolve(name), use.made.resolve(name)
        if old and new and old.is_class > new.is_class:
            return f"the base class `{name.decode()}` is a function now"
        lost = set(old.decorators) - set(new.decorators) if old and new else ()
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


def _decorators_of(one: Definition) -> tuple[bytes, ...]:
    return one.decorators


def _bases_of(one: Definition) -> tuple[bytes, ...]:
    return one.base_names


def _definitions(
    module: Module, path: tuple[bytes, ...], kind: str
) -> dict[bytes, Definition] | None:
    around = scopes(module.root, path)
    if len(around) != len(path):
        return None
    scope = around[-1] if around else module.root
    nodes = (n for n in definitions_in(scope) if n.type == kind)
    return {name_of(n): Definition(n, module) for n in nodes}
