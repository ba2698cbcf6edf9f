"""``pkgtools build``."""

from __future__ import annotations

from pathlib import Path

import click

from pkgtools.build.wheel import build_wheel
from pkgtools.catalog import Target, load_catalog
from pkgtools.cli import common
from pkgtools.errors import SourceUnavailableError
from pkgtools.source import WheelSource
from pkgtools.source.at_hand import AtHand


@click.group(short_help="Build a patched wheel.")
def build() -> None:
    """Build what a target makes of its upstream.

    \b
    Examples:
      pkgtools build wheel --target v0.5.23
    """


@build.command(short_help="Build a patched wheel.")
@common.target_option
@click.option(
    "--wheel", "path", type=click.Path(path_type=Path, exists=True), help="The upstream's wheel."
)
@click.option(
    "-o",
    "--output",
    "folder",
    type=common.PATH,
    default=Path("dist"),
    show_default=True,
    help="The folder to write into.",
)
@common.catalog_option
@common.json_option
@common.command
def wheel(target: str | None, path: Path | None, folder: Path, catalog: Path, as_json: bool) -> int:
    """Build the upstream's wheel with a target's series in it.

    Without --wheel, pip downloads the release into a cache. The version gets a
    local part that names the target and its series (0.5.23+v0.5.23.s2d5cf77c88ff).
    Same target, same wheel: same bytes.

    \b
    Examples:
      pkgtools build wheel --target v0.5.23
      pkgtools build wheel --target v0.5.17 --wheel sglang-0.5.17-*.whl -o wheels
    """
    table = load_catalog(catalog)
    chosen = table.target(target)
    with _source(chosen, path) as source:
        built = build_wheel(table, chosen, source, folder)
    if as_json:
        common.print_json(built)
        return 0
    click.echo(f"built {built.path}")
    click.echo(f"  sha256 {built.sha256}")
    click.echo(f"  {built.base} with {built.target}")
    for name in built.patched:
        click.echo(f"  {name}")
    return 0


def _source(target: Target, path: Path | None) -> WheelSource:
    if path is not None:
        return WheelSource(path, target.upstream)
    if target.revision.version is None:
        raise SourceUnavailableError(
            f"{target.name} is a commit: there is no release wheel of it",
            remedy="build a wheel of that commit and give it with --wheel",
        )
    return AtHand(common.Progress(), download=True).wheels(target, target.revision.version)[0]
