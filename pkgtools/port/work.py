"""A port that takes more than one run: the folder in which a person works on conflicts.

``NEWDIR.port/port.json`` says what is ported and what was decided;
``NEWDIR.port/conflicts/`` holds the files with conflict markers. A run starts
behind the last finished step and takes the decisions of the next one in turn:
of a step that is not finished, nothing but the decisions is kept.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from pkgtools.authoring.applied import applied_on, patches_of
from pkgtools.authoring.folder import references_from, refuse_existing, write_folder, write_series
from pkgtools.blob import DIRECTORY, REGULAR, SYMLINK, Blob
from pkgtools.catalog import Series, Upstream
from pkgtools.errors import DoesNotApplyError, UsageError
from pkgtools.merge.comparison import syntax_error
from pkgtools.merge.lines import has_crlf
from pkgtools.merge.markers import accept_proposals, count_markers
from pkgtools.patch import Patch
from pkgtools.plan import plan_series
from pkgtools.plan.compiling import broken_by
from pkgtools.port.finished import Finished, keep, kept
from pkgtools.port.model import ConflictedFile, Decision, StepReport
from pkgtools.port.series import Ported, is_absorbed, port_series
from pkgtools.port.state import (
    STATE,
    Answer,
    Conflict,
    PortState,
    Waiting,
    encode_state,
    read_state,
    work_folder,
    write_state,
)
from pkgtools.source import Source
from pkgtools.transaction import reading
from pkgtools.tree.runtime import compile_for
from pkgtools.util.files import read_bytes, read_file, replace_file
from pkgtools.util.progress import Reporter

EVERY_FILE: Final = "*"
"""Stands for all files with conflicts."""


@dataclass(frozen=True)
class MarkersLeft:
    """The files in ``conflicts/`` that still have conflict markers."""

    conflicts: list[str]
    waiting: list[Waiting]


class PortReport(msgspec.Struct):
    """The result of a run of ``port``."""

    series: str
    output: str
    done: bool
    """Whether the new series was written; otherwise `conflicts` are open."""
    work: str | None
    steps: tuple[StepReport, ...]
    conflicts: list[str]
    """Files to edit."""
    patches: list[str]
    """The names in the new ``series`` file."""
    dropped: list[str]
    """Patches of the old series that upstream absorbed, or that are empty now."""
    absorbed: list[str]
    """Those of them that the new source holds, as a target's ``absorbed`` names them."""
    copied: list[str]
    """Other files of the old series, which came along as they were."""


@dataclass(frozen=True)
class Job:
    """One port: what, along what, to where."""

    state: PortState
    series: Series
    upstream: Upstream
    sources: Sequence[Source]
    output: Path
    revision: str | None
    """The line of a target that names the last source; None if nothing names it for good."""

    @property
    def folder(self) -> Path:
        """The folder of its conflicts."""
        return work_folder(self.output)

    @property
    def conflicts(self) -> Path:
        """Where a person edits files."""
        return self.folder / "conflicts"

    @property
    def go_on(self) -> str:
        """The command for a person who has edited them."""
        return f"`pkgtools port --continue -o {self.output}`"

    @property
    def shelf(self) -> Path:
        """The catalog's folder for series of the upstream."""
        return Path(self.state.catalog).resolve().parent / "patches" / self.upstream.name

    def place(self, series: Path) -> str | None:
        """Return what a target calls a series; None where it does not lie on the shelf."""
        path = series.resolve()
        inside = path.is_relative_to(self.shelf)
        return path.relative_to(self.shelf).as_posix() if inside else None


def start(job: Job, reporter: Reporter) -> PortReport:
    """Port a series, and leave a work folder where a person is needed.

    Raises:
        DoesNotApplyError: the series does not apply to the first source.

    """
    with reading(job.sources, reporter):
        return _port(job, reporter)


