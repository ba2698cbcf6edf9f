"""Carrying the change between two versions of a block over to a third version of it.

The third version's bytes stay as they are but for the edits collected here.
Whatever has no single right place raises `Unsure`: then a person decides.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pkgtools.merge import layout
from pkgtools.merge.blocks import Node, Shape, parse, same
from pkgtools.merge.errors import Unsure
from pkgtools.merge.siblings import Siblings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pkgtools.merge.layout import Edit

    Find = Callable[[Node], "Elsewhere | None"]


@dataclass(frozen=True)
class Elsewhere:
    """A definition in another file."""

    path: str
    module: Node
    node: Node


@dataclass
class Transplant:
    """The edits on theirs that make up ours' change, and how each was decided."""

    module: Node
    """Theirs, whole."""
    edits: list[Edit] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)
    absorbed: Counter[bytes] = field(default_factory=Counter)
    """Tokens of ours' change that theirs has already, by a change of its own."""
    absorbed_lines: list[int] = field(default_factory=list)
    find: Find | None = None
    """Looks for a definition in the other files of theirs."""
    others: dict[str, tuple[Node, list[Edit]]] = field(default_factory=dict)
    """Edits on other files, with the module that they are on, by path."""

    def carry(self, base: Node, ours: Node, theirs: Node) -> None:
        """Collect the edits that make of `theirs` what `ours` is to `base`.

        Raises:
            Unsure: there is no single right way.

        """
        if same(base, ours):
            return
        if theirs.source is not self.module.source:
            self._carry_elsewhere(base, ours, theirs)
        elif same(ours, theirs):
            self.absorb(base, ours, theirs)
        elif base.text == theirs.text:
            self.edits += layout.replace_node(theirs, ours)
        elif (base.shape is Shape.BODY and ours.shape is theirs.shape is Shape.BODY) or (
            base.shape is Shape.LIST and base.kind == ours.kind == theirs.kind
        ):
            Siblings(self, base, ours, theirs).carry()
        elif base.shape is Shape.RECORD and base.kind == ours.kind == theirs.kind:
            self._carry_record(base, ours, theirs)
        elif base.shape in (Shape.CLAUSES, Shape.DECORATORS):
            self._carry_group(base, ours, theirs)
        else:
            self._carry_atom(base, ours, theirs)

    def elsewhere(self, node: Node) -> Node | None:
        """Return a definition that is in another file now."""
        found = self.find(node) if self.find else None
        if found is None:
            return None
        self.others.setdefault(found.path, (found.module, []))
        self.say("moved-definition")
        return found.node

    def _carry_elsewhere(self, base: Node, ours: Node, theirs: Node) -> None:
        kept = self.module, self.edits
        for module, edits in self.others.values():
            if module.source is theirs.source:
                self.module, self.edits = module, edits
        try:
            self.carry(base, ours, theirs)
        finally:
            self.module, self.edits = kept

    def say(self, rule: str) -> None:
        """Note a rule that decided something."""
        if rule not in self.rules:
            self.rules.append(rule)

    def absorb(self, base: Node | None, ours: Node, theirs: Node) -> None:
        """Note that theirs has a part of the change already.

        Raises:
            Unsure: what the patch replaces is still there, so that this may be a twin.

        """
        if base is not None:
            kept = _count(ours.tokens, base)  # the patch may wrap what it replaces
            if _times(theirs.source, base) - kept >= _times(base.source, base):
                raise Unsure("upstream has what the patch makes, but also what it replaces")
        change = Counter(ours.counted)
        change.subtract(base.counted if base else {})
        self.absorbed.update(change)
        self.absorbed_lines.append(theirs.line)
        self.say("same-change")

    # Records: parts by role

    def _carry_record(self, base: Node, ours: Node, theirs: Node) -> None:
        if base.skeleton != ours.skeleton:
            self._carry_atom(base, ours, theirs)
            return
        for role in {**base.parts, **ours.parts}:
            old, new, other = (n.parts.get(role) for n in (base, ours, theirs))
            if old and new:
                if same(old, new):
                    continue
                if other is None:
                    raise Unsure(f"upstream removed the {role} that the patch changes")
                is_plain = all(part.shape is not Shape.BODY for part in theirs.parts.values())
                if is_plain and not same(base, theirs):
                    self.say("tokens-disjoint")
                self.carry(old, new, other)
            elif new and other is None and role in ("decorators", "clauses"):
                self.edits.append(layout.add_part(theirs, new, role))
            elif same(base, theirs):
                self.edits += layout.replace_node(theirs, ours)
                return
            else:
                raise Unsure(f"the patch adds or removes the {role} of what upstream changed")

    def _carry_group(self, base: Node, ours: Node, theirs: Node) -> None:
        """Carry decorators or branches: their order matters."""
        if len(base.elements) == len(ours.elements) == len(theirs.elements):
            for old, new, other in zip(base.elements, ours.elements, theirs.elements, strict=True):
                if not same(old, new) and old.key != other.key:
                    raise Unsure("the branches of a statement differ")
                self.carry(old, new, other)
            return
        Siblings(self, base, ours, theirs).carry()

    # Atoms: whole, or one expression inside

    def _carry_atom(self, base: Node, ours: Node, theirs: Node) -> None:
        if same(base, theirs):
            self.edits += layout.replace_node(theirs, ours)
            self.say("neighbour-reformatted")
            return
        found = layout.wrapped(base, ours, theirs)
        if found is not None:
            self.edits.append(found)
            self.say("wrapped-expression")
            return
        found = layout.inner_change(base, ours, theirs)
        if found is None:
            raise Unsure("both change the same expression")
        self.edits.append(found)
        self.say("tokens-disjoint")


def _times(source: bytes, node: Node) -> int:
    """Return how often a node's tokens stand in a file, one behind the other."""
    return _count(parse(source).tokens, node)


def _count(tokens: Sequence[bytes], node: Node) -> int:
    return b" ".join(tokens).count(b" ".join(node.tokens))
