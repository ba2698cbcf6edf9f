"""``pkgtools status``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from pkgtools.catalog import load_catalog
from pkgtools.cli import common
from pkgtools.cli.output import say
from pkgtools.errors import ForeignError, PartialError
from pkgtools.source.choose import open_tree
from pkgtools.tree.state import State
from pkgtools.tree.status import Status, status_of

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
    found = status_of(table, open_tree(table, None, tree, python))
    if as_json:
        common.print_json(found)
    else:
        _show(found)
    return _EXIT[found.state]


def _show(found: Status) -> None:
    say(found.tree)
    revisions = f" ({common.short(found.revisions)})" if found.revisions else ""
    say(f"  {found.state}" + (f", {found.target}{revisions}" if found.target else ""))
    if found.series is not None:
        say(f"  series {found.series[:19]}, applied by pkgtools {found.pkgtools}")
    elif found.from_wheel:
        say("  installed from a wheel that pkgtools built")
    elif found.state is State.PATCHED and not found.receipt_is_void:
        say("  no receipt: it was patched by other means")
    for file in found.files:
        note = "  (only its line ends differ)" if file.crlf else ""
        say(f"  {file.state:8} {file.path}{note}")
    for path in found.edited:
        say(f"  edited since it was patched: {path}")
    if found.receipt_is_void:
        say("  the receipt is void: the files were replaced since they were patched")
    if found.interrupted:
        say("  next: a run was killed here; pkgtools recover")
    elif found.series is not None and not found.is_current and not found.edited:
        say(f"  next: the catalog has a newer series; pkgtools apply -t {found.target}")
