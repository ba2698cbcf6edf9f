"""``pkgtools new``."""

from __future__ import annotations

from pathlib import Path

import click

from pkgtools.authoring.new import PatchDraft, new_patch
from pkgtools.cli import common
from pkgtools.cli.output import say
from pkgtools.cli.sources import (
    edited_tree,
    from_option,
    git_option,
    open_work,
    say_proving,
    series_option,
    wheel_option,
)


@click.command(short_help="Make a patch of what a tree has beyond its series.")
@click.argument("name")
@series_option
@from_option
@common.tree_option
@common.python_option
@click.option(
    "-m", "--message", type=common.TEXT, required=True, help="The patch's subject; more below it."
)
@click.option(
    "--author", default="nobody <nobody@localhost>", show_default=True, help="Name <address>."
)
@wheel_option
@git_option
@common.catalog_option
@common.json_option
@common.command
def new(
    name: str,
    series: str | None,
    start_name: str | None,
    tree: Path | None,
    python: str | None,
    message: str,
    author: str,
    wheels: tuple[Path, ...],
    repositories: tuple[Path, ...],
    catalog: Path,
    as_json: bool,
) -> int:
    """Make a patch of what a tree has beyond its series, and put it at the series' end.

    The tree is the series' source with the series in it, and edits. By default it is the
    installed package.

    \b
    Examples:
      pkgtools new limit.patch --series v0.5.23 -m "Limit the batch"
      pkgtools new limit.patch --series v0.5.23 --python .venv/bin/python -m "Limit the batch"
      pkgtools new limit.patch --series v0.5.23 --tree ~/src/sglang -m "Limit the batch"
    """
    work = open_work(
        catalog, series, start_name, wheels, repositories, tree, python=python, is_edited=True
    )
    draft = PatchDraft(name if name.endswith(".patch") else f"{name}.patch", message, author)
    made = new_patch(work, edited_tree(work, tree, python), draft)
    files = [{"path": file.new_path, "kind": str(file.kind)} for file in made.patch.files]
    if as_json:
        facts = {"patch": made.patch.name, "series": str(work.named.directory), "files": files}
        common.print_json({**facts, "left_out": made.left_out})
        return 0
    say(f"wrote {work.named.directory / made.patch.name}")
    for file in files:
        say(f"  {file['kind']} {file['path']}")
    for path in made.left_out:
        say(f"  left out {path}")
    say_proving(work.named, edited=True)
    return 0
