"""``pkgtools port``."""

import difflib
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from pkgtools.catalog import load_catalog
from pkgtools.catalog.writes import COPY, is_packaged
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.next_step import completed, shell
from pkgtools.cli.output import note
from pkgtools.cli.sources import accept_option, choose_series, from_option, source_options
from pkgtools.errors import DoesNotApplyError, UsageError
from pkgtools.merge.markers import marked_line
from pkgtools.port.job import Route, new_job, only_output, unfinished_job
from pkgtools.port.model import HunkOutcome, HunkReport, PatchReport, StepReport
from pkgtools.port.route import newest_target
from pkgtools.port.target import check_writable, target_table, write_target
from pkgtools.port.work import Job, PortReport, abort, resume, start
from pkgtools.source.at_hand import Sources
from pkgtools.util.files import read_file

_SHOWN: Final = 12
"""Lines of a proposal; the whole of it is in the file with the conflict."""
_COLORS = {HunkOutcome.CONFLICT: "red", HunkOutcome.BLOCKED: "red", HunkOutcome.MERGED: "yellow"}


@common.command()
@click.option(
    "--series",
    type=common.TargetName(),
    metavar="SERIES",
    help="The series' folder, or a target that has it.  [default: the newest release's with --to "
    "latest, else the catalog's only one]",
)
@from_option
@click.option(
    "--to",
    "end_name",
    type=common.TargetName(),
    metavar="SOURCE",
    help="The new source; latest: the newest release.",
)
@click.option(
    "--via",
    type=common.TargetName(),
    multiple=True,
    metavar="SOURCE",
    help="A source on the way; can be repeated.  [default: every release or commit between]",
)
@click.option(
    "-o",
    "--output",
    type=common.PATH,
    metavar="NEWDIR",
    help="The folder of the new series.  [default: beside the old one, named like --to]",
)
@click.option("--continue", "go_on", is_flag=True, help="Continue with the edited conflicts.")
@accept_option
@click.option(
    "--write",
    is_flag=True,
    help="Add the target of the new series to the catalog, once it is made.",
)
@click.option("--abort", "drop", is_flag=True, help="Discard a port with conflicts.")
@source_options
def port(
    series: str | None,
    start_name: str | None,
    end_name: str | None,
    via: tuple[str, ...],
    output: Path | None,
    go_on: bool,
    accept: tuple[str, ...],
    drop: bool,
    write: bool,
    sources: Sources,
    catalog_path: Path,
) -> Output:
    """Move a series to another revision of its upstream; only uncertain merges are left to you.

    A SOURCE is a target, a release (0.5.22), a wheel, a tree, or a commit in
    --git. Without --via, the port goes release by release, or commit by commit
    if --git has both ends. Each patch gets an outcome: unchanged, moved, merged
    (by a rule), absorbed (by upstream lines), conflict, empty.

    A merge that is not certain is a conflict, with ordinary markers in
    NEWDIR.port/conflicts: edit the file there, then use --continue. A proposal
    follows a conflict with a likely answer; --accept accepts it. While conflicts
    are left, no series is written and the exit code is 3.

    \b
    Examples:
      pkgtools port --series v0.5.22 --to 0.5.23
      pkgtools port --to latest --write
      pkgtools port --series patches/sglang/v0.5.17 --from 0.5.17 --to 0.5.19 -o next
      pkgtools port --series v0.5.17 --to a1b2c3d --git ~/src/sglang
      pkgtools port --continue -o next
      pkgtools port --continue --accept -o next
      pkgtools port --continue --accept sglang/srt/server_args.py -o next
      pkgtools port --abort -o next
    """
    begun = (series, start_name, end_name, *via, *sources.wheels, *sources.repositories)
    if go_on or drop:
        if (drop and (go_on or write or accept)) or any(value is not None for value in begun):
            raise UsageError(
                "--continue and --abort stand alone, with -o",
                remedy="give one of them, with -o NEWDIR at most: the port knows the rest",
            )
        output = output or only_output(load_catalog(catalog_path))
        if drop:
            dropped = str(abort(output))
            return Output({"dropped": dropped}, [f"dropped {dropped}"])
        job = unfinished_job(output, common.Progress())
        if write:
            check_writable(load_catalog(Path(job.state.catalog)), job)
        return _output(job, resume(job, common.Progress(), accept), write=write)
    if accept:
        raise UsageError(
            "--accept goes with --continue",
            remedy="start the port first: it lists the conflicts with a proposal",
        )
    if end_name is None:
        raise UsageError(
            "a port needs --to", remedy="name a release, or --to latest for the newest"
        )
    catalog = load_catalog(catalog_path)
    if series is None and end_name == "latest":
        series = newest_target(catalog).name
        note(f"the series is that of {series}")
    job = new_job(
        catalog,
        choose_series(catalog, series),
        Route(start_name, end_name, via, sources),
        output,
        common.Progress(),
    )
    if write:
        check_writable(catalog, job)
    return _output(job, start(job, common.Progress()), write=write)


def _output(job: Job, report: PortReport, *, write: bool) -> Output:
    if write and report.done and report.patches:
        write_target(Path(job.state.catalog), target_table(job, report))
    code = 0 if report.done else DoesNotApplyError.exit_code
    return Output(report, _lines(job, report, write=write), code)


