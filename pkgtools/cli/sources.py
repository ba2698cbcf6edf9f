"""Options that name a series and its sources."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from pkgtools.authoring.work import SeriesWork
from pkgtools.catalog import Catalog
from pkgtools.catalog.named import NamedSeries, named_series
from pkgtools.cli import common
from pkgtools.cli.next_step import given, shell
from pkgtools.cli.output import note
from pkgtools.errors import UsageError
from pkgtools.port.route import Finder
from pkgtools.source import Tree
from pkgtools.source.at_hand import Sources
from pkgtools.source.choose import open_trees
from pkgtools.tree.choose import edited_target

SOURCES: Final = ("wheels", "repositories")
"""The parameters that name sources of a release."""

series_option = click.option(
    "--series",
    type=common.TargetName(),
    metavar="SERIES",
    help="A series folder, or the target of a series.  [default: the one in the tree, else the "
    "catalog's only one]",
)
from_option = click.option(
    "--from",
    "start_name",
    type=common.TargetName(),
    metavar="SOURCE",
    help="The source that the series applies to.  [default: the revision of --series' target]",
)
accept_option = click.option(
    "--accept",
    multiple=True,
    is_flag=False,
    flag_value="*",  # pkgtools.port.work.EVERY_FILE, which most commands do not import
    metavar="[FILE]",
    help="Go on with a port that waits: take the proposals first, in all files or in this one.",
)


@dataclass(frozen=True)
class SeriesOptions(Sources):
    """A series to read or edit: what --series, --from, --wheel and --git name."""

    series: str | None = None
    start_name: str | None = None

    def open(
        self, catalog: Catalog, tree: Path | None = None, trees: Sequence[Tree] = ()
    ) -> SeriesWork:
        """Return the series with its source.

        Where no source is given, the repository of an edited checkout is one: it has the
        release's tag, and so all files of the release, of which a wheel may lack some.
        """
        sources: Sources = self
        if not (self.wheels or self.repositories) and tree is not None and (tree / ".git").exists():
            sources = Sources(repositories=[tree])
        named = choose_series(catalog, self.series, trees)
        finder = Finder(catalog, named.upstream, common.Progress(), sources)
        start = finder.find(named.source_name(self.start_name))
        return SeriesWork(catalog, named, common.Progress(), start.source, start.version)

    def open_edited(
        self, catalog: Catalog, tree: Path | None, python: str | None
    ) -> tuple[SeriesWork, Tree]:
        """Return the series, and the tree with edits: by default the installed package."""
        trees = open_trees(catalog, catalog.upstreams, tree, python) if self.series is None else []
        work = self.open(catalog, tree, trees)
        return work, open_trees(catalog, [work.named.upstream], tree, python)[0]


_wheel_option = click.option(
    "--wheel", "wheels", type=common.EXISTING_PATH, multiple=True, help="A wheel; can be repeated."
)
_git_option = click.option(
    "--git",
    "repositories",
    type=common.EXISTING_PATH,
    multiple=True,
    help="A git repository; can be repeated.",
)
source_options = common.gathered("sources", Sources, _wheel_option, _git_option)
series_options = common.gathered(
    "chosen", SeriesOptions, series_option, from_option, _wheel_option, _git_option
)


def choose_series(catalog: Catalog, given: str | None, trees: Sequence[Tree] = ()) -> NamedSeries:
    """Return the series that --series names, else the last in a tree, else the only one."""
    if given is not None:
        return named_series(catalog, given)
    found = [target for tree in trees if (target := edited_target(catalog, tree))]
    series = {target.directory: target for target in reversed(catalog.targets)}
    if not found and len(series) == 1:
        found = list(series.values())
    if not found:
        names = ", ".join(target.name for target in catalog.targets)
        raise UsageError(
            f"--series is missing, and {catalog.path} has "
            + (f"several: {names}" if names else "no target"),
            remedy=f"name one of these targets: --target {catalog.targets[-1].name}"
            if names
            else "name the series' folder with --series",
        )
    note(f"the series is that of {found[0].name}")
    return named_series(catalog, found[0].name)


def proving_lines(
    named: NamedSeries,
    where: Sequence[str] | None = None,
    *,
    edited: bool = False,
    every_series: bool = False,
) -> Iterator[str]:
    """Yield the commands to run after a change of a series: `lock`, then `adopt`.

    `where`: the options of `lock`; by default those that the user gave. `edited`: a tree has the
    edits that the series took. `every_series`: other series changed too.
    """
    if named.source is None:
        yield "  next: name the series in a target, then `pkgtools lock`"
        return
    sources = given(*SOURCES, "catalog") if where is None else where
    target = [] if every_series else ["--target", named.source]
    yield f"  next: `{shell('lock', *target, *sources)}`"
    if edited:
        words = ["--target", named.source, *given("tree", "python"), *sources]
        yield f"  then: `{shell('adopt', *words)}` writes a receipt for the edited tree"
