"""Conflicts that can be merged word by word, because something proves the result right.

- *same-value*: each side changes a part, and both together leave the program what it was. Example:
  ours puts an ``f`` before a string, and theirs makes it one string with the next one, which had
  that ``f``.
- *joined-import*: both change one import, and only the import with both changes exists in the new
  package. Example: upstream moved ``a`` to ``b.a``, and the patch imports from ``a.c``.
- *joined-names*: the lines of each side alone use a name that nothing defines in the result or its
  package, and the lines with both changes do not. Example: upstream renamed a variable, and the
  patch already uses its new name in the next line. Or ours uses a name that it does not have, and
  theirs begins to import it but does not use it.
- *words-in-text*: see `pkgtools.merge.rules.prose`.
"""

import ast
import re
import warnings
from collections.abc import Collection, Iterator
from typing import Final

import tree_sitter

from pkgtools.merge.comparison import syntax_error
from pkgtools.merge.lines import Chunk
from pkgtools.merge.markers import ConflictLines, conflicts_in
from pkgtools.merge.model import Merge, OtherFiles, Proposal
from pkgtools.merge.proposals import accepted, filled, holds
from pkgtools.merge.rules.apart import edits_of_operands
from pkgtools.merge.rules.layout import apply_edits
from pkgtools.merge.rules.prose import merge_prose
from pkgtools.merge.rules.words import merge_words
from pkgtools.merge.syntax.blocks import Block, parse
from pkgtools.merge.syntax.effects import imported_names
from pkgtools.merge.syntax.modules import Module
from pkgtools.merge.syntax.names import (
    bound,
    imports_in,
    inside,
    is_read,
    last_name,
    means,
    name_of,
    owners,
)
from pkgtools.merge.syntax.tokens import identifiers, text_of
from pkgtools.merge.versions import Versions

_LISTS: Final = ("argument_list", "list", "set", "tuple")
_NAME: Final = re.compile(rb"[^\W\d]\w*")
_NO_STRING: Final = re.compile(rb"[\s\"'(),fFrRbBuU]+")
"""What two ways to write one string can differ in."""


def with_proven(
    versions: Versions, merged: Merge, others: OtherFiles, among: Collection[Chunk]
) -> Merge:
    """Return a merge without the conflicts among some chunks of which words prove what is right."""
    base, ours = (b"".join(lines) for lines in versions.lines[:2])
    chosen: list[Proposal] = []
    for conflict in conflicts_in(base, ours, merged):
        for text, rule in _proven(versions, merged, others, conflict):
            found = [*chosen, Proposal(conflict.chunks, conflict.lines, text, rule)]
            if {*conflict.chunks} <= {*among} and holds(versions, merged, others, found):
                chosen = found
                break
    return accepted(merged, chosen) if chosen else merged


def _proven(
    versions: Versions, merged: Merge, others: OtherFiles, conflict: ConflictLines
) -> Iterator[tuple[bytes, str]]:
    """Yield what is proven to be right, with the rule."""
    prose = merge_prose(conflict, versions.ours, parse(merged.data))
    if prose is not None:
        yield prose, "words-in-text"
    parts = _merged_parts(versions, merged, conflict)
    if parts is not None:
        yield parts, "tokens-disjoint"
    words = merge_words(conflict.base, conflict.ours, conflict.theirs)
    if words is None or words in (conflict.ours, conflict.theirs):
        return
    near = _NO_STRING.sub(b"", words) == _NO_STRING.sub(b"", conflict.base)
    if near and _is_same_program(*(_filled(merged, conflict, t) for t in (conflict.base, words))):
        yield words, "same-value"
    if b"import" in conflict.base:
        rows = range(conflict.lines.start, conflict.lines.start + words.count(b"\n"))
        made = parse(_filled(merged, conflict, words))
        there = Module(made.raw[0], others.package, others.new)
        mine = Module(versions.ours.raw[0], others.package, others.new)
        if _imports(there, rows) is True and _imports(mine, conflict.mine) is False:
            yield words, "joined-import"
    lacking = (
        _lacks_names(_filled(merged, conflict, text), conflict, text, others)
        for text in (conflict.theirs, conflict.ours)
    )
    sides = conflict.base, conflict.ours, conflict.theirs
    is_imported = _imported_for(versions, conflict) and _keeps_depth(words, sides)
    is_joined = all(lacking) or is_imported
    if is_joined and not _lacks_names(_filled(merged, conflict, words), conflict, words, others):
        yield words, "joined-names"


