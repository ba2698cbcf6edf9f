"""Edits of a ``series`` file that keep its comments.

A comment above a line belongs to that patch and moves with it. The comment at the top of the
file stays there, up to an empty line if one follows it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from pkgtools.patch import Patch, shown_level


@dataclass(frozen=True)
class ListedPatch:
    """A line that names a patch, and the comments above it."""

    above: tuple[str, ...]
    reference: str
    rest: str
    """What follows the name: ``-pN``, blanks, a comment."""
    number: int = 0
    """Of the line that names it, from 1."""

    @property
    def options(self) -> list[str]:
        """The words that follow the name."""
        return self.rest.partition("#")[0].split()

    def lines(self) -> tuple[str, ...]:
        """Return the lines of the file."""
        return (*self.above, f"{self.reference}{self.rest}")


@dataclass(frozen=True)
class SeriesFile:
    """A ``series`` file, taken apart."""

    head: tuple[str, ...]
    patches: tuple[ListedPatch, ...]
    tail: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Take the text of a file apart."""
        above: list[str] = []
        patches: list[ListedPatch] = []
        for number, line in enumerate(text.splitlines(), 1):
            words = line.partition("#")[0].split()
            if not words:
                above.append(line)
                continue
            rest = line.lstrip().removeprefix(words[0])
            patches.append(ListedPatch(tuple(above), words[0], rest, number))
            above = []
        if not patches:
            return cls(tuple(above), (), ())
        first = patches[0].above
        blanks = [number for number, line in enumerate(first, 1) if not line.strip()]
        end = blanks[-1] if blanks else len(first)
        patches[0] = replace(patches[0], above=first[end:])
        return cls(first[:end], tuple(patches), tuple(above))

    def ordered(self, references: Sequence[tuple[str | None, str]]) -> Self:
        """Return the file with other patches, given by old and new reference, in this order.

        A new patch has no old reference (None), and no comment.
        """
        known = {each.reference: each for each in self.patches}
        blank = ListedPatch((), "", "")
        lines = (replace(known[old] if old else blank, reference=new) for old, new in references)
        return replace(self, patches=tuple(lines))

    def at_level(self, reference: str, patch: Patch) -> Self:
        """Return the file with the ``-pN`` that a rewritten patch needs."""
        option = line_of(patch, "")
        return replace(
            self,
            patches=tuple(
                replace(p, rest=_with_option(p.rest, option)) if p.reference == reference else p
                for p in self.patches
            ),
        )

    def text(self) -> str:
        """Return the whole file."""
        lines = (*self.head, *(line for p in self.patches for line in p.lines()), *self.tail)
        return "".join(f"{line}\n" for line in lines)


def line_of(patch: Patch, reference: str) -> str:
    """Return the line of a ``series`` file, with ``-pN`` where the names do not show it."""
    shown = shown_level(patch.name, patch.data)
    is_shown = shown is not None and shown.is_certain and shown.number == patch.level
    return reference if is_shown else f"{reference} -p{patch.level}"


def _with_option(rest: str, option: str) -> str:
    entry, hash_, comment = rest.partition("#")
    blanks = entry[len(entry.rstrip()) :]
    return f"{option}{blanks}{hash_}{comment}"
