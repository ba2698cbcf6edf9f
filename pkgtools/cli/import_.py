"""``pkgtools import``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pkgtools.authoring.flat import import_patches
from pkgtools.catalog import load_catalog
from pkgtools.cli import common
from pkgtools.cli.output import say
from pkgtools.cli.sources import git_option, wheel_option
from pkgtools.errors import UsageError
from pkgtools.port.route import Finder

if TYPE_CHECKING:
    from pathlib import Path


@click.command("import", short_help="Make a series of patches or of a flat diff.")
@click.argument("patches", type=common.EXISTING_PATH, nargs=-1, required=True)
@click.option("-o", "--output", type=common.PATH, required=True, help="The new series' folder.")
@click.option(
    "--from",
    "start_name",
    type=common.TEXT,
    metavar="SOURCE",
    help="What they were made for; they are checked against it.",
)
@click.option(
    "--upstream",
    "name",
    type=common.TEXT,
    help="The upstream that --from is of.  [default: the first]",
)
@wheel_option
@git_option
@common.catalog_option
@common.json_option
@common.command
def import_(
    patches: tuple[Path, ...],
    output: Path,
    start_name: str | None,
    name: str | None,
    wheels: tuple[Path, ...],
    repositories: tuple[Path, ...],
    catalog: Path,
    as_json: bool,
) -> int:
    """Make a series of patch files, of a flat diff, or of a folder of patches.

    Every file keeps its bytes; one without a number gets one. With --from they are
    checked against the source that they were made for.

    \b
    Examples:
      pkgtools import all.diff -o patches/sglang/mine
      pkgtools import their-patches/ -o patches/sglang/theirs --from 0.5.17
    """
    if name is not None and start_name is None:
        raise UsageError("--upstream needs --from")
    table = load_catalog(catalog)
    source = None
    if start_name is not None:
        finder = Finder(table, table.upstream(name), common.Progress(), wheels, repositories)
        source = finder.find(start_name).source
    names = import_patches(patches, output, source)
    if as_json:
        common.print_json({"output": str(output), "patches": names})
        return 0
    say(f"wrote {output}: {common.count(len(names), 'patch', 'patches')}")
    for patch in names:
        say(f"  {patch}")
    return 0
