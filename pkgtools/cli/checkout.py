"""``pkgtools checkout``."""

import shlex
from pathlib import Path

import click

from pkgtools.authoring.checkout import check_out
from pkgtools.catalog import Catalog
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.sources import from_option, open_work, series_option, source_options


@click.command(cls=common.Command)
@click.argument("folder", metavar="DIR", type=common.PATH)
@series_option
@from_option
@source_options
@common.catalog_option
@common.command
def checkout(
    folder: Path,
    series: str | None,
    start_name: str | None,
    wheels: tuple[Path, ...],
    repositories: tuple[Path, ...],
    catalog: Catalog,
) -> Output:
    """Make a git repository of a series: its source as the commit `base`, then its patches.

    Edit the commits with any git tool: `git rebase -i base` reorders, drops, edits and squashes
    them, and a new commit becomes a new patch. `pkgtools commit DIR` writes them back. The line
    `Patch-Filename` of a message names the patch file.

    \b
    Examples:
      pkgtools checkout work --series v0.5.23
      pkgtools checkout work --series kimi-k3-ee560a2 --git ~/src/sglang
    """
    done = check_out(open_work(catalog, series, start_name, wheels, repositories), folder)
    rebase = f"{shlex.join(['git', '-C', str(folder)])} rebase -i base"
    lines = [
        f"wrote {folder}: {done.source}, and a commit for each patch",
        *(f"  {commit[:12]} {name}" for name, commit in done.commits.items()),
        f"  next: edit the commits ({rebase}), then `{common.shell('commit', str(folder))}`",
    ]
    return Output(done, lines)
