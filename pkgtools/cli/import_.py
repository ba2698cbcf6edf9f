"""``pkgtools import``."""

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from pkgtools.authoring.imports import Imported, import_patches
from pkgtools.authoring.levels import LevelFinder
from pkgtools.catalog import Catalog, load_catalog
from pkgtools.catalog.named import named_series
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.sources import proving_lines, source_options
from pkgtools.errors import UsageError
from pkgtools.port.route import Finder
from pkgtools.source.at_hand import Sources


@common.command("import")
@click.argument("patches", type=common.PATH, nargs=-1, required=True)
@click.option("-o", "--output", type=common.PATH, required=True, help="The new series' folder.")
@click.option(
    "--from",
    "start_name",
    type=common.TargetName(),
    metavar="SOURCE",
    help="The source that the patches were made for. They are checked against it.",
)
@click.option(
    "--upstream", "name", help="The upstream of --from and --package-only.  [default: the first]"
)
@click.option(
    "-p",
    "level",
    type=click.IntRange(0, 99),
    metavar="N",
    help="Folders to strip from names.  [default: as the names and --from show]",
)
@click.option(
    "--package-only",
    is_flag=True,
    help="Write the parts for other files (tests, docs) to the folder `outside` of the series.",
)
@source_options
def import_(
    patches: tuple[Path, ...],
    output: Path,
    start_name: str | None,
    name: str | None,
    level: int | None,
    package_only: bool,
    sources: Sources,
    catalog_path: Path,
) -> Output:
    """Make a series of patch files, mailboxes, a flat diff, or a folder of patches.

    Every file keeps its bytes; a name without a number gets one. A mailbox becomes a patch for
    each mail. --from checks the patches against the source that they were made for. A patch
    with the same change as a shared patch of the catalog becomes a reference to it.

    \b
    Examples:
      pkgtools import all.diff -o patches/sglang/mine
      pkgtools import their-patches/ -o patches/sglang/theirs --from 0.5.17
      pkgtools import 1234.patch -o patches/sglang/pr --from v0.5.17 --git sglang --package-only
    """
    if name is not None and start_name is None and not package_only:
        raise UsageError("--upstream needs --from", remedy="name the source of the patches: --from")
    catalog = load_catalog(catalog_path, unfinished=True)
    upstream = catalog.upstream(name) if start_name is not None or package_only else None
    source = None
    if start_name is not None and upstream is not None:
        finder = Finder(catalog, upstream, common.Progress(), sources)
        source = finder.find(start_name).source
    reader = LevelFinder(source, upstream if package_only else None, level)
    made = import_patches(patches, output, reader, catalog.shelf_of(output), common.Progress())
    facts = {"output": str(output), **msgspec.to_builtins(made)}
    return Output(facts, _lines(output, made, catalog))


def _lines(output: Path, made: Imported, catalog: Catalog) -> Iterator[str]:
    yield f"wrote {output}: {common.count(len(made.patches), 'patch', 'patches')}"
    for patch in made.patches:
        yield f"  {patch}" + (f" -p{made.levels[patch]}" if patch in made.levels else "")
    if made.outside:
        yield f"outside the package, in {output / 'outside'}:"
    for patch, paths in made.outside.items():
        yield from (f"  {patch}: {path}" for path in paths)
    now = load_catalog(catalog.path, unfinished=True)  # with the target of the new series
    yield from proving_lines(named_series(now, str(output)))
