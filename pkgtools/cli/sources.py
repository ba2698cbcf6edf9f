"""Options that name a series and sources, and how those are found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pkgtools.catalog import Catalog, Series, Upstream, load_series
from pkgtools.cli import common
from pkgtools.errors import UsageError
from pkgtools.port.route import Finder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pkgtools.source import Source

series_option = click.option(
    "--series",
    type=common.TEXT,
    required=True,
    help="The series' folder, or a target that has it.",
)
from_option = click.option(
    "--from",
    "start_name",
    type=common.TEXT,
    metavar="SOURCE",
    help="What the series is for.  [default: the revision of --series' target]",
)
wheel_option = click.option(
    "--wheel", "wheels", type=common.EXISTING_PATH, multiple=True, help="A wheel; can be repeated."
)
git_option = click.option(
    "--git",
    "repositories",
    type=common.EXISTING_PATH,
    multiple=True,
    help="A git repository; can be repeated.",
)


@dataclass(frozen=True)
class NamedSeries:
    """A series, whose it is, and the name of the source that it is for."""

    directory: Path
    upstream: Upstream
    source: str | None

    def load(self) -> Series:
        """Read its patches."""
        return load_series(self.directory)

    def source_name(self, given: str | None) -> str:
        """Return the name of its source, or raise a `UsageError`."""
        name = given or self.source
        if name is None:
            raise UsageError(f"{self.directory} is no target's series: name its source with --from")
        return name


def named_series(table: Catalog, name: str) -> NamedSeries:
    """Return the series in a folder, or of a target."""
    if (Path(name) / "series").is_file():
        directory = Path(name).resolve()
        for target in table.targets:
            if target.directory.resolve() == directory:
                return NamedSeries(directory, target.upstream, target.name)
        owners = [u for u in table.upstreams if u.name == directory.parent.name]
        return NamedSeries(directory, (owners or table.upstreams)[0], None)
    target = table.target(name)
    return NamedSeries(target.directory, target.upstream, name)


def finder(
    table: Catalog, upstream: Upstream, wheels: Sequence[Path], repositories: Sequence[Path]
) -> Finder:
    """Return what finds sources by name."""
    checked = common.check_wheels(table, wheels)
    return Finder(
        table, upstream, common.Progress(), checked, common.open_repositories(repositories)
    )


def source_of(
    table: Catalog,
    series: NamedSeries,
    name: str | None,
    wheels: Sequence[Path],
    repositories: Sequence[Path],
) -> Source:
    """Return the source that a series is for."""
    wanted = series.source_name(name)
    return finder(table, series.upstream, wheels, repositories).find(wanted).source
