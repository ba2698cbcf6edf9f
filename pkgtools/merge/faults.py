"""Find faults of a merged file, chunk by chunk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pkgtools.merge import names
from pkgtools.merge.blocks import parse
from pkgtools.merge.check import reads_as_well
from pkgtools.merge.lines import Chunk, diff
from pkgtools.merge.model import How, Merge, OtherFiles
from pkgtools.merge.modules import Module
from pkgtools.merge.names import lost_name
from pkgtools.merge.twins import repeated
from pkgtools.merge.uses import Landing, misuse
from pkgtools.util.lines import split

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pkgtools.merge.versions import Versions


def find_faults(
    versions: Versions, merged: Merge, others: OtherFiles, known: Collection[Chunk] = ()
) -> dict[Chunk, str]:
    """Return the chunks that are wrong in the result, each with the reason.

    Args:
        versions: the files.
        merged: the result.
        others: what is known of other files.
        known: chunks whose names and uses were looked at before.

    """
    is_new = not merged.conflicts and merged.data != versions.theirs.source
    if is_new and versions.are_sound and not reads_as_well(parse(merged.data), versions.theirs):
        return {c.chunk: "the result is not Python" for c in merged.chunks}
    if not versions.are_sound:
        return {}
    faults = _doubled(versions, merged)
    for merge in merged.chunks:
        chunk = merge.chunk
        if (
            chunk in faults
            or chunk in known
            or merge.how not in (How.MOVED, How.MERGED)
            or chunk.new == chunk.new_end
        ):
            continue
        moved = "moved-definition" in merge.rules and merged.others
        landed = merged.others if moved else {"": merged.data}
        found = [
            _fault(versions, merged, chunk, _ChunkFile(*item), others) for item in landed.items()
        ]
        if all(found):
            faults[chunk] = str(found[0])
    return faults


def _doubled(versions: Versions, merged: Merge) -> dict[Chunk, str]:
    """Return the chunks after which a name is given twice that no side gives twice."""
    lines = split(merged.data)
    changed = {n for c in diff(versions.lines[2], lines) for n in range(c.new, c.new_end)}
    found = repeated(parse(merged.data), changed) if changed else set()
    if found:
        found -= repeated(versions.ours) | repeated(versions.theirs)
    faults = {}
    for name in found:
        shown = name.decode(errors="replace")
        done = [c.chunk for c in merged.chunks if c.how in (How.MOVED, How.MERGED)]
        texts = {c: b"".join(versions.lines[1][c.new : c.new_end]) for c in done}
        guilty = [c for c, text in texts.items() if name in text] or done
        faults.update(dict.fromkeys(guilty, f"the result would have {shown!r} twice"))
    return faults


@dataclass(frozen=True)
class _ChunkFile:
    """A file into which a chunk went; the merged file itself has no path."""

    path: str
    data: bytes


def _fault(
    versions: Versions, merged: Merge, chunk: Chunk, file: _ChunkFile, others: OtherFiles
) -> str | None:
    """Return what a chunk uses, and the file into which it went or its package does not have."""
    lines, made = range(chunk.new, chunk.new_end), parse(file.data)
    theirs = made if file.path else versions.theirs
    nodes = [n.raw[0] for n in (versions.base, versions.ours, theirs, made)]
    if versions.upstream:
        found = lost_name(names.SyntaxVersions(*nodes), [lines], whole=not merged.conflicts)
        if found:
            return found
    package = others.package_of(file.path) if file.path else others.package
    return misuse(
        Landing(
            Module(nodes[0], others.package, others.old),
            Module(nodes[1], others.package, others.old),
            Module(nodes[2], package, others.new),
            Module(nodes[3], package, others.new),
            lines=lines,
            rows=_rows(versions, chunk, file),
            is_lost=others.is_lost,
        )
    )


def _rows(versions: Versions, chunk: Chunk, file: _ChunkFile) -> frozenset[int]:
    """Return the lines of a file that come from a chunk."""
    texts = {line.strip() for line in versions.lines[1][chunk.new : chunk.new_end]} - {b""}
    lines = split(file.data)
    added: Iterable[int] = range(len(lines))
    if not file.path:
        added = (n for c in diff(versions.lines[2], lines) for n in range(c.new, c.new_end))
    return frozenset(n for n in added if lines[n].strip() in texts)
