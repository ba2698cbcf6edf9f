"""Conflict markers, as git writes them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pkgtools.merge.lines import Chunk, diff, shift, splice, touches, without
from pkgtools.merge.model import Merge
from pkgtools.util.lines import split

_MARKER: Final = re.compile(rb"^(?:<{7}|\|{7}|={7}|>{7})(?=[ \r\n]|\Z)", re.MULTILINE)
_PROPOSED: Final = re.compile(
    rb"^<{7} (?:(?!<{7} ).*\n)*?\|{7} proposal (?P<number>\d+)\r?\n"
    rb"(?P<text>(?:(?!={7}\r?\n).*\n)*?)={7}\r?\n(?:(?!<{7} |={7}\r?\n).*\n)*?>{7} .*\n",
    re.MULTILINE,
)
"""A conflict with a proposal, where no line of either looks like the marker between the sides."""
_ALPHANUMERIC: Final = re.compile(rb"[A-Za-z0-9]")
_NEAR: Final = 3
"""Git writes two conflicts as one where no more lines than these are between them."""


@dataclass(frozen=True)
class Markers:
    """How conflicts are written."""

    ours: str
    """What the markers call ours."""
    base: str
    theirs: str
    size: int = 7
    """The number of characters of a marker."""
    diff3: bool = True
    """Whether base is shown, as with ``merge.conflictStyle=diff3``."""


@dataclass(frozen=True)
class Region:
    """A run of lines that ours, theirs or both changed; lines count from 0."""

    chunks: tuple[Chunk, ...]
    """What ours changes in it, from base to ours."""
    base: range
    ours: range
    theirs: range
    is_conflict: bool


@dataclass(frozen=True)
class ConflictLines:
    """A conflict that a person decides."""

    chunks: tuple[Chunk, ...]
    """What ours changes in it."""
    lines: range
    """Of the merged file, counted from 0."""
    mine: range
    """The same of ours."""
    base: bytes
    ours: bytes
    theirs: bytes


def count_markers(data: bytes) -> int:
    """Return how many lines of a file look like conflict markers."""
    return len(_MARKER.findall(data))


def marked_line(data: bytes) -> int | None:
    """Return the line of a file's first conflict marker, 1-based; None without one."""
    found = _MARKER.search(data)
    return data.count(b"\n", 0, found.start()) + 1 if found else None


def mark(base: bytes, ours: bytes, merged: Merge, markers: Markers) -> bytes:
    """Return a merged file with its conflicts marked; with ``diff3`` also its proposals.

    Args:
        base: the file that ours and theirs come from.
        ours: the file with our change.
        merged: what was made of theirs.
        markers: how to write the conflicts.
    """
    files, _, found = _conflicts(base, ours, merged)
    if not markers.diff3:
        found = _simplified(files, [part for r in found for part in _refined(files, r)])
    proposals = {p.lines.start: (n, p.text) for n, p in enumerate(merged.proposals, 1)}
    return _written(files, found, markers, proposals)


def line_regions(base: bytes, ours: bytes, theirs: bytes, *, diff3: bool = False) -> list[Region]:
    """Return the regions of a merge by lines, cut as ``git merge-file`` cuts them."""
    files = split(base), split(ours), split(theirs)
    found = list(_regions(files, diff(files[0], files[1]), forced=False))
    if diff3:
        return found
    return _simplified(files, [part for r in found for part in _refined(files, r)])


def mark_lines(base: bytes, ours: bytes, theirs: bytes, markers: Markers) -> tuple[bytes, int]:
    """Merge by lines exactly as ``git merge-file`` does; return also the number of conflicts."""
    files = split(base), split(ours), split(theirs)
    found = line_regions(base, ours, theirs, diff3=markers.diff3)
    count = sum(region.is_conflict for region in found)
    return _written(files, found, markers), count


def mark_whole(base: bytes, ours: bytes, theirs: bytes, markers: Markers) -> bytes:
    """Return one conflict over whole files."""
    files = split(base), split(ours), split(theirs)
    one, two, three = (range(len(lines)) for lines in files)
    whole = Region((), one, two, three, is_conflict=True)
    return b"".join(_conflict(files, whole, markers))


def conflicts_in(base: bytes, ours: bytes, merged: Merge) -> Iterator[ConflictLines]:
    """Yield the conflicts that `mark` would write, in order."""
    files, chunks, found = _conflicts(base, ours, merged)
    for region in found:
        spans = zip(files, (region.base, region.ours, region.theirs), strict=True)
        texts = (b"".join(lines[span.start : span.stop]) for lines, span in spans)
        mine = tuple(chunks[c] for c in region.chunks)
        yield ConflictLines(mine, region.theirs, region.ours, *texts)


def _conflicts(
    base: bytes, ours: bytes, merged: Merge
) -> tuple["Files", dict[Chunk, Chunk], list[Region]]:
    """Return ours without its conflicts, ours and the merged file, and the conflicts in these."""
    left = [c.chunk for c in merged.conflicts]
    files = split(without(split(ours), split(base), left)), split(ours), split(merged.data)
    chunks = _on_common(left)
    return files, chunks, list(_regions(files, list(chunks), forced=True)) if left else []


def _on_common(left: Sequence[Chunk]) -> dict[Chunk, Chunk]:
    """Return chunks as they are on ours with all of them taken back, each with what it was."""
    found: dict[Chunk, Chunk] = {}
    grown = 0
    for chunk in sorted(left, key=lambda c: c.new):
        old = chunk.new - grown
        found[Chunk(old, old + chunk.old_end - chunk.old, chunk.new, chunk.new_end)] = chunk
        grown += chunk.growth
    return found


Files = tuple["Sequence[bytes]", "Sequence[bytes]", "Sequence[bytes]"]
"""The lines of base, ours and theirs."""