def resume(job: Job, reporter: Reporter, accept: Sequence[str] = ()) -> PortReport:
    """Take what a person made of the conflicts, and go on.

    Args:
        job: the port.
        reporter: hears of each step.
        accept: files in which the proposals are taken first; `EVERY_FILE` for all files.

    Raises:
        UsageError: a file of `accept` does not wait, or has no proposal.
        DoesNotApplyError: a file still has conflict markers, or does not compile.

    """
    refuse_existing(job.output)
    if accept:
        _accept(job, accept)
    edited = [(w, read_file(job.conflicts / w.path)) for w in job.state.waiting]
    # Without its file, or its text, a conflict is asked again, unless a side has none either.
    edited = [
        (w, blob)
        for w, blob in edited
        if (w.is_removed if blob is None else blob.data or blob.mode != REGULAR or w.is_emptied)
    ]
    _refuse_others(job, edited)
    marked = [w for w, blob in edited if blob and count_markers(blob.data) > (w.markers or 0)]
    if marked:
        asked = "".join(f"\n  {line}" for waiting in marked for line in _asked(waiting))
        again = f"; or accept the proposals: {job.go_on.removesuffix('`')} --accept`"
        likely = any({q.proposal for q in w.questions} - {None, *w.accepted} for w in marked)
        raise DoesNotApplyError(
            f"these files still have conflict markers:{asked}",
            remedy=f"edit them in {job.conflicts}, then {job.go_on}{again if likely else ''}",
            details=MarkersLeft([str(job.conflicts / w.path) for w in marked], marked),
        )
    _refuse_broken(job, edited)
    job.state.answers += [_stored_answer(job, waiting, blob) for waiting, blob in edited]
    job.state.waiting = []
    return start(job, reporter)


def _stored_answer(job: Job, waiting: Waiting, blob: Blob | None) -> Answer:
    if blob is not None:
        (job.folder / "answers").mkdir(exist_ok=True)
        replace_file(job.folder / "answers" / blob.id, blob.data)
    return Answer(
        step=waiting.step,
        patch=waiting.patch,
        path=waiting.path,
        key=waiting.key,
        mode=blob.mode if blob else REGULAR,
        file=blob.id if blob else None,
        accepted=waiting.accepted,
    )


def _accept(job: Job, names: Sequence[str]) -> None:
    """Put proposals in the place of their conflicts, in the files where a person edits these."""
    folder = job.conflicts
    everything = EVERY_FILE in names
    wanted = {_waiting_path(job, name) for name in names if name != EVERY_FILE}
    for waiting in job.state.waiting:
        blob = read_file(folder / waiting.path) if everything or waiting.path in wanted else None
        data, numbers = accept_proposals(blob.data) if blob else (b"", [])
        if numbers:
            replace_file(folder / waiting.path, data)
            waiting.accepted += numbers
        elif waiting.path in wanted:
            raise UsageError(
                f"{waiting.path}: no conflict with a proposal is in it",
                remedy=f"edit it in {folder}, then {job.go_on}",
            )
    write_state(job.output, job.state)


def _waiting_path(job: Job, name: str) -> str:
    """Return the path of a file with conflicts, which a user names by its end or on disk."""
    paths = [waiting.path for waiting in job.state.waiting]
    for path in paths:
        if name == path or Path(name).absolute() == (job.conflicts / path).absolute():
            return path
    named = [path for path in paths if path.endswith(f"/{name}")]
    if len(named) == 1:
        return named[0]
    raise UsageError(
        f"{name} names {len(named) or 'no'} files with conflicts",
        remedy=f"name one of {', '.join(paths)}, or give --accept alone for all of them",
    )


def _refuse_others(job: Job, edited: Sequence[tuple[Waiting, Blob | None]]) -> None:
    """Raise where an answer is not a file, or not text although all sides are."""
    for waiting, blob in edited:
        is_text = waiting.markers is None or blob is None or b"\0" not in blob.data
        is_file = blob is None or blob.mode not in (DIRECTORY, SYMLINK)
        if not (is_file and is_text):
            what = "text any more" if is_file else "a regular file"
            raise DoesNotApplyError(
                f"{job.conflicts / waiting.path}: it is not {what}",
                remedy=f"put the resolved text there, then {job.go_on}",
            )


def _refuse_broken(job: Job, edited: Sequence[tuple[Waiting, Blob | None]]) -> None:
    """Raise where a file does not compile although both sides of its conflict do."""
    files = {w.path: b for w, b in edited if w.compiles and b}
    errors = {path: syntax_error(blob.data) for path, blob in files.items()}
    broken = "".join(f"\n  {path}: {error}" for path, error in errors.items() if error)
    if broken:
        raise DoesNotApplyError(
            f"these files do not compile, but both sides of their conflicts do:{broken}",
            remedy=f"correct them in {job.conflicts}, then {job.go_on}",
        )


def _refuse_uncompilable(job: Job, written: Sequence[Patch]) -> None:
    """Raise where code of the new source compiles, and does not after the ported series."""
    source = job.sources[-1]
    for change, error in broken_by(plan_series(written, source.read), compile_for(source)):
        is_edited = (job.conflicts / change.path).exists()
        folder, again = (
            (job.conflicts, job.go_on) if is_edited else (job.series.directory, "port again")
        )
        raise DoesNotApplyError(
            f"{change.path} of {source.label} does not compile after "
            f"{' and '.join(change.patches)}: {error}",
            remedy=f"correct it in {folder}, then {again}",
        )


