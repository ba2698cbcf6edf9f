"""``pkgtools status``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from pkgtools.catalog import load_catalog
from pkgtools.cli import common
from pkgtools.cli.next_step import say_next
from pkgtools.cli.output import say
from pkgtools.errors import ForeignError, PartialError
from pkgtools.source.choose import open_trees
from pkgtools.transaction import reading
from pkgtools.tree.choose import patched_trees
from pkgtools.tree.state import State
from pkgtools.tree.status import AppliedSeries, Status, status_of

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

    Every series that is applied is shown with its catalog and digest, the top first.
    Exits with 0 for a pristine or patched tree, 4 for a partial and 5 for a
    foreign one.

    \b
    Examples:
      pkgtools status
      pkgtools status --python .venv/bin/python --json
    """
    table = load_catalog(catalog)
    trees = open_trees(table, table.upstreams, tree, python)
    with reading(trees, common.Progress()):
        found = [status_of(table, each) for each in patched_trees(trees)]
    if as_json:
        stack = tuple(entry for each in found for entry in each.stack)
        common.print_json(replace(found[0], stack=stack))
    else:
        for each in found:
            _show(each)
    return next((code for each in found if (code := _EXIT[each.state])), 0)


def _show(found: Status) -> None:
    say(found.tree)
    revisions = f" ({common.short(found.revisions)})" if found.revisions else ""
    say(f"  {found.state}" + (f", {found.target}{revisions}" if found.target else ""))
    for entry in reversed(found.stack):
        if not found.receipt_is_void:
            _show_entry(entry, found)
    if not found.stack and found.from_wheel:
        say("  installed from a wheel that pkgtools built")
    elif not found.stack and found.state is State.PATCHED:
        say("  no receipt: it was patched by other means")
        say_next(f"`{_command('adopt', found.target)}`")
    for file in found.files:
        note = "  (only its line endings differ)" if file.crlf else ""
        say(f"  {file.state:8} {file.path}{note}")
    for path, module in found.shadowed.items():
        say(f"  note: {path} is compiled into {module}, which Python imports instead")
    for path in found.edited:
        say(f"  edited since it was patched: {path}")
    if found.receipt_is_void and found.state is State.PATCHED:
        say("  the receipt is of an older series than the files")
        say_next(f"`{_command('apply', found.target)}`")
    elif found.receipt_is_void:
        say("  the receipt is void: the files were replaced since they were patched")
    if found.interrupted:
        say_next("a run was killed here: `pkgtools recover`")


def _command(verb: str, target: str | None) -> str:
    return common.shell(verb, "--target", str(target), *common.given("tree", "python", "catalog"))


def _show_entry(entry: AppliedSeries, found: Status) -> None:
    catalog = entry.catalog or ("this catalog" if entry.is_own else "another catalog")
    name = f"{entry.target} of {catalog}, " if len(found.stack) > 1 or not entry.is_own else ""
    say(f"  {name}series {entry.series[:19]}, applied by pkgtools {entry.pkgtools}")
    if entry.is_own and not entry.is_current and not found.edited and not found.interrupted:
        say_next(f"the catalog has a newer series: `{_command('apply', entry.target)}`")
