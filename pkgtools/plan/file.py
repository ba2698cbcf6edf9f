"""Applying one file's section of a patch to the tree as the patch finds it."""

import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from pkgtools.blob import REGULAR, SYMLINK, Blob
from pkgtools.patch import BinaryChange, FilePatch, Hunk, Kind
from pkgtools.plan.explain import absorbed_at, nearest_place, shown_lines
from pkgtools.plan.match import Misfit, Placement, apply_hunks, text_of
from pkgtools.plan.model import Reason, Rejection

Placed = tuple[tuple[Placement, ...], tuple[Rejection, ...]]
"""The places of the hunks of a section, or why it is rejected."""


# git's null id: in an `index` line it stands for a file that does not exist.
_NO_BLOB: Final = "0" * 40


@dataclass
class PatchProgress:
    """A patch half planned.

    As in ``git apply``, a rename or copy reads the tree as it was before the
    patch, whatever the order of the sections; everything else reads what
    sections before it left. What a section writes stays, also where a later one
    renames the old file at that path away: two names are swapped by two renames.
    """

    patch: str
    before: Callable[[str], Blob | None]
    leaving: set[str]
    """Paths that some section of the patch deletes or renames away."""
    removed: set[str] = field(default_factory=set)
    written: dict[str, Blob] = field(default_factory=dict)
    latest: dict[str, Blob | None] = field(default_factory=dict)
    """The content that the last section left at each path."""
    modified: set[str] = field(default_factory=set)

    def read(self, file: FilePatch) -> Blob | None:
        """Return the pre-image of a section."""
        if file.kind in (Kind.RENAME, Kind.COPY) or file.old_path not in self.latest:
            return self.before(file.old_path)
        return self.latest[file.old_path]

    def record(self, file: FilePatch, blob: Blob) -> None:
        """Record what a section makes."""
        if file.kind is not Kind.DELETE:
            self.written[file.new_path] = self.latest[file.new_path] = blob
        if file.kind is Kind.MODIFY:
            self.modified.add(file.new_path)
        if file.kind in (Kind.DELETE, Kind.RENAME):
            self.removed.add(file.old_path)
            self.latest[file.old_path] = None

    def occupant(self, path: str) -> Blob | None:
        """Return what is in the way of a new file at `path`."""
        if path in self.written:
            return self.written[path]
        return None if path in self.leaving else self.before(path)

    def reject(
        self, file: FilePatch, reason: Reason, message: str, absorbed: int | None = None
    ) -> Rejection:
        """Return the rejection of a whole section."""
        return Rejection(self.patch, file.new_path, reason, message, file.line, absorbed=absorbed)

    def results(self) -> Iterator[tuple[str, Blob | None]]:
        """Yield every path that the patch leaves changed, with what it leaves there."""
        for path in sorted(self.removed - self.written.keys()):
            yield path, None
        yield from sorted(self.written.items())


def apply_file(draft: PatchProgress, file: FilePatch) -> Placed:
    """Plan one section; on success its result is in `draft`."""
    old = None if file.kind is Kind.CREATE else draft.read(file)
    problem = _obstacle(draft, file, old)
    if problem is not None:
        return (), (problem,)
    data, placements, rejections = _content(draft, file, old.data if old else b"")
    if old is not None and not rejections and _lost_more(file, old, data):
        message = "the patch file was converted to CRLF, and does not make the blob that it names"
        rejections = (draft.reject(file, Reason.WRONG_CONTENT, message),)
    mode = file.new_mode or (old.mode if old else REGULAR)
    if not rejections and mode == SYMLINK and file.kind is not Kind.DELETE:
        rejections = _check_link(draft, file, data)
    if rejections:
        return (), rejections
    # git apply refuses this, too: "removal patch leaves file contents".
    if file.kind is Kind.DELETE and data:
        return (), (draft.reject(file, Reason.NOT_EMPTIED, "the file holds more than the patch"),)
    draft.record(file, Blob(data, mode))
    return placements, ()


