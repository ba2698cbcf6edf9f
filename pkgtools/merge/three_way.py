"""The stages of a merge: by lines, then each conflict by structure, then the checks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from pkgtools.merge import names
from pkgtools.merge.blocks import is_sound, parse
from pkgtools.merge.check import reads_as_well
from pkgtools.merge.lines import Chunk, diff, shift, split, touches, without
from pkgtools.merge.model import ChunkMerge, How, Merge, OtherFiles
from pkgtools.merge.modules import Module
from pkgtools.merge.names import definitions, lost_name, owner_of_lines
from pkgtools.merge.result import Unsure
from pkgtools.merge.structure import merge_structure
from pkgtools.merge.twins import doubled
from pkgtools.merge.uses import Landing, misuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pkgtools.merge.blocks import Block
    from pkgtools.merge.transplant import Find

    Lines = tuple[list[bytes], list[bytes], list[bytes]]


_ROUNDS: Final = 5
"""A conflict may define names that other chunks use: those conflict in the next round."""


def merge(
    base: bytes,
    ours: bytes,
    theirs: bytes,
    *,
    python: bool,
    others: OtherFiles | None = None,
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
    versions = Versions(base, ours, theirs, others.find)
    if not python:
        return _merge(versions, {}, python=False)
    try:
        return _checked(versions, others)
    except RecursionError:  # nested as no person writes it
        return _merge(versions, {}, python=False)


def _checked(versions: Versions, others: OtherFiles) -> Merge:
    left: dict[Chunk, str] = {}
    for _ in range(_ROUNDS):
        merged = _merge(versions, left, python=True)
        faults = _faults(versions, merged, others)
        if not faults:
            return merged
        left.update(faults)
    return _merge(
        versions, dict.fromkeys(versions.mine, "it does not fit what is around it"), python=False
    )


class Versions:
    """The three versions of a file, as lines and, where they are needed, as blocks."""

    def __init__(self, base: bytes, ours: bytes, theirs: bytes, find: Find | None) -> None:
        self.find = find
        self.lines = split(base), split(ours), split(theirs)
        self.mine, self.upstream = (
            diff(self.lines[0], self.lines[1]),
            diff(self.lines[0], self.lines[2]),
        )
        self._data = base, ours, theirs

    @cached_property
    def base(self) -> Block:
        """The old upstream's file."""
        return parse(self._data[0])

    @cached_property
    def ours(self) -> Block:
        """The patched file."""
        return parse(self._data[1])

    @cached_property
    def theirs(self) -> Block:
        """The new upstream's file."""
        return parse(self._data[2])

    @property
    def are_sound(self) -> bool:
        """Whether all are Python that can be read."""
        return is_sound(self.base) and is_sound(self.ours) and is_sound(self.theirs)


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
    halves = _halves(clean, [c for c in mine if c not in decided], lines)
    clean = [c for c in clean if c not in halves]
    decided -= set(halves)
    merges = {c: merge for c, merge in merges.items() if c in decided}
    made = _Progress(_apply_clean(lines, versions.upstream, clean), {}, merges)
    groups = _groups([c for c in mine if c not in decided], lines) if python else []
    for group in groups:
        made = _by_structure(group, versions, made)
    unmerged = {
        c: ChunkMerge(c, How.CONFLICT, reason="both change these lines")
        for c in mine
        if c not in made.merges
    }
    merges = {**made.merges, **unmerged}
    return Merge(made.data, tuple(merges[c] for c in mine), made.others)


def _by_lines(versions: Versions, chunks: Sequence[Chunk]) -> dict[Chunk, ChunkMerge]:
    """Return the chunks that git would merge, and those that upstream has."""
    found = {}
    for chunk in chunks:
        rivals = [c for c in versions.upstream if touches(chunk, c)]
        twin = next((c for c in rivals if _is_twin(chunk, c, versions.lines)), None)
        if not rivals:
            line = shift(versions.upstream, chunk.old) + 1
            found[chunk] = ChunkMerge(chunk, How.MOVED, line=line)
        elif twin is not None:
            found[chunk] = ChunkMerge(chunk, How.ABSORBED, lines=(twin.new + 1,))
    return found


@dataclass(frozen=True)
class _Progress:
    """The files as merged so far."""

    data: bytes
    others: Mapping[str, bytes]
    merges: Mapping[Chunk, ChunkMerge]


def _by_structure(group: Sequence[Chunk], versions: Versions, made: _Progress) -> _Progress:
    """Merge a group of chunks into what was made, or leave them as conflicts."""
    base = parse(without(versions.lines[1], versions.lines[0], group))
    blocks = base, versions.ours, parse(made.data)
    found = merge_structure(group, versions.lines[1], blocks, made.others, versions.find)
    if isinstance(found, Unsure):
        left = {c: ChunkMerge(c, How.CONFLICT, reason=found.reason) for c in group}
        return _Progress(made.data, made.others, {**made.merges, **left})
    how = How.ABSORBED if found.is_absorbed else How.MERGED
    rules = found.carried.rules or ("neighbour-changed",)
    lines = found.carried.absorbed_lines
    merged = {c: ChunkMerge(c, how, rules, lines=lines) for c in group}
    return _Progress(found.data, found.others, {**made.merges, **merged})


