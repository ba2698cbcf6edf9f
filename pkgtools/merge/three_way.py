"""Porting one file: three-way line by line, then each conflict by the structure of the code."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Final

from pkgtools.merge.blocks import is_sound, parse
from pkgtools.merge.check import Change, problem, reads_as_well
from pkgtools.merge.errors import Unsure
from pkgtools.merge.layout import apply_edits
from pkgtools.merge.lines import Hunk, diff, shift, split, touches, without
from pkgtools.merge.names import definitions, lost_name, owner_of_lines
from pkgtools.merge.placing import place_lines
from pkgtools.merge.transplant import Elsewhere, Transplant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pkgtools.merge.blocks import Node
    from pkgtools.merge.transplant import Find

    Fault = Callable[[Node, range], str | None]
    Lines = tuple[list[bytes], list[bytes], list[bytes]]


RENESTING: Final = {"moved-statement", "neighbours-moved", "wrapped-statement"}
"""Rules that follow upstream into a block which the patch does not know."""


_ROUNDS: Final = 5
"""A hunk that is left to a person may take the names of others with it; so often that is tried."""


class Result(StrEnum):
    """What became of one hunk of one file."""

    MOVED = "moved"
    """Its lines went over as they are."""
    MERGED = "merged"
    ABSORBED = "absorbed"
    CONFLICT = "conflict"


@dataclass(frozen=True)
class HunkOutcome:
    """One hunk of ours, and what became of it."""

    hunk: Hunk
    """In lines of base and ours."""
    result: Result
    rules: tuple[str, ...] = ()
    reason: str | None = None
    lines: tuple[int, ...] = ()
    """1-based lines of theirs that absorb it."""
    line: int | None = None
    """The 1-based line of theirs to which its lines went as they are."""


@dataclass(frozen=True)
class Around:
    """What a merge may ask about the other files of both upstreams."""

    find: Find | None = None
    """Looks for a definition in the new upstream."""
    fault: Fault | None = None
    """Says what some lines of ours need that the new upstream does not have."""


@dataclass(frozen=True)
class Merged:
    """A file ported as far as it goes."""

    data: bytes
    """Theirs with everything that was not left to a person."""
    hunks: tuple[HunkOutcome, ...]
    others: Mapping[str, bytes] = field(default_factory=dict)
    """Other files into which definitions moved, by path, with their new content."""

    @property
    def conflicts(self) -> list[HunkOutcome]:
        """The hunks that are left to a person."""
        return [h for h in self.hunks if h.result is Result.CONFLICT]


def merge(
    base: bytes,
    ours: bytes,
    theirs: bytes,
    *,
    python: bool,
    around: Around | None = None,
) -> Merged:
    """Carry the change from `base` to `ours` over to `theirs`, hunk by hunk.

    Args:
        base: the file in the old upstream.
        ours: the file as the patch makes it.
        theirs: the file in the new upstream.
        python: whether to go beyond lines.
        around: what is known of other files.

    """
    around = around or Around()
    versions = Versions(base, ours, theirs, around.find)
    if not python:
        return _merge(versions, {}, python=False)
    try:
        return _checked(versions, around)
    except RecursionError:  # nested as no person writes it
        return _merge(versions, {}, python=False)


def _checked(versions: Versions, around: Around) -> Merged:
    left: dict[Hunk, str] = {}
    for _ in range(_ROUNDS):
        merged = _merge(versions, left, python=True)
        faults = _faults(versions, merged, around.fault)
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
    def base(self) -> Node:
        """The old upstream's file."""
        return parse(self._data[0])

    @cached_property
    def ours(self) -> Node:
        """The patched file."""
        return parse(self._data[1])

    @cached_property
    def theirs(self) -> Node:
        """The new upstream's file."""
        return parse(self._data[2])

    @property
    def are_sound(self) -> bool:
        """Whether all are Python that can be read."""
        return is_sound(self.base) and is_sound(self.ours) and is_sound(self.theirs)


