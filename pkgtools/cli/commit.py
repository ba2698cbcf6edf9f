"""``pkgtools commit``."""

from __future__ import annotations

from pathlib import Path

import click

from pkgtools.authoring.commit import CommitOutcome, Committed, commit_series
from pkgtools.cli import common
from pkgtools.cli.output import say


@click.command(short_help="Write the commits of a checkout back into its series.")
@click.argument("folder", metavar="DIR", type=common.PATH)
@common.json_option
@common.command
def commit(folder: Path, as_json: bool) -> int:
    """Write the commits of a repository that `pkgtools checkout` made into its series.

    A patch whose commit was not edited keeps its bytes; a shared one stays shared, and the output
    names the other targets that an edit of it changes. A commit without the line
    `Patch-Filename` becomes a new patch. All files are written, or none.

    \b
    Examples:
      pkgtools commit work
      pkgtools commit work --json
    """
    work, done = commit_series(folder, common.Progress())
    if as_json:
        common.print_json(done)
        return 0
    _show(done)
    source = work.named.source
    if not done.changed:
        return 0
    if source is None:
        say("  next: name the series in a target, then `pkgtools lock`")
    else:
        target = [] if done.shared else ["--target", source]
        say(f"  next: `{common.shell('lock', *target, '--catalog', str(work.catalog.path))}`")
    return 0


def _show(done: Committed) -> None:
    say(f"{'wrote' if done.changed else 'nothing to write to'} {done.series}")
    for patch in done.patches:
        renamed = f" (was {patch.was})" if patch.was else ""
        if patch.outcome is not CommitOutcome.UNCHANGED or renamed:
            say(f"  {patch.outcome:9} {patch.patch}{renamed}")
    unchanged = sum(patch.outcome is CommitOutcome.UNCHANGED for patch in done.patches)
    say(f"  {common.count(unchanged, 'patch', 'patches')} unchanged")
    for name in done.dropped:
        say(f"  dropped   {name}")
    for subject in done.empty:
        say(f"  left out  {subject}: the commit changes nothing")
    for edit in done.shared:
        say(f"  {edit.patch} also changes {', '.join(edit.targets) or 'no other target'}")
