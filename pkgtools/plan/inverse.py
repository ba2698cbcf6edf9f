"""A series read backwards: what a tree was before it was patched."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from pkgtools.blob import Blob
from pkgtools.patch import FilePatch, Hunk, Kind, Patch
from pkgtools.plan.series import plan_series

_KINDS: Final = {Kind.CREATE: Kind.DELETE, Kind.DELETE: Kind.CREATE}
_TAGS: Final = {b"+": b"-", b"-": b"+", b" ": b" "}


def plan_inverse(
    patches: Sequence[Patch], read: Callable[[str], Blob | None]
) -> dict[str, Blob | None]:
    """Return what the inverse of `patches` makes of each path, as far as it can be told.

    The caller checks the ids: where a hunk has no place, or the change is binary or a
    copy, the path is absent or its content is not the old one.
    """
    backwards = [_inverse(patch) for patch in reversed(patches)]
    return {change.path: change.after for change in plan_series(backwards, read).changes}


def _inverse(patch: Patch) -> Patch:
    files = tuple(_section(f) for f in patch.files if not f.binary and f.kind is not Kind.COPY)
    return Patch(patch.name, patch.data, files)


def _section(file: FilePatch) -> FilePatch:
    return replace(
        file,
        kind=_KINDS.get(file.kind, file.kind),
        old_path=file.new_path,
        new_path=file.old_path,
        old_mode=file.new_mode,
        new_mode=file.old_mode,
        old_id=file.new_id,
        new_id=file.old_id,
        hunks=tuple(_hunk(hunk) for hunk in file.hunks),
    )


def _hunk(hunk: Hunk) -> Hunk:
    return Hunk(
        old_start=hunk.new_start,
        old_count=hunk.new_count,
        new_start=hunk.old_start,
        new_count=hunk.old_count,
        lines=tuple((_TAGS[tag], text) for tag, text in hunk.lines),
        line=hunk.line,
    )