def _merge(versions: Versions, left: dict[Hunk, str], *, python: bool) -> Merged:
    lines, mine, upstream = versions.lines, versions.mine, versions.upstream
    outcomes = {h: HunkOutcome(h, Result.CONFLICT, reason=r) for h, r in left.items()}
    for hunk in mine:
        rivals = [h for h in upstream if touches(hunk, h)]
        twin = next((h for h in rivals if _is_twin(hunk, h, lines)), None)
        if hunk in outcomes:
            continue
        if not rivals:
            line = shift(upstream, hunk.old) + 1
            outcomes[hunk] = HunkOutcome(hunk, Result.MOVED, line=line)
        elif twin is not None:
            outcomes[hunk] = HunkOutcome(hunk, Result.ABSORBED, lines=(twin.new + 1,))
    clean = [h for h in mine if h in outcomes and outcomes[h].result is Result.MOVED]
    if python and upstream and clean and versions.are_sound:
        strayed = _strayed(versions, clean)
        for hunk in strayed:
            del outcomes[hunk]
        clean = [h for h in clean if h not in strayed]
    for hunk in _halves(clean, [h for h in mine if h not in outcomes], lines):
        del outcomes[hunk]
        clean.remove(hunk)
    data = _apply_clean(lines, upstream, clean)
    others: dict[str, bytes] = {}
    groups = _groups([h for h in mine if h not in outcomes], lines) if python else []
    for group in groups:
        data, found = _by_structure(group, versions, data, others)
        outcomes.update(found)
    for hunk in mine:
        reason = "both change these lines"
        outcomes.setdefault(hunk, HunkOutcome(hunk, Result.CONFLICT, reason=reason))
    return Merged(data, tuple(outcomes[h] for h in mine), others)


def _strayed(versions: Versions, clean: Sequence[Hunk]) -> list[Hunk]:
    """Return hunks that a merge of lines would put into another definition."""
    made = parse(_apply_clean(versions.lines, versions.upstream, clean))
    known, new = definitions(versions.base), definitions(versions.theirs)
    strayed = []
    for hunk in clean:
        grown = sum(h.new_end - h.new - h.old_end + h.old for h in clean if h.old < hunk.old)
        line = shift(versions.upstream, hunk.old) + grown
        if hunk.new < hunk.new_end:
            before = owner_of_lines(versions.ours, hunk.new, hunk.new_end)
            after = owner_of_lines(made, line, line + hunk.new_end - hunk.new)
        else:
            line -= grown
            before = owner_of_lines(versions.base, hunk.old, hunk.old_end)
            after = owner_of_lines(versions.theirs, line, line + hunk.old_end - hunk.old)
        if before != after and (before in new or after in known):
            strayed.append(hunk)
    return strayed


def _faults(versions: Versions, merged: Merged, fault: Fault | None) -> dict[Hunk, str]:
    """Return hunks that use what the new upstream does not have any more."""
    faults = {}
    is_new = not merged.conflicts and merged.data != versions.theirs.source
    if is_new and versions.are_sound and not reads_as_well(parse(merged.data), versions.theirs):
        return {h.hunk: "the result is not Python" for h in merged.hunks}
    for outcome in merged.hunks:
        hunk = outcome.hunk
        added = range(hunk.new, hunk.new_end)
        done = outcome.result in (Result.MOVED, Result.MERGED)
        if not (done and added and versions.are_sound):
            continue
        found = _lost_name(versions, merged, outcome) if versions.upstream else None
        if (
            found is None
            and fault
            and b"import" in b"".join(versions.lines[1][hunk.new : hunk.new_end])
        ):
            found = fault(versions.ours, added)
        if found:
            faults[hunk] = found
    return faults


def _lost_name(versions: Versions, merged: Merged, outcome: HunkOutcome) -> str | None:
    """Return what a hunk names and the files into which it went do not define."""
    added = [range(outcome.hunk.new, outcome.hunk.new_end)]
    whole = not merged.conflicts and not merged.others
    moved = "moved-definition" in outcome.rules and merged.others
    lost = [
        lost_name(versions.base, versions.ours, parse(data), added, whole=whole)
        for data in (merged.others.values() if moved else [merged.data])
    ]
    return lost[0] if all(lost) else None


def _is_twin(mine: Hunk, other: Hunk, lines: Lines) -> bool:
    same_place = (mine.old, mine.old_end) == (other.old, other.old_end)
    return same_place and (lines[1][mine.new : mine.new_end] == lines[2][other.new : other.new_end])


def _apply_clean(
    lines: Lines,
    upstream: Sequence[Hunk],
    clean: Sequence[Hunk],
) -> bytes:
    out: list[bytes] = []
    at = 0
    for hunk in clean:
        start = shift(upstream, hunk.old)
        out += lines[2][at:start]
        out += lines[1][hunk.new : hunk.new_end]
        at = start + hunk.old_end - hunk.old
    return b"".join([*out, *lines[2][at:]])


