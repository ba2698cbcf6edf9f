"""Making the job of a port: of what a user named, or of the folder of one under way."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pkgtools.authoring.folder import refuse_existing
from pkgtools.catalog import Catalog, load_catalog, load_series
from pkgtools.catalog.named import NamedSeries
from pkgtools.errors import UsageError
from pkgtools.port.route import Finder
from pkgtools.port.state import PortState, read_state, work_folder
from pkgtools.port.target import revision_of
from pkgtools.port.work import Job
from pkgtools.source.at_hand import Sources
from pkgtools.util.progress import Reporter


@dataclass(frozen=True)
class Route:
    """The start and the end of a port, and the sources between them."""

    start: str | None
    end: str
    """A source, or ``latest`` for the newest release."""
    via: Sequence[str]
    """Empty: every release or commit between."""
    sources: Sources


def new_job(
    catalog: Catalog, named: NamedSeries, route: Route, output: Path | None, reporter: Reporter
) -> Job:
    """Return the job of a new port.

    Raises:
        UsageError: a source of the route is unknown, the output exists already, or a port to it
            is under way.

    """
    series = named.load_patched()
    finder = Finder(catalog, named.upstream, reporter, route.sources)
    last = finder.latest() if route.end == "latest" else route.end
    output = (output or named.directory.with_name(_folder_name(catalog, last))).absolute()
    if output == named.directory.absolute():
        raise UsageError(
            f"{output}: the series is for {last} already",
            remedy="name another release with --to, or a new folder with -o",
        )
    _refuse_taken(output)  # before a source is downloaded
    start, end = finder.find(named.source_name(route.start)), finder.find(last)
    between = (
        [finder.find(name) for name in route.via]
        if route.via
        else finder.between(start, end, series.paths)
    )
    stops = [start, *between, end]
    state = PortState(
        version=1,
        series=str(named.directory.absolute()),
        stops=[stop.name for stop in stops],
        upstream=named.upstream.name,
        catalog=str(catalog.path.absolute()),
        wheels=[str(path.absolute()) for path in route.sources.wheels],
        repositories=[str(path.absolute()) for path in route.sources.repositories],
    )
    revision = revision_of(catalog, named.upstream, end)
    sources = [stop.source for stop in stops]
    return Job(state, series, named.upstream, sources, output, revision=revision)


def _refuse_taken(output: Path) -> None:
    refuse_existing(output)
    folder = work_folder(output)
    if folder.exists():
        raise UsageError(
            f"{folder}: the port in this folder is not finished",
            remedy=f"continue it with `pkgtools port --continue -o {output}`, or discard it with "
            f"`pkgtools port --abort -o {output}`",
        )


def unfinished_job(output: Path, reporter: Reporter) -> Job:
    """Return the job of the port to `output` that is under way.

    Raises:
        UsageError: there is none, or its upstream is gone from the catalog.

    """
    state = read_state(output)
    catalog = load_catalog(Path(state.catalog))
    upstream = next((u for u in catalog.upstreams if u.name == state.upstream), None)
    if upstream is None:
        raise UsageError(
            f"{catalog.path} has no upstream {state.upstream} any more",
            remedy="put it back, or drop the port with --abort",
        )
    sources = Sources(list(map(Path, state.wheels)), list(map(Path, state.repositories)))
    finder = Finder(catalog, upstream, reporter, sources)
    stops = [finder.find(name) for name in state.stops]
    revision = revision_of(catalog, upstream, stops[-1])
    series, opened = load_series(Path(state.series)), [stop.source for stop in stops]
    return Job(state, series, upstream, opened, output.absolute(), revision=revision)


def only_output(catalog: Catalog) -> Path:
    """Return the output of the one port that is under way, here or beside the catalog's series.

    Raises:
        UsageError: there is none, or more than one.

    """
    beside = catalog.path.parent.glob("patches/*/*.port")
    found = sorted({path.absolute() for path in (*Path.cwd().glob("*.port"), *beside)})
    if len(found) != 1:
        names = f"several ports wait: {', '.join(map(str, found))}"
        raise UsageError(
            names if found else f"no port waits in this folder or beside {catalog.path}",
            remedy="name its folder with -o NEWDIR, without .port at the end",
        )
    return found[0].with_suffix("")


def _folder_name(catalog: Catalog, end: str) -> str:
    """Return what to call the new series: a target's series, or like the source."""
    for target in catalog.targets:
        if end in (target.name, target.revision.version):
            return target.directory.name
    return f"v{end}" if end[:1].isdigit() and "/" not in end else Path(end).name[:12]
