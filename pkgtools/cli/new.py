"""``pkgtools new``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pkgtools.authoring.new import PatchDraft, new_patch
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


@click.command(short_help="Make a patch of what a tree has beyond its series.")
@click.argument("name")
@series_option
@from_option
@click.option("--tree", type=common.PATH, required=True, help="The patched and edited tree.")
@click.option(
    "-m", "--message", type=common.TEXT, required=True, help="The patch's subject; more below it."
)
@click.option(
    "--author", default="nobody <nobody@localhost>", show_default=True, help="Name <address>."
)
@wheel_option
@git_option
@common.catalog_option
@common.json_option
@common.command
def new(
    name: str,
    series: str,
    start_name: str | None,
    tree: Path,
    message: str,
    author: str,
    wheels: tuple[Path, ...],
    repositories: tuple[Path, ...],
    catalog: Path,
    as_json: bool,
) -> int:
    """Make a patch of what a tree has beyond its series, and put it at the series' end.

    \b
    Examples:
      pkgtools new limit.patch --series v0.5.23 --tree ~/src/sglang -m "Limit the batch"
    """
    table = load_catalog(catalog)
    named = named_series(table, series)
    where = find_tree(tree, named.upstream)
    finder = Finder(table, named.upstream, common.Progress(), wheels, repositories)
    source = finder.find(named.source_name(start_name)).source
    draft = PatchDraft(name if name.endswith(".patch") else f"{name}.patch", message, author)
    made = new_patch(SeriesWork(table, named, source, common.Progress()), where, draft)
    files = [{"path": file.new_path, "kind": str(file.kind)} for file in made.patch.files]
    if as_json:
        facts = {"patch": made.patch.name, "series": str(named.directory), "files": files}
        common.print_json({**facts, "left_out": made.left_out})
        return 0
    say(f"wrote {named.directory / made.patch.name}")
    for file in files:
        say(f"  {file['kind']} {file['path']}")
    for path in made.left_out:
        say(f"  left out {path}")
    return 0
