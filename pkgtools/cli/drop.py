"""``pkgtools drop``."""

from __future__ import annotations

from pathlib import Path

import click

from pkgtools.authoring.arrange import drop_patches
from pkgtools.cli import common
from pkgtools.cli.arranging import open_arranging, show_arranged
from pkgtools.cli.sources import git_option, series_option, wheel_option


@click.command(short_help="Take patches out of a series.")
@click.argument("patches", nargs=-1, required=True, type=common.TEXT)
@series_option
@wheel_option
@git_option
@common.catalog_option
@common.json_option
@common.command
def drop(
    patches: tuple[str, ...],
    series: str | None,
    wheels: tuple[Path, ...],
    repositories: tuple[Path, ...],
    catalog: Path,
    as_json: bool,
) -> int:
    """Take patches out of a series, and write its lockfile.

    The rest is proven on the sources of all revisions of the series first, as `pkgtools lock`
    does it. Where a later patch needs a dropped one, nothing is written. The file of a shared
    patch stays for the other series.

    \b
    Examples:
      pkgtools drop limit.patch --series v0.5.23
      pkgtools drop limit.patch more.patch --series kimi-k3-ee560a2 --git ~/src/sglang
    """
    work, at_hand = open_arranging(catalog, series, wheels, repositories)
    done = drop_patches(work, patches, at_hand)
    return show_arranged(done, "dropped", as_json=as_json)
