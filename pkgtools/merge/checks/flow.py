"""Check that a local name in a patch's lines still gets its value where it did.

Both sides can be right, and the name be there, and yet stand for something else: upstream renames
one of two loop variables, begins to use a name for something of its own, or makes a local name of
what the patch takes from the module.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import Final

import tree_sitter

from pkgtools.merge.checks.landing import WORD, LandedFile, LandedLines, nodes_on
from pkgtools.merge.lines import Chunk
from pkgtools.merge.syntax.effects import imported_names
from pkgtools.merge.syntax.names import (
    COMPREHENSIONS,
    definition_at,
    imports_in,
    is_bound_here,
    is_read,
    is_type_parameter,
    last_name,
    means,
    name_of,
    owners,
    qualified_name,
)
from pkgtools.merge.syntax.tokens import ancestors, field_text, identifiers, text_of

_CLAUSES: Final = ("for_in_clause", "lambda_parameters")
_DECLARING: Final = ("global_statement", "nonlocal_statement")
_TYPING: Final = (b"TYPE_CHECKING", b"typing.TYPE_CHECKING")


@dataclass(frozen=True)
class _Name:
    """A local name in one function."""

    function: tree_sitter.Node
    name: bytes

    @cached_property
    def uses(self) -> list[tree_sitter.Node]:
        """Where it is set and read, in the order in which that runs."""
        found = (n for n in self._named if is_read(n) or is_bound_here(n))
        return sorted(filter(self._is_own, found), key=_when)

    @cached_property
    def _named(self) -> list[tree_sitter.Node]:
        found = identifiers(self.function, self.name)
        return [n for n in found if not is_type_parameter(n)]

    def _is_own(self, raw: tree_sitter.Node) -> bool:
        return owners(raw)[-1:] == (self.function,) and not _is_comprehended(raw)

    def is_set(self) -> bool:
        """Whether the function sets it."""
        # Most names are not local: of these, no use has to be looked at closely.
        return any(is_bound_here(n) and self._is_own(n) for n in self._named)

    def is_set_first(self) -> bool:
        """Whether it is set before it is read."""
        # `x += 1` reads `x` before it sets it.
        first = [n for n in self.uses[:1] if is_bound_here(n)]
        return any(n.parent and n.parent.type != "augmented_assignment" for n in first)

    def is_declared(self) -> bool:
        """Whether the function declares it to be a name of the module or of an outer function."""
        return any(n.parent is not None and n.parent.type in _DECLARING for n in self._named)

    def is_deleted_first(self) -> bool:
        """Whether it is read behind a ``del`` without a value between."""
        is_gone = False
        for raw in self.uses if re.search(rb"\bdel\b", text_of(self.function)) else ():
            outer = (n for n in ancestors(raw) if n.type not in ("expression_list", "tuple"))
            is_del = next(outer).type == "delete_statement"
            if is_gone and not is_del and not is_bound_here(raw):
                return True
            is_gone = is_del or (is_gone and not is_bound_here(raw))
        return False

    @cached_property
    def lines(self) -> list[bytes]:
        """The lines of the function, without indentation."""
        return [line.strip() for line in text_of(self.function).splitlines()]

    def line_of(self, raw: tree_sitter.Node) -> bytes:
        """Return the line of the function that has a syntax node."""
        return self.lines[raw.start_point.row - self.function.start_point.row]


def crossed_name(use: LandedLines) -> str | None:
    """Return a name of some lines that has another value, or none, where they landed."""
    for path, names in _local_names(use).items():
        modules = use.base, use.ours, use.theirs
        found = (definition_at(m.root, qualified_name(path)) for m in modules)
        there = [n for n in found if n is not None]
        taken = min((n for n in names if _is_taken(use, path, n)), default=b"")
        if taken:
            return f"`{taken.decode(errors='replace')}` is a local name of upstream's there"
        if len(there) < len(modules) or there[0].text == there[2].text:
            continue
        for name in sorted(names):
            sides = [_Name(one, name) for one in (*there, path[-1])]
            if crossed := _crossed(use, path, sides):
                return crossed
    return None


def _crossed(
    use: LandedLines, path: tuple[tree_sitter.Node, ...], sides: Sequence[_Name]
) -> str | None:
    base, ours, theirs, made = sides
    shown = made.name.decode(errors="replace")
    if not made.is_set():
        was_set = base.is_set() and ours.is_set() and bool(made.uses)
        if was_set and not means(use.made.root, path[:-1], made.name):
            return f"`{shown}` is not set there any more"
        return None
    if ours.is_declared() != made.is_declared():
        return f"`{shown}` is a local name of the function in one side alone"
    if not ours.is_set():
        is_outer = means(use.ours.root, path[:-1], made.name)
        return f"`{shown}` is a local name of upstream's there" if is_outer else None
    was_set = ours.is_set_first() and (theirs.is_set_first() or not theirs.is_set())
    if was_set and not made.is_set_first():
        return f"`{shown}` is read before it is set there"
    if made.is_deleted_first() and not (ours.is_deleted_first() or theirs.is_deleted_first()):
        return f"upstream deletes `{shown}` before that"
    is_new = not base.is_set() and theirs.is_set()
    if is_new and _takes_turns(made, {*ours.lines}, {*theirs.lines}):
        return f"both sides begin to use `{shown}`, each for a value of its own"
    is_looped = any(map(_is_in_loop, ours.uses))
    if is_looped and _has_lost_its_loop(use, made, {*base.lines, *ours.lines}):
        return f"upstream's loop does not set `{shown}` any more"
    return None


def _is_taken(use: LandedLines, path: tuple[tree_sitter.Node, ...], name: bytes) -> bool:
    """Whether a function gets a name from one around it that does not set it in ours."""
    if len(path) < 2 or _Name(path[-1], name).is_set():
        return False
    inner = definition_at(use.ours.root, qualified_name(path))
    sides = (path[:-1], owners(inner) if inner is not None else path)
    functions = ([n for n in side if n.type == "function_definition"] for side in sides)
    made, ours = (any(_Name(n, name).is_set() for n in side) for side in functions)
    return made and not ours


def crossed_by_patch(file: LandedFile) -> dict[Chunk, str]:
    """Return chunks with which a name in new lines of upstream has another value, or none."""
    texts = {c: {*WORD.findall(file.text(c) + file.text(c, 0))} for c in file.done}
    changed = file.changed_functions if texts else {}
    spans = [(n.start_point.row, n.end_point.row) for n in changed]
    uses = [file.upstream_landing(rival) for rival in file.versions.upstream] if spans else []
    landed = (n for use in uses for n in use.rows)
    rows = [n for n in landed if any(start <= n <= end for start, end in spans)]
    faults = {}
    for path, names in _local_names(replace(uses[0], rows=rows)).items() if rows else ():
        theirs = definition_at(file.theirs.root, qualified_name(path))
        known = names & changed.get(path[-1], set()) - {b"self", b"cls"}
        for one in (_Name(theirs, n) for n in sorted(known)) if theirs else ():
            if taken := _taken(uses[0], path, one):
                faults.update({c: taken for c, words in texts.items() if one.name in words})
    return faults


def _taken(use: LandedLines, path: tuple[tree_sitter.Node, ...], theirs: _Name) -> str | None:
    made, shown = _Name(path[-1], theirs.name), theirs.name.decode(errors="replace")
    if not made.is_set() or made.is_set_first():
        return None
    if theirs.is_set_first():
        return f"upstream uses `{shown}`, which the patch does not set before"
    is_outer = not theirs.is_set() and means(use.ours.root, path[:-1], made.name)
    is_taken = is_outer and not made.is_declared()
    return f"upstream uses `{shown}`, a local name of the patch's there" if is_taken else None


def name_for_types(use: LandedLines) -> str | None:
    """Return a name that lines of ours need when they run, and upstream imports for types alone."""
    names = _for_types(use.made.root) - _for_types(use.ours.root)
    for raw in nodes_on(use.made.root, use.rows) if names else ():
        if raw.type == "identifier" and raw.text in names and is_read(raw):
            kinds = (n.type for n in ancestors(raw) if n.type in ("type", "block", "module"))
            if next(kinds, "type") != "type":
                return f"`{raw.text.decode()}` is imported for type checkers alone now"
    return None


@lru_cache(maxsize=8)
def _for_types(module: tree_sitter.Node) -> frozenset[bytes]:
    """Return the names that a module imports only under ``if TYPE_CHECKING``."""
    if not any(mark in text_of(module) for mark in _TYPING):
        return frozenset()
    found: tuple[set[bytes], set[bytes]] = set(), set()
    for node in imports_in(module):
        outer = node.parent and node.parent.parent
        found[field_text(outer, "condition") in _TYPING].update(imported_names(node))
    return frozenset(found[True] - found[False])


def _local_names(use: LandedLines) -> dict[tuple[tree_sitter.Node, ...], set[bytes]]:
    """Return the names that some lines read or set, by the function in which they do."""
    found: dict[tuple[tree_sitter.Node, ...], set[bytes]] = {}
    for raw in nodes_on(use.made.root, use.rows):
        path = owners(raw) if raw.type == "identifier" else ()
        if path and path[-1].type == "function_definition" and raw.parent != path[-1]:
            name = text_of(raw)
            if name not in found.get(path, ()) and (is_read(raw) or is_bound_here(raw)):
                found.setdefault(path, set()).add(name)
    return found


def _when(raw: tree_sitter.Node) -> int:
    """Return where a name is read or set: behind the value that it gets."""
    for node in ancestors(raw) if is_bound_here(raw) else ():
        if node.type in ("assignment", "augmented_assignment"):
            return node.end_byte
        if node.type.endswith(("statement", "block")):
            break
    return raw.start_byte


def _is_comprehended(raw: tree_sitter.Node) -> bool:
    """Whether a comprehension or lambda around a name gives it its value."""
    for node in ancestors(raw):
        if node.type in ("block", "module"):
            break
        if node.type in COMPREHENSIONS:
            clauses = (c for c in node.named_children if c.type in _CLAUSES)
            if any(is_bound_here(n) for c in clauses for n in identifiers(c, text_of(raw))):
                return True
    return False


def _takes_turns(made: _Name, ours: set[bytes], theirs: set[bytes]) -> bool:
    """Whether both sides set a name, and lines of one read what lines of the other one set."""
    setters, is_crossed = [b""], False
    for raw in made.uses:
        line = made.line_of(raw)
        side = b"" if (line in ours) == (line in theirs) else b"ours" if line in ours else b"theirs"
        if is_bound_here(raw):
            setters.append(side)
        is_crossed = is_crossed or {side, setters[-1]} == {b"ours", b"theirs"}
    return is_crossed and {*setters} >= {b"ours", b"theirs"}


def _has_lost_its_loop(use: LandedLines, made: _Name, known: set[bytes]) -> bool:
    """Whether lines that ours has in a loop over a name are in none, and nothing new sets it."""
    sides = (nodes_on(use.ours.root, use.lines), nodes_on(use.made.root, use.rows))
    named = ([n for n in nodes if last_name(n) == made.name and is_read(n)] for nodes in sides)
    function = (name_of(made.function),)
    loops = [
        [_is_in_loop(n) for n in nodes if qualified_name(owners(n))[-1:] == function]
        for nodes in named
    ]
    if not all(loops) or not all(loops[0]) or all(loops[1]):
        return False
    return known.issuperset(made.line_of(n) for n in made.uses if is_bound_here(n))


def _is_in_loop(raw: tree_sitter.Node) -> bool:
    around = takewhile(lambda n: n.type != "function_definition", ancestors(raw))
    lefts = (n.child_by_field_name("left") for n in around if n.type == "for_statement")
    return any(any(identifiers(left, text_of(raw))) for left in lefts if left is not None)
