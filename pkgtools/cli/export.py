"""``pkgtools export``."""

from pathlib import Path

import click

from pkgtools.authoring.export import export_diff, export_mails, waiver_page
from pkgtools.authoring.folder import refuse_existing, write_folder
from pkgtools.catalog import load_catalog
from pkgtools.catalog.series import LISTING
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.sources import SeriesOptions, series_options
from pkgtools.errors import UsageError
from pkgtools.transaction import reading


@common.command()
@series_options
@click.option(
    "--format",
    "kind",
    type=click.Choice(["diff", "mail"]),
    default="diff",
    show_default=True,
    help="One diff, or a folder of mails as `git format-patch` writes them.",
)
@click.option(
    "--waiver",
    is_flag=True,
    help="Write a Markdown page for a reviewer: what each patch does, why, and when it goes.",
)
@click.option(
    "-o", "--output", type=common.PATH, required=True, help="The file or the folder to write."
)
def export(
    chosen: SeriesOptions, kind: str, waiver: bool, output: Path, catalog_path: Path
) -> Output:
    """Write a series as one diff, or as mails for `git am`, with its shared patches.

    A diff is one file without messages. Mails are numbered files and a `series` file; `git am`
    makes a commit of each.

    \b
    Examples:
      pkgtools export --series v0.5.23 -o sglang-0.5.23.diff
      pkgtools export --series v0.5.23 --format mail -o mails
      pkgtools export --series v0.5.23 --waiver -o patches.md
    """
    if waiver and kind == "mail":
        raise UsageError(
            "--waiver and --format mail write different things", remedy="give one of them"
        )
    work = chosen.open(load_catalog(catalog_path))
    loaded, source = work.named.load_patched(), work.source
    if kind == "mail":
        refuse_existing(output)
        with reading([source], work.reporter):
            files = export_mails(loaded, source)
        write_folder(output, files)
        names = [name for name in files if name != LISTING]
    else:
        with reading([source], work.reporter):
            page = waiver_page(loaded, source.label).encode() if waiver else None
            data = page or export_diff(loaded, source)
        common.write_file(output, data)
        names = [patch.name for patch in loaded.patches]
    patches = common.count(len(loaded.patches), "patch", "patches")
    facts = {"output": str(output), "patches": names}
    return Output(facts, [f"wrote {output}: {patches} on {source.label}"])