def _lines(job: Job, report: PortReport, *, write: bool) -> Iterator[str]:
    for step in report.steps:
        yield f"{step.base} -> {step.theirs}"
        for patch in step.patches:
            yield from _patch_lines(patch)
    if report.done and report.patches:
        yield f"wrote {report.output}: {common.count(len(report.patches), 'patch', 'patches')}"
    superfluous = {
        patch.patch: f" ({patch.outcome} in {step.theirs})"
        for step in reversed(report.steps)
        for patch in step.patches
        if patch.outcome in (HunkOutcome.ABSORBED, HunkOutcome.EMPTY)
    }
    for name in report.dropped:
        yield f"  left out: {name}{superfluous.get(name, '')}"
    for step in report.steps:
        yield from _dropped_lines(step)
    if not report.done:
        yield from _conflict_lines(report, write=write)
    elif report.patches:
        yield from _next_lines(job, report, write=write)
    else:
        yield "every patch is absorbed or empty: nothing to write"


def _dropped_lines(step: StepReport) -> Iterator[str]:
    """Yield each place where an accepted proposal has upstream's lines instead of the patch's."""
    for patch in step.patches:
        for hunk in patch.hunks:
            if hunk.drops and hunk.outcome is not HunkOutcome.CONFLICT:
                rule = hunk.rules[-1]
                yield f"  dropped: the change of {patch.patch} at {_place(hunk)} ({rule})"


def _conflict_lines(report: PortReport, *, write: bool) -> Iterator[str]:
    yield f"{common.count(len(report.conflicts), 'file waits', 'files wait')} for you:"
    for path in report.conflicts:
        line = marked_line(blob.data) if (blob := read_file(Path(path))) is not None else None
        yield f"  {path}" + (f":{line}" if line else "")
    again = ["--continue", *(["--write"] if write else []), "-o", str(report.output)]
    them = "it" if len(report.conflicts) == 1 else "them"
    yield f"  next: edit {them}, then `{shell('port', *again)}`"
    hunks = [h for step in report.steps[-1:] for p in step.patches for h in p.hunks]
    asked = [h for h in hunks if h.outcome is HunkOutcome.CONFLICT]
    if likely := sum(h.proposal is not None for h in asked):
        yield (
            f"  proposals: {likely} of {common.count(len(asked), 'conflict', 'conflicts')}; read "
            f"them there, and accept them with `{shell('port', *again, '--accept')}`"
        )
    if dropping := sum(h.drops for h in asked):
        yield f"  {dropping} of the proposals would drop the patch's change"


def _next_lines(job: Job, report: PortReport, *, write: bool) -> Iterator[str]:
    """Yield the steps that are left until the new series has a target."""
    if report.copied:
        yield f"  next: correct {', '.join(report.copied)}: copied from {report.series}"
    catalog, shelf, lock = Path(job.state.catalog), job.shelf, "pkgtools lock"
    if is_packaged(catalog):
        yield f"  next: {COPY}"
        catalog, shelf = Path("catalog", catalog.name), Path("catalog/patches", job.upstream.name)
        lock += f" --catalog {catalog}"
    if job.place(job.output) is None:
        yield f"  next: move {report.output} into {shelf}"
    if write:
        yield f"  added its target {job.output.name} to {job.state.catalog}"
    else:
        yield f"  next: add its target to {catalog} (the next port does it with --write):"
        yield from (f"    {line}" for line in target_table(job, report).splitlines())
    yield f"  next: {completed(f'`{lock} --target {shlex.quote(job.output.name)}`')}"


def _patch_lines(patch: PatchReport) -> Iterator[str]:
    color = _COLORS.get(patch.outcome, "green")
    yield f"  {click.style(f'{patch.outcome:9}', fg=color)} {patch.patch}"
    for hunk in patch.hunks:
        if hunk.outcome is not HunkOutcome.UNCHANGED:
            yield f"    {_place(hunk)}: {hunk.outcome}{_details(hunk)}"
            yield from _proposal_lines(hunk)


def _proposal_lines(hunk: HunkReport) -> Iterator[str]:
    if hunk.proposal is None or hunk.sides is None:
        return
    yield f"      proposal {hunk.proposal.number} ({hunk.proposal.rule}{hunk.lost}):"
    sides = hunk.sides.theirs.splitlines(), hunk.proposal.text.splitlines()
    diff = list(difflib.unified_diff(*sides, lineterm="", n=1))[3:]
    yield from (f"        {line}" for line in diff[:_SHOWN])
    if diff[_SHOWN:]:
        yield f"        ... {common.count(len(diff) - _SHOWN, 'more line', 'more lines')}"


def _place(hunk: HunkReport) -> str:
    return f"{hunk.path}:{hunk.line}" if hunk.line else hunk.path


def _details(hunk: HunkReport) -> str:
    if hunk.outcome is HunkOutcome.MOVED:
        return f" to {(hunk.to or '').removeprefix(f'{hunk.path}:')}"
    if hunk.absorbed_by:
        return f" by {', '.join(hunk.absorbed_by)}"
    if hunk.reason and (hunk.outcome is HunkOutcome.CONFLICT or not hunk.rules):
        return f": {hunk.reason}"
    return f" ({', '.join(hunk.rules)})" if hunk.rules else ""