def _lost_more(file: FilePatch, old: Blob, made: bytes) -> bool:
    """Whether a converted patch added lines whose ends differ from those of their file."""
    if not (file.lost_line_ends and file.old_id and file.new_id):
        return False
    # The promised id holds only for the base that the patch was made from.
    is_base = file.kind is not Kind.DELETE and old.id.startswith(file.old_id)
    return is_base and not Blob(made).id.startswith(file.new_id)


def _obstacle(draft: PatchProgress, file: FilePatch, old: Blob | None) -> Rejection | None:
    """Return why the paths themselves do not allow the change."""
    if file.kind is not Kind.CREATE:
        if old is None:
            return draft.reject(file, Reason.MISSING, f"{file.old_path} is not in the source")
        if old.is_directory:
            return draft.reject(file, Reason.WRONG_TYPE, f"{file.old_path} is a directory")
        if file.old_mode and (old.mode == SYMLINK) != (file.old_mode == SYMLINK):
            kind = "a symbolic link" if old.mode == SYMLINK else "not a symbolic link"
            return draft.reject(file, Reason.WRONG_TYPE, f"{file.old_path} is {kind}")
        if file.new_mode and (old.mode == SYMLINK) != (file.new_mode == SYMLINK):
            message = "a file and a symbolic link do not become each other by a change of mode"
            return draft.reject(file, Reason.WRONG_TYPE, message)
        if file.lost_line_ends and old.data.count(b"\r\n") not in (0, old.data.count(b"\n")):
            message = (
                f"{file.old_path} has LF and CRLF, and the patch file was converted to CRLF: it is "
                "unclear which lines it changes"
            )
            return draft.reject(file, Reason.WRONG_CONTENT, message)
        if _contradicts(draft, file):
            message = f"the patch removes {file.old_path}, which an earlier section of it writes"
            return draft.reject(file, Reason.OVERLAP, message)
    if file.kind in (Kind.MODIFY, Kind.DELETE):
        return None
    return _way_blocked(draft, file)


def _contradicts(draft: PatchProgress, file: FilePatch) -> bool:
    """Whether a section undoes an earlier section of the same file.

    The order of two sections on one path is unclear; ``git apply`` would leave
    the file there. A rename reads the tree before the patch, so that one which
    finds its old path taken by a rename is half of a swap.
    """
    if file.kind is Kind.DELETE:
        return file.old_path in draft.written
    return file.kind is Kind.RENAME and file.old_path in draft.modified


def _way_blocked(draft: PatchProgress, file: FilePatch) -> Rejection | None:
    """Return what stands where a new file, or one of its directories, must go."""
    occupant = draft.occupant(file.new_path)
    if occupant is not None:
        return _already_there(draft, file, occupant)
    # A file below a link would be written outside the tree.
    parent = posixpath.dirname(file.new_path)
    while parent:
        blob = draft.occupant(parent)
        if blob is not None and not blob.is_directory:
            return draft.reject(file, Reason.UNSAFE, f"{parent} is not a directory")
        parent = posixpath.dirname(parent)
    return None


def _already_there(draft: PatchProgress, file: FilePatch, occupant: Blob) -> Rejection:
    """Reject a new file whose path exists, and say whether it is the same file."""
    if occupant.is_directory:
        return draft.reject(file, Reason.EXISTS, f"{file.new_path} is a directory")
    if file.kind is Kind.CREATE:
        made, _, problems = _content(draft, file, b"")
        if not problems and Blob(made, file.new_mode or REGULAR) == occupant:
            message = f"{file.new_path} exists already, with the same content"
            return draft.reject(file, Reason.EXISTS, message, absorbed=1)
    return draft.reject(file, Reason.EXISTS, f"{file.new_path} exists already")


