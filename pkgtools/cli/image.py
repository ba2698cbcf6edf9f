"""``pkgtools image``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pkgtools.catalog import load_catalog
from pkgtools.cli import common
from pkgtools.image.inspect import inspect_image, refuse_lies
from pkgtools.image.reference import open_image

if TYPE_CHECKING:
    from pathlib import Path

    from pkgtools.image.inspect import Inspection


@click.group(short_help="Inspect a patched image, or test it inside.")
def image() -> None:
    """Say what a container image has in it, or prove it.

    \b
    Examples:
      pkgtools image inspect sglang:v0.5.23-k3
      pkgtools image test sglang:v0.5.23-k3
    """


@image.command(short_help="Hold an image's labels against its files.")
@click.argument("reference", metavar="IMAGE")
@common.image_tree_option
@common.image_python_option
@common.catalog_option
@common.json_option
@common.command
def inspect(
    reference: str, tree: str | None, python: str | None, catalog: Path, as_json: bool
) -> int:
    """Say what an image is by its files, and whether its labels say the same.

    IMAGE is named as for pkgtools build image. Labels that say what the files do
    not end with exit code 8.

    \b
    Examples:
      pkgtools image inspect sglang:v0.5.23-k3
      pkgtools image inspect oci:layout:v0.5.23-k3 --json
    """
    table = load_catalog(catalog)
    with open_image(reference, tree, python) as opened:
        found = inspect_image(table, opened, common.Progress())
    refuse_lies(found)
    if as_json:
        common.print_json(found)
    else:
        _show(found)
    return 0


def _show(found: Inspection) -> None:
    status = found.status
    what = f"{status.target} ({common.short(status.revisions)})" if status.target else "unknown"
    click.echo(f"{found.reference} {found.tree}: {what}, {status.state}")
    click.echo(f"  {found.id}")
    for key, value in found.labels.items():
        click.echo(f"  {key}: {value}")
    if not found.labels:
        click.echo("  it says nothing of itself")
