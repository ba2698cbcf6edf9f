"""``pkgtools checkout`` and ``pkgtools commit``: a series as the commits of a repository."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from pkgtools.authoring.checkout import check_out
from pkgtools.authoring.commit import CommitOutcome, Committed, commit_series
from pkgtools.authoring.work import SeriesWork
from pkgtools.catalog import Catalog
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.next_step import shell
from pkgtools.cli.sources import SeriesOptions, proving_lines, series_options


@common.command()
@click.argument("folder", metavar="DIR", type=common.PATH)
@series_options
def checkout(folder: Path, chosen: SeriesOptions, catalog: Catalog) -> Output:
    """Make a git repository of a series: its source as the commit `base`, then its patches.

    Edit the commits with any git tool: `git rebase -i base` reorders, drops, edits and squashes
    them, and a new commit becomes a new patch. `pkgtools commit DIR` writes them back. The line
    `Patch-Filename` of a message names the patch file.

    \b
    Examples:
      pkgtools checkout work --series v0.5.23
      pkgtools checkout work --series kimi-k3-ee560a2 --git ~/src/sglang
    """
    done = check_out(chosen.open(catalog), folder)
    rebase = f"{shlex.join(['git', '-C', str(folder)])} rebase -i base"
    lines = [
        f"wrote {folder}: {done.source}, and a commit for each patch",
        *(f"  {commit[:12]} {name}" for name, commit in done.commits.items()),
        f"  next: edit the commits ({rebase}), then `{shell('commit', str(folder))}`",
    ]
    return Output(done, lines)


@common.command()
@click.argument("folder", metavar="DIR", type=common.PATH)
def commit(folder: Path) -> Output:
    """Write the commits of a repository that `pkgtools checkout` made into its series.

    A patch with an unchanged commit keeps its bytes. A shared patch stays shared, and the output
    names the other targets that an edit of it changes. A commit without the line
    `Patch-Filename` becomes a new patch. The command writes all files or none.

    \b
    Examples:
      pkgtools commit work
      pkgtools commit work --json
    """
    work, done = commit_series(folder, common.Progress())
    return Output(done, _committed_lines(work, done))


def _committed_lines(work: SeriesWork, done: Committed) -> Iterator[str]:
    yield f"{'wrote' if done.changed else 'nothing to write to'} {done.series}"
    for patch in done.patches:
        renamed = f" (was {patch.was})" if patch.was else ""
        if patch.outcome is not CommitOutcome.UNCHANGED or renamed:
            yield f"  {patch.outcome:9} {patch.patch}{renamed}"
    unchanged = sum(patch.outcome is CommitOutcome.UNCHANGED for patch in done.patches)
    yield f"  {common.count(unchanged, 'patch', 'patches')} unchanged"
    for name in done.dropped:
        yield f"  dropped   {name}"
    for subject in done.empty:
        yield f"  left out  {subject}: the commit changes nothing"
    for edit in done.shared:
        yield f"  {edit.patch} also changes {', '.join(edit.targets) or 'no other target'}"
    if done.changed:
        catalog = ["--catalog", str(work.catalog.path)]
        yield from proving_lines(work.named, catalog, every_series=bool(done.shared))
