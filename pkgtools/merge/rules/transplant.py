"""Carrying the change between two versions of a block over to a third version of it.

The third version's bytes stay as they are but for the edits that come back.
Whatever has no single right place comes back as `Unsure`: then a person decides.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pkgtools.merge.result import Carried, Edit, Find, Unsure, carried, join
from pkgtools.merge.rules import layout
from pkgtools.merge.rules.apart import carry_apart
from pkgtools.merge.rules.counterparts import is_elsewhere
from pkgtools.merge.rules.layout import wraps
from pkgtools.merge.rules.siblings import Siblings
from pkgtools.merge.rules.wrapping import wrapped
from pkgtools.merge.syntax.blocks import Block, Shape, parse, same
from pkgtools.merge.syntax.tokens import field_text

_ADDED_AT_AN_END: Final = ("decorators", "clauses")
"""Parts that a patch can add without touching the other parts of a statement."""
_ANNOTATIONS: Final = {"type": ("left", b": "), "return_type": ("parameters", b" -> ")}
"""Parts that a patch can add as well: behind which part, and with which sign."""
_EXPRESSIONS: Final = ("await", "call", "conditional_expression", "parenthesized_expression")


@dataclass(frozen=True)
class Transplant:
    """Carries changes over to the blocks of one module."""

    module: Block
    """The module of theirs."""
    find: Find

    def carry(self, base: Block, ours: Block, theirs: Block) -> Carried | Unsure:
        """Return the edits that make of `theirs` what `ours` is to `base`."""
        if same(base, ours):
            return Carried()
        if same(ours, theirs):
            return self.absorb(base, ours, theirs)
        if base.text == theirs.text:
            return carried("", *layout.replace_block(theirs, ours))
        is_group = base.shape in (Shape.CLAUSES, Shape.DECORATORS)
        if not is_group and is_elsewhere(base.raw[0], theirs.raw[0]):
            return Unsure("upstream moved what the patch changes", is_final=True)
        is_of_siblings = base.shape in (Shape.BODY, Shape.LIST)
        if is_of_siblings and base.kind == ours.kind == theirs.kind:
            return Siblings(self, base, ours, theirs).carry()
        is_wrapped = base.kind in _EXPRESSIONS and any(
            wraps(block.raw[0], base.raw[0]) for block in (ours, theirs)
        )
        if base.shape is Shape.RECORD and base.kind == ours.kind == theirs.kind and not is_wrapped:
            return self._carry_record(base, ours, theirs)
        if is_group:
            return self._carry_group(base, ours, theirs)
        keys = {n.key for n in (base, ours, theirs)}
        if len(keys) == 1 and base.key and base.key[0] == "parameter":
            return _carry_parameter(base, ours, theirs)
        return _carry_atom(base, ours, theirs)

    def carry_elsewhere(self, base: Block, ours: Block) -> Carried | Unsure | None:
        """Carry the change of a definition that is in another file now; None if none has it."""
        found = self.find(base)
        if found is None:
            return None
        there = Transplant(found.module, self.find)
        followed = Carried(rules=("moved-definition",), others=(found,))
        return join([followed, there.carry(base, ours, found.block)])

    def absorb(self, base: Block | None, ours: Block, theirs: Block) -> Carried | Unsure:
        """Return that theirs has a part of the change already."""
        if base is not None:
            kept = _count(ours.tokens, base)  # the patch may wrap what it replaces
            now, before = (_count(parse(n.source).tokens, base) for n in (theirs, base))
            if now - kept >= before:
                return Unsure("upstream has what the patch makes, but also what it replaces")
        change = Counter(ours.counted)
        change.subtract(base.counted if base else {})
        return Carried(rules=("same-change",), absorbed=change, absorbed_lines=(theirs.line,))

    def _carry_record(self, base: Block, ours: Block, theirs: Block) -> Carried | Unsure:
        if _frame(base) != _frame(ours):
            return _carry_atom(base, ours, theirs)
        if base.kind == "augmented_assignment" and base.skeleton != theirs.skeleton:
            return Unsure("both change the same expression", is_final=True)
        changed = set(base.parts) ^ set(ours.parts)
        alone = {*_ADDED_AT_AN_END, *_ANNOTATIONS}
        added = {role for role in ours.parts if role in alone} - set(theirs.parts)
        if changed - added and same(base, theirs):
            return carried("", *layout.replace_block(theirs, ours))
        made = join(self._parts(base, ours, theirs))
        has_body = any(part.shape is Shape.BODY for part in base.parts.values())
        if isinstance(made, Unsure) and not (made.is_final or has_body):
            return carry_apart(base, ours, theirs) or made
        return made

    def _parts(self, base: Block, ours: Block, theirs: Block) -> Iterator[Carried | Unsure]:
        for role in {**base.parts, **ours.parts}:
            old, new, other = (n.parts.get(role) for n in (base, ours, theirs))
            if old and new:
                if same(old, new):
                    continue
                if other is None:
                    yield Unsure(f"upstream removed the {role} that the patch changes")
                    return
                is_plain = all(part.shape is not Shape.BODY for part in theirs.parts.values())
                if is_plain and not same(base, theirs):
                    yield Carried(rules=("tokens-disjoint",))
                yield self.carry(old, new, other)
            elif old and other is None:
                yield Unsure(f"both replace or remove the {role}")
            elif new and other is None and role in _ADDED_AT_AN_END:
                yield carried("", layout.add_part(theirs, new, role))
            elif new and other is None and role in _ANNOTATIONS:
                before, mark = _ANNOTATIONS[role]
                end = theirs.parts[before].end
                yield carried("tokens-disjoint", Edit(theirs.source, end, end, mark + new.text))
            else:
                yield Unsure(f"the patch adds or removes the {role} of what upstream changed")

    def _carry_group(self, base: Block, ours: Block, theirs: Block) -> Carried | Unsure:
        """Carry decorators or branches: their order matters."""
        if not len(base.elements) == len(ours.elements) == len(theirs.elements):
            return Siblings(self, base, ours, theirs).carry()
        triples = list(zip(base.elements, ours.elements, theirs.elements, strict=True))
        labels = [[_label(block) for block in side.elements] for side in (base, theirs)]
        both = [t for t in triples if not same(t[0], t[1]) and not same(t[0], t[2])]
        if any(
            _label(old) != _label(other) or any(side.count(_label(old)) > 1 for side in labels)
            for old, _, other in both
        ):
            return Unsure("the branches of a statement differ")
        return join(self.carry(*triple) for triple in triples)


def _label(block: Block) -> object:
    """Return what says which decorator or branch it is: of a call, what it calls."""
    if block.kind != "decorator":
        return block.key
    return tuple(itertools.takewhile(lambda token: token != b"(", block.tokens))


def _frame(block: Block) -> list[bytes]:
    """Return a record's keywords and operators but for the signs of annotations."""
    words = list(block.skeleton)
    for role, (_, mark) in _ANNOTATIONS.items():
        if role in block.parts and mark.strip() in words:
            words.remove(mark.strip())
    return words


