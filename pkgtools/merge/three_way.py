"""The stages of a merge: by lines, then each conflict by structure, then the checks."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import tree_sitter

from pkgtools.merge.checks.faults import find_faults
from pkgtools.merge.lines import Chunk, has_crlf, moves, shift, splice, touches, without
from pkgtools.merge.model import ChunkMerge, How, Merge, OtherFiles
from pkgtools.merge.proven import with_proven
from pkgtools.merge.result import Unsure
from pkgtools.merge.rules.imports import with_imports
from pkgtools.merge.rules.renames import renamed_sides
from pkgtools.merge.rules.twins import doubled
from pkgtools.merge.structure import RENESTING, merge_structure
from pkgtools.merge.syntax.blocks import is_deep, is_sound, parse
from pkgtools.merge.syntax.names import (
    definition_at,
    definitions,
    first_byte,
    header_at,
    inside,
    is_bound_here,
    owner_of_lines,
)
from pkgtools.merge.syntax.tokens import text_of
from pkgtools.merge.versions import Versions

Lines = tuple[list[bytes], list[bytes], list[bytes]]


_CAPTURING: Final = {*RENESTING, "wrapped-expression"}
"""Rules that put what one side changes into what the other one adds."""
_ROUNDS: Final = 5
"""A conflict may define names that other chunks use: those conflict in the next round."""


def merge(
    base: bytes, ours: bytes, theirs: bytes, *, python: bool, others: OtherFiles | None = None
) -> Merge:
    """Carry the change from `base` to `ours` over to `theirs`, chunk by chunk.

    Args:
        base: the file in the old upstream.
        ours: the file as the patch makes it.
        theirs: the file in the new upstream.
        python: whether to go beyond lines.
        others: what is known of other files.
    """
    others = others or OtherFiles()
    if python and all(map(has_crlf, (base, ours, theirs))):
        # The structural merge copies spans between versions, which would mix both line ends.
        plain = [text.replace(b"\r\n", b"\n") for text in (base, ours, theirs)]
        merged = merge(*plain, python=True, others=replace(others, find=OtherFiles().find))
        return replace(merged, data=merged.data.replace(b"\n", b"\r\n"))
    versions = Versions(base, ours, theirs, others.find)
    if not python or any(map(is_deep, (base, ours, theirs))):
        return _merge(versions, {}, python=False)
    try:
        merged = _with_renames(versions, _checked(versions, others), others)
        return _with_proven(versions, merged, others)
    except RecursionError:  # generated code can be nested very deep
        return _merge(versions, {}, python=False)


def _with_renames(versions: Versions, merged: Merge, others: OtherFiles) -> Merge:
    """Return a merge with fewer conflicts, if upstream's renames can be followed for them."""
    left = {c.chunk for c in merged.conflicts}
    found = renamed_sides(versions, left) if left else None
    if found is None:
        return merged
    renamed = Versions(found.base, found.ours, versions.theirs.source, versions.find)
    again = _checked(renamed, others) if renamed.mine == versions.mine else merged
    # A strict subset: following a rename must not trade one conflict for another.
    if not left > {c.chunk for c in again.conflicts}:
        return merged
    if not found.binds_first(again.data, versions.theirs.source):
        return merged
    chunks = list(again.chunks)
    for number, one in enumerate(chunks):
        span = slice(one.chunk.new, one.chunk.new_end)
        is_followed = one.chunk in left or versions.lines[1][span] != renamed.lines[1][span]
        if is_followed and one.how in (How.MOVED, How.MERGED):
            rules = (*one.rules, "renamed-operand")
            chunks[number] = replace(one, how=How.MERGED, rules=rules, line=None)
    return replace(again, chunks=tuple(chunks))


def _with_proven(versions: Versions, merged: Merge, others: OtherFiles) -> Merge:
    """Return a merge without the conflicts of which the words prove what is right."""
    if not (merged.conflicts and versions.are_sound):
        return merged
    left = [c.chunk for c in merged.conflicts]
    alone = [c for c in left if not _halves([c], [n for n in left if n != c], versions.lines)]
    return with_proven(versions, merged, others, alone)