def _groups(left: Sequence[Hunk], lines: Lines) -> list[list[Hunk]]:
    """Return the hunks that need each other, together.

    One moves the lines that another takes away, or neither is Python without the other.
    """
    groups: list[list[Hunk]] = []
    rest = list(left)
    while rest:
        group = [rest.pop(0)]
        while rest:
            others = _halves(rest, group, lines)
            if not others and not is_sound(parse(without(lines[1], lines[0], group))):
                others = rest[:1]
            if not others:
                break
            group = sorted([*group, *others], key=lambda h: h.new)
            rest = [h for h in rest if h not in group]
        groups.append(group)
    return groups


def _halves(among: Sequence[Hunk], left: Sequence[Hunk], lines: Lines) -> list[Hunk]:
    """Return the hunks of `among` which only with one of `left` move something."""
    return [h for h in among if left and _moves(left, h, lines)]


def _moves(group: Sequence[Hunk], other: Hunk, lines: Lines) -> bool:
    """Whether lines that one hunk takes away stand in what the other one adds."""

    def removed(hunk: Hunk) -> list[bytes]:
        return [x.strip() for x in lines[0][hunk.old : hunk.old_end] if len(x.strip()) > 8]

    def added(hunk: Hunk) -> set[bytes]:
        return {x.strip() for x in lines[1][hunk.new : hunk.new_end]}

    for hunk in group:
        for one, two in ((hunk, other), (other, hunk)):
            gone = removed(one)
            if gone and 2 * sum(x in added(two) for x in gone) > len(gone):
                return True
    return False


def _by_structure(
    group: Sequence[Hunk], versions: Versions, data: bytes, others: dict[str, bytes]
) -> tuple[bytes, dict[Hunk, HunkOutcome]]:
    """Return theirs with a group of hunks in it, or as it was and why not."""
    base, ours = parse(without(versions.lines[1], versions.lines[0], group)), versions.ours
    theirs = parse(data)
    carrier = Transplant(theirs, find=_current(versions.find, others))
    try:
        sound = is_sound(base) and is_sound(ours) and is_sound(theirs)
        if not sound or any(b"\r" in n.source for n in (base, ours, theirs)):
            reason = "the file is not Python that can be read, or has carriage returns"
            return data, {h: HunkOutcome(h, Result.CONFLICT, reason=reason) for h in group}
        try:
            made = _carried(carrier, base, ours, theirs)
        except Unsure:
            found = place_lines(group, versions.lines[1], base, theirs)
            if found is None:
                raise
            carrier = Transplant(theirs, [found], ["neighbour-changed"])
            made = _made(carrier, base, ours, theirs)
    except Unsure as unsure:
        return data, {h: HunkOutcome(h, Result.CONFLICT, reason=unsure.reason) for h in group}
    others.update({path: new for path, new in made.items() if path})
    changed = bool(carrier.edits) or any(edits for _, edits in carrier.others.values())
    result = Result.MERGED if changed else Result.ABSORBED
    rules = tuple(carrier.rules) or ("neighbour-changed",)
    places = tuple(carrier.absorbed_lines)
    outcome = {h: HunkOutcome(h, result, rules, lines=places) for h in group}
    return made[""], outcome


def _carried(carrier: Transplant, base: Node, ours: Node, theirs: Node) -> dict[str, bytes]:
    carrier.carry(base, ours, theirs)
    return _made(carrier, base, ours, theirs)


def _made(carrier: Transplant, base: Node, ours: Node, theirs: Node) -> dict[str, bytes]:
    """Return the new content of each file, theirs under the empty path, once checked."""
    pairs = [(theirs, parse(apply_edits(theirs.source, carrier.edits)))]
    made = {"": pairs[0][1].source}
    for path, (module, edits) in carrier.others.items():
        pairs.append((module, parse(apply_edits(module.source, edits))))
        made[path] = pairs[-1][1].source
    renested = not RENESTING.isdisjoint(carrier.rules)
    fault = problem(Change(base, ours, tuple(pairs), carrier.absorbed), renested=renested)
    if fault:
        raise Unsure(fault)
    return made


def _current(find: Find | None, others: dict[str, bytes]) -> Find | None:
    """Return `find`, seeing what earlier hunks made of the other files."""

    def look(node: Node) -> Elsewhere | None:
        found = find(node) if find else None
        if found is None or found.path not in others:
            return found
        module = parse(others[found.path])
        nodes = [n for n in module.walk() if n.kind == node.kind and n.key == node.key]
        return Elsewhere(found.path, module, nodes[0]) if len(nodes) == 1 else None

    return look