def _regions(files: Files, mine: Sequence[Chunk], *, forced: bool) -> Iterator[Region]:
    """Yield what ours and theirs changed, in order.

    Args:
        files: the three versions.
        mine: the chunks from base to ours.
        forced: whether each chunk of ours is a conflict, even where theirs changed nothing.
    """
    upstream = diff(files[0], files[2])
    for group in _clusters(mine, upstream):
        if forced and not any(c in mine for c in group):
            continue  # only conflicts are asked for
        start, end = min(c.old for c in group), max(c.old_end for c in group)
        inside = [[c for c in chunks if c in group] for chunks in (mine, upstream)]
        spans = []
        for chunks, within in zip((mine, upstream), inside, strict=True):
            first = shift([c for c in chunks if c not in within and c.old < end], start)
            spans.append(range(first, first + end - start + sum(c.growth for c in within)))
        one, other = spans
        differ = files[1][one.start : one.stop] != files[2][other.start : other.stop]
        is_conflict = bool(inside[0]) and (forced or (bool(inside[1]) and differ))
        yield Region(tuple(inside[0]), range(start, end), one, other, is_conflict)


def _clusters(mine: Sequence[Chunk], upstream: Sequence[Chunk]) -> list[list[Chunk]]:
    """Return groups of chunks of both sides that touch, in order; equal chunks stand once."""
    groups: list[list[Chunk]] = []
    for chunk in sorted({*mine, *upstream}, key=lambda c: (c.old, c.old_end)):
        if groups and any(touches(c, chunk) for c in groups[-1]):
            groups[-1].append(chunk)
        else:
            groups.append([chunk])
    return groups


def _refined(files: Files, region: Region) -> list[Region]:
    """Return a conflict without the lines on which both sides agree."""
    if not (region.is_conflict and region.ours and region.theirs):
        return [region]
    one, other = region.ours, region.theirs
    found = diff(files[1][one.start : one.stop], files[2][other.start : other.stop])
    spans = ((one[c.old : c.old_end], other[c.new : c.new_end]) for c in found)
    return [replace(region, ours=mine, theirs=yours) for mine, yours in spans] or [region]


def _simplified(files: Files, found: Sequence[Region]) -> list[Region]:
    """Return the regions with conflicts joined that only few lines, or no words, separate."""
    joined: list[Region] = []
    for region in found:
        last = joined[-1] if joined else None
        if last and last.is_conflict and region.is_conflict:
            between = files[1][last.ours.stop : region.ours.start]
            if len(between) <= _NEAR or not _ALPHANUMERIC.search(b"".join(between)):
                joined[-1] = Region(
                    last.chunks + region.chunks,
                    range(last.base.start, region.base.stop),
                    range(last.ours.start, region.ours.stop),
                    range(last.theirs.start, region.theirs.stop),
                    is_conflict=True,
                )
                continue
        joined.append(region)
    return joined


def _written(
    files: Files,
    found: Sequence[Region],
    markers: Markers,
    proposals: Mapping[int, tuple[int, bytes]] | None = None,
) -> bytes:
    """Return theirs with ours' side of each region, or a marked conflict with its proposal."""
    sides: list[tuple[range, Iterable[bytes]]] = []
    for r in found:
        if r.is_conflict:
            proposal = (proposals or {}).get(r.theirs.start)
            sides.append((r.theirs, _conflict(files, r, markers, proposal)))
        elif r.chunks:
            sides.append((r.theirs, files[1][r.ours.start : r.ours.stop]))
    return b"".join(splice(files[2], sides))


def accept_proposals(data: bytes) -> tuple[bytes, list[int]]:
    """Return a marked file with the proposals in the place of their conflicts, and their numbers.

    What a person has edited already stays as it is.
    """
    taken: list[int] = []

    def take(found: re.Match[bytes]) -> bytes:
        taken.append(int(found["number"]))
        return found["text"]

    return _PROPOSED.sub(take, data), taken


def _conflict(
    files: Files, region: Region, markers: Markers, proposal: tuple[int, bytes] | None = None
) -> Iterator[bytes]:
    base, ours, theirs = files
    edge = b"\r\n" if _has_crlf(files, region) else b"\n"

    def line(sign: bytes, label: str) -> bytes:
        return sign * markers.size + (b" " + label.encode() if label else b"") + edge

    def side(lines: Sequence[bytes], span: range) -> Iterator[bytes]:
        for text in lines[span.start : span.stop]:
            yield text if text.endswith(b"\n") else text + edge

    yield line(b"<", markers.ours)
    yield from side(ours, region.ours)
    if markers.diff3:
        yield line(b"|", markers.base)
        yield from side(base, region.base)
    if proposal is not None:
        # Inside the conflict: whatever resolves that takes the proposal away with it.
        number, text = proposal
        yield line(b"|", f"proposal {number}")
        yield from side(split(text), range(len(split(text))))
    yield line(b"=", "")
    yield from side(theirs, region.theirs)
    yield line(b">", markers.theirs)


def _has_crlf(files: Files, region: Region) -> bool:
    """Whether the markers end as the lines around them do: with a carriage return."""
    ends = (
        _ends_with_crlf(files[1], region.ours.start - 1),
        _ends_with_crlf(files[2], region.theirs.start - 1),
        _ends_with_crlf(files[0], 0),
    )
    known = [end for end in ends if end is not None]
    return bool(known) and all(known) and ends[-1] is not None


def _ends_with_crlf(lines: Sequence[bytes], at: int) -> bool | None:
    """Return whether a line, or the last one before that has a line end, ends with CRLF."""
    for line in reversed(lines[: max(at, 0) + 1]):
        if line.endswith(b"\n"):
            return line.endswith(b"\r\n")
    return None
