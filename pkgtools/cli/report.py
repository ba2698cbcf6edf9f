"""``pkgtools report``."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
from packaging.version import Version

from pkgtools.build.clock import source_date
from pkgtools.catalog import Catalog
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.output import say
from pkgtools.cli.sources import source_options
from pkgtools.recipe.load import load_recipe
from pkgtools.recipe.plan import RuleFinding, check_plan
from pkgtools.report.matrix import build_matrix
from pkgtools.report.page import render_page
from pkgtools.source.at_hand import Sources

if TYPE_CHECKING:
    from pkgtools.report.images import ShownImage

_RECIPES = "docker/recipes/*.toml"


@common.command()
@click.option(
    "-o",
    "--output",
    "folder",
    type=common.PATH,
    default="report",
    show_default=True,
    help="The folder to write into.",
)
@source_options
@click.option("--image", "references", multiple=True, help="An image; can be repeated.")
def report(folder: Path, sources: Sources, references: tuple[str, ...], catalog: Catalog) -> Output:
    """Write DIR/index.html: every patch on every revision, with its hunks, and the recipes.

    Releases come from the --wheel files and from tags in the --git repositories;
    otherwise pip downloads them into a cache. A revision without a source is shown
    as unverified. The recipes are those in docker/recipes beside the catalog. Images
    have the names that pkgtools image inspect takes. The page is one file without
    scripts, and loads nothing.

    \b
    Examples:
      pkgtools report
      pkgtools report -o public --git ~/src/sglang --image sglang:v0.5.23-k3
    """
    page = folder / "index.html"
    common.check_output(page, "name another folder with -o")
    at_hand = sources.at_hand(catalog, common.Progress())
    matrix = build_matrix(catalog, at_hand)
    images = _images(catalog, references)
    text = render_page(_title(catalog), matrix, _recipes(catalog.path.parent), images)
    common.write_file(page, text.encode())
    facts = {"path": page, "matrix": matrix, "images": images}
    for image in images:
        if image.problem:
            say(f"{image.reference}: {image.problem}", err=True)
    return Output(facts, [f"wrote {page}"])


def _title(catalog: Catalog) -> str:
    """Return the packages with their newest releases, and the date of the catalog."""
    names = []
    for upstream in catalog.upstreams:
        versions = [t.revision.version for t in catalog.targets if t.upstream == upstream]
        newest = max((Version(version) for version in versions if version), default="")
        names.append(f"{upstream.distribution} {newest}".rstrip())
    date = _date(catalog.path)
    return f"Patches of {', '.join(names)}" + (f" on {date:%Y-%m-%d}" if date else "")


def _date(catalog: Path) -> datetime | None:
    """Return SOURCE_DATE_EPOCH or the time of the last commit, for a reproducible page."""
    import pygit2  # noqa: PLC0415 - slow to import

    found = pygit2.discover_repository(str(catalog.resolve().parent))
    repository = pygit2.Repository(found) if found else None
    if repository is None or repository.head_is_unborn:
        return source_date(None)
    seconds = repository.head.peel(pygit2.Commit).commit_time
    return source_date(datetime.fromtimestamp(seconds, UTC))


def _images(catalog: Catalog, references: tuple[str, ...]) -> list[ShownImage]:
    if not references:
        return []
    from pkgtools.report.images import show_image  # noqa: PLC0415 - only for images

    return [show_image(catalog, reference, common.Progress()) for reference in references]


def _recipes(root: Path) -> dict[str, list[RuleFinding]]:
    paths = sorted(root.glob(_RECIPES))
    return {path.relative_to(root).as_posix(): check_plan(load_recipe(path)) for path in paths}
