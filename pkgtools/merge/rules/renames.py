"""Follow a rename: upstream calls an operand otherwise wherever a function uses it.

Example: a function of base has ``self.size`` in three lines, of which upstream makes
``buffers.size``. A line that the patch adds to that function, ``self.size.zero_()``, then means
``buffers.size.zero_()``, and a line that the patch replaces is the same line as before.

A rename is shown where upstream did nothing else to any of the statements that used the name, the
old name is gone from its scope, and the new one was not there before. One use of an attribute
shows nothing: upstream may mean another one. Parameters that upstream folds into an object are
renamed, too: ``size`` is ``args.size``.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import tree_sitter

from pkgtools.merge.lines import Chunk
from pkgtools.merge.result import Edit, Unsure
from pkgtools.merge.rules.layout import apply_edits
from pkgtools.merge.syntax.align import matching_blocks
from pkgtools.merge.syntax.blocks import Block, parse
from pkgtools.merge.syntax.effects import dotted_name, imported_names
from pkgtools.merge.syntax.names import (
    IMPORTS,
    bound,
    is_read,
    name_of,
    own_attributes,
    owner_of_lines,
    owners,
    scopes,
)
from pkgtools.merge.syntax.tokens import is_within, raw_walk, text_of
from pkgtools.merge.versions import Versions

_BY_NAME: Final = re.compile(rb"(?<![\w.])(?:eval|exec|locals|vars)\(")
"""Calls that find variables by names which may be in strings."""


@dataclass(frozen=True)
class Renamed:
    """Base and ours with the names that upstream uses."""

    base: bytes
    ours: bytes
    roots: frozenset[tuple[tuple[bytes, ...], bytes]]
    """By qualified name of a function: the variables with which new names start."""

    def binds_first(self, made: bytes, theirs: bytes) -> bool:
        """Whether a merged file still uses each of these variables first where upstream does."""
        modules = parse(made), parse(theirs)
        for path, root in self.roots:
            found = (_outermost(module, path) for module in modules)
            texts = ([t.text for t in _tokens(f)] if f else [] for f in found)
            firsts = [next((t for t in x if t.partition(b".")[0] == root), None) for x in texts]
            if firsts[0] != firsts[1]:
                return False
        return True


@dataclass(frozen=True)
class _Token:
    """A leaf of the syntax, or a dotted name as one."""

    text: bytes
    start: int
    statement: int
    """Counts the statements and clauses of a function; a block's are not its header's."""
    is_operand: bool = False

    @property
    def label(self) -> bytes:
        """What two versions of an operand have in common: its last name."""
        return self.text.rpartition(b".")[2] if self.is_operand else self.text


@dataclass(frozen=True)
class _Function:
    """A function of base, ours and theirs, and its tokens."""

    nodes: Sequence[tree_sitter.Node]
    tokens: Sequence[Sequence[_Token]]


def renamed_sides(versions: Versions, chunks: Collection[Chunk]) -> Renamed | None:
    """Return base and ours with the names that upstream uses in the functions of some chunks.

    None where no rename can be shown.
    """
    edits: list[list[Edit]] = [[], []]
    sources = versions.base.source, versions.ours.source
    roots: set[tuple[tuple[bytes, ...], bytes]] = set()
    seen: set[tree_sitter.Node] = set()
    for path in {owner_of_lines(versions.ours, c.new_lines) for c in chunks}:
        function = _function(versions, path)
        if function is None or function.nodes[0] in seen:
            continue
        if _BY_NAME.search(text_of(function.nodes[1])):
            continue
        seen.add(function.nodes[0])
        for old, new in _renames(function).items():
            roots.add((path, new.partition(b".")[0]))
            for side in (0, 1):
                spans = (t.start for t in function.tokens[side] if _starts_with(t, old))
                edits[side] += [Edit(sources[side], at, at + len(old), new) for at in spans]
    base, ours = map(apply_edits, sources, edits)
    if not roots or isinstance(base, Unsure) or isinstance(ours, Unsure):
        return None
    return Renamed(base, ours, frozenset(roots))


def _function(versions: Versions, path: tuple[bytes, ...]) -> _Function | None:
    """Return the outermost function of a qualified name, if all three versions have it."""
    modules = versions.base, versions.ours, versions.theirs
    nodes = [n for n in (_outermost(module, path) for module in modules) if n is not None]
    tokens = [list(_tokens(node)) for node in nodes]
    return _Function(nodes, tokens) if len(nodes) == len(modules) else None


def _outermost(module: Block, path: tuple[bytes, ...]) -> tree_sitter.Node | None:
    """Return the outermost function of a qualified name."""
    found = scopes(module.raw[0], path)
    return next((n for n in found if n.type == "function_definition"), None)


def _tokens(root: tree_sitter.Node) -> Iterator[_Token]:
    stack = [root]
    statement = 0
    while stack:
        node = stack.pop()
        in_block = node.parent is not None and node.parent.type == "block"
        statement += in_block or node.type.endswith("_clause")
        name = dotted_name(node)
        if name and name == node.text:
            is_operand = is_read(node) or is_within(node, "assignment")
            yield _Token(name, node.start_byte, statement, is_operand=is_operand)
        elif node.child_count:
            stack += reversed(node.children)
        elif node.type != "comment":
            yield _Token(text_of(node), node.start_byte, statement)


def _starts_with(token: _Token, name: bytes) -> bool:
    return token.is_operand and (token.text == name or token.text.startswith(name + b"."))


def _renames(function: _Function) -> dict[bytes, bytes]:
    base, ours, theirs = function.tokens
    hidden = _hidden(function.nodes[1])
    found: dict[bytes, bytes] = {}
    for one, other in _pairs(base, theirs):
        for old, new in _units(one, other):
            if old in found:
                break
            known = any(_starts_with(t, old) for t in theirs)
            known = known or any(_starts_with(t, new) for t in (*base, *ours))
            known = known or not hidden.isdisjoint(name.partition(b".")[0] for name in (old, new))
            if not known and _is_gone(function, old, new):
                found[old] = new
                break
    made = {tuple(_written(tokens, {})) for tokens in _statements(theirs)}
    while found:
        names, shown = list(found.values()), Counter[tuple[bytes, ...]]()
        doubtful = {old for old, new in found.items() if names.count(new) > 1}
        for tokens in _statements(base):
            used = {old for old in found if any(_starts_with(t, old) for t in tokens)}
            shown.update({_owners(old, found[old]) for old in used})
            if used and tuple(_written(tokens, found)) not in made:
                doubtful |= used
        doubtful |= {
            old for old, new in found.items() if b"." in old and shown[_owners(old, new)] < 2
        }
        if not doubtful:
            break
        found = {old: new for old, new in found.items() if old not in doubtful}
    return found


def _hidden(function: tree_sitter.Node) -> set[bytes]:
    """Return the names that imports, and functions inside of a function, bind anew."""
    found: set[bytes] = set()
    for raw in raw_walk([*function.children_by_field_name("body")]):
        if raw.type in IMPORTS:
            found.update(imported_names(raw))
        elif raw.type == "function_definition":
            found.add(name_of(raw))
        elif raw.type in ("keyword_pattern", "lambda_parameters", "parameters"):
            found.update(text_of(n) for n in raw_walk([raw]) if n.type == "identifier")
    return found


def _owners(old: bytes, new: bytes) -> tuple[bytes, ...]:
    """Return what one rename has in common with others: the object, if it is another one."""
    owners = old.rpartition(b".")[0], new.rpartition(b".")[0]
    return owners if owners[0] != owners[1] else (old, new)


def _statements(tokens: Sequence[_Token]) -> Iterator[list[_Token]]:
    for _, group in groupby(tokens, key=lambda token: token.statement):
        yield list(group)


def _written(tokens: Sequence[_Token], renames: Mapping[bytes, bytes]) -> Iterator[bytes]:
    """Yield the tokens of a statement with the new names, without what a formatter changes."""
    for token in tokens:
        old = next((old for old in renames if _starts_with(token, old)), None)
        if old is not None:
            yield renames[old] + token.text[len(old) :]
        elif token.text not in (b",", b"(", b")"):
            yield token.text


def _units(one: bytes, other: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield what may have been renamed, the shortest first: without what both end with."""
    old, new = one.split(b"."), other.split(b".")
    common = 0
    while common < min(len(old), len(new)) - 1 and old[-1 - common] == new[-1 - common]:
        common += 1
    for end in range(common, -1, -1):
        yield b".".join(old[: len(old) - end]), b".".join(new[: len(new) - end])


