"""The three versions of a file around a merge."""

from functools import cached_property

from pkgtools.merge.lines import diff
from pkgtools.merge.result import Find
from pkgtools.merge.syntax.blocks import Block, is_sound, parse
from pkgtools.util.lines import split


class Versions:
    """The three versions of a file, as lines and, where they are needed, as blocks."""

    def __init__(self, base: bytes, ours: bytes, theirs: bytes, find: Find) -> None:
        self.find = find
        self.lines = split(base), split(ours), split(theirs)
        self.mine, self.upstream = (diff(self.lines[0], side) for side in self.lines[1:])
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
        """Whether all three parse as Python."""
        return is_sound(self.base) and is_sound(self.ours) and is_sound(self.theirs)