def _checked(versions: Versions, others: OtherFiles) -> Merge:
    left: dict[Chunk, str] = {}
    for _ in range(_ROUNDS):
        merged = with_imports(versions, _merge(versions, left, python=True), others.new)
        faults = find_faults(versions, merged, others)
        if not faults:
            return merged
        left.update(faults)
    return _merge(
        versions, dict.fromkeys(versions.mine, "it does not fit what is around it"), python=False
    )


def _merge(versions: Versions, left: Mapping[Chunk, str], *, python: bool) -> Merge:
    """Merge by lines, then by structure what is neither clean nor in `left`."""
    lines, mine = versions.lines, versions.mine
    merges = {c: ChunkMerge(c, How.CONFLICT, reason=reason) for c, reason in left.items()}
    merges |= _by_lines(versions, [c for c in mine if c not in left])
    clean = [c for c in mine if c in merges and merges[c].how is How.MOVED]
    if python and versions.upstream and clean and versions.are_sound:
        apart = [*_strayed(versions, clean), *_doubled(versions, clean)]
        clean = [c for c in clean if c not in apart]
    decided = {*clean, *(c for c in merges if merges[c].how is not How.MOVED)}
    # Half of a moved block without the other half would lose or double the code.
    halves = _halves(clean, [c for c in mine if c not in decided], lines)
    clean = [c for c in clean if c not in halves]
    rest = [c for c in mine if c in halves or c not in decided]
    made = _Progress(_apply_clean(lines, versions.upstream, clean), {}, merges)
    if not python:
        made = made.with_conflict(rest, "both change these lines")
    for group in _groups(rest, lines) if python else ():
        made = _by_structure(group, versions, made)
    return Merge(made.data, tuple(made.merges[c] for c in mine), made.others)


def _by_lines(versions: Versions, chunks: Sequence[Chunk]) -> dict[Chunk, ChunkMerge]:
    """Return the chunks that git would merge, and those that upstream has."""
    found = {}
    for chunk in chunks:
        rivals = [c for c in versions.upstream if touches(chunk, c)]
        ours, theirs = versions.lines[1:]
        text = ours[chunk.new : chunk.new_end]
        twins = (c for c in rivals if c.is_at(chunk) and theirs[c.new : c.new_end] == text)
        twin = next(twins, None)
        # Adjacent changes count as rivals, as in `git merge-file`.
        if not rivals:
            line = shift(versions.upstream, chunk.old) + 1
            found[chunk] = ChunkMerge(chunk, How.MOVED, line=line)
        elif twin is not None:
            found[chunk] = ChunkMerge(chunk, How.ABSORBED, lines=(twin.new + 1,))
    return found


@dataclass(frozen=True)
class _Progress:
    data: bytes
    others: Mapping[str, bytes]
    merges: Mapping[Chunk, ChunkMerge]

    def with_conflict(self, group: Sequence[Chunk], reason: str) -> "_Progress":
        """Return the files as they are, with some chunks left to a person."""
        left = {c: ChunkMerge(c, How.CONFLICT, reason=reason) for c in group}
        return replace(self, merges={**self.merges, **left})


def _by_structure(group: Sequence[Chunk], versions: Versions, made: _Progress) -> _Progress:
    """Merge a group of chunks into what was made, or leave them as conflicts."""
    base = parse(without(versions.lines[1], versions.lines[0], group))
    blocks = base, versions.ours, parse(made.data)
    found = merge_structure(group, versions.lines[1], blocks, made.others, versions.find)
    if isinstance(found, Unsure):
        return made.with_conflict(group, found.reason)
    is_absorbed = not found.carried.edits
    rules = found.carried.rules or ("neighbour-changed",)
    captured = _captured(versions, group) if not _CAPTURING.isdisjoint(rules) else set()
    if captured:
        shown = min(captured).decode(errors="replace")
        reason = f"one side uses `{shown}` in what the other one puts under another {shown!r}"
        return made.with_conflict(group, reason)
    lines = found.carried.absorbed_lines
    nodes = (n for c in group for n in inside(versions.ours.raw[0], c.new_lines) if is_absorbed)
    if any(n.type == "comment" and text_of(n) not in found.data for n in nodes):
        rules = (*rules, "comment-left-out")
    how = How.ABSORBED if is_absorbed else How.MERGED
    merged = {c: ChunkMerge(c, how, rules, lines=lines) for c in group}
    return _Progress(found.data, found.others, {**made.merges, **merged})