def _check_link(draft: PatchProgress, file: FilePatch, target: bytes) -> tuple[Rejection, ...]:
    """Refuse a symbolic link that leads out of the tree.

    A ``..`` behind a name is refused wherever it leads: the name may itself be a
    link, and then the path climbs from somewhere else.
    """
    depth = file.new_path.count("/")
    steps = [step for step in target.split(b"/") if step not in (b"", b".")]
    climbs = steps.count(b"..")
    inside = climbs <= depth and b".." not in steps[climbs:]
    if target and not target.startswith(b"/") and b"\0" not in target and inside:
        return ()
    message = f"the symbolic link {file.new_path} leads out of the tree"
    return (draft.reject(file, Reason.UNSAFE, message),)


def _content(
    draft: PatchProgress, file: FilePatch, old: bytes
) -> tuple[bytes, tuple[Placement, ...], tuple[Rejection, ...]]:
    if file.binary is not None:
        return _binary_content(draft, file, file.binary, old)
    if file.lost_line_ends and b"\r\n" in old:
        file = replace(file, hunks=tuple(hunk.with_crlf() for hunk in file.hunks))
    data, placements, misfits = apply_hunks(old, file.hunks)
    return data, placements, tuple(_explain(draft.patch, file, old, misfit) for misfit in misfits)


def _binary_content(
    draft: PatchProgress, file: FilePatch, binary: BinaryChange, old: bytes
) -> tuple[bytes, tuple[Placement, ...], tuple[Rejection, ...]]:
    """Apply a binary change: the pre-image must be the very blob that the patch names."""
    found = Blob(old).id
    # The id proves the content, so the data in the patch is not needed.
    if file.kind is Kind.DELETE and file.old_id == found and file.new_id == _NO_BLOB:
        return b"", (), ()
    absorbed = None
    message = f"the content is {found}, the patch is for {file.old_id}"
    if file.kind is Kind.CREATE or found == file.old_id:
        try:
            data = binary.apply(old)
        except ValueError as error:
            message = str(error)
        else:
            if Blob(data).id == file.new_id:
                return data, (), ()
            message = f"the binary change does not make the promised {file.new_id}"
    elif found == file.new_id:
        absorbed = 1
    return old, (), (draft.reject(file, Reason.WRONG_CONTENT, message, absorbed),)


def _explain(patch: str, file: FilePatch, old: bytes, misfit: Misfit) -> Rejection:
    hunk = file.hunks[misfit.hunk - 1]
    reason, message = _reason(hunk, old, misfit)
    nearest, absorbed = None, misfit.present
    if reason is Reason.NO_MATCH:
        nearest = nearest_place(old, hunk.old)
        absorbed = absorbed_at(file.new_path, old, hunk.old, hunk.new)
    return Rejection(
        patch,
        file.new_path,
        reason,
        f"hunk {misfit.hunk} {message}",
        hunk.line,
        hunk=misfit.hunk,
        stated=hunk.first_old_line,
        places=misfit.places,
        expected=shown_lines(hunk.old),
        nearest=nearest,
        absorbed=absorbed,
    )


def _reason(hunk: Hunk, old: bytes, misfit: Misfit) -> tuple[Reason, str]:
    line = hunk.first_old_line
    if misfit.overlaps is not None:
        return Reason.OVERLAP, f"would change lines that hunk {misfit.overlaps} changes too"
    if misfit.present is not None:
        return Reason.AMBIGUOUS, (
            f"matches at line {misfit.places[0]} only, but what it makes stands at line "
            f"{misfit.present}, nearer to line {line} of its header"
        )
    if misfit.places:
        places = " and ".join(map(str, misfit.places))
        return Reason.AMBIGUOUS, f"matches in {len(misfit.places)} places: lines {places}"
    text = text_of(old)
    away = " and ".join(str(text.line_of(at)) for at in text.find(hunk.old))
    if not away:
        return Reason.NO_MATCH, f"matches nowhere; its header says line {line}"
    anchors = {"start": hunk.old_start == 1, "end": hunk.trailing_context == 0}
    ends = " and ".join(end for end, anchored in anchors.items() if anchored)
    bare = "" if hunk.has_context else f", at line {line} without any context"
    message = f"belongs at the {ends} of the file{bare}; its lines stand at line {away}"
    return Reason.NO_MATCH, message
