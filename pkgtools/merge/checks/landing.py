"""What a merge did to one file: where the lines of ours landed.

A check asks a `LandedFile`, or some `LandedLines` of it: the patch's lines 10 to 12, say, which
are the lines 14 to 16 of what was made.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import Final

import tree_sitter

from pkgtools.merge.lines import Chunk, diff, shift
from pkgtools.merge.model import How, Merge, Methods, OtherFiles
from pkgtools.merge.syntax.blocks import parse
from pkgtools.merge.syntax.modules import Module
from pkgtools.merge.syntax.names import (
    definition_at,
    functions_in,
    inside,
    last_name,
    qualified_name,
)
from pkgtools.merge.versions import Versions
from pkgtools.util.lines import split

WORD: Final = re.compile(rb"[\w\x80-\xff]+")


@dataclass(frozen=True)
class LandedLines:
    """Lines of ours, and the module into which they were merged."""

    base: Module
    ours: Module
    theirs: Module
    made: Module
    home: Module
    """The file of theirs for which ours has the patch: `theirs`, unless a definition moved."""
    words: Collection[bytes]
    """The words in the lines that the merge adds to theirs."""
    is_lost: Callable[[bytes], object]
    """Returns whether the package defined an attribute before, and nowhere does now."""
    methods: Callable[[bytes], Methods]
    """Returns the files with methods of a name, if upstream changed the header of one."""
    text: bytes = b""
    """The lines."""
    lines: range = range(0)
    """Where they are in ours."""
    rows: Collection[int] = ()
    """The same lines in what was made. All count from 0."""

    def attributes(self) -> Iterator[tree_sitter.Node]:
        """Yield the attributes in the lines of ours that the result still has."""
        for raw in inside(self.ours.root, self.lines):
            if raw.type == "attribute" and last_name(raw) in self.words:
                yield raw

    def pairs(self, kind: str) -> Iterator[tuple[tree_sitter.Node, tree_sitter.Node]]:
        """Yield each syntax node of a type in the result, and the node of ours of that text."""
        mine = {n.text: n for n in inside(self.ours.root, self.lines) if n.type == kind}
        for node in nodes_on(self.made.root, self.rows) if mine else ():
            if node.type == kind and node.text in mine:
                yield node, mine[node.text]

    def on_sides(self, path: Sequence[tree_sitter.Node]) -> list[tree_sitter.Node]:
        """Return the definition with the names of a path in ours and in theirs, if they have it."""
        found = (definition_at(m.root, qualified_name(path)) for m in (self.ours, self.theirs))
        return [node for node in found if node is not None]


class LandedFile:
    """A file into which chunks went: the merged file, or one with a path into which they moved."""

    def __init__(
        self,
        versions: Versions,
        merged: Merge,
        others: OtherFiles,
        path: str = "",
        *,
        strict: bool = False,
    ) -> None:
        self.versions, self.merged, self.others = versions, merged, others
        data = merged.others[path] if path else merged.data
        self.lines, self.block = split(data), parse(data)
        self.changes: Sequence[Chunk] = () if path else diff(versions.lines[2], self.lines)
        self.spans = [c.new_lines for c in self.changes] or [range(len(self.lines) if path else 0)]
        self.added = [n for rows in self.spans for n in rows]
        used = versions.lines[1] if strict else [self.lines[n] for n in self.added]
        before = others.package if others.old_package is None else others.old_package
        package = others.package_of(path) if path else others.package
        self.base = Module(versions.base.raw[0], before, others.old)
        self.ours = Module(versions.ours.raw[0], before, others.old)
        self.made = Module(self.block.raw[0], package, others.new)
        home = Module(versions.theirs.raw[0], others.package, others.new)
        self.theirs = self.made if path else home
        self._upstream: dict[Chunk, LandedLines] = {}
        self._use = LandedLines(
            base=self.base,
            ours=self.ours,
            theirs=self.theirs,
            made=self.made,
            home=home,
            words=frozenset(WORD.findall(b"".join(used))),
            is_lost=others.is_lost,
            methods=others.methods,
        )

    @cached_property
    def done(self) -> list[Chunk]:
        """The chunks whose lines the result has."""
        return [c.chunk for c in self.merged.chunks if c.how in (How.MOVED, How.MERGED)]

    @cached_property
    def by_rule(self) -> list[Chunk]:
        """The chunks that a rule carried over."""
        return [c.chunk for c in self.merged.chunks if c.how is How.MERGED]

    @cached_property
    def changed_functions(self) -> dict[tree_sitter.Node, set[bytes]]:
        """The functions that are not as theirs has them, each with the words that differ there."""
        theirs, found = self.versions.lines[2], {}
        for function in functions_in(self.made.root) if self.changes else ():
            start, end = function.start_point.row, function.end_point.row
            inside = [c for c in self.changes if c.new <= end and c.new_end >= start]
            lines = (theirs[c.old : c.old_end] + self.lines[c.new : c.new_end] for c in inside)
            if inside:
                found[function] = {*WORD.findall(b"".join(chain.from_iterable(lines)))}
        return found

    @cached_property
    def changed_words(self) -> dict[Chunk, tuple[set[bytes], set[bytes]]]:
        """The words that each chunk takes away, and those that it adds."""
        words = {c: [{*WORD.findall(self.text(c, side))} for side in (0, 1)] for c in self.done}
        return {c: (old - new, new - old) for c, (old, new) in words.items()}

    def text(self, chunk: Chunk, side: int = 1) -> bytes:
        """Return what a chunk puts into ours, takes from base (0), or puts into theirs (2)."""
        span = slice(chunk.new, chunk.new_end) if side else slice(chunk.old, chunk.old_end)
        return b"".join(self.versions.lines[side][span])

    def landing(self, chunk: Chunk) -> LandedLines:
        """Return where the lines of a chunk went."""
        lines = self.versions.lines[1][chunk.new : chunk.new_end]
        wanted = {line.strip() for line in lines} - {b""}
        rows = frozenset(n for n in self.added if self.lines[n].strip() in wanted)
        return replace(self._use, text=b"".join(lines), lines=chunk.new_lines, rows=rows)

    def upstream_landing(self, chunk: Chunk) -> LandedLines:
        """Return where the lines of a chunk of upstream are in what ours made of theirs."""
        if chunk not in self._upstream:
            self._upstream[chunk] = self._upstream_landing(chunk)
        return self._upstream[chunk]

    def _upstream_landing(self, chunk: Chunk) -> LandedLines:
        text, rows = self.text(chunk, 2), {shift(self.changes, n) for n in chunk.new_lines}
        return replace(
            self._use,
            ours=self.theirs,
            theirs=self.made,
            words={*WORD.findall(text)},
            is_lost=bool,
            text=text,
            lines=chunk.new_lines,
            rows=rows.difference(self.added),
        )


def nodes_on(root: tree_sitter.Node, rows: Collection[int]) -> tuple[tree_sitter.Node, ...]:
    """Return the syntax nodes of which some row is among `rows`."""
    return _nodes_on(root, tuple(sorted(rows)))


@lru_cache(maxsize=64)  # each check of a chunk asks for the same rows
def _nodes_on(root: tree_sitter.Node, rows: tuple[int, ...]) -> tuple[tree_sitter.Node, ...]:
    found = []
    stack = [root]
    while stack:
        node = stack.pop()
        at = bisect_left(rows, node.start_point.row)
        if at < len(rows) and rows[at] <= node.end_point.row:
            found.append(node)
            stack += reversed(node.children)
    return tuple(found)
