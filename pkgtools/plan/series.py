"""Planning a whole series: each patch on the result of the ones before it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Final

from pkgtools.blob import Blob
from pkgtools.patch import FilePatch, Hunk, Kind, Patch
from pkgtools.plan.file import PatchProgress, Placed, apply_file
from pkgtools.plan.model import Change, Plan, Reason, Rejection, Step

Read = Callable[[str], Blob | None]
_KINDS: Final = {Kind.CREATE: Kind.DELETE, Kind.DELETE: Kind.CREATE}
_TAGS: Final = {b"+": b"-", b"-": b"+", b" ": b" "}


def plan_series(patches: Sequence[Patch], read: Read) -> Plan:
    """Plan `patches`, in order, on a source; `read` returns a file of it, or None.

    The plan has every hunk's place, and every rejection, not only the first.
    """
    state = _SeriesProgress(read)
    for patch in patches:
        _plan_patch(patch, state)
    return Plan(tuple(state.changes()), tuple(state.steps), tuple(state.rejections))


@dataclass
class _SeriesProgress:
    """The source under the patches planned so far."""

    source: Read
    original: dict[str, Blob | None] = field(default_factory=dict)
    history: dict[str, list[tuple[str, Blob | None]]] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    steps: list[Step] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)

    def read(self, path: str) -> Blob | None:
        if path in self.history:
            return self.history[path][-1][1]
        if path not in self.original:
            self.original[path] = self.source(path)
        return self.original[path]

    def write(self, patch: str, path: str, blob: Blob | None) -> None:
        self.read(path)
        self.history.setdefault(path, []).append((patch, blob))

    def changes(self) -> Iterator[Change]:
        """Yield what differs between the source and the end, by path."""
        for path, steps in sorted(self.history.items()):
            before = self.original[path]
            *between, after = [blob for _, blob in steps]
            # A file that a later patch restores is still listed: its intermediate states can be
            # found.
            if between or before != after:
                modes = {blob.mode for blob in (before, *between, after) if blob is not None}
                patches = tuple(patch for patch, _ in steps)
                yield Change(path, before, after, tuple(between), patches, sets_mode=len(modes) > 1)


def _plan_patch(patch: Patch, state: _SeriesProgress) -> None:
    """Plan one patch; its files see each other's results as ``git apply`` lets them."""
    leaving = {f.old_path for f in patch.files if f.kind in ("delete", "rename")}
    draft = PatchProgress(patch.name, state.read, leaving)
    for file in patch.files:
        if state.broken & {file.old_path, file.new_path}:
            message = "not tried: an earlier patch of the series does not apply to this file"
            placed: Placed = (), (draft.reject(file, Reason.DEPENDS, message),)
        else:
            placed = apply_file(draft, file)
        placements, rejections = placed
        state.steps.append(
            Step(patch.name, file.new_path, file.kind, placements, rejected=bool(rejections))
        )
        state.rejections += rejections
        # An absorbed section leaves the file as the patch would: later patches can be tried.
        if rejections and not _is_absorbed(file, rejections):
            state.broken |= {file.old_path, file.new_path}
    for file, parent in _collisions(patch, draft, state):
        message = f"{parent} is not a directory"
        state.rejections.append(draft.reject(file, Reason.UNSAFE, message))
        state.broken |= {file.old_path, file.new_path}
    for path, blob in draft.results():
        state.write(patch.name, path, blob)


def _collisions(
    patch: Patch, draft: PatchProgress, state: _SeriesProgress
) -> Iterator[tuple[FilePatch, str]]:
    """Yield each section whose file would need another file, or a link, to be a directory.

    `apply_file` looks at the sections before it; this sees the patch as a whole,
    where a link may follow the file that would be written through it.
    """
    earlier = {path for path in state.history if state.read(path) is not None}
    live = (earlier - draft.removed) | draft.written.keys()
    sections = {file.new_path: file for file in patch.files}
    for path in sorted(live):
        for parent in live.intersection(map(str, PurePosixPath(path).parents)):
            for new in sorted({path, parent} & draft.written.keys()):
                yield sections[new], parent


def _is_absorbed(file: FilePatch, rejections: tuple[Rejection, ...]) -> bool:
    """Whether the source already has a section's changes, so that later patches can be tried."""
    whole = len(rejections) == max(len(file.hunks), 1)
    return whole and all(rejection.absorbed is not None for rejection in rejections)


def plan_inverse(patches: Sequence[Patch], read: Read) -> dict[str, Blob | None]:
    """Return what the inverse of `patches` makes of each path, where that is certain.

    The caller checks the ids: where a hunk has no place, or the change is binary or a
    copy, the path is absent or its content is not the old one.
    """
    backwards = [_inverse(patch) for patch in reversed(patches)]
    return {change.path: change.after for change in plan_series(backwards, read).changes}


def _inverse(patch: Patch) -> Patch:
    files = (file for file in patch.files if not file.binary and file.kind is not Kind.COPY)
    return Patch(patch.name, patch.data, tuple(map(_inverse_section, files)))


def _inverse_section(file: FilePatch) -> FilePatch:
    return replace(
        file,
        kind=_KINDS.get(file.kind, file.kind),
        old_path=file.new_path,
        new_path=file.old_path,
        old_mode=file.new_mode,
        new_mode=file.old_mode,
        old_id=file.new_id,
        new_id=file.old_id,
        hunks=tuple(
            Hunk(
                old_start=hunk.new_start,
                old_count=hunk.new_count,
                new_start=hunk.old_start,
                new_count=hunk.old_count,
                lines=tuple((_TAGS[tag], text) for tag, text in hunk.lines),
                line=hunk.line,
            )
            for hunk in file.hunks
        ),
    )