def _pairs(old: Sequence[_Token], new: Sequence[_Token]) -> Iterator[tuple[bytes, bytes]]:
    """Yield operands that are each other's, and written otherwise."""
    at_old = at_new = 0
    labels = [t.label for t in old], [t.label for t in new]
    for one, other, size in matching_blocks(*labels):
        first = int(one - at_old == other - at_new == 1)  # a single token between equal ones
        run = zip(old[one - first : one + size], new[other - first : other + size], strict=True)
        for a, b in run:
            if a.is_operand and b.is_operand and a.text != b.text:
                yield a.text, b.text
        at_old, at_new = one + size, other + size


def _is_gone(function: _Function, old: bytes, new: bytes) -> bool:
    """Whether nothing is called `old` any more, and nothing was called `new`."""
    base, _, theirs = function.nodes
    root, _, rest = old.partition(b".")
    if not rest:
        owner, _, name = new.rpartition(b".")
        is_folded = name == old and b"." not in owner  # a parameter that is a field of one now
        fresh = bound(theirs) - bound(base)
        return old in bound(base) - bound(theirs) and (owner if is_folded else new) in fresh
    classes = [scope for node in (base, theirs) for scope in owners(node)[-1:]]
    if root != b"self" or len(classes) < len((base, theirs)):
        return False
    before, behind = map(own_attributes, classes)
    return rest.partition(b".")[0] in before - behind
