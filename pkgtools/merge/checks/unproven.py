"""Imports of a result that neither side has.

Example: of ``from a import b`` one side makes ``from c import b``, the other one
``from a import d``. Whether ``c`` has a ``d`` is looked up.
"""

from collections import Counter
from collections.abc import Iterable

import tree_sitter

from pkgtools.merge.checks.landing import LandedFile
from pkgtools.merge.lines import Chunk
from pkgtools.merge.syntax.effects import imported_names
from pkgtools.merge.syntax.modules import Module
from pkgtools.merge.syntax.names import IMPORTS, all_definitions, imports_in, inside, name_of
from pkgtools.merge.syntax.tokens import text_of


def unproven_imports(file: LandedFile) -> dict[Chunk, str]:
    """Return the chunks carried by a rule if the result imports as no side does, or twice."""
    why = _unproven(file) if file.by_rule else None
    return dict.fromkeys(file.by_rule, why) if why else {}


def _unproven(file: LandedFile) -> str | None:
    made, sides = file.made, (file.ours, file.theirs)
    near = [n for rows in file.spans for n in inside(made.root, rows)]
    near = [n for n in near if "import" in n.type or n.type == "dotted_name"]
    new = _imported(made, [p for n in near for p in (n, n.parent) if p is not None])
    new -= {(name, dotted) for side in sides for dotted, name in side.imports.values()}
    for side in sides if new else ():
        scopes = (side.root, *all_definitions(side.root))
        new -= _imported(side, (n for scope in scopes for n in imports_in(scope)))
    for name, dotted in sorted(new):
        if not _is_there(made, name, dotted, () if name in file.base.imports else sides):
            shown = f"`{name.decode()}` from {dotted}"
            return f"the result would import {shown}, which neither side does"
    twice = _bound_twice(made) if near else set()
    for side in sides if twice else ():
        twice -= _bound_twice(side)
    return f"the result would import `{min(twice).decode()}` twice" if twice else None


def _is_there(made: Module, name: bytes, dotted: str, sides: Iterable[Module]) -> bool:
    """Whether a module has a name, the same one as the module from which a side begins to import.

    Two modules may give one name to two things.
    """
    if not made.offers(dotted, name):
        return False
    for side in sides:
        was, original = side.imports.get(name, ("", b""))
        if original == name and made.offers(was, name):
            modules = [Module.named(d, made.read) for d in (dotted, was)]
            found = [m.resolve(name) for m in modules if m is not None]
            if None in found or len({d.node.text for d in found if d is not None}) > 1:
                return False
    return True


def _bound_twice(module: Module) -> set[bytes]:
    nodes = [n for n in module.root.children if n.type in IMPORTS]
    found = Counter(name for n in nodes for name in set(imported_names(n)))
    return {name for name, number in found.items() if number > 1}


def _imported(module: Module, nodes: Iterable[tree_sitter.Node]) -> set[tuple[bytes, str]]:
    """Return the names that some statements import, each with its module."""
    return {
        (name_of(n) or text_of(n), module.absolute(statement))
        for statement in nodes
        if statement.type == "import_from_statement"
        for n in statement.named_children[1:]
        if n.type != "comment"
    }
