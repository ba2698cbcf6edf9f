"""``pkgtools drop``, ``pkgtools reorder`` and ``pkgtools rename``: the list of a series."""

from pathlib import Path

import click

from pkgtools.authoring.arrange import Arranged, drop_patches, rename_patch, reorder_patches
from pkgtools.authoring.work import CatalogWork
from pkgtools.catalog import Catalog, load_catalog
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.sources import choose_series, series_option, source_options
from pkgtools.errors import UsageError
from pkgtools.source.at_hand import Sources


@common.command()
@click.argument("patches", nargs=-1, required=True)
@series_option
@source_options
def drop(
    patches: tuple[str, ...], series: str | None, sources: Sources, catalog: Catalog
) -> Output:
    """Take patches out of a series, and write its lockfile.

    Before it writes, the command proves the other patches on the sources of all revisions of the
    series, as `pkgtools lock` does. If a later patch needs a dropped one, it writes nothing. The
    file of a shared patch stays for the other series.

    \b
    Examples:
      pkgtools drop limit.patch --series v0.5.23
      pkgtools drop limit.patch more.patch --series kimi-k3-ee560a2 --git ~/src/sglang
    """
    work = _open(catalog, series)
    done = drop_patches(work, patches, sources.at_hand(work.catalog, common.Progress()))
    return _arranged(done, "dropped")


@common.command()
@click.argument("patches", nargs=-1, required=True)
@series_option
@click.option("--before", metavar="PATCH", help="Move them before this one.")
@click.option("--after", metavar="PATCH", help="Move them after this one.")
@source_options
def reorder(
    patches: tuple[str, ...],
    series: str | None,
    before: str | None,
    after: str | None,
    sources: Sources,
    catalog_path: Path,
) -> Output:
    """Move patches within a series, and write its lockfile.

    Without --before and --after, PATCHES are all patches of the series in their new order. Before
    it writes, the command proves the new order on the sources of all revisions of the series. If a
    patch does not apply in its new place, it writes nothing.

    \b
    Examples:
      pkgtools reorder limit.patch --before fix.patch --series v0.5.23
      pkgtools reorder fix.patch limit.patch more.patch --series v0.5.23
    """
    if before is not None and after is not None:
        raise UsageError("--before and --after name two places", remedy="give one of them")
    work = _open(load_catalog(catalog_path), series)
    at_hand = sources.at_hand(work.catalog, common.Progress())
    done = reorder_patches(work, patches, at_hand, before=before, after=after)
    return _arranged(done, "moved")


@common.command()
@click.argument("patch")
@click.argument("new")
@series_option
def rename(patch: str, new: str, series: str | None, catalog: Catalog) -> Output:
    """Give a patch another file name, in every series, lockfile and target that names it.

    Contents stay the same, so no proof is needed. A folder of added files is renamed alike.

    \b
    Examples:
      pkgtools rename 0002-limit.patch batch-limit.patch --series v0.5.23
      pkgtools rename spec-capture capture --series v0.5.23
    """
    return _arranged(rename_patch(_open(catalog, series), patch, new), "renamed")


def _open(catalog: Catalog, series: str | None) -> CatalogWork:
    return CatalogWork(catalog, choose_series(catalog, series), common.Progress())


def _arranged(done: Arranged, verb: str) -> Output:
    lines = [
        *(f"{verb} {name}" for name in done.changed),
        *(f"  {name}" for name in done.patches),
        *(f"{name} is shared: its file stays for other series" for name in done.kept),
        f"wrote {done.series} and the lockfile of {', '.join(done.targets) or 'no target'}",
    ]
    return Output(done, lines)