def _carry_parameter(base: Block, ours: Block, theirs: Block) -> Carried | Unsure:
    """Carry an annotation or a default, of which one side adds the other one."""
    text = base.key[1] if base.key else b""
    for role, sign in (("type", b": "), ("value", b"=")):
        old, new, other = (field_text(n.raw[0], role) for n in (base, ours, theirs))
        if old not in (new, other) and new != other:
            return Unsure("both change the same expression")
        made = other if old == new else new
        spaced = role == "value" and b": " in text
        text += (b" = " if spaced else sign) + made if made else b""
    return carried("tokens-disjoint", Edit(theirs.source, theirs.start, theirs.end, text))


def _carry_atom(base: Block, ours: Block, theirs: Block) -> Carried | Unsure:
    """Carry a change whole, or of one expression inside."""
    if same(base, theirs):
        return carried("neighbour-reformatted", *layout.replace_block(theirs, ours))
    found = wrapped(base, ours, theirs)
    if found is not None:
        return carried("wrapped-expression", found)
    inner = layout.inner_change(base, ours, theirs)
    if inner is not None:
        return carried("tokens-disjoint", inner)
    return carry_apart(base, ours, theirs) or Unsure("both change the same expression")


def _count(tokens: Sequence[bytes], block: Block) -> int:
    """Return how often a block's tokens are among others in sequence."""
    return b" ".join(tokens).count(b" ".join(block.tokens))