def _strayed(versions: Versions, clean: Sequence[Chunk]) -> list[Chunk]:
    """Return chunks that a merge of lines would put into another definition."""
    made = parse(_apply_clean(versions.lines, versions.upstream, clean))
    known, new = definitions(versions.base), definitions(versions.theirs)
    strayed = []
    for chunk in clean:
        grown = sum(c.new_end - c.new - c.old_end + c.old for c in clean if c.old < chunk.old)
        line = shift(versions.upstream, chunk.old) + grown
        if chunk.new < chunk.new_end:
            before = owner_of_lines(versions.ours, chunk.new, chunk.new_end)
            after = owner_of_lines(made, line, line + chunk.new_end - chunk.new)
        else:
            line -= grown
            before = owner_of_lines(versions.base, chunk.old, chunk.old_end)
            after = owner_of_lines(versions.theirs, line, line + chunk.old_end - chunk.old)
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


def _faults(versions: Versions, merged: Merge, others: OtherFiles) -> dict[Chunk, str]:
    """Return chunks that use what the new upstream does not have any more."""
    faults = {}
    is_new = not merged.conflicts and merged.data != versions.theirs.source
    if is_new and versions.are_sound and not reads_as_well(parse(merged.data), versions.theirs):
        return {c.chunk: "the result is not Python" for c in merged.chunks}
    if not versions.are_sound:
        return {}
    for merge in merged.chunks:
        chunk = merge.chunk
        if merge.how not in (How.MOVED, How.MERGED) or chunk.new == chunk.new_end:
            continue
        moved = "moved-definition" in merge.rules and merged.others
        landed = merged.others if moved else {"": merged.data}
        found = [_fault(versions, merged, chunk, _File(*item), others) for item in landed.items()]
        if all(found):
            faults[chunk] = str(found[0])
    return faults


@dataclass(frozen=True)
class _File:
    """A file into which a chunk went; the merged file itself has no path."""

    path: str
    data: bytes


def _fault(
    versions: Versions, merged: Merge, chunk: Chunk, file: _File, others: OtherFiles
) -> str | None:
    """Return what a chunk uses, and the file into which it went or its package does not have."""
    lines, made = range(chunk.new, chunk.new_end), parse(file.data)
    theirs = made if file.path else versions.theirs
    nodes = [n.raw[0] for n in (versions.base, versions.ours, theirs, made)]
    if versions.upstream:
        found = lost_name(names.Versions(*nodes), [lines], whole=not merged.conflicts)
        if found:
            return found
    package = others.package_of(file.path) if file.path else others.package
    return misuse(
        Landing(
            Module(nodes[0], others.package, others.old),
            Module(nodes[1], others.package, others.old),
            Module(nodes[2], package, others.new),
            Module(nodes[3], package, others.new),
            lines=lines,
            rows=_rows(versions, chunk, file),
        )
    )


def _rows(versions: Versions, chunk: Chunk, file: _File) -> frozenset[int]:
    """Return the lines of a file that come from a chunk."""
    texts = {line.strip() for line in versions.lines[1][chunk.new : chunk.new_end]} - {b""}
    lines = split(file.data)
    added: Iterable[int] = range(len(lines))
    if not file.path:
        added = (n for c in diff(versions.lines[2], lines) for n in range(c.new, c.new_end))
    return frozenset(n for n in added if lines[n].strip() in texts)


def _is_twin(mine: Chunk, other: Chunk, lines: Lines) -> bool:
    same_place = (mine.old, mine.old_end) == (other.old, other.old_end)
    return same_place and (lines[1][mine.new : mine.new_end] == lines[2][other.new : other.new_end])


def _apply_clean(
    lines: Lines,
    upstream: Sequence[Chunk],
    clean: Sequence[Chunk],
) -> bytes:
    out: list[bytes] = []
    at = 0
    for chunk in clean:
        start = shift(upstream, chunk.old)
        out += lines[2][at:start]
        out += lines[1][chunk.new : chunk.new_end]
        at = start + chunk.old_end - chunk.old
    return b"".join([*out, *lines[2][at:]])


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
    return [c for c in among if left and _moves(left, c, lines)]


def _moves(group: Sequence[Chunk], other: Chunk, lines: Lines) -> bool:
    """Whether lines that one chunk takes away stand in what the other one adds."""

    def removed(chunk: Chunk) -> list[bytes]:
        return [x.strip() for x in lines[0][chunk.old : chunk.old_end] if len(x.strip()) > 8]

    def added(chunk: Chunk) -> set[bytes]:
        return {x.strip() for x in lines[1][chunk.new : chunk.new_end]}

    for chunk in group:
        for one, two in ((chunk, other), (other, chunk)):
            gone = removed(one)
            if gone and 2 * sum(x in added(two) for x in gone) > len(gone):
                return True
    return False
