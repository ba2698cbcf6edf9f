"""``pkgtools reorder``."""

from __future__ import annotations

from pathlib import Path

import click

from pkgtools.authoring.arrange import Place, reorder_patches
from pkgtools.cli import common
from pkgtools.cli.arranging import open_arranging, show_arranged
from pkgtools.cli.sources import git_option, series_option, wheel_option
from pkgtools.errors import UsageError


@click.command(short_help="Move patches within a series.")
@click.argument("patches", nargs=-1, required=True, type=common.TEXT)
@series_option
@click.option("--before", type=common.TEXT, metavar="PATCH", help="Move them before this one.")
@click.option("--after", type=common.TEXT, metavar="PATCH", help="Move them behind this one.")
@wheel_option
@git_option
@common.catalog_option
@common.json_option
@common.command
def reorder(
    patches: tuple[str, ...],
    series: str | None,
    before: str | None,
    after: str | None,
    wheels: tuple[Path, ...],
    repositories: tuple[Path, ...],
    catalog: Path,
    as_json: bool,
) -> int:
    """Move patches within a series, and write its lockfile.

    Without --before and --after, PATCHES are all patches of the series in their new order. The
    new order is proven on the sources of all revisions of the series first; where a patch does
    not apply in its new place, nothing is written.

    \b
    Examples:
      pkgtools reorder limit.patch --before fix.patch --series v0.5.23
      pkgtools reorder fix.patch limit.patch more.patch --series v0.5.23
    """
    if before is not None and after is not None:
        raise UsageError("--before and --after name two places", remedy="give one of them")
    place = Place(before or after or "", before is None) if before or after else None
    work, at_hand = open_arranging(catalog, series, wheels, repositories)
    done = reorder_patches(work, patches, place, at_hand)
    return show_arranged(done, "moved", as_json=as_json)
