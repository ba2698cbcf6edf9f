"""``pkgtools commit``."""

from collections.abc import Iterator
from pathlib import Path

import click

from pkgtools.authoring.commit import CommitOutcome, Committed, commit_series
from pkgtools.authoring.work import SeriesWork
from pkgtools.cli import common
from pkgtools.cli.common import Output


@click.command(cls=common.Command)
@click.argument("folder", metavar="DIR", type=common.PATH)
@common.command
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
    return Output(done, _lines(work, done))


def _lines(work: SeriesWork, done: Committed) -> Iterator[str]:
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
    source = work.named.source
    if done.changed and source is None:
        yield "  next: name the series in a target, then `pkgtools lock`"
    elif done.changed:
        target = [] if done.shared else ["--target", str(source)]
        yield f"  next: `{common.shell('lock', *target, '--catalog', str(work.catalog.path))}`"
