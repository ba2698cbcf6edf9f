"""Statements in a body, elements in a list: what a patch adds, removes and changes there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pkgtools.merge.result import Carried, Unsure, carried, join, taken_away
from pkgtools.merge.rules import layout
from pkgtools.merge.rules.apart import carry_apart
from pkgtools.merge.rules.counterparts import (
    is_moved_away,
    made_within,
    moved_definition,
    moved_statement,
)
from pkgtools.merge.rules.order import Order, order_of, sorted_place
from pkgtools.merge.rules.parts import (
    extends,
    guards,
    has_at_end,
    is_call_of,
    is_part,
    is_under_condition,
    without_remarks,
)
from pkgtools.merge.rules.placing import (
    Place,
    between_in_block,
    place_between,
    place_regrouped,
    reaches_out,
)
from pkgtools.merge.rules.twins import as_good_behind, rival, twins
from pkgtools.merge.rules.wrapping import carry_wrapped, wrapped_window
from pkgtools.merge.syntax.align import align
from pkgtools.merge.syntax.blocks import Block, Shape, is_linted, same
from pkgtools.merge.syntax.effects import effects, independent
from pkgtools.merge.syntax.given import is_import

if TYPE_CHECKING:
    from pkgtools.merge.result import Edit
    from pkgtools.merge.rules.transplant import Transplant


_ELSEWHERE: Final = Unsure("upstream has what the patch makes, elsewhere", is_final=True)
_SAME_ELEMENTS: Final = Unsure("both change the same elements")


class Siblings:
    """Statements or elements of the three versions, and which are each other's."""

    def __init__(self, into: Transplant, base: Block, ours: Block, theirs: Block) -> None:
        self.into = into
        self.outer, self.outer_ours = theirs, ours
        self.base, self.ours, self.theirs = base.elements, ours.elements, theirs.elements
        self.to_ours = self._without_wrapped(self.ours)
        self.to_theirs = self._without_wrapped(self.theirs)
        self.is_list = base.shape is Shape.LIST

    def _without_wrapped(self, side: Sequence[Block]) -> dict[int, int]:
        """Return which are whose, without those which the side has, as they were, in a new one."""
        pairs = align(self.base, side)
        added = [n for j, n in enumerate(side) if j not in pairs.values()]

        def is_inside(block: Block, other: Block) -> bool:
            is_it = block.is_definition and block.key == other.key
            outers = added if is_it else (*added, other)
            around = (n for n in outers if block.squeezed in n.squeezed)
            nodes = (n for outer in around for n in outer.walk() if n is not outer)
            return any(n.kind == block.kind and same(n, block) for n in nodes)

        return {
            i: j
            for i, j in pairs.items()
            if same(self.base[i], side[j]) or not is_inside(self.base[i], side[j])
        }

    def carry(self) -> Carried | Unsure:
        """Carry the gaps and the changed elements, in order."""
        pairs = sorted(self.to_ours.items())
        if any(one[1] > other[1] for one, other in pairwise(pairs)):
            return Unsure("the patch changes the order of things")
        return join(self._all(pairs))

    def _all(self, pairs: Sequence[tuple[int, int]]) -> Iterator[Carried | Unsure]:
        at_base = at_ours = 0
        for one, other in [*pairs, (len(self.base), len(self.ours))]:
            removed, added = self.base[at_base:one], self.ours[at_ours:other]
            if removed and added:
                yield self._replace(at_base, removed, added)
            elif added:
                yield self._insert(at_base, added)
            else:
                yield from map(self._delete, range(at_base, one))
            if one < len(self.base) and not same(self.base[one], self.ours[other]):
                yield self._changed(one, self.ours[other])
            at_base, at_ours = one + 1, other + 1

    def _new(self, span: tuple[int, int] | None = None) -> list[Block]:
        """Return what upstream adds, all of it or between two places."""
        known = set(self.to_theirs.values())
        among = range(*(span or (0, len(self.theirs))))
        return [self.theirs[at] for at in among if at not in known]

    def _changed(self, index: int, ours: Block) -> Carried | Unsure:
        base = self.base[index]
        if index in self.to_theirs:
            counterpart = self.theirs[self.to_theirs[index]]
            equal = twins(ours, self.base, self.theirs)
            if not equal or counterpart in equal:
                return self.into.carry(base, ours, counterpart)
            twin = self._twin(index, ours)
            if not is_import(ours) or not isinstance(twin, Block):
                return _ELSEWHERE
            return join([self.into.absorb(None, ours, twin), self._delete(index)])
        new = self._new()
        if base.is_definition:
            found = moved_definition(base, new, self.into.module)
        else:
            found = moved_statement(base, self.theirs)
        if found is not None:
            block, rule = found
            return join([Carried(rules=(rule,)), self.into.carry(base, ours, block)])
        there = self.into.carry_elsewhere(base, ours) if base.is_definition else None
        made = made_within(base, ours, new)
        if made is not None:
            return self.into.absorb(base, ours, made)
        there = there or self._apart(base, ours)
        what = f"{base.kind} {base.name.decode()}" if base.name else "statement"
        return there or Unsure(f"upstream removed the {what} that the patch changes")

    def _apart(self, base: Block, ours: Block) -> Carried | None:
        """Carry a change to the one new statement between the neighbours of the old one."""
        index = self.base.index(base)
        alone = all(n in self.to_theirs for n in (index - 1, index + 1) if 0 <= n < len(self.base))
        new = [n for n in self._new(self._span(index)) if not n.is_comment]
        fits = alone and index not in self.to_theirs and len(new) == 1
        return carry_apart(base, ours, new[0]) if fits else None

    def _insert(self, index: int, added: Sequence[Block]) -> Carried | Unsure:
        found = {node: self._twin(index, node) for node in added}
        left = [node for node, twin in found.items() if twin is None]
        parts = [
            twin if isinstance(twin, Unsure) else self.into.absorb(None, node, twin)
            for node, twin in found.items()
            if twin is not None
        ]
        grown = {n: part for n in left if (part := self._grown(index, n)) is not None}
        parts += grown.values()
        left = [n for n in left if n not in grown]
        if len(left) < len(added) and all(n.is_comment for n in left):
            # Remarks on what is there already.
            parts += [Carried(absorbed=node.counted) for node in left]
            left = []
        parts += [d for d in map(self._rival, left) if d is not None]
        return join([*parts, self._inserted(index, left) if left else Carried()])

    def _inserted(self, index: int, added: Sequence[Block]) -> Carried | Unsure:
        known = [
            n for n in self._added_with(index, added[0]) if is_call_of(n, added, self.into.module)
        ]
        if len(known) == 1:
            return join(self.into.absorb(None, node, known[0]) for node in added)
        nested = self._nested_place(index)
        if nested and reaches_out(added, nested[0][0]):
            return Unsure(
                "upstream put the place into a block, and the patch's lines reach out of it"
            )
        siblings, place = nested or (self.theirs, self._place(index, added))
        if isinstance(place, Unsure):
            return place
        runs: list[list[Block]] = []  # between them stands what upstream has already
        for block in added:
            if runs and self.ours.index(block) == self.ours.index(runs[-1][-1]) + 1:
                runs[-1].append(block)
            else:
                runs.append([block])
        return carried(place.rule, *(self._insertion(siblings, place, index, r) for r in runs))

    def _twin(self, index: int, block: Block) -> Block | Unsure | None:
        """Return what upstream added and is the same as an insertion of the patch's."""
        found = [] if block.is_comment else twins(block, self.base, self.theirs)
        known = set(self.to_theirs.values())
        low, high = self._span(index)
        for at, other in enumerate(self.theirs):
            if other not in found or (at in known and not is_import(block)):
                continue
            between = self.theirs[high:at] if at >= high else self.theirs[at + 1 : low]
            if as_good_behind(self.outer, block, between):
                return other
            reason = f"upstream has the same in line {other.line}, and the order matters"
            return Unsure(reason, is_final=True)
        made = [at for i, at in self.to_theirs.items() if not same(self.base[i], self.theirs[at])]
        same_now = next((self.theirs[at] for at in made if self.theirs[at] in found), None)
        if same_now is not None:
            reason = f"upstream changed another statement into the same, in line {same_now.line}"
            return Unsure(reason, is_final=True)
        added = self._added_with(index, block)
        return next((n for n in added if extends(n, block) or guards(n, block)), None)

    def _added_with(self, index: int, block: Block) -> list[Block]:
        """Return what upstream adds at the place of a statement; of definitions, anywhere."""
        span = None if block.is_definition else self._span(index)
        return [n for n in self._new(span) if not n.is_comment]

    def _grown(self, index: int, block: Block) -> Carried | Unsure | None:
        """Return how to make what the patch adds of what upstream adds, if that is a part of it."""
        added = self._added_with(index, block)
        found = [n for n in added if extends(block, n) or is_under_condition(n, block)]
        part = without_remarks(found[0]) if len(found) == 1 and not block.is_comment else None
        if part is None:
            return None
        rule = Carried(rules=("part-of-the-change",), absorbed=part.counted)
        return join([rule, self.into.carry(part, block, found[0])])

    def _rival(self, block: Block) -> Unsure | None:
        """Return that upstream adds something else of that name."""
        other = rival(block, self.base, self.theirs)
        if other is None:
            return None
        name, there = (
            n.key[1].decode(errors="replace") if n.key else n.kind for n in (block, other)
        )
        beside = "" if name == there else f": {there!r}, under the same option, key or value"
        return Unsure(f"upstream adds another {name!r}{beside}", is_final=True)

    def _place(self, index: int, added: Sequence[Block]) -> Place | Unsure:
        """Return where in theirs an insertion before ``base[index]`` goes."""
        kind = order_of(self.outer, added)
        if kind is Order.SORTED:
            found = sorted_place(self.theirs, added)
            if found is not None:
                return Place(found[0], "insertion-beside-insertion", before=found[1])
        previous, following = (self.to_theirs.get(i) for i in (index - 1, index))
        before = self._container(index - 1, -1) if previous is None else previous
        behind = self._container(index, 0) if following is None else following
        moved = {before, behind} - {previous, following}
        if kind is Order.FLOW and any(self._may_go_in(at, added) for at in moved):
            return Unsure("upstream puts the statement beside the insertion into a block")
        previous, following = before, behind
        low, high = self._span(index)
        low = max(low, -1 if previous is None else previous + 1)
        high = min(high, len(self.theirs) if following is None else following)
        if previous is not None and following == previous + 1:
            return Place(following, "neighbour-changed" if low <= high else "neighbours-moved")
        matters = kind in (Order.STRICT, Order.FLOW)
        if following is not None and all(n.is_comment for n in added):
            return Place(following, "comment-above", before=True)
        if low > high:
            if matters:
                return Unsure("upstream changed the order of the statements around the insertion")
            return place_regrouped(previous, following)
        lost = (previous is None and index > 0, following is None and index < len(self.base))
        if all(lost) and matters:
            return Unsure("both neighbours of the insertion are gone")
        near = [self.base[i] for i, gone in zip((index - 1, index), lost, strict=True) if gone]
        if matters and any(is_moved_away(n, self.into.module) for n in near):
            return Unsure("upstream moved a neighbour of the insertion elsewhere")
        return place_between(kind, added, self.theirs, (low, high), lost)

    def _span(self, index: int) -> tuple[int, int]:
        """Return between which of theirs the place before ``base[index]`` lies."""
        before = [self.to_theirs[i] for i in range(index) if i in self.to_theirs]
        behind = [self.to_theirs[i] for i in range(index, len(self.base)) if i in self.to_theirs]
        return max(before, default=-1) + 1, min(behind, default=len(self.theirs))

    def _container(self, index: int, end: int) -> int | None:
        """Return the new statement of upstream's that has a neighbour as its last or first one."""
        if self.is_list or not 0 <= index < len(self.base):
            return None
        found = [n for n in self._new() if has_at_end(n, self.base[index], end)]
        return self.theirs.index(found[0]) if len(found) == 1 else None

    def _may_go_in(self, at: int | None, added: Sequence[Block]) -> bool:
        """Whether an insertion beside a new block of upstream's may belong into it."""
        block = [] if at is None else [self.theirs[at]]
        is_apart = not block or independent(effects(added), effects(block))
        return not (is_apart or reaches_out(added, block[0]))

    def _nested_place(self, index: int) -> tuple[Sequence[Block], Place] | None:
        """Return the place between both neighbours, where upstream put these into a block."""
        is_between = not self.is_list and 0 < index < len(self.base)
        if not is_between or not self.to_theirs.keys().isdisjoint((index - 1, index)):
            return None
        return between_in_block(self.theirs, self.base[index - 1], self.base[index])

    def _insertion(
        self, siblings: Sequence[Block], place: Place, index: int, added: Sequence[Block]
    ) -> Edit | Unsure:
        if self.is_list:
            return layout.insert_elements(self.outer, place.at, self.outer_ours, added)
        first, last = self.ours.index(added[0]), self.ours.index(added[-1])
        base, ours = (None, *self.base, None), (None, *self.ours, None)
        gap = layout.Gap(ours[first], ours[last + 2], base[index], base[index + 1])
        return layout.insert_statements(siblings, place.at, added, gap, before=place.before)

    def _delete(self, index: int) -> Carried | Unsure:
        block = self.base[index]
        if index in self.to_theirs:
            at = self.to_theirs[index]
            if not same(block, self.theirs[at]):
                return Unsure("upstream changed what the patch removes")
            if self.is_list:
                return carried("", layout.delete_element(self.outer, at))
            return carried("", layout.delete_statement(self.theirs, at))
        if any(same(n, block) for e in self.theirs for n in e.walk()):
            return Unsure("upstream moved what the patch removes")
        if any(not n.is_comment for n in self.theirs[slice(*self._span(index))]):
            return Unsure("upstream replaced what the patch removes")
        return Carried(rules=("removed-upstream",), absorbed=taken_away(block))

    def _replace(
        self, index: int, removed: Sequence[Block], added: Sequence[Block]
    ) -> Carried | Unsure:
        places = [self.to_theirs.get(index + n) for n in range(len(removed))]
        known = [p for p in places if p is not None]
        lost = any(p is None for n, p in zip(removed, places, strict=True) if not n.is_comment)
        if lost or not known:
            return self._take_ours(index, removed, added)
        run = self.theirs[min(known) : max(known) + 1]
        pairs = [(n, self.theirs[p]) for n, p in zip(removed, places, strict=True) if p is not None]
        if [n for n in run if not n.is_comment] != [n for o, n in pairs if not o.is_comment]:
            return Unsure("upstream inserts between what the patch replaces, or moves it")
        doubt = next(filter(None, map(self._rival, added)), None)
        if doubt or any(twins(n, self.base, self.theirs) for n in added if not n.is_comment):
            return doubt or _ELSEWHERE
        if self.is_list:
            is_each = len(removed) == len(added) == len(run)
            each = map(self._replace_element, removed, added, run)
            return join(each) if is_each else _SAME_ELEMENTS
        if wrapped_window(removed, added) and self._is_crowded(min(known), max(known), added):
            return Unsure("upstream adds a statement beside those that the patch puts into a block")
        if all(is_linted(one, other) for one, other in pairs):
            rule = "comment-above" if len(run) != len(removed) else "neighbour-changed"
            linted = [pair for pair in pairs if not same(*pair)]
            parts = [Carried(absorbed=c) for o, n in linted for c in (n.counted, taken_away(o))]
            return join([carried(rule, layout.replace_statements(run, added)), *parts])
        wrapped = carry_wrapped(self.into.carry, removed, added, run)
        return wrapped or self._take_ours(index, removed, added)

    def _is_crowded(self, low: int, high: int, added: Sequence[Block]) -> bool:
        """Whether upstream adds a statement beside a run, and it matters on which side of it."""
        mine = set(self.to_theirs.values())
        beside = [n for n in (low - 1, high + 1) if 0 <= n < len(self.theirs) and n not in mine]
        known = [effects([self.theirs[n]]) for n in beside]
        return not all(independent(one, effects(added)) for one in known)

    def _replace_element(self, base: Block, ours: Block, theirs: Block) -> Carried | Unsure:
        if same(base, theirs):
            return carried("", *layout.replace_block(theirs, ours))
        if base.kind == ours.kind == theirs.kind and base.shape is Shape.RECORD:
            return self.into.carry(base, ours, theirs)
        return _SAME_ELEMENTS

    def _take_ours(
        self, index: int, removed: Sequence[Block], added: Sequence[Block]
    ) -> Carried | Unsure:
        """Take ours whole where upstream made a part of the same change, and nothing else.

        That is: what was there grew to theirs, and theirs grows to ours.
        """
        end = index + len(removed)
        low = self.to_theirs.get(index - 1, None if index else -1)
        high = self.to_theirs.get(end, len(self.theirs) if end == len(self.base) else None)
        run = self.theirs[low + 1 : high] if low is not None and high is not None else ()
        grows = is_part(removed, run) and is_part(run, added) and not is_part(run, removed)
        if not run or self.is_list or not grows:
            apart = self._apart(removed[0], added[0]) if len(removed) == len(added) == 1 else None
            return apart or Unsure("both change the same statements")
        grown = [Carried(absorbed=block.counted) for block in run]
        shrunk = [Carried(absorbed=taken_away(block)) for block in removed]
        taken = carried("part-of-the-change", layout.replace_statements(run, added))
        return join([taken, *grown, *shrunk])
