"""Check, over the whole package, that theirs still has what the lines of ours use.

Only what was right before is held against theirs: a call that fitted its function, an attribute
that the class or one of its base classes had. Each finding says what is different now.
"""

import difflib
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import tree_sitter

from pkgtools.merge.modules import Definition, Module
from pkgtools.merge.names import (
    binds,
    class_around,
    definitions_in,
    inside,
    last_name,
    name_of,
    own_attributes,
    owners,
    qualified_name,
    scopes,
    sets,
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

_LITERALS: Final = ("dictionary", "float", "integer", "list", "set", "string", "tuple")
_DEFINITIONS: Final = ("function_definition", "class_definition")


@dataclass(frozen=True)
class Landing:
    """Lines of ours, and the module into which they were merged."""

    base: Module
    ours: Module
    theirs: Module
    made: Module
    home: Module
    """The file of theirs for which ours has the patch: `theirs`, unless a definition moved."""
    lines: range
    """In ours."""
    rows: Collection[int]
    """The same lines in what was made. All count from 0."""
    words: Collection[bytes]
    """The words in the lines that the merge adds to theirs."""
    is_lost: Callable[[bytes], object]
    """Returns whether the package defined an attribute before, and nowhere does now."""

    def attributes(self) -> Iterator[tree_sitter.Node]:
        """Yield the attributes in the lines of ours that the result still has."""
        for raw in inside(self.ours.root, self.lines):
            if raw.type == "attribute" and last_name(raw) in self.words:
                yield raw


def misuse(use: Landing) -> str | None:
    """Return what some lines use in a way that was right for ours, and is not in the result."""
    checks: tuple[Callable[[Landing], str | None], ...] = (
        _lost_attribute,
        _undefined_attribute,
        _attribute_of_a_part,
        _refused_call,
        _keyword_twice,
        _other_number_of_values,
        _other_return,
        _lone_definition,
    )
    return next((found for check in checks if (found := check(use))), None)


def outdated(use: Landing) -> str | None:
    """Return what new lines of theirs, here as `ours`, use as it was before our change."""
    checks = (_lost_attribute, _refused_call, _other_number_of_values)
    return next((found for check in checks if (found := check(use))), None)


def _lost_attribute(use: Landing) -> str | None:
    for raw in use.attributes():
        owner = raw.child_by_field_name("object")
        if owner is None or owner.text != b"self":
            continue
        path, name = owners(raw), last_name(raw)
        before, behind = class_around(use.base.root, path), class_around(use.theirs.root, path)
        mine = class_around(use.ours.root, path)
        if mine is not None and before is not None and behind is None:
            is_known = name in Definition(mine, use.ours).attributes()
            found = _lost_where_it_landed(use, raw, name) if is_known else None
            if found:
                return found
        if mine is None or (before is None) != (behind is None):
            continue
        old = Definition(before or mine, use.ours).attributes() | _of_host(path, use.ours)
        new = Definition(behind or mine, use.made).attributes() | _of_host(path, use.made)
        own = own_attributes(mine) - old if before else own_attributes(mine)
        if name not in old or name in new or name in own or sets(use.ours.root, use.lines, name):
            continue
        return f"`self.{name.decode()}` is not there any more{_instead(name, new - old)}"
    return None


def _lost_where_it_landed(use: Landing, raw: tree_sitter.Node, name: bytes) -> str | None:
    """Return that the class into which upstream moved a method does not have an attribute.

    The old class may inherit the method from there: then it has what the old class has.
    """
    landed = (n for n in nodes_on(use.made.root, use.rows) if n.text == raw.text)
    around = {class_around(use.made.root, owners(n)) for n in landed}
    scope = around.pop() if len(around) == 1 else None
    if scope is None:
        return None
    own, there = class_around(use.home.root, owners(raw)), Definition(scope, use.made)
    known = there.attributes()
    host = list(Definition(own, use.home).lineage()) if own is not None else []
    if any(name_of(one.node) == name_of(scope) for one in host):
        known = known.union(*(one.attributes() for one in host))
    read = re.compile(rb"\bself\.%b\b" % re.escape(name))
    lines = enumerate((scope.text or b"").splitlines(), scope.start_point.row)
    is_read = any(read.search(line) for row, line in lines if row not in use.rows)
    is_whole = len(there.base_names) == len(list(there.lineage())) - 1
    if name in known or is_read or not is_whole:
        return None
    shown = name_of(scope).decode()
    return f"the method is in `{shown}` now, which has no `{name.decode()}`"


def _of_host(path: Sequence[tree_sitter.Node], module: Module) -> frozenset[bytes]:
    """Return the attributes of the class that a mixin's method names as the type of ``self``."""
    methods = [n for n in path if n.type == "function_definition"]
    parameters = methods[0].child_by_field_name("parameters") if methods else None
    first = parameters.named_children[0] if parameters and parameters.named_children else None
    named = first.child_by_field_name("type") if first is not None else None
    host = module.resolve((named.text or b"").strip(b"\"'")) if named is not None else None
    return host.attributes() if host is not None and host.is_class else frozenset()


def _undefined_attribute(use: Landing) -> str | None:
    """Return an attribute of any object that upstream took from the whole package."""
    theirs, looked = use.theirs.root.text or b"", set()
    for raw in use.attributes():
        name = last_name(raw)
        if not name or name in looked or re.search(rb"\." + re.escape(name) + rb"\b", theirs):
            continue
        looked.add(name)
        if use.is_lost(name):
            return f"the package defines `{name.decode()}` nowhere any more"
    return None


def _attribute_of_a_part(use: Landing) -> str | None:
    """Return an attribute of an attribute that upstream reads from a part of it now."""
    base, theirs = use.base.root.text or b"", use.theirs.root.text or b""
    for raw in use.attributes():
        owner, _, name = (raw.text or b"").rpartition(b".")
        if not re.fullmatch(rb"\w+(?:\.\w+)+", owner) or sets(use.ours.root, use.lines, name):
            continue
        if owner + b"." not in theirs or b"." + name not in theirs:
            continue
        old, new = (
            re.compile(rb"(?<![\w.])%b\.%b%b\b" % (re.escape(owner), part, name))
            for part in (b"", rb"\w+\.")
        )
        found = new.search(theirs)
        if found and old.search(base) and not old.search(theirs) and not new.search(base):
            return f"upstream has `{found[0].decode()}` for `{owner.decode()}.{name.decode()}`"
    return None


def _instead(name: bytes, new: Collection[bytes]) -> str:
    """Return what may have taken the place of a name."""
    words = [n.decode(errors="replace") for n in new]
    near = difflib.get_close_matches(name.decode(errors="replace"), words, n=2, cutoff=0.6)
    return f"; new there: {', '.join(f'`{n}`' for n in near)}" if near else ""


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
        if changed:
            return f"`{name.decode()}` {changed}"
        signature = signature_of(found[0], bound=found[1])
        why = misfit(call, signature) if signature else None
        if why and any(_fits(use.ours, c) for c in twins):
            return f"`{name.decode()}` does not take this call any more: {why}"
    return None


def _is_as_it_was(old: Definition, new: Definition) -> bool:
    """Whether a function is the same; a class has its base classes, too."""
    return not old.is_class and not new.is_class and old.whole.text == new.whole.text


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
    if name.startswith((b"self.", b"cls.")):
        scope = class_around(module.root, path)
        attribute = name.partition(b".")[2]
        if scope is None or b"." in attribute:
            return None
        method = Definition(scope, module).method(attribute)
        return (method, True) if method else None
    if not name.replace(b".", b"").replace(b"_", b"").isalnum():
        return None
    first = name.partition(b".")[0]
    for scope in reversed(path):
        if scope.type == "function_definition" and binds(scope, first):
            local = Module(scope, module.package, module.read).resolve(name)
            return (local, False) if local else None
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
    """Return that a base class of an added class was a dataclass and is something else now."""
    for name in added.base_names:
        old, new = use.ours.resolve(name), use.made.resolve(name)
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


def nodes_on(root: tree_sitter.Node, rows: Collection[int]) -> Iterator[tree_sitter.Node]:
    """Yield the syntax nodes of which some row is among `rows`."""
    wanted = sorted(rows)
    stack = [root]
    while stack:
        node = stack.pop()
        at = bisect_left(wanted, node.start_point.row)
        if at < len(wanted) and wanted[at] <= node.end_point.row:
            yield node
            stack += reversed(node.children)
