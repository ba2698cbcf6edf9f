"""Check calls of methods by their names alone, where the class of the object is not known.

Example: the patch calls ``cache.insert(key, value)``. A method ``insert`` of the old package takes
that; in the new package none does.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import tree_sitter

from pkgtools.merge.checks.calls import called, resolve_call
from pkgtools.merge.checks.landing import LandedLines, nodes_on
from pkgtools.merge.checks.signatures import misfit, other_result, signature_of
from pkgtools.merge.syntax.blocks import parse
from pkgtools.merge.syntax.modules import Definition, Module
from pkgtools.merge.syntax.names import all_definitions, last_name
from pkgtools.merge.syntax.tokens import tokens_of

_BUILTIN: Final = frozenset(
    name.encode() for kind in (bytes, dict, list, set, str) for name in dir(kind)
)
"""Objects with such a method are mostly of builtin types."""


def refused_method_call(use: LandedLines) -> str | None:
    """Return a call that a method of that name took before, and none takes now."""
    before = [c for c in nodes_on(use.ours.root, use.lines) if c.type == "call"]
    for call in nodes_on(use.made.root, use.rows) if before else ():
        function = call.child_by_field_name("function") if call.type == "call" else None
        name = last_name(function) if function and function.type == "attribute" else b""
        if not name or name in _BUILTIN or name not in use.words or _is_foreign(use.made, call):
            continue
        old, new = use.methods(name)
        twin = next((c for c in before if tokens_of(c) == tokens_of(call)), None) if old else None
        if twin is None or resolve_call(use.made, call) or resolve_call(use.ours, twin):
            continue
        if why := _refusal(call, _methods(old, name), _methods(new, name)):
            return f"no method `{name.decode()}` takes this call any more: {why}"
    return None


def _is_foreign(module: Module, call: tree_sitter.Node) -> bool:
    """Whether a call is of something that another package has."""
    dotted, _ = module.imports.get(called(call).partition(b".")[0], (module.package, b""))
    return dotted.partition(".")[0] != module.package.partition(".")[0]


def _methods(texts: Iterable[bytes], name: bytes) -> Iterator[Definition]:
    for text in texts:
        module = Module(parse(text).raw[0], "", lambda _: None)
        scopes = (Definition(node, module) for node in all_definitions(module.root))
        yield from (m for one in scopes if one.is_class and (m := one.own_method(name)))


def _refusal(
    call: tree_sitter.Node, old: Iterable[Definition], new: Iterable[Definition]
) -> str | None:
    """Return why no method of the new ones takes a call that one of the old ones takes."""
    role = call.parent.type if call.parent is not None else ""
    known = [(one, signature_of(one, bound=True)) for one in old]
    fitting = [(one, taken) for one, taken in known if taken and misfit(call, taken) is None]
    reasons = []
    for one in new if fitting else ():
        signature = signature_of(one, bound=True)
        found = [
            (misfit(call, signature, taken) if signature else None) or other_result(was, one, role)
            for was, taken in fitting
        ]
        if not all(found):
            return None
        reasons.append(found[0])
    return reasons[0] if reasons else None
