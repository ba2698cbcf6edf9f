"""``pkgtools identify``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from pkgtools.catalog import load_catalog
from pkgtools.cli import common
from pkgtools.cli.output import say
from pkgtools.cli.render import match_lines
from pkgtools.errors import ForeignError, PartialError, UsageError
from pkgtools.source import Source
from pkgtools.source.choose import open_revision, open_tree, open_wheel
from pkgtools.transaction import reading
from pkgtools.tree.identify import identify as identify_source
from pkgtools.tree.shadow import shadowed
from pkgtools.tree.state import Identity, State


@click.command(short_help="Name the known revision of a tree, wheel or commit.")
@common.tree_option
@common.python_option
@click.option("--wheel", type=common.EXISTING_PATH, help="A wheel file.")
@click.option("--git", "repository", type=common.EXISTING_PATH, help="A git repository.")
@click.option("--rev", help="The revision in --git.  [default: HEAD]")
@common.catalog_option
@common.json_option
@common.command
def identify(
    tree: Path | None,
    python: str | None,
    wheel: Path | None,
    repository: Path | None,
    rev: str | None,
    catalog: Path,
    as_json: bool,
) -> int:
    """Name the known revision of a tree, wheel or commit, from its files alone.

    Exits with 0 if the revision is known, 4 if some of a series is applied, and 5
    if no target matches; then the output has the nearest target and the files
    that differ.

    \b
    Examples:
      pkgtools identify
      pkgtools identify --wheel sglang-0.5.17-cp311-cp311-manylinux_2_34_x86_64.whl
      pkgtools identify --git ~/src/sglang --rev ee560a2
    """
    if sum(x is not None for x in (tree, python, wheel, repository)) > 1:
        raise UsageError("--tree, --python, --wheel and --git name different sources: give one")
    if rev is not None and repository is None:
        raise UsageError("--rev needs --git")
    table = load_catalog(catalog)
    source: Source
    if wheel is not None:
        source = open_wheel(table, wheel)
    elif repository is not None:
        source = open_revision(repository, "HEAD" if rev is None else rev)
    else:
        source = open_tree(table, None, tree, python)
    with reading([source], common.Progress()):
        found = identify_source(table, source)
        hidden = shadowed(source, [file.path for file in found[0].files if file.after])
    if as_json:
        common.print_json(
            {
                "source": source.label,
                "state": found[0].state,
                "matches": found,
                "shadowed": hidden,
            }
        )
    else:
        _show(source.label, found)
        for path, module in hidden.items():
            say(f"  note: {path} is compiled into {module}, which Python imports instead")
    if found[0].state is State.PARTIAL:
        return PartialError.exit_code
    return 0 if found[0].is_known else ForeignError.exit_code


def _show(source: str, found: Sequence[Identity]) -> None:
    best = found[0]
    if not best.is_known:
        say(f"{source}: unknown revision")
        say("\n".join(match_lines(best)))
        return
    for each in found:
        say(f"{source}: {each.target} ({each.revision}), {each.state}")
    for file in best.files:
        held = f" by {', '.join(file.patches)}" if file.patches else ""
        say(f"  {file.state:8} {file.path}{held}")
