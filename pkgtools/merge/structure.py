"""Merging chunks that conflict as lines by the structure of the code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pkgtools.merge.comparison import problem
from pkgtools.merge.lines import Chunk
from pkgtools.merge.result import Carried, Elsewhere, Find, Unsure, carried
from pkgtools.merge.rules.layout import apply_edits
from pkgtools.merge.rules.placing import place_lines
from pkgtools.merge.rules.transplant import Transplant
from pkgtools.merge.syntax.blocks import Block, is_sound, parse

RENESTING: Final = {"moved-statement", "neighbours-moved", "wrapped-statement"}
"""Rules that follow upstream into a block which the patch does not know."""


@dataclass(frozen=True)
class Structured:
    """New contents of theirs and of other files, and how they came about."""

    data: bytes
    others: Mapping[str, bytes]
    """By path: the other files that the merge changed so far."""
    carried: Carried
    """Without edits, theirs already has the whole change."""


def merge_structure(
    group: Sequence[Chunk],
    ours_lines: Sequence[bytes],
    versions: tuple[Block, Block, Block],
    others: Mapping[str, bytes],
    find: Find,
) -> Structured | Unsure:
    """Carry the change between two modules over to a third one.

    Args:
        group: the chunks that make up the change from base to ours.
        ours_lines: the lines of ours, on which they are.
        versions: base, ours and theirs.
        others: other files that the merge has changed so far.
        find: finds a definition in other files.
    """
    base, ours, theirs = versions
    if not all(map(is_sound, versions)) or any(b"\r" in n.source for n in versions):
        return Unsure("the file is not Python that can be read, or has carriage returns")
    change = Transplant(theirs, _current(find, others)).carry(base, ours, theirs)
    made = _made(change, versions, others)
    if isinstance(made, Unsure) and not made.is_final:
        placed = place_lines(group, ours_lines, base, theirs)
        return _made(carried("neighbour-changed", placed), versions, others) if placed else made
    return made


def _made(
    change: Carried | Unsure, versions: tuple[Block, Block, Block], others: Mapping[str, bytes]
) -> Structured | Unsure:
    if isinstance(change, Unsure):
        return change
    base, ours, theirs = versions
    files = {"": theirs, **{e.path: e.module for e in change.others}}
    made: dict[str, Block] = {}
    for path, module in files.items():
        data = apply_edits(module.source, [e for e in change.edits if e.source is module.source])
        if isinstance(data, Unsure):
            return data
        made[path] = parse(data)
    pairs = ((files[path], block) for path, block in made.items())
    renested = not RENESTING.isdisjoint(change.rules)
    fault = problem(base, ours, pairs, absorbed=change.absorbed, renested=renested)
    if fault:
        return Unsure(fault)
    changed = {path: block.source for path, block in made.items() if path}
    return Structured(made[""].source, {**others, **changed}, change)


def _current(find: Find, others: Mapping[str, bytes]) -> Find:
    """Return `find`, seeing what earlier chunks made of the other files."""

    def look(block: Block) -> Elsewhere | None:
        found = find(block)
        if found is None or found.path not in others:
            return found
        module = parse(others[found.path])
        there = found.block  # perhaps with a new name
        named = module.walk(there.name or b"")
        blocks = [n for n in named if n.kind == there.kind and n.key == there.key]
        return Elsewhere(found.path, module, blocks[0]) if len(blocks) == 1 else None

    return look
