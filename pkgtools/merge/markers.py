"""Conflict markers, as git writes them with ``merge.conflictStyle=diff3``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pkgtools.merge.lines import Hunk, diff, shift, split, touches, without

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MARKER: Final = re.compile(rb"^(?:<{7} |\|{7} |>{7} )", re.MULTILINE)


def has_markers(data: bytes) -> bool:
    """Whether a file still holds conflict markers."""
    return _MARKER.search(data) is not None


def mark(
    base: bytes, ours: bytes, made: bytes, left: Sequence[Hunk], labels: tuple[str, str, str]
) -> bytes:
    """Return `made` with a marked conflict for each hunk that is left.

    Args:
        base: the file in the old upstream.
        ours: the file as the patch makes it.
        made: the new upstream's file with all other hunks in it.
        left: hunks from `base` to `ours`.
        labels: what to call ours, base and theirs.

    """
    lines = split(made)
    out: list[bytes] = []
    at = 0
    for _, (start, end), texts in regions(base, ours, made, left):
        out += [*lines[at:start], _conflict(texts, labels)]
        at = end
    return b"".join([*out, *lines[at:]])


def mark_whole(base: bytes, ours: bytes, theirs: bytes, labels: tuple[str, str, str]) -> bytes:
    """Return one conflict over whole files."""
    return _conflict((ours, base, theirs), labels)


def _conflict(texts: tuple[bytes, bytes, bytes], labels: tuple[str, str, str]) -> bytes:
    ours, base, theirs = (t if not t or t.endswith(b"\n") else t + b"\n" for t in texts)
    words = [label.encode() for label in labels]
    return b"".join(
        (
            *(b"<<<<<<< ", words[0], b"\n", ours, b"||||||| ", words[1], b"\n", base),
            *(b"=======\n", theirs, b">>>>>>> ", words[2], b"\n"),
        )
    )


def regions(
    base: bytes, ours: bytes, made: bytes, left: Sequence[Hunk]
) -> Iterator[tuple[list[Hunk], tuple[int, int], tuple[bytes, bytes, bytes]]]:
    """Yield each conflict: its hunks of `left`, its lines of `made`, and ours, base and theirs."""
    ours_lines, made_lines = split(ours), split(made)
    common = split(without(ours_lines, split(base), left))
    upstream = diff(common, made_lines)
    mine = _on_common(left)
    for group in _clusters(list(mine), upstream):
        start, end = min(h.old for h in group), max(h.old_end for h in group)
        inside = [h for h in mine if h in group]
        rivals = [h for h in upstream if h in group]
        first = shift([h for h in upstream if h not in rivals and h.old < start], start)
        last = first + end - start + sum(map(_growth, rivals))
        new = start + sum(_growth(h) for h in mine if h.old < inside[0].old)
        texts = (
            b"".join(ours_lines[new : new + end - start + sum(map(_growth, inside))]),
            b"".join(common[start:end]),
            b"".join(made_lines[first:last]),
        )
        yield [mine[h] for h in inside], (first, last), texts


def _on_common(left: Sequence[Hunk]) -> dict[Hunk, Hunk]:
    """Return hunks as they are on ours with all of them taken back, each with what it was."""
    found: dict[Hunk, Hunk] = {}
    grown = 0
    for hunk in sorted(left, key=lambda h: h.new):
        old = hunk.new - grown
        found[Hunk(old, old + hunk.old_end - hunk.old, hunk.new, hunk.new_end)] = hunk
        grown += _growth(hunk)
    return found


def _growth(hunk: Hunk) -> int:
    return hunk.new_end - hunk.new - hunk.old_end + hunk.old


def _clusters(mine: list[Hunk], upstream: Sequence[Hunk]) -> Iterator[set[Hunk]]:
    """Yield groups of hunks of ours with everything of upstream's that they touch."""
    rest = mine
    while rest:
        group = {rest.pop(0)}
        while True:
            others = [h for h in (*upstream, *rest) if h not in group]
            near = {h for h in others if any(touches(h, g) for g in group)}
            if not near:
                break
            group |= near
            rest = [h for h in rest if h not in near]
        yield group
