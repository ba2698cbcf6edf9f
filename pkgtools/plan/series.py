"""Planning a whole series: each patch on the result of the ones before it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from pkgtools.blob import Blob
from pkgtools.patch import FilePatch, Patch
from pkgtools.plan.file import PatchProgress, Placed, apply_file
from pkgtools.plan.model import Change, Plan, Reason, Rejection, Step

Read = Callable[[str], Blob | None]


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
