"""Merging three texts into one with conflict markers, as a git merge driver needs it."""

import re
from dataclasses import dataclass
from typing import Final

from pkgtools.merge.markers import Markers, mark, mark_lines
from pkgtools.merge.model import How
from pkgtools.merge.three_way import merge

_RUNS_PYTHON: Final = re.compile(rb"#!.*\bpython[\d.]*\b")


@dataclass(frozen=True)
class MergedChunk:
    """One chunk of ours in a merged Python file."""

    line: int
    """In ours, 1-based."""
    how: How
    rules: tuple[str, ...]
    reason: str | None


@dataclass(frozen=True)
class MergedText:
    """The result of a merge, with a marked conflict for each place that a person must decide."""

    data: bytes
    conflicts: int
    chunks: tuple[MergedChunk, ...] = ()
    """How each chunk of ours was merged; empty for a file that was merged by lines."""


def is_python(name: str, content: bytes) -> bool:
    """Whether a file is Python: by its name, or by the interpreter in its first line."""
    return name.endswith((".py", ".pyi")) or _RUNS_PYTHON.match(content) is not None


def merge_text(
    base: bytes, ours: bytes, theirs: bytes, *, python: bool, markers: Markers
) -> MergedText:
    """Merge three versions of a file.

    Args:
        base: the version that both come from.
        ours: the version with our change.
        theirs: the version with theirs.
        python: whether to merge by structure; otherwise by lines, as ``git merge-file`` does.
        markers: how conflicts are written.
    """
    if not python:
        return MergedText(*mark_lines(base, ours, theirs, markers))
    merged = merge(base, ours, theirs, python=True)
    data = mark(base, ours, merged, markers) if merged.conflicts else merged.data
    chunks = tuple(MergedChunk(c.chunk.new + 1, c.how, c.rules, c.reason) for c in merged.chunks)
    return MergedText(data, len(merged.conflicts), chunks)
