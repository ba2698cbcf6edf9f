"""Edits of shared patches: in place, so that every series which names one gets the edit.

A shared patch applies to several revisions because its context is theirs too. An edited hunk
keeps the lines that it had as its pre-image, so the patch still applies wherever it did::

    @@ -10,3 +10,4 @@                 @@ -10,3 +10,4 @@
     from a import b                   from a import b
    +from c import d         ->       +from c import d, e
     from f import (                   from f import (
         g,                                g,
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Final

from pkgtools.authoring.applied import PatchedSource
from pkgtools.authoring.gitdiff import FileChange, diff_text, with_headers
from pkgtools.blob import Blob
from pkgtools.catalog import Catalog
from pkgtools.catalog.added import read_added
from pkgtools.catalog.series import shared_patches
from pkgtools.errors import MalformedError, UsageError
from pkgtools.patch import Kind, Patch, parse_patch
from pkgtools.plan import Plan, plan_series
from pkgtools.source import Source

_CONTEXT: Final = 3


@dataclass(frozen=True)
class SharedEdit:
    """A shared patch with an edit, and the files to write for it."""

    patch: Patch
    files: dict[Path, Blob | None]


def targets_of(catalog: Catalog, patch: Patch) -> list[str]:
    """Return the targets whose series names a shared patch."""
    found = []
    for target in catalog.targets:
        try:
            patches = target.series.patches
        except MalformedError:
            continue  # a series that is being worked on; `pkgtools targets` lists it
        paths = [each.path for each in patches if each.is_shared and each.path]
        if patch.path and any(path.samefile(patch.path) for path in paths):
            found.append(target.name)
    return found


def references_to(shelf: Path, patches: Sequence[Patch], source: Source | None) -> dict[str, str]:
    """Return what a ``series`` file names the patches that are shared patches of a shelf already.

    With a source, patches are the same that make the same files of it; without, those that change
    the same lines.
    """
    known = shared_patches(shelf)
    patched = PatchedSource(source.read if source else lambda _: None)
    found: dict[str, str] = {}
    for patch in patches:
        made = plan_series([patch], patched.read)
        for reference, shared in known.items():
            same = shared.change_id == patch.change_id
            if not same and source is not None and shared.paths == patch.paths:
                plan = plan_series([shared], patched.read)
                same = plan.ok and _effect(plan) == _effect(made)
            if same and reference not in found.values():
                found[patch.name] = reference
                break
        patched.add(FileChange(c.path, c.path, c.before, c.after) for c in made.changes)
    return found


def _effect(plan: Plan) -> list[tuple[str, Blob | None]]:
    return [(change.path, change.after) for change in plan.changes]


def edit_shared(
    patch: Patch, path: Path, edited: Sequence[FileChange], read: Callable[[str], Blob | None]
) -> SharedEdit:
    """Return a shared patch that makes edited files.

    `read` returns a file as it is before the patch; `edited` are the changes that `patch` does not
    make. A folder of added files takes edits of its own files only.
    """
    if path.is_dir():
        return _edit_added(path, edited)
    if patch.level != 1 or patch.text != patch.data:
        raise UsageError(
            f"{path} cannot take an edit: its names have no a/ and b/, or it is an encoded mail",
            remedy="write it again as `git format-patch` does",
        )
    data = with_headers(patch, b"".join(_sections(patch, edited, read)))
    made = replace(parse_patch(patch.name, data), path=path, is_shared=True)
    return SharedEdit(made, {path: Blob(data)})


def _edit_added(folder: Path, edited: Iterable[FileChange]) -> SharedEdit:
    added = read_added(folder)
    files = dict(added.files)
    written: dict[Path, Blob | None] = {}
    for change in edited:
        if change.path not in files:
            raise UsageError(
                f"{change.path} is not a file of {folder}",
                remedy="make a patch with `pkgtools new`",
            )
        written[folder / change.path] = change.after
        if change.after is None:
            del files[change.path]
        else:
            files[change.path] = change.after
    made = replace(added, files=files).patch()
    return SharedEdit(replace(made, is_shared=True), written)


def _sections(
    patch: Patch, edited: Sequence[FileChange], read: Callable[[str], Blob | None]
) -> Iterator[bytes]:
    """Yield each file's part of the diff; unedited parts keep their bytes."""
    lines = list(BytesIO(patch.data))
    changes = {change.path: change for change in edited}
    places = {step.path: step.placements for step in plan_series([patch], read).steps}
    ends = [file.line - 1 for file in patch.files[1:]] + [patch.files[-1].end - 1]
    for file, end in zip(patch.files, ends, strict=True):
        change = changes.get(file.new_path)
        if change is None:
            yield b"".join(lines[file.line - 1 : end])
        elif change.before == change.after and change.old_path == change.path:
            continue  # the edit undoes it
        elif file.kind is Kind.MODIFY and (texts := _texts(change)):
            starts = [
                hunk.first_old_line - 1 + place.offset
                for hunk, place in zip(file.hunks, places[file.new_path], strict=True)
            ]
            head = lines[file.line - 1 : file.hunks[0].line - 1]
            yield b"".join(line for line in head if not line.startswith(b"index "))
            kept = [range(s, s + h.old_count) for s, h in zip(starts, file.hunks, strict=True)]
            yield from _hunks(*texts, kept)
        else:
            yield diff_text([change])


