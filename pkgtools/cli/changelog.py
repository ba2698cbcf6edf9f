"""``pkgtools changelog``."""

import click

from pkgtools.authoring.changelog import check_changelog
from pkgtools.catalog import Catalog
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.errors import UsageError
from pkgtools.source.choose import open_repositories


@click.group()
def changelog() -> None:
    """Compare CHANGELOG.md with the series.

    \b
    Examples:
      pkgtools changelog check
    """


@common.command(group=changelog, short_help="Check that every changed series has an entry.")
@common.format_option
def check(catalog: Catalog) -> Output:
    """Check that every series that changed since the last tag has an entry.

    CHANGELOG.md is beside targets.toml in a git repository. If the digest of a
    target's series changed since the last tag (or the repository has no tag), a
    new entry must name the target and link to an issue, pull request, commit or
    release on a forge. A link to a release of the upstream must be the target's
    release. New entries must not have placeholders such as TBD, and the sections
    of released versions must not change.

    \b
    Examples:
      pkgtools changelog check
      pkgtools changelog check --catalog ours/targets.toml --json
    """
    folder = catalog.path.resolve().parent
    around = (path for path in (folder, *folder.parents) if (path / ".git").exists())
    root = next(around, None)
    if root is None:
        raise UsageError(
            f"{folder} is not in a git repository: changes since the last tag are unknown",
            remedy="commit the catalog to a repository (git init), or name another with --catalog",
        )
    repository = open_repositories([root])[0]
    found = check_changelog(catalog, repository)
    since = f"since {found.since}" if found.since else "no tag yet"
    lines = [f"{found.changelog} has an entry for every changed series ({since})"]
    lines += [f"  {c.target} at line {c.line}: {', '.join(c.links)}" for c in found.changed]
    return Output(found, lines)
