"""Refusals and identities as text."""

from collections.abc import Iterator

from pkgtools.plan import Rejection
from pkgtools.tree.check import Refusal
from pkgtools.tree.state import Identity, State

_SHOWN_LINES = 14
"""The most lines to show of the nearest place."""


def refusal_lines(refusal: Refusal) -> Iterator[str]:
    """Yield why a source was refused, per file and hunk."""
    if refusal.nearest is not None:
        yield from match_lines(refusal.nearest)
    for rejection in refusal.rejections:
        yield from _rejection_lines(rejection)


def match_lines(match: Identity) -> Iterator[str]:
    """Yield each touched file's state."""
    what = "it is" if match.is_known else "nearest"
    yield f"  {what}: {match.target} ({match.revision}), {match.state}"
    for file in match.files:
        known = file.state not in (State.FOREIGN, State.MISSING)
        ids = f"  {file.found[:12] or 'no file'}, not {file.before[:12] or 'no file'}"
        note = " (only its line endings differ)" if file.crlf else ""
        yield f"    {file.state:8} {file.path}{'' if known else ids}{note}"


def _rejection_lines(rejection: Rejection) -> Iterator[str]:
    yield f"  {rejection.patch}:{rejection.patch_line}: {rejection.path}"
    yield f"    {rejection.message}"
    if rejection.absorbed is not None:
        yield f"    already there at line {rejection.absorbed} (absorbed)"
        return
    if rejection.nearest is not None:
        near = rejection.nearest
        yield f"    nearest: line {near.line}, {near.similarity:.0%} alike (- expected, + found)"
        lines = near.diff
    else:
        lines = tuple(f"  {line}" for line in rejection.expected)
    for line in lines[:_SHOWN_LINES]:
        yield f"      {line}"
    if len(lines) > _SHOWN_LINES:
        yield f"      ... {len(lines) - _SHOWN_LINES} more lines (--json has all)"
