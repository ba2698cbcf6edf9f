"""``pkgtools refresh``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pkgtools.authoring.refresh import refresh_series
from pkgtools.authoring.work import SeriesWork
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
from pkgtools.source import find_tree

if TYPE_CHECKING:
    from pathlib import Path


@click.command(short_help="Take the edits of a patched tree into its series.")
@series_option
@from_option
@click.option(
    "--tree",
    type=common.PATH,
    help="A tree with the series in it, and edits.  [default: none, the hunks' places are written]",
)
@click.option(
    "--patch",
    type=common.TEXT,
    help="The patch that takes the edits.  [default: the last that can]",
)
@wheel_option
@git_option
@common.catalog_option
@common.json_option
@common.command
def refresh(
    series: str,
    start_name: str | None,
    tree: Path | None,
    patch: str | None,
    wheels: tuple[Path, ...],
    repositories: tuple[Path, ...],
    catalog: Path,
    as_json: bool,
) -> int:
    """Write the edits of a patched tree into its series, and correct the lines of hunks.

    A file's edits go into the last patch that changes it. Other patches keep their bytes.
    An edit of a shared patch or of an added file is written in place; the output names
    the other targets that it changes. `pkgtools lock` proves the result.

    \b
    Examples:
      pkgtools refresh --series v0.5.23
      pkgtools refresh --series v0.5.23 --tree ~/src/sglang
      pkgtools refresh --series v0.5.23 --tree ~/src/sglang --patch limit.patch
    """
    table = load_catalog(catalog)
    named = named_series(table, series)
    where = find_tree(tree, named.upstream) if tree is not None else None
    finder = Finder(table, named.upstream, common.Progress(), wheels, repositories)
    source = finder.find(named.source_name(start_name)).source
    done = refresh_series(SeriesWork(table, named, source, common.Progress()), where, patch)
    if as_json:
        common.print_json(done)
        return 0
    for name in done.rewritten:
        say(f"rewritten {name}")
    say(f"{common.count(len(done.unchanged), 'patch', 'patches')} unchanged")
    for path in done.beyond:
        say(f"not in the series: {path}")
    if done.beyond:
        say("next: make a patch of these files with `pkgtools new`")
    for edit in done.shared:
        say(f"shared    {edit.patch} also changes {', '.join(edit.targets) or 'no other target'}")
        for file in edit.files:
            say(f"  {file}")
    if done.shared:
        say("  next: prove every series that names them with `pkgtools lock`")
    return 0
