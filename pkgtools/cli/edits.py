"""``pkgtools new`` and ``pkgtools refresh``: edits of a patched tree go into its series."""

from collections.abc import Iterator
from pathlib import Path

import click

from pkgtools.authoring.new import new_patch
from pkgtools.authoring.refresh import Refreshed, refresh_series
from pkgtools.authoring.work import SeriesWork
from pkgtools.catalog import Catalog
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.next_step import given, shell
from pkgtools.cli.sources import SOURCES, SeriesOptions, proving_lines, series_options


@common.command()
@click.argument("name")
@series_options
@common.tree_options
@click.option("-m", "--message", required=True, help="The patch's subject; more below it.")
@click.option(
    "--author", default="nobody <nobody@localhost>", show_default=True, help="Name <address>."
)
def new(
    name: str,
    chosen: SeriesOptions,
    tree: Path | None,
    python: str | None,
    message: str,
    author: str,
    catalog: Catalog,
) -> Output:
    """Make a patch from the edits of a patched tree, and append it to the series.

    The tree is the series' source with the series applied, and your edits. The default is the
    installed package.

    \b
    Examples:
      pkgtools new limit.patch --series v0.5.23 -m "Limit the batch"
      pkgtools new limit.patch --series v0.5.23 --python .venv/bin/python -m "Limit the batch"
      pkgtools new limit.patch --series v0.5.23 --tree ~/src/sglang -m "Limit the batch"
    """
    work, edited = chosen.open_edited(catalog, tree, python)
    name = name if name.endswith(".patch") else f"{name}.patch"
    made, left_out = new_patch(work, edited, name, message, author)
    folder, files = work.named.directory, made.files
    facts = {
        "patch": made.name,
        "series": str(folder),
        "files": [{"path": file.new_path, "kind": file.kind} for file in files],
        "left_out": left_out,
    }
    lines = [
        f"wrote {folder / made.name}",
        *(f"  {file.kind} {file.new_path}" for file in files),
        *(f"  left out {path}" for path in left_out),
        *proving_lines(work.named, edited=True),
    ]
    return Output(facts, lines)


@common.command()
@series_options
@click.option(
    "--tree",
    type=common.PATH,
    callback=common.only_tree,
    help="A patched tree with edits.  [default: none, to correct hunks only]",
)
@click.option(
    "--python",
    callback=common.only_tree,
    help="The interpreter that imports a patched package with edits.",
)
@click.option("--patch", help="The patch that takes the edits.  [default: the last that can]")
def refresh(
    chosen: SeriesOptions,
    tree: Path | None,
    python: str | None,
    patch: str | None,
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
    if tree is None and python is None:
        work, edited = chosen.open(catalog), None
    else:
        work, edited = chosen.open_edited(catalog, tree, python)
    done = refresh_series(work, edited, patch)
    return Output(done, _refreshed_lines(work, done, edited=edited is not None))


def _refreshed_lines(work: SeriesWork, done: Refreshed, *, edited: bool) -> Iterator[str]:
    for name in done.rewritten:
        yield f"rewritten {name}"
    yield f"{common.count(len(done.unchanged), 'patch', 'patches')} unchanged"
    for path in done.beyond:
        yield f"not in the series: {path}"
    if done.beyond:
        options = given("series", "start_name", "tree", "python", *SOURCES, "catalog")
        name = f"{Path(done.beyond[0]).stem}.patch"
        command = shell("new", name, *options, "-m", "What it does")
        yield f"  next: make a patch of these files: `{command}`"
    for edit in done.shared:
        yield f"shared    {edit.patch} also changes {', '.join(edit.targets) or 'no other target'}"
        for file in edit.files:
            yield f"  {file}"
    if done.rewritten:
        yield from proving_lines(work.named, edited=edited, every_series=bool(done.shared))