def _texts(change: FileChange) -> tuple[list[bytes], list[bytes]] | None:
    """Return the lines before and after; None where more than lines of text changes."""
    before, after = change.before, change.after
    if before is None or after is None or before.mode != after.mode:
        return None
    if b"\0" in before.data + after.data:
        return None
    # Lines end at LF alone, as in `pkgtools.patch.lines`.
    return list(BytesIO(before.data)), list(BytesIO(after.data))


def _hunks(old: list[bytes], new: list[bytes], kept: list[range]) -> Iterator[bytes]:
    """Yield hunks between two texts; where the patch has a hunk, with its pre-image."""
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    steps = [step for step in matcher.get_opcodes() if step[0] != "equal"]
    extents = [_extent(i1, i2, kept, len(old)) for _, i1, i2, _, _ in steps]
    shift = 0
    for extent in _merged(extents):
        body: list[bytes] = []
        at = extent.start
        for _, i1, i2, j1, j2 in steps:
            if extent.start <= i1 and i2 <= extent.stop:
                body += [b" " + line for line in old[at:i1]]
                body += [b"-" + line for line in old[i1:i2]]
                body += [b"+" + line for line in new[j1:j2]]
                at = i2
        body += [b" " + line for line in old[at : extent.stop]]
        before = extent.stop - extent.start
        after = sum(not line.startswith(b"-") for line in body)
        # Of no lines, the place is the line before (diff(1), "Detailed Unified").
        start, there = extent.start + bool(before), extent.start + shift + bool(after)
        place = f"@@ -{start},{before} +{there},{after} @@\n"
        yield place.encode() + b"".join(map(_whole, body))
        shift += after - before


def _whole(line: bytes) -> bytes:
    return line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"


def _extent(start: int, end: int, kept: Iterable[range], length: int) -> range:
    """Return the range of the patch's own hunk around an edit, else git's three lines around it."""
    for extent in kept:
        # git takes a hunk without context behind its change for one at the end of the file.
        if extent.start <= start and (end < extent.stop or end == extent.stop == length):
            return extent
    return range(max(start - _CONTEXT, 0), min(end + _CONTEXT, length))


def _merged(extents: Iterable[range]) -> list[range]:
    merged: list[range] = []
    for extent in sorted(set(extents), key=lambda e: (e.start, e.stop)):
        if merged and extent.start <= merged[-1].stop:
            last = merged.pop()
            extent = range(last.start, max(last.stop, extent.stop))  # noqa: PLW2901
        merged.append(extent)
    return merged
