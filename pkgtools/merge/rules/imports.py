"""Restore imports that lines of ours need and upstream lacks where they land.

Upstream takes an import away when it uses it no more, or moves a definition into a file that
lacks what the patch uses in it.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from pkgtools.merge.lines import Chunk
from pkgtools.merge.model import How, Merge
from pkgtools.merge.result import Edit, Unsure
from pkgtools.merge.rules import layout
from pkgtools.merge.rules.order import sorted_place
from pkgtools.merge.syntax.blocks import Block, is_sound, parse
from pkgtools.merge.syntax.effects import imported_names
from pkgtools.merge.syntax.names import inside, is_read, means, owners, reads
from pkgtools.merge.syntax.tokens import text_of
from pkgtools.merge.versions import Versions

_RULE: Final = "import-restored"
_MOVED: Final = "moved-definition"


def with_imports(versions: Versions, merged: Merge, new: Callable[[str], bytes | None]) -> Merge:
    """Return a merge with the imports that lines of ours need.

    They are of the standard library, or of a module from which the file imports anyway: any
    other module may be gone, or may import the file itself by now.

    Args:
        versions: the files.
        merged: the merge.
        new: returns a module of the new package.
    """
    if not versions.are_sound:
        return merged
    data, others, chunks = merged.data, dict(merged.others), list(merged.chunks)
    for number, merge in enumerate(merged.chunks):
        if merge.how not in (How.MOVED, How.MERGED):
            continue
        if _MOVED in merge.rules and others:
            before = dict(others)
            for path, text in before.items():
                others[path] = _restored(versions, merge.chunk, (text, versions.ours), new)
            is_changed = others != before
        else:
            text = _restored(versions, merge.chunk, (data, versions.base), new)
            more = text.count(b"\n") - data.count(b"\n")
            chunks = [replace(c, line=c.line + more) if c.line else c for c in chunks]
            is_changed, data = text != data, text
        if is_changed:
            rules = tuple(dict.fromkeys((*merge.rules, _RULE)))
            chunks[number] = replace(merge, how=How.MERGED, rules=rules, line=None)
    return replace(merged, data=data, chunks=tuple(chunks), others=others)


def _restored(
    versions: Versions, chunk: Chunk, file: tuple[bytes, Block], new: Callable[[str], bytes | None]
) -> bytes:
    """Return a file with the imports that a chunk needs, as another version has them."""
    data, known = file
    for name in _lost(versions, chunk, data):
        statement = _statement(known, name)
        if statement is None:
            continue
        made, module = parse(data), _module(statement).decode()
        beside = [n for n in made.elements if n.key == statement.key]
        text = new(module) if beside else None
        original = text_of(statement.raw[0].children_by_field_name("name")[0]).split()[0]
        is_there = text is None or re.search(rb"\b%b\b" % re.escape(original), text)
        if module.partition(".")[0] in sys.stdlib_module_names or (beside and is_there):
            data = _with_statement(made, statement, beside)
    return data


def _lost(versions: Versions, chunk: Chunk, data: bytes) -> list[bytes]:
    """Return the names that a chunk reads, which ours knows and the file does not."""
    ours, made = versions.ours.raw[0], parse(data).raw[0]
    read = {}
    for raw in inside(ours, chunk.new_lines):
        if raw.type == "identifier" and is_read(raw):
            read[text_of(raw)] = owners(raw)
    used = ((n, path) for n, path in read.items() if means(ours, path, n) and reads(made, path, n))
    return [n for n, path in used if not means(made, path, n)]


def _statement(module: Block, name: bytes) -> Block | None:
    """Return the import of one name alone, as a module has it at its top; None if it has none."""
    for node in module.elements:
        if node.kind not in ("import_statement", "import_from_statement"):
            continue
        head = b"from %b import " % _module(node) if node.kind != "import_statement" else b"import "
        for part in node.raw[0].children_by_field_name("name"):
            statement = parse(head + text_of(part) + b"\n").elements[0]
            if imported_names(statement.raw[0]) == [name]:
                return statement
    return None


def _module(statement: Block) -> bytes:
    return statement.key[1].replace(b" ", b"") if statement.key else b""


def _with_statement(made: Block, statement: Block, beside: list[Block]) -> bytes:
    """Return a file with an import: beside the names of its module, or where it is sorted."""
    elements, nothing = made.elements, layout.Gap(None, None, None, None)
    edit: Edit | Unsure
    if beside and statement.kind == "import_from_statement" and "names" in beside[-1].parts:
        into, ours = beside[-1].parts["names"], statement.parts["names"]
        at = sorted_place(into.elements, ours.elements) or (len(into.elements), False)
        edit = layout.insert_elements(into, at[0], ours, ours.elements)
    else:
        place = sorted_place(elements, [statement])
        run = [n for n in elements if n.kind == statement.kind]
        if place is None and not run:
            return made.source
        behind = next((n for n in run if _module(n).lower() > _module(statement).lower()), None)
        last = (elements.index(run[-1]) + 1, False)
        at = place or ((elements.index(behind), True) if behind else last)
        edit = layout.insert_statements(elements, at[0], [statement], nothing, before=at[1])
    text = layout.apply_edits(made.source, [edit]) if isinstance(edit, Edit) else made.source
    return text if isinstance(text, bytes) and is_sound(parse(text)) else made.source
