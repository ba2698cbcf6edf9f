"""``pkgtools refresh``."""

from collections.abc import Iterator
from pathlib import Path

import click

from pkgtools.authoring.refresh import Refreshed, refresh_series
from pkgtools.authoring.work import SeriesWork
from pkgtools.catalog import Catalog
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.sources import (
    SOURCES,
    edited_tree,
    from_option,
    open_work,
    proving_lines,
    series_option,
    source_options,
)


@click.command(cls=common.Command)
@series_option
@from_option
@click.option(
    "--tree",
    type=common.PATH,
    help="A patched tree with edits.  [default: none, to correct hunks only]",
)
@click.option(
    "--python",
    type=common.TEXT,
    help="The interpreter that imports a patched package with edits.",
)
@click.option(
    "--patch",
    type=common.TEXT,
    help="The patch that takes the edits.  [default: the last that can]",
)
@source_options
@common.catalog_option
@common.command
def refresh(
    series: str | None,
    start_name: str | None,
    tree: Path | None,
    python: str | None,
    patch: str | None,
    wheels: tuple[Path, ...],
    repositories: tuple[Path, ...],
    catalog: Catalog,
) -> Output:
    """Write the edits of a patched tree into its series, and correct hunks' line numbers.

    A file's edits go into the last patch that changes it. Other patches keep their bytes.
    An edit of a shared patch or of an added file is written in place; the output names
    the other targets that it changes. `pkgtools lock` proves the result.

    \b
    Examples:
      pkgtools refresh --series v0.5.23
      pkgtools refresh --series v0.5.23 --python .venv/bin/python
      pkgtools refresh --series v0.5.23 --tree ~/src/sglang
      pkgtools refresh --series v0.5.23 --tree ~/src/sglang --patch limit.patch
    """
    is_edited = tree is not None or python is not None
    work = open_work(
        catalog, series, start_name, wheels, repositories, tree, python=python, is_edited=is_edited
    )
    where = edited_tree(work, tree, python) if is_edited else None
    done = refresh_series(work, where, patch)
    return Output(done, _lines(work, done, edited=is_edited))


def _lines(work: SeriesWork, done: Refreshed, *, edited: bool) -> Iterator[str]:
    for name in done.rewritten:
        yield f"rewritten {name}"
    yield f"{common.count(len(done.unchanged), 'patch', 'patches')} unchanged"
    for path in done.beyond:
        yield f"not in the series: {path}"
    if done.beyond:
        options = common.given("series", "start_name", "tree", "python", *SOURCES, "catalog")
        name = f"{Path(done.beyond[0]).stem}.patch"
        command = common.shell("new", name, *options, "-m", "What it does")
        yield f"  next: make a patch of these files: `{command}`"
    for edit in done.shared:
        yield f"shared    {edit.patch} also changes {', '.join(edit.targets) or 'no other target'}"
        for file in edit.files:
            yield f"  {file}"
    if done.rewritten:
        yield from proving_lines(work.named, edited=edited, every_series=bool(done.shared))
