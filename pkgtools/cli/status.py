"""``pkgtools status``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from pkgtools.catalog import load_catalog
from pkgtools.cli import common
from pkgtools.errors import ForeignError, PartialError
from pkgtools.state import State
from pkgtools.status import Status, status_of

if TYPE_CHECKING:
    from pathlib import Path

_EXIT: Final = {
    State.PRISTINE: 0,
    State.PATCHED: 0,
    State.PARTIAL: PartialError.exit_code,
    State.FOREIGN: ForeignError.exit_code,
    State.MISSING: ForeignError.exit_code,
}


@click.command(short_help="Say what a tree is.")
@common.tree_option
@common.python_option
@common.catalog_option
@common.json_option
@common.command
def status(tree: Path | None, python: str | None, catalog: Path, as_json: bool) -> int:
    """Say what a tree is and what was applied to it, touching nothing.

    Exits with 0 for a pristine or patched tree, 4 for a partial and 5 for a
    foreign one.

    \b
    Examples:
      pkgtools status
      pkgtools status --python .venv/bin/python --json
    """
    table = load_catalog(catalog)
    found = status_of(table, common.open_tree(table, None, tree, python))
    if as_json:
        common.print_json(found)
    else:
        _show(found)
    return _EXIT[found.state]


def _show(found: Status) -> None:
    click.echo(found.tree)
    known = f", {found.target} ({common.short(found.revisions)})" if found.target else ""
    click.echo(f"  {found.state}{known}")
    if found.series is not None:
        age = "" if found.is_current else ", which the catalog no longer has"
        click.echo(f"  series {found.series[:19]}{age}, applied by pkgtools {found.pkgtools}")
    elif found.state is State.PATCHED:
        click.echo("  no receipt: it was patched by other means")
    for path in found.edited:
        click.echo(f"  edited since: {path}")
    for file in found.files:
        click.echo(f"  {file.state:8} {file.path}")
    if found.interrupted:
        click.echo("  a run was killed here; next: pkgtools recover")
