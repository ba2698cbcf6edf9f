"""Statements in a body, elements in a list: what a patch adds, removes and changes there."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Protocol

from pkgtools.merge import layout
from pkgtools.merge.align import ALIKE, align
from pkgtools.merge.blocks import Node, Shape, same, similarity
from pkgtools.merge.errors import Unsure
from pkgtools.merge.order import Order, commute, is_exclusive, is_import, order_of, sorted_place

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

    from pkgtools.merge.layout import Edit


_RENAMED: Final = 0.8
"""From this share of common tokens on, a definition of another name can be one that was renamed."""
_CLEARLY: Final = 0.15
"""By so much it must be more alike than any other."""


class Carrier(Protocol):
    """What collects the edits, and carries what lies deeper."""

    module: Node
    edits: list[Edit]
    absorbed: Counter[bytes]

    def elsewhere(self, node: Node) -> Node | None:
        """Return a definition that is in another file now."""
        ...

    def carry(self, base: Node, ours: Node, theirs: Node) -> None:
        """Carry a change inside one sibling."""
        ...

    def say(self, rule: str) -> None:
        """Note a rule that decided something."""
        ...

    def absorb(self, base: Node | None, ours: Node, theirs: Node) -> None:
        """Note that theirs has a part of the change already."""
        ...


@dataclass(frozen=True)
class _Place:
    """Where an insertion goes."""

    at: int
    """The index in theirs before which."""
    rule: str
    before: bool = False
    """Whether it belongs to what follows, where blank lines separate both sides."""


class Siblings:
    """Statements or elements of the three versions, and which are each other's."""

    def __init__(self, into: Carrier, base: Node, ours: Node, theirs: Node) -> None:
        self.into = into
        self.outer, self.outer_ours = theirs, ours
        self.base, self.ours, self.theirs = base.elements, ours.elements, theirs.elements
        self.to_ours = self._without_wrapped(align(self.base, self.ours))
        self.to_theirs = align(self.base, self.theirs)
        self.is_list = base.shape is Shape.LIST

    def _without_wrapped(self, pairs: dict[int, int]) -> dict[int, int]:
        """Return pairs without those whose old statement is, as it was, inside an added one."""
        added = [n for j, n in enumerate(self.ours) if j not in pairs.values()]
        inside = [n for outer in added for n in outer.walk() if n is not outer]
        return {
            i: j
            for i, j in pairs.items()
            if same(self.base[i], self.ours[j])
            or self.base[i].shape is Shape.BODY
            or not any(n.kind == self.base[i].kind and same(n, self.base[i]) for n in inside)
        }

    def carry(self) -> None:
        """Go through the gaps and the changed elements in order."""
        pairs = sorted(self.to_ours.items())
        if any(one[1] > other[1] for one, other in pairwise(pairs)):
            raise Unsure("the patch changes the order of things")
        at_base = at_ours = 0
        for one, other in [*pairs, (len(self.base), len(self.ours))]:
            self._gap((at_base, one), (at_ours, other))
            if one < len(self.base) and not same(self.base[one], self.ours[other]):
                self.into.carry(self.base[one], self.ours[other], self._counterpart(one))
            at_base, at_ours = one + 1, other + 1

    def _gap(self, old: tuple[int, int], new: tuple[int, int]) -> None:
        removed, added = self.base[slice(*old)], self.ours[slice(*new)]
        if removed and added:
            self._replace(old, new)
        elif added:
            self._insert(old[0], new)
        elif removed:
            self._delete(old)

    # Changed elements

    def _counterpart(self, index: int) -> Node:
        if index in self.to_theirs:
            return self.theirs[self.to_theirs[index]]
        node = self.base[index]
        found = self._moved_definition(node) if node.is_definition else self._nested(node)
        if found is None and node.is_definition:
            found = self.into.elsewhere(node)
        if found is None:
            what = f"{node.kind} {node.name.decode()}" if node.name else "statement"
            raise Unsure(f"upstream removed the {what} that the patch changes")
        return found

    def _moved_definition(self, node: Node) -> Node | None:
        """Return where a definition went: its name once in the file, or one that is it renamed."""
        known = set(self.to_theirs.values())
        new = [n for i, n in enumerate(self.theirs) if i not in known and n.kind == node.kind]
        alike = sorted(((similarity(node, n), n.start, n) for n in new), reverse=True)
        rival = alike[1][0] if len(alike) > 1 else 0.0
        if alike and alike[0][0] >= _RENAMED and alike[0][0] - rival >= _CLEARLY:
            self.into.say("renamed-definition")
            return alike[0][2]
        named = [n for n in self.into.module.walk() if n.kind == node.kind and n.key == node.key]
        if len(named) == 1 and similarity(node, named[0]) >= 0.5:
            self.into.say("moved-definition")
            return named[0]
        return None

    def _nested(self, node: Node) -> Node | None:
        """Return a statement that upstream moved below another one."""
        nodes = [n for e in self.theirs for n in e.walk() if n.kind == node.kind]
        found = [n for n in nodes if similarity(n, node, at_least=ALIKE) >= ALIKE]
        if len(found) != 1 or not same(found[0], node):
            return None
        self.into.say("moved-statement")
        return found[0]

    # Insertions

    def _insert(self, index: int, new: tuple[int, int]) -> None:
        added = self._not_absorbed(index, self.ours[slice(*new)])
        if not added:
            return
        siblings, place = self._nested_place(index) or (self.theirs, self._place(index, added))
        self.into.edits.append(self._insertion(siblings, place, index, new, added))
        self.into.say(place.rule)

    def _not_absorbed(self, index: int, added: Sequence[Node]) -> list[Node]:
        """Return those of `added` that upstream did not add as well."""
        known = set(self.to_theirs.values())
        low, high = self._span(index)
        new = [(i, n) for i, n in enumerate(self.theirs) if i not in known]
        left = []
        for node in added:
            anywhere = is_exclusive(node) or is_import(node)
            twins = [n for i, n in new if same(n, node) and (anywhere or low <= i < high)]
            if len(twins) == 1 and not node.is_comment:
                self.into.absorb(None, node, twins[0])
                continue
            if (
                node.key is not None
                and any(n.key == node.key for n in self.theirs)
                and not any(n.key == node.key for n in self.base)
                and is_exclusive(node)
            ):
                raise Unsure(f"upstream adds another {node.key[1].decode(errors='replace')!r}")
            left.append(node)
        if len(left) < len(added) and all(n.is_comment for n in left):
            for node in left:  # remarks on what is there already
                self.into.absorbed.update(node.counted)
            return []
        return left

    def _place(self, index: int, added: Sequence[Node]) -> _Place:
        """Return where in theirs an insertion before ``base[index]`` goes."""
        kind = order_of(self.outer, added)
        if kind is Order.SORTED:
            found = sorted_place(self.theirs, added)
            if found is not None:
                return _Place(found[0], "insertion-beside-insertion", before=found[1])
        previous = self.to_theirs.get(index - 1, self._container(index - 1, -1))
        following = self.to_theirs.get(index, self._container(index, 0))
        low, high = self._span(index)
        if previous is not None and following == previous + 1:
            return _Place(following, "neighbour-changed" if low <= high else "neighbours-moved")
        matters = kind in (Order.STRICT, Order.FLOW)
        if following is not None and all(n.is_comment for n in added):
            return _Place(following, "comment-above", before=True)
        if low > high:
            return self._place_regrouped(previous, following, matters=matters)
        lost = (previous is None and index > 0, following is None and index < len(self.base))
        if all(lost) and matters:
            raise Unsure("both neighbours of the insertion are gone")
        return self._place_between(kind, added, (low, high), lost)

    def _span(self, index: int) -> tuple[int, int]:
        """Return between which of theirs the place before ``base[index]`` lies."""
        before = [self.to_theirs[i] for i in range(index) if i in self.to_theirs]
        behind = [self.to_theirs[i] for i in range(index, len(self.base)) if i in self.to_theirs]
        return max(before, default=-1) + 1, min(behind, default=len(self.theirs))

    def _place_regrouped(
        self, previous: int | None, following: int | None, *, matters: bool
    ) -> _Place:
        if matters:
            raise Unsure("upstream changed the order of the statements around the insertion")
        if previous is not None:
            return _Place(previous + 1, "neighbours-moved")
        if following is not None:
            return _Place(following, "neighbours-moved", before=True)
        raise Unsure("both neighbours of the insertion are gone")

    def _place_between(
        self, kind: Order, added: Sequence[Node], span: tuple[int, int], lost: tuple[bool, bool]
    ) -> _Place:
        """Choose among places between what stands before and behind, past what upstream adds."""
        low, high = span
        between = self.theirs[low:high]
        others = [n for n in between if not n.is_comment]
        at_start = low == 0
        if not between:
            return _Place(low, "neighbour-removed" if any(lost) else "neighbour-changed")
        if not others:
            return _Place(high if at_start or lost[0] else low, "comment-above")
        if any(lost) and kind is Order.STRICT:
            raise Unsure("upstream replaced a neighbour of the insertion")
        if not commute(kind, added, others):
            raise Unsure("upstream inserts at the same place, and the order matters")
        last = kind is Order.APPEND or at_start or lost[0]
        return _Place(high if last else low, "insertion-beside-insertion")

    def _container(self, index: int, end: int) -> int | None:
        """Return the new statement of upstream's that has a neighbour as its last or first one."""
        if self.is_list or not 0 <= index < len(self.base):
            return None
        known = set(self.to_theirs.values())
        found = [
            at
            for at, node in enumerate(self.theirs)
            if at not in known and _has_at_end(node, self.base[index], end)
        ]
        return found[0] if len(found) == 1 else None

    def _nested_place(self, index: int) -> tuple[Sequence[Node], _Place] | None:
        """Return the place between both neighbours, where upstream put these into a block."""
        if self.is_list or not 0 < index < len(self.base):
            return None
        if index - 1 in self.to_theirs or index in self.to_theirs:
            return None
        pair = self.base[index - 1 : index + 1]
        found: list[tuple[Sequence[Node], _Place]] = []
        for body in (n for e in self.theirs for n in e.walk() if n.kind == "block"):
            found += [
                (body.elements, _Place(at, "neighbours-moved"))
                for at, two in enumerate(pairwise(body.elements), 1)
                if all(same(a, b) for a, b in zip(pair, two, strict=True))
            ]
        return found[0] if len(found) == 1 else None

    def _insertion(
        self,
        siblings: Sequence[Node],
        place: _Place,
        index: int,
        new: tuple[int, int],
        added: list[Node],
    ) -> Edit:
        if self.is_list:
            return layout.insert_elements(self.outer, place.at, self.outer_ours, added)
        gap = layout.Gap(
            self.ours[new[0] - 1] if new[0] else None,
            self.ours[new[1]] if new[1] < len(self.ours) else None,
            self.base[index - 1] if index else None,
            self.base[index] if index < len(self.base) else None,
        )
        return layout.insert_statements(siblings, place.at, added, gap, before=place.before)

    # Deletions and replacements

    def _delete(self, old: tuple[int, int]) -> None:
        for i in range(*old):
            node = self.base[i]
            if i in self.to_theirs:
                other = self.theirs[self.to_theirs[i]]
                if not same(node, other):
                    raise Unsure("upstream changed what the patch removes")
                self.into.edits.append(
                    layout.delete_element(self.outer, self.to_theirs[i])
                    if self.is_list
                    else layout.delete_statement(self.theirs, self.to_theirs[i])
                )
                continue
            if any(same(n, node) for e in self.theirs for n in e.walk()):
                raise Unsure("upstream moved what the patch removes")
            if any(not n.is_comment for n in self.theirs[slice(*self._span(i))]):
                raise Unsure("upstream replaced what the patch removes")
            self.into.absorbed.subtract(node.counted)
            self.into.say("removed-upstream")

    def _replace(self, old: tuple[int, int], new: tuple[int, int]) -> None:
        removed, added = self.base[slice(*old)], self.ours[slice(*new)]
        places = [self.to_theirs.get(i) for i in range(*old)]
        known = [p for p in places if p is not None]
        lost = any(p is None for n, p in zip(removed, places, strict=True) if not n.is_comment)
        if lost or not known:
            self._take_ours(old, removed, added)
            return
        run = self.theirs[min(known) : max(known) + 1]
        if [n for n in run if not n.is_comment] != [
            self.theirs[p]
            for n, p in zip(removed, places, strict=True)
            if p is not None and not n.is_comment
        ]:
            raise Unsure("upstream inserts between what the patch replaces, or moves it")
        changed = [
            (n, self.theirs[p])
            for n, p in zip(removed, places, strict=True)
            if p is not None and not same(n, self.theirs[p])
        ]
        if self.is_list:
            self._replace_elements(removed, added, run)
        elif not changed:
            self.into.edits.append(layout.replace_statements(run, added))
            self.into.say("comment-above" if len(run) != len(removed) else "neighbour-changed")
        else:
            wrapped = layout.wrapped_statements(removed, added, run)
            if wrapped is None:
                self._take_ours(old, removed, added)
                return
            self.into.edits.append(wrapped)
            self.into.say("wrapped-statement")

    def _replace_elements(
        self, removed: Sequence[Node], added: Sequence[Node], run: Sequence[Node]
    ) -> None:
        if not len(removed) == len(added) == len(run):
            raise Unsure("both change the same elements")
        for node, new, other in zip(removed, added, run, strict=True):
            if same(node, other):
                self.into.edits += layout.replace_node(other, new)
            elif node.kind == new.kind == other.kind and node.shape is Shape.RECORD:
                self.into.carry(node, new, other)
            else:
                raise Unsure("both change the same elements")

    def _take_ours(
        self, old: tuple[int, int], removed: Sequence[Node], added: Sequence[Node]
    ) -> None:
        """Take ours whole where upstream made a part of the same change, and nothing else.

        That is: what was there grew to theirs, and theirs grows to ours.
        """
        low = self.to_theirs.get(old[0] - 1, -1 if not old[0] else None)
        high = self.to_theirs.get(old[1], len(self.theirs) if old[1] == len(self.base) else None)
        run = self.theirs[low + 1 : high] if low is not None and high is not None else ()
        grows = _is_part(removed, run) and _is_part(run, added) and not _is_part(run, removed)
        if not run or self.is_list or not grows:
            raise Unsure("both change the same statements")
        self.into.edits.append(layout.replace_statements(run, added))
        for node in run:
            self.into.absorbed.update(node.counted)
        for node in removed:
            self.into.absorbed.subtract(node.counted)
        self.into.say("part-of-the-change")


def _has_at_end(outer: Node, node: Node, end: int) -> bool:
    """Whether a block of `outer`, or of what it ends (or starts) with, ends with `node`."""
    if outer.kind not in ("if_statement", "try_statement", "with_statement"):
        return False
    inner = [part.elements[end] for part in outer.parts.values() if part.kind == "block"]
    return any(same(one, node) or _has_at_end(one, node, end) for one in inner)


def _is_part(part: Sequence[Node], whole: Sequence[Node]) -> bool:
    """Whether the tokens of `part` stand in `whole` in the same order."""
    rest = iter([t for node in whole for t in node.tokens])
    return all(token in rest for node in part for token in node.tokens)
