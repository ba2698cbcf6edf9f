"""Check that what a patch does in a class still fits the class and its base classes.

Example: the patch overrides `on_step`, and upstream renames the method of the base class: nothing
would call the patch's method any more.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

import tree_sitter

from pkgtools.merge.checks.landing import LandedLines, nodes_on
from pkgtools.merge.checks.signatures import misordered_field, signature_of
from pkgtools.merge.syntax.modules import Definition
from pkgtools.merge.syntax.names import (
    bound,
    class_around,
    definition_at,
    inside,
    last_name,
    name_of,
    owners,
    qualified_name,
)
from pkgtools.merge.syntax.tokens import field_text, text_of

_ABSTRACT: Final = b"abstractmethod"
_Sides = tuple[Definition, Definition]
"""One class in ours and in the result."""


def misfit_in_class(use: LandedLines) -> str | None:
    """Return what some lines do in a class that fitted there and does not any more."""
    for raw in inside(use.ours.root, use.lines):
        check = _CHECKS.get(raw.type)
        is_used = check is _abstract or (last_name(raw) or name_of(raw)) in use.words
        if check is None or not is_used:
            continue
        path = (*owners(raw), raw) if check is _abstract else owners(raw)
        base, ours, made = (class_around(m.root, path) for m in (use.base, use.ours, use.made))
        if ours is None or made is None:
            continue
        known = Definition(base or ours, use.base)
        if found := check(raw, known, (Definition(ours, use.ours), Definition(made, use.made))):
            return found
    return None


def field_behind_default(use: LandedLines) -> str | None:
    """Return a field that cannot stand behind one with a default, as it does in neither side."""
    for scope in nodes_on(use.made.root, use.rows):
        name = misordered_field(scope) if scope.type == "class_definition" else None
        if name and not any(map(misordered_field, use.on_sides((*owners(scope), scope)))):
            return f"the field `{name.decode()}` without a default follows one with a default"
    return None


def lone_field(use: LandedLines) -> str | None:
    """Return the class of a new field if upstream took most of its other ones out of it."""
    for raw in inside(use.ours.root, use.lines):
        path = owners(raw) if raw.type == "assignment" else ()
        if not path or path[-1].type != "class_definition":
            continue
        names = qualified_name(path)
        base, theirs = (definition_at(m.root, names) for m in (use.base, use.theirs))
        old = _assigned(base) if base is not None and theirs is not None else set()
        lost = old - _assigned(theirs) if theirs is not None else set()
        if len(lost) > max(1, len(old) // 2):
            shown = b".".join(names).decode(errors="replace")
            return f"upstream took {len(lost)} of {len(old)} fields out of `{shown}`"
    return None


def _assigned(scope: tree_sitter.Node) -> set[bytes]:
    """Return the names to which the body of a class gives a type or a value."""
    body = scope.child_by_field_name("body")
    lines = [n.named_children[:1] for n in (body.named_children if body is not None else ())]
    return {field_text(n, "left") for line in lines for n in line if n.type == "assignment"}


def _override(raw: tree_sitter.Node, known: Definition, sides: _Sides) -> str | None:
    name, path = name_of(raw), owners(raw)
    if path[-1:] != (sides[0].node,) or name.startswith(b"__"):
        return None
    own = known.own_method(name) if known.node != sides[0].node else None
    if own is not None:
        return None  # upstream overrides it, too
    old, new = (side.inherited(name) for side in sides)
    shown = name.decode()
    if old and not new:
        return f"no base class has `{shown}` any more, which the patch overrides"
    if new and not old:
        return f"upstream adds `{shown}` to a base class, which the patch's would override"
    if sets_attribute(sides[1], name) and not sets_attribute(sides[0], name):
        return f"upstream sets `self.{shown}`, which hides the method"
    if old and new and old.is_final < new.is_final:
        return f"the method that `{shown}` overrides is final now"
    if old and new:
        told = [signature_of(one, bound=True) for one in (old, new, Definition(raw, old.module))]
        if told[0] == told[2] != told[1]:
            return f"the method that `{shown}` overrides takes other arguments now"
    return None


def sets_attribute(side: Definition, name: bytes) -> bool:
    """Whether a class or a base class sets an attribute of ``self``."""
    setter = re.compile(rb"\bself\.%b\s*(?::[^=\n]*)?=(?!=)" % re.escape(name))
    return any(setter.search(text_of(one.node)) for one in side.lineage())


def _attribute(raw: tree_sitter.Node, _: Definition, sides: _Sides) -> str | None:
    outer, name = raw.parent, last_name(raw)
    if outer is None or field_text(raw, "object") != b"self":
        return None
    old, new = (side.method(name) for side in sides)
    is_set = outer.type == "assignment" and outer.child_by_field_name("left") == raw
    shown = name.decode()
    if is_set and new and not old:
        return f"upstream adds the method `{shown}`, which `self.{shown}` would hide"
    slotted = [all(_has_slots(one, name) for one in side.lineage()) for side in sides]
    if is_set and slotted[0] < slotted[1]:
        return f"upstream gives the class `__slots__`, and the patch sets `self.{shown}`"
    if is_set and _is_frozen(sides[0]) < _is_frozen(sides[1]):
        return f"upstream freezes the class, and the patch sets `self.{shown}`"
    if old and new and old.is_marked(b"property") != new.is_marked(b"property"):
        what = "a property" if new.is_marked(b"property") else "a method"
        return f"`self.{shown}` is {what} now"
    return None


def _has_slots(one: Definition, name: bytes) -> bool:
    """Whether the instances of a class have only the attributes that it lists, without a name."""
    is_slotted = one.has_option(b"slots") or b"msgspec.Struct" in one.base_names
    return b"__slots__" in text_of(one.node) or (is_slotted and name not in bound(one.node))


def _is_frozen(side: Definition) -> bool:
    return side.has_option(b"frozen") or not {b"NamedTuple", b"typing.NamedTuple"}.isdisjoint(
        side.base_names
    )


def _abstract(raw: tree_sitter.Node, known: Definition, sides: _Sides) -> str | None:
    if raw != sides[0].node or known.node != raw:
        return None  # upstream has the class as well
    missing = sorted({*_missing(sides[1])} - {*_missing(sides[0])})
    if not missing or any(m.is_marked(_ABSTRACT) for m in sides[0].methods()):
        return None
    return f"a base class of `{name_of(raw).decode()}` asks for `{missing[0].decode()}` now"


def _missing(side: Definition) -> Iterator[bytes]:
    """Yield the abstract methods of a class, which cannot be created then."""
    for one in side.lineage():
        for method in one.methods():
            found = side.method(name_of(method.node))
            if method.is_marked(_ABSTRACT) and found is not None and found.is_marked(_ABSTRACT):
                yield name_of(method.node)


_CHECKS: Final[dict[str, Callable[[tree_sitter.Node, Definition, _Sides], str | None]]] = {
    "attribute": _attribute,
    "class_definition": _abstract,
    "function_definition": _override,
}
"""By the type of a syntax node of ours. A check also gets its class in base, if that has it."""
