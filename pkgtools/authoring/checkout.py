"""A series as git commits: one for each patch, to edit with any git tool."""

import re
from pathlib import Path
from typing import Final

import msgspec

from pkgtools.authoring.applied import AppliedPatch, applied_on
from pkgtools.authoring.edits import looks_made
from pkgtools.authoring.folder import refuse_existing
from pkgtools.authoring.message import author_of, full_message
from pkgtools.authoring.work import SeriesWork
from pkgtools.authoring.workbench import (
    TRAILER,
    BenchState,
    NewCommit,
    make_repository,
    write_state,
)
from pkgtools.blob import DIRECTORY, Blob
from pkgtools.catalog import Series
from pkgtools.patch import Patch
from pkgtools.source import WheelSource
from pkgtools.source.listing import package_files
from pkgtools.transaction import reading
from pkgtools.util.files import new_folder

_TRAILER: Final = re.compile(rf"^{TRAILER}: *(.*?) *$\n?", re.MULTILINE)
_BLANKS: Final = re.compile(r"\n{3,}")


class CheckedOut(msgspec.Struct, frozen=True):
    """A series as commits."""

    folder: str
    series: str
    source: str
    base: str
    """The commit of the source without the series."""
    commits: dict[str, str]
    """The commit of each patch, by its name."""


def check_out(work: SeriesWork, folder: Path) -> CheckedOut:
    """Make a repository of a series on its source: all of it, or nothing."""
    refuse_existing(folder)
    series = work.named.load()
    with reading([work.source], work.reporter), work.reporter.task(f"reading {work.source.label}"):
        commits = [NewCommit(f"{work.source.label}\n", None, _base(work, series))]
        commits += [_commit(each) for each in applied_on(series.patches, work.source)]
    writing = work.reporter.task(f"writing {folder}")
    with new_folder(folder, "name another folder") as scratch, writing:
        ids = make_repository(scratch, commits)
        state = BenchState(
            version=1,
            catalog=str(work.catalog.path.absolute()),
            series=str(series.directory.absolute()),
            digests=[series.digest],
            base=ids[0],
            from_wheel=isinstance(work.source, WheelSource),
            names={},
        )
        write_state(scratch, state)
    names = [patch.name for patch in series.patches]
    return CheckedOut(
        folder=str(folder),
        series=str(series.directory),
        source=work.source.label,
        base=ids[0],
        commits=dict(zip(names, ids[1:], strict=True)),
    )


def _base(work: SeriesWork, series: Series) -> dict[str, Blob | None]:
    """Return the files of the source: all of a git revision, else the package's.

    Built files are left out: they are not edited, and some are large.
    """
    everything = getattr(work.source, "paths", None)
    listed = everything("") if everything else package_files(work.source, work.named.upstream)
    wanted = {path for path in listed if not looks_made(path)} | set(series.paths)
    blobs = {path: work.source.read(path) for path in sorted(wanted)}
    return {path: blob for path, blob in blobs.items() if blob and blob.mode != DIRECTORY}


def _commit(applied: AppliedPatch) -> NewCommit:
    files: dict[str, Blob | None] = {c.old_path: None for c in applied.changes}
    files |= {change.path: change.after for change in applied.changes}
    message = f"{full_message(applied.patch)}\n{TRAILER}: {applied.patch.name}\n"
    return NewCommit(message, author_of(applied.patch), files)


def patch_named_in(message: str) -> str | None:
    """Return the patch that a commit's message names; the first of a squashed one."""
    match = _TRAILER.search(message)
    return match[1] if match else None


def without_trailer(message: str) -> str:
    """Return a message without the trailer, and with the blanks that git leaves in one."""
    lines = (line.rstrip() for line in _TRAILER.sub("", message).splitlines())
    return _BLANKS.sub("\n\n", "\n".join(lines)).strip() + "\n"


def has_message(patch: Patch, message: str) -> bool:
    """Whether a commit's message is still that of a patch."""
    return without_trailer(full_message(patch)) == without_trailer(message)
