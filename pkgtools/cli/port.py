"""``pkgtools port``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pkgtools.catalog import Catalog, load_catalog, load_series
from pkgtools.cli import common
from pkgtools.cli.output import say
from pkgtools.cli.sources import finder as make_finder
from pkgtools.cli.sources import from_option, git_option, named_series, wheel_option
from pkgtools.errors import DoesNotApplyError, UsageError
from pkgtools.port.model import Outcome
from pkgtools.port.work import Job, State, abort, read_state, resume, start

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pkgtools.port.model import HunkReport, PatchReport
    from pkgtools.port.work import Report

_COLORS = {Outcome.CONFLICT: "red", Outcome.BLOCKED: "red", Outcome.MERGED: "yellow"}


@dataclass(frozen=True)
class _Request:
    """What was asked for."""

    catalog: Catalog
    series: str | None
    start: str | None
    end: str | None
    via: tuple[str, ...]
    wheels: tuple[Path, ...]
    repositories: tuple[Path, ...]
    output: Path | None


@click.command(short_help="Move a series to another revision.")
@click.option("--series", type=common.TEXT, help="The series' folder, or a target that has it.")
@from_option
@click.option("--to", "end_name", type=common.TEXT, metavar="SOURCE", help="What it shall be for.")
@click.option(
    "--via",
    type=common.TEXT,
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
@click.option("--continue", "go_on", is_flag=True, help="Take the edited conflicts and go on.")
@click.option("--abort", "drop", is_flag=True, help="Drop a port that waits for a person.")
@wheel_option
@git_option
@common.catalog_option
@common.json_option
@common.command
def port(
    series: str | None,
    start_name: str | None,
    end_name: str | None,
    via: tuple[str, ...],
    output: Path | None,
    go_on: bool,
    drop: bool,
    wheels: tuple[Path, ...],
    repositories: tuple[Path, ...],
    catalog: Path,
    as_json: bool,
) -> int:
    """Move a series to another revision of its upstream, and leave a person only what needs one.

    A SOURCE is a target, a release (0.5.22), a wheel, a tree, or a commit in
    --git. Without --via the port goes release by release, or commit by commit
    where --git has both ends. Each patch gets an outcome: unchanged, moved,
    merged (by which rule), absorbed (by which lines), conflict, empty.

    What is not certain is a conflict. It lies in NEWDIR.port/conflicts with
    ordinary markers: edit it there, then --continue. No series is written before
    all are gone, and the exit code is 3.

    \b
    Examples:
      pkgtools port --series v0.5.22 --to 0.5.23
      pkgtools port --series patches/sglang/v0.5.17 --from 0.5.17 --to 0.5.19 -o next
      pkgtools port --series v0.5.17 --to a1b2c3d --git ~/src/sglang
      pkgtools port --continue -o next
      pkgtools port --abort -o next
    """
    table = load_catalog(catalog)
    request = _Request(table, series, start_name, end_name, via, wheels, repositories, output)
    if go_on or drop:
        return _unfinished(request, drop=drop, both=go_on and drop, as_json=as_json)
    job = _new_job(request)
    return _show(job, start(job, common.Progress()), as_json=as_json)


def _unfinished(request: _Request, *, drop: bool, both: bool, as_json: bool) -> int:
    others = (*request.via, *request.wheels, *request.repositories)
    given = (request.series, request.start, request.end, *others)
    if both or any(value is not None for value in given):
        raise UsageError(
            "--continue and --abort stand alone, with -o",
            remedy="give one of them, with -o NEWDIR at most: the port knows the rest",
        )
    output = request.output or _only_output(request.catalog)
    if drop:
        folder = abort(output)
        if as_json:
            common.print_json({"dropped": str(folder)})
        else:
            say(f"dropped {folder}")
        return 0
    state = read_state(output)
    table = load_catalog(Path(state.catalog))
    found = [upstream for upstream in table.upstreams if upstream.name == state.upstream]
    if not found:
        raise UsageError(
            f"{table.path} has no upstream {state.upstream} any more",
            remedy="put it back, or drop the port with --abort",
        )
    upstream = found[0]
    wheels, repositories = map(Path, state.wheels), map(Path, state.repositories)
    finder = make_finder(table, upstream, list(wheels), list(repositories))
    sources = [finder.find(name).source for name in state.stops]
    job = Job(state, load_series(Path(state.series)), upstream, sources, output.absolute())
    return _show(job, resume(job, common.Progress()), as_json=as_json)


def _only_output(table: Catalog) -> Path:
    """Return the output of the one port that is under way, here or beside the catalog's series."""
    beside = table.path.parent.glob("patches/*/*.port")
    found = sorted({path.absolute() for path in (*Path.cwd().glob("*.port"), *beside)})
    if len(found) != 1:
        names = f" of {', '.join(map(str, found))}" if found else ""
        raise UsageError(f"which port is meant{names}?", remedy="name its folder with -o NEWDIR")
    return found[0].with_suffix("")


