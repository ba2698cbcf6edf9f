"""The input and the result of a merge."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pkgtools.merge.lines import Chunk
from pkgtools.merge.result import Find

Methods = tuple[Sequence[bytes], Iterable[bytes]]
"""The files of the old and of the new package that have methods of a name."""


class How(StrEnum):
    """How one chunk of ours was merged."""

    MOVED = "moved"
    """Its lines went over as they are."""
    MERGED = "merged"
    """A rule carried it over."""
    ABSORBED = "absorbed"
    """Theirs has it already."""
    CONFLICT = "conflict"
    """A person must decide."""


@dataclass(frozen=True)
class ChunkMerge:
    """One chunk of ours, and how it was merged."""

    chunk: Chunk
    """In lines of base and ours."""
    how: How
    rules: tuple[str, ...] = ()
    reason: str | None = None
    """Why a person must decide."""
    lines: tuple[int, ...] = ()
    """The 1-based lines of theirs that absorb it."""
    line: int | None = None
    """The 1-based line of theirs to which its lines went as they are."""


@dataclass(frozen=True)
class OtherFiles:
    """Access to the other files of base and theirs."""

    find: Find = lambda _: None
    old: Callable[[str], bytes | None] = lambda _: None
    """Returns a module by its dotted name, as ours uses it; None if there is none."""
    new: Callable[[str], bytes | None] = lambda _: None
    """Returns a module of theirs."""
    is_lost: Callable[[bytes], object] = lambda _: None
    """Returns whether the package defined an attribute before, and nowhere does now; of one with
    its object (``config.size``), whether nothing reads it now."""
    methods: Callable[[bytes], Methods] = lambda _: ((), ())
    """Returns the files with methods of a name, if upstream changed the header of one."""
    users: Callable[[bytes], Iterable[str]] = lambda _: ()
    """Returns the modules in which theirs begins to import a name of this one."""
    callers: Callable[[bytes], Iterable[str]] = lambda _: ()
    """Returns the modules in which theirs begins to call a method that one class alone has."""
    package: str = ""
    """The dotted package of the file, in which its relative imports start."""
    old_package: str | None = None
    """The package of the file as ours has it, if that is another one."""
    package_of: Callable[[str], str] = str
    """Returns the package of another file, by its path."""


@dataclass(frozen=True)
class Proposal:
    """A resolution of one conflict that a person can accept; it passes every check."""

    chunks: tuple[Chunk, ...]
    """The part of ours that it carries over."""
    lines: range
    """The lines of the merged file that it replaces, counted from 0."""
    text: bytes
    rule: str


@dataclass(frozen=True)
class Merge:
    """A merged file: theirs with every chunk of ours that is not a conflict."""

    data: bytes
    chunks: tuple[ChunkMerge, ...]
    others: Mapping[str, bytes] = field(default_factory=dict)
    """New contents of other files into which definitions moved, by path."""
    proposals: tuple[Proposal, ...] = ()
    """For some of the conflicts, in order."""

    @property
    def conflicts(self) -> list[ChunkMerge]:
        """The chunks that a person must decide."""
        return [c for c in self.chunks if c.how is How.CONFLICT]
