"""``pkgtools rename``."""

from __future__ import annotations

from pathlib import Path

import click

from pkgtools.authoring.arrange import rename_patch
from pkgtools.cli import common
from pkgtools.cli.arranging import open_arranging, show_arranged
from pkgtools.cli.sources import series_option


@click.command(short_help="Give a patch another file name.")
@click.argument("patch", type=common.TEXT)
@click.argument("new", type=common.TEXT)
@series_option
@common.catalog_option
@common.json_option
@common.command
def rename(patch: str, new: str, series: str | None, catalog: Path, as_json: bool) -> int:
    """Give a patch another file name, in every series, lockfile and target that names it.

    Nothing is proven again: no content changes. A folder of added files is renamed alike.

    \b
    Examples:
      pkgtools rename 0002-limit.patch batch-limit.patch --series v0.5.23
      pkgtools rename spec-capture capture --series v0.5.23
    """
    work, _ = open_arranging(catalog, series)
    return show_arranged(rename_patch(work, patch, new), "renamed", as_json=as_json)
