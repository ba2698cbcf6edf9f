"""``pkgtools upgrade``."""

import click

from pkgtools.catalog import Catalog
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.sources import accept_option, source_options
from pkgtools.errors import CheckFailedError, DoesNotApplyError
from pkgtools.port.pull_request import text, title
from pkgtools.port.upgrade import UpgradeOptions, UpgradeOutcome, release_page
from pkgtools.port.upgrade import upgrade as run_upgrade
from pkgtools.source.at_hand import Sources

_EXIT_CODES = {
    UpgradeOutcome.CONFLICT: DoesNotApplyError.exit_code,
    UpgradeOutcome.CHECK_FAILED: CheckFailedError.exit_code,
}


@common.command()
@click.option(
    "-t",
    "--target",
    type=common.TargetName(),
    help="The target to start from.  [default: the newest release's]",
)
@click.option(
    "--exec",
    "checks",
    multiple=True,
    metavar="CHECK",
    help="A shell command to run in a copy of the package after each patch; can be repeated.",
)
@accept_option
@source_options
def upgrade(
    target: str | None,
    checks: tuple[str, ...],
    accept: tuple[str, ...],
    sources: Sources,
    catalog: Catalog,
) -> Output:
    """Port the newest series to the newest release, and write a pull request's content.

    The command writes the new series, its target with the absorbed patches, its
    lockfile and an entry in CHANGELOG.md, and prints the text for the pull request
    in Markdown. A second run changes nothing.

    Exit code 0: the series is written, or there is nothing to do; "outcome" in the
    --json output says which. 3: conflicts are left in NEWDIR.port/conflicts; edit
    these files, or accept proposals with --accept, and run the command again. 8: the
    series is written, and a CHECK failed. A CHECK runs in the folder that the package
    is imported from, with the catalog's folder in PKGTOOLS_CATALOG.

    \b
    Examples:
      pkgtools upgrade
      pkgtools upgrade --exec 'python "$PKGTOOLS_CATALOG/checks/smoke.py"'
      pkgtools upgrade --target v0.5.22 --git ~/src/sglang --json
    """
    options = UpgradeOptions(sources, checks, accept)
    done = run_upgrade(catalog, target, options, common.Progress())
    page = release_page(catalog, done.start.upstream, done.version)
    facts = {
        "outcome": done.outcome,
        "start": done.start.name,
        "version": done.version,
        "target": done.target.name if done.target else None,
        "title": title(done),
        "text": text(done, page),
        "port": done.port,
        "checks": done.checks,
    }
    if done.outcome is UpgradeOutcome.CURRENT:
        name = done.target.name if done.target else done.start.name
        shown = f"{title(done)} is the newest release, and {name} is its target: nothing to do"
    else:
        shown = f"# {title(done)}\n\n{text(done, page)}".rstrip("\n")
    return Output(facts, [shown], _EXIT_CODES.get(done.outcome, 0))
