"""The result of carrying a change over: edits, or the reason for a conflict."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pkgtools.merge.syntax.blocks import Block


@dataclass(frozen=True)
class Unsure:
    """There is no single right way to carry a change over."""

    reason: str
    is_final: bool = False
    """Whether placing the lines between their neighbours would be wrong, too."""


@dataclass(frozen=True)
class Edit:
    """Bytes `start` to `end` of `source` become `text`."""

    source: bytes
    start: int
    end: int
    text: bytes


@dataclass(frozen=True)
class Elsewhere:
    """A definition in another file."""

    path: str
    module: Block
    block: Block


Find = Callable[[Block], Elsewhere | None]
"""Finds a definition of base in the other files of theirs."""


@dataclass(frozen=True)
class Carried:
    """The edits that carry a change over, and how each was decided."""

    edits: tuple[Edit, ...] = ()
    rules: tuple[str, ...] = ()
    absorbed: Counter[bytes] = field(default_factory=Counter)
    """Tokens of ours' change that theirs has already, by a change of its own."""
    absorbed_lines: tuple[int, ...] = ()
    """The 1-based lines of theirs that have them."""
    others: tuple[Elsewhere, ...] = ()
    """Other files into which definitions moved."""


def carried(rule: str, *edits: Edit | Unsure) -> Carried | Unsure:
    """Return edits that one rule decided, or the first doubt among them."""
    sure = [edit for edit in edits if isinstance(edit, Edit)]
    doubt = next((edit for edit in edits if isinstance(edit, Unsure)), None)
    return doubt or Carried(tuple(sure), (rule,) if rule else ())


def join(parts: Iterable[Carried | Unsure]) -> Carried | Unsure:
    """Return the parts as one, or the first doubt; parts behind a doubt are not computed."""
    sure = []
    for part in parts:
        if isinstance(part, Unsure):
            return part
        sure.append(part)
    absorbed: Counter[bytes] = Counter()
    for part in sure:
        absorbed.update(part.absorbed)
    return Carried(
        tuple(edit for part in sure for edit in part.edits),
        tuple(dict.fromkeys(rule for part in sure for rule in part.rules)),
        absorbed,
        tuple(line for part in sure for line in part.absorbed_lines),
        tuple({e.path: e for part in sure for e in part.others}.values()),
    )


def taken_away(block: Block) -> Counter[bytes]:
    """Return the tokens of a block that theirs does not have any more."""
    return Counter({token: -number for token, number in block.counted.items()})