def _captured(versions: Versions, group: Sequence[Chunk]) -> set[bytes]:
    """Return the names that one side begins to bind and the other one to use."""
    base, ours, theirs = (n.raw[0] for n in (versions.base, versions.ours, versions.theirs))
    rivals = [c for c in versions.upstream if any(touches(c, one) for one in group)]
    mine, yours = _new_names(base, ours, group), _new_names(base, theirs, rivals)
    return (mine[0] & yours[1]) | (yours[0] & mine[1])


def _new_names(
    old: tree_sitter.Node, new: tree_sitter.Node, chunks: Sequence[Chunk]
) -> tuple[set[bytes], set[bytes]]:
    """Return the names that some chunks bind, and all that they use, more than before."""
    found: list[Counter[bytes]] = []
    for root, spans in ((old, [c.old_lines for c in chunks]), (new, [c.new_lines for c in chunks])):
        nodes = [n for span in spans for n in inside(root, span) if n.type == "identifier"]
        found += [Counter(text_of(n) for n in nodes if is_bound_here(n))]
        found += [Counter(text_of(n) for n in nodes)]
    return {*(found[2] - found[0])}, {*(found[3] - found[1])}


def _strayed(versions: Versions, clean: Sequence[Chunk]) -> list[Chunk]:
    """Return chunks that a merge of lines would put into another definition or block."""
    made = parse(_apply_clean(versions.lines, versions.upstream, clean))
    known, new = definitions(versions.base), definitions(versions.theirs)
    strayed = []
    for chunk in clean:
        # Chunks above this one have shifted its lines in the merged file.
        grown = sum(c.growth for c in clean if c.old < chunk.old)
        line = shift(versions.upstream, chunk.old) + grown
        if chunk.new_lines:
            there = range(line, line + len(chunk.new_lines))
            sides = (versions.ours, chunk.new_lines), (made, there)
            before, after = (owner_of_lines(*side) for side in sides)
            heads = [header_at(module, first_byte(module, rows)) for module, rows in sides]
            scope = definition_at(versions.theirs.raw[0], before) if len({*heads}) > 1 else None
            if heads[0] in map(bytes.strip, text_of(scope).splitlines()):
                strayed.append(chunk)
                continue
        else:
            line -= grown
            before = owner_of_lines(versions.base, chunk.old_lines)
            after = owner_of_lines(versions.theirs, range(line, line + len(chunk.old_lines)))
        # A renamed definition is not another one: the old name is gone and the new one is new.
        if before != after and (before in new or after in known):
            strayed.append(chunk)
    return strayed


def _doubled(versions: Versions, clean: Sequence[Chunk]) -> list[Chunk]:
    """Return chunks that add to a block what upstream adds to it as well."""
    found = []
    for block in doubled(versions.base, versions.ours, versions.theirs):
        lines = range(block.line - 1, block.line + block.text.count(b"\n"))
        found += [c for c in clean if c.new < lines.stop and lines.start < c.new_end]
    return found


def _apply_clean(lines: Lines, upstream: Sequence[Chunk], clean: Sequence[Chunk]) -> bytes:
    starts = [shift(upstream, chunk.old) for chunk in clean]
    spans = [range(at, at + len(c.old_lines)) for at, c in zip(starts, clean, strict=True)]
    texts = [lines[1][c.new : c.new_end] for c in clean]
    return b"".join(splice(lines[2], zip(spans, texts, strict=True)))


def _groups(left: Sequence[Chunk], lines: Lines) -> list[list[Chunk]]:
    """Return the chunks that need each other, together.

    One moves the lines that another takes away, or neither is Python without the other.
    """
    groups: list[list[Chunk]] = []
    rest = list(left)
    while rest:
        group = [rest.pop(0)]
        while rest:
            others = _halves(rest, group, lines)
            if not others and not is_sound(parse(without(lines[1], lines[0], group))):
                others = rest[:1]
            if not others:
                break
            group = sorted([*group, *others], key=lambda c: c.new)
            rest = [c for c in rest if c not in group]
        groups.append(group)
    return groups


def _halves(among: Sequence[Chunk], left: Sequence[Chunk], lines: Lines) -> list[Chunk]:
    """Return the chunks of `among` which only with one of `left` move something."""
    old, new, _ = lines
    return [c for c in among if any(moves(c, n, old, new) or moves(n, c, old, new) for n in left)]
