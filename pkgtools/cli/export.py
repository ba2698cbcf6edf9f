"""``pkgtools export``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pkgtools.authoring.flat import export_series
from pkgtools.catalog import load_catalog
from pkgtools.catalog.named import named_series
from pkgtools.cli import common
from pkgtools.cli.output import say
from pkgtools.cli.sources import (
    from_option,
    git_option,
    series_option,
    wheel_option,
)
from pkgtools.port.route import Finder

if TYPE_CHECKING:
    from pathlib import Path


@click.command(short_help="Write a series as one flat diff.")
@series_option
@from_option
@click.option("-o", "--output", type=common.PATH, required=True, help="The file to write.")
@wheel_option
@git_option
@common.catalog_option
@common.json_option
@common.command
def export(
    series: str,
    start_name: str | None,
    output: Path,
    wheels: tuple[Path, ...],
    repositories: tuple[Path, ...],
    catalog: Path,
    as_json: bool,
) -> int:
    """Write what a series does to its source as one diff, without mail headers.

    \b
    Examples:
      pkgtools export --series v0.5.23 -o sglang-0.5.23.diff
      pkgtools export --series v0.5.23 --from path/to/checkout -o all.diff
    """
    table = load_catalog(catalog)
    named = named_series(table, series)
    loaded = named.load()
    finder = Finder(table, named.upstream, common.Progress(), wheels, repositories)
    source = finder.find(named.source_name(start_name)).source
    data = export_series(loaded, source)
    common.write_file(output, data)
    if as_json:
        common.print_json({"output": str(output), "patches": [p.name for p in loaded.patches]})
    else:
        patches = common.count(len(loaded.patches), "patch", "patches")
        say(f"wrote {output}: {patches} on {source.label}")
    return 0