def _filled(merged: Merge, conflict: ConflictLines, text: bytes) -> bytes:
    return filled(merged.data, [Proposal(conflict.chunks, conflict.lines, text, "")])


def _merged_parts(versions: Versions, merged: Merge, conflict: ConflictLines) -> bytes | None:
    """Return the lines with both changes if they are one element, changed in different parts."""
    blocks = versions.base, versions.ours, parse(merged.data)
    rows = conflict.chunks[0].old, conflict.mine.start, conflict.lines.start
    texts = conflict.base, conflict.ours, conflict.theirs
    base, ours, theirs = (_expression(*told) for told in zip(blocks, rows, texts, strict=True))
    if base is None or ours is None or theirs is None:
        return None
    edits = edits_of_operands((base, ours, theirs), blocks[1:])
    made = apply_edits(merged.data, edits) if edits else None
    if not isinstance(made, bytes):
        return None
    start = blocks[2].line_starts[rows[2]]
    return made[start : start + len(conflict.theirs) + len(made) - len(merged.data)]


def _expression(module: Block, row: int, text: bytes) -> tree_sitter.Node | None:
    """Return the element of a list or the argument that some lines of a module are."""
    told = text.strip().removesuffix(b",")
    start = module.line_starts[row] + len(text) - len(text.lstrip()) if told else 0
    node = module.raw[0].descendant_for_byte_range(start, start + len(told))
    is_element = node and node.parent and node.parent.type in _LISTS and node.text == told
    return node if is_element else None


def _lacks_names(made: bytes, conflict: ConflictLines, text: bytes, others: OtherFiles) -> bool:
    """Whether a file with some lines in the place of a conflict uses a name that is not there."""
    module = Module(parse(made).raw[0], others.package, others.new)
    rows = range(conflict.lines.start, conflict.lines.start + text.count(b"\n"))
    if _imports(module, rows) is False:
        return True
    told = _NAME.findall(conflict.base + conflict.ours + conflict.theirs)
    used = (node for name in {*told} for node in identifiers(module.root, name) if is_read(node))
    if any(not means(module.root, owners(node), text_of(node)) for node in used):
        return True
    attributes = (n for n in inside(module.root, rows) if n.type == "attribute")
    return any(
        module.has_attribute(text_of(n.children[0]), last_name(n)) is False for n in attributes
    )


def _keeps_depth(words: bytes, sides: Collection[bytes]) -> bool:
    """Whether no line has got another indentation than every side gives it."""
    known = {line.rstrip() for side in sides for line in side.splitlines()}
    told = {line.strip() for line in known}
    lines = (line.rstrip() for line in words.splitlines())
    return all(line in known for line in lines if line.strip() in told)


def _imported_for(versions: Versions, conflict: ConflictLines) -> bool:
    """Whether ours uses a name that only theirs imports, and theirs does nothing with it."""
    base, ours, theirs = (v.raw[0] for v in (versions.base, versions.ours, versions.theirs))
    imported = {name for one in imports_in(theirs) for name in imported_names(one)} - bound(base)
    for node in inside(ours, conflict.mine):
        name = text_of(node)
        if node.type == "identifier" and name in imported and is_read(node):
            is_there = means(ours, owners(node), name)
            if not is_there and not any(map(is_read, identifiers(theirs, name))):
                return True
    return False


def _is_same_program(one: bytes, other: bytes) -> bool:
    if syntax_error(one) or syntax_error(other):
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # upstream's own
        return ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))


def _imports(module: Module, rows: range) -> bool | None:
    """Return whether all that some lines import exists.

    None where that is not sure, or where they do anything else than import.
    """
    found = [n for n in module.root.named_children if n.type != "comment"]
    found = [n for n in found if n.start_point.row < rows.stop and rows.start <= n.end_point.row]
    if not found or any(n.type != "import_from_statement" for n in found):
        return None
    told = {
        module.offers(module.absolute(statement), name_of(n) or text_of(n))
        for statement in found
        for n in statement.children_by_field_name("name")
    }
    return False if False in told else None if None in told else bool(told)