def _asked(waiting: Waiting) -> Iterator[str]:
    yield waiting.path
    for conflict in waiting.questions:
        where = f"line {conflict.line} of the old source" if conflict.line else "the whole file"
        proposal = f" (proposal {conflict.proposal})" if conflict.proposal else ""
        yield f"  {where}: {conflict.reason}{proposal}"


def abort(output: Path) -> Path:
    """Drop a port that is not finished; what a person edited in its folder goes with it.

    Raises:
        UsageError: there is none.

    """
    read_state(output)
    folder = work_folder(output)
    shutil.rmtree(folder)
    return folder


def _port(job: Job, reporter: Reporter) -> PortReport:
    patches, stops = job.series.patches, job.state.stops
    finished = kept(job.folder, patches, stops)
    finished = finished or Finished(tuple(applied_on(patches, job.sources[0])), ())
    ported = port_series(finished, job.upstream, job.sources, lambda c: _decision(job, c), reporter)
    if ported.conflicts:
        _wait(job, ported.conflicts)
        if ported.finished.steps:
            keep(job.folder, patches, stops, ported.finished)
        return _report(job, ported, [], [])
    written = patches_of(ported.patches, job.sources[-1])
    _refuse_uncompilable(job, written)
    copied = write_series(job.output, written, job.series.directory) if written else []
    shutil.rmtree(job.folder, ignore_errors=True)
    return _report(job, ported, written, copied)


def _decision(job: Job, conflict: ConflictedFile) -> Decision | None:
    asked = conflict.step, conflict.patch, conflict.path, conflict.key
    answers = (a for a in job.state.answers if (a.step, a.patch, a.path, a.key) == asked)
    answer = next(answers, None)
    if answer is None:
        return None
    if answer.file is None:
        return Decision(None)
    data = read_bytes(job.folder / "answers" / answer.file)
    if has_crlf(data) and conflict.marked and b"\r\n" not in conflict.marked.data:
        raise DoesNotApplyError(
            f"{conflict.path}: its lines end with CRLF, and those of both sides with LF",
            remedy=f"convert it in {job.folder / 'conflicts'}, then "
            f"`pkgtools port --continue -o {job.output}`",
        )
    return Decision(Blob(data, answer.mode), answer.accepted)


def _wait(job: Job, conflicts: Sequence[ConflictedFile]) -> None:
    """Write the files that a person has to look at; ``port.json`` last.

    Before the old ones go, it says that they were taken: what is not there means a file that
    the person took away. What a run did not get past is not kept, so that it can be corrected.
    """
    if job.folder.exists():
        write_state(job.output, job.state)
    files = {f"conflicts/{c.path}": c.marked.data for c in conflicts if c.marked is not None}
    job.state.waiting = [
        Waiting(
            *(c.step, c.patch, c.path, c.key),
            questions=tuple(
                Conflict(h.line, h.reason or "", h.proposal.number if h.proposal else None)
                for h in c.hunks
            ),
            compiles=c.compiles,
            markers=c.markers,
            is_removed=c.is_removed,
            is_emptied=c.is_emptied,
        )
        for c in conflicts
    ]
    if not job.folder.exists():
        write_folder(job.folder, files | {STATE: encode_state(job.state)})
        return
    shutil.rmtree(job.conflicts, ignore_errors=True)
    for name, data in files.items():
        path = job.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)
    write_state(job.output, job.state)


def _report(job: Job, ported: Ported, patches: Sequence[Patch], copied: list[str]) -> PortReport:
    waiting = bool(ported.conflicts)
    kept = {patch.name for patch in patches}
    dropped = [] if waiting else [p for p in job.series.patches if p.name not in kept]
    absorbed = [p.path for p in dropped if p.path and is_absorbed(p, job.sources[-1])]
    return PortReport(
        series=str(job.series.directory),
        output=str(job.output),
        done=not waiting,
        work=str(job.folder) if waiting else None,
        steps=ported.steps,
        conflicts=[str(job.conflicts / c.path) for c in ported.conflicts],
        patches=references_from(job.output, patches),
        dropped=[patch.name for patch in dropped],
        absorbed=[name for path in absorbed if (name := job.place(path))],
        copied=copied,
    )
