"""Conflicts that can be merged word by word, because something proves the result right.

- *same-value*: each side changes a part, and both together leave the program what it was. Example:
  ours puts an ``f`` before a string, and theirs makes it one string with the next one, which had
  that ``f``.
- *joined-import*: both change one import, and only the import with both changes exists in the new
  package. Example: upstream moved ``a`` to ``b.a``, and the patch imports from ``a.c``.
- *words-in-text*: see `pkgtools.merge.prose`.
"""

import ast
import re
import warnings
from collections.abc import Collection, Iterator
from typing import Final

from pkgtools.merge.blocks import parse
from pkgtools.merge.check import syntax_error
from pkgtools.merge.lines import Chunk
from pkgtools.merge.markers import ConflictLines, conflicts_in
from pkgtools.merge.model import Merge, OtherFiles, Proposal
from pkgtools.merge.modules import Module
from pkgtools.merge.proposals import accepted, filled, holds
from pkgtools.merge.prose import merge_prose
from pkgtools.merge.versions import Versions
from pkgtools.merge.words import merge_words

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


def _filled(merged: Merge, conflict: ConflictLines, text: bytes) -> bytes:
    return filled(merged.data, [Proposal(conflict.chunks, conflict.lines, text, "")])


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
        module.offers(module.absolute(statement), (n.child_by_field_name("name") or n).text or b"")
        for statement in found
        for n in statement.children_by_field_name("name")
    }
    return None if None in told else all(told)
