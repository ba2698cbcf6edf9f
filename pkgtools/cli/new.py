"""``pkgtools new``."""

from pathlib import Path

import click

from pkgtools.authoring.new import PatchDraft, new_patch
from pkgtools.catalog import Catalog
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.sources import (
    edited_tree,
    from_option,
    open_work,
    proving_lines,
    series_option,
    source_options,
)


@click.command(cls=common.Command)
@click.argument("name")
@series_option
@from_option
@common.tree_options
@click.option(
    "-m", "--message", type=common.TEXT, required=True, help="The patch's subject; more below it."
)
@click.option(
    "--author", default="nobody <nobody@localhost>", show_default=True, help="Name <address>."
)
@source_options
@common.catalog_option
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
    catalog: Catalog,
) -> Output:
    """Make a patch from the edits of a patched tree, and append it to the series.

    The tree is the series' source with the series applied, and your edits. The default is the
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
    folder, files = work.named.directory, made.patch.files
    facts = {
        "patch": made.patch.name,
        "series": str(folder),
        "files": [{"path": file.new_path, "kind": file.kind} for file in files],
        "left_out": made.left_out,
    }
    lines = [
        f"wrote {folder / made.patch.name}",
        *(f"  {file.kind} {file.new_path}" for file in files),
        *(f"  left out {path}" for path in made.left_out),
        *proving_lines(work.named, edited=True),
    ]
    return Output(facts, lines)