def _new_job(request: _Request) -> Job:
    if request.series is None or request.end is None:
        raise UsageError(
            "a port needs --series and --to",
            remedy="say what goes where: `pkgtools port --series v0.5.22 --to 0.5.23`",
        )
    table = request.catalog
    named = named_series(table, request.series)
    finder = make_finder(table, named.upstream, request.wheels, request.repositories)
    loaded = named.load()
    begin = finder.find(named.source_name(request.start))
    end = finder.find(request.end)
    between = (
        [finder.find(name) for name in request.via]
        if request.via
        else finder.between(begin, end, loaded.paths)
    )
    stops = [begin, *between, end]
    output = request.output or named.directory.with_name(_folder_name(table, request.end))
    state = State(
        1,
        str(named.directory.absolute()),
        [stop.name for stop in stops],
        named.upstream.name,
        str(table.path.absolute()),
        [str(path.absolute()) for path in request.wheels],
        [str(path.absolute()) for path in request.repositories],
    )
    return Job(state, loaded, named.upstream, [stop.source for stop in stops], output.absolute())


def _folder_name(table: Catalog, end: str) -> str:
    """Return what to call the new series: a target's series, or like the source."""
    for target in table.targets:
        if end in (target.name, target.revision.version):
            return target.directory.name
    return f"v{end}" if end[:1].isdigit() and "/" not in end else Path(end).name[:12]


def _show(job: Job, report: Report, *, as_json: bool) -> int:
    if as_json:
        common.print_json(report)
    else:
        say("\n".join(_lines(job, report)))
    return 0 if report.done else DoesNotApplyError.exit_code


def _lines(job: Job, report: Report) -> Iterator[str]:
    for step in report.steps:
        yield f"{step.base} -> {step.theirs}"
        for patch in step.patches:
            yield from _patch_lines(patch)
    if report.done and report.patches:
        yield f"wrote {report.output}: {common.count(len(report.patches), 'patch', 'patches')}"
    for name in report.dropped:
        yield f"  left out: {name}"
    if report.done and report.patches:
        yield from _next_lines(job, report)
    elif report.done:
        yield "no patch is left: there is no series to write"
    if report.conflicts:
        waiting = common.count(len(report.conflicts), "file waits", "files wait")
        yield f"{waiting} for you:"
        yield from (f"  {path}" for path in report.conflicts)
        yield f"  next: edit them, then `pkgtools port --continue -o {report.output}`"


def _next_lines(job: Job, report: Report) -> Iterator[str]:
    """Yield what is still to do until the new series has a target."""
    if report.copied:
        yield f"  next: correct {', '.join(report.copied)}: copied from {report.series}"
    place = job.place(job.output)
    if place is None:
        yield f"  next: move {report.output} into {job.shelf}"
    yield f"  next: add its target to {job.state.catalog}, with"
    yield f"    series = {json.dumps(place or job.output.name)}"
    if report.absorbed:
        yield f"    absorbed = {json.dumps(report.absorbed)}"
    yield "  next: `pkgtools lock`"


def _patch_lines(patch: PatchReport) -> Iterator[str]:
    color = _COLORS.get(patch.outcome, "green")
    yield f"  {click.style(f'{patch.outcome:9}', fg=color)} {patch.patch}"
    for hunk in patch.hunks:
        if hunk.outcome is not Outcome.UNCHANGED:
            yield f"    {_place(hunk)}: {hunk.outcome}{_details(hunk)}"


def _place(hunk: HunkReport) -> str:
    return f"{hunk.path}:{hunk.line}" if hunk.line else hunk.path


def _details(hunk: HunkReport) -> str:
    if hunk.outcome is Outcome.MOVED:
        return f" to {(hunk.to or '').removeprefix(f'{hunk.path}:')}"
    if hunk.absorbed_by:
        return f" by {', '.join(hunk.absorbed_by)}"
    if hunk.reason and (hunk.outcome is Outcome.CONFLICT or not hunk.rules):
        return f": {hunk.reason}"
    return f" ({', '.join(hunk.rules)})" if hunk.rules else ""
