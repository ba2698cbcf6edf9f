"""Options that name a series and its sources."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from pkgtools.authoring.work import SeriesWork
from pkgtools.catalog import Catalog
from pkgtools.catalog.named import NamedSeries, named_series
from pkgtools.cli import common
from pkgtools.cli.output import say
from pkgtools.errors import UsageError
from pkgtools.port.route import Finder
from pkgtools.source import Tree
from pkgtools.source.at_hand import AtHand
from pkgtools.source.choose import check_wheels, open_repositories, open_trees
from pkgtools.tree.choose import edited_target

SOURCES: Final = ("wheels", "repositories")
"""The parameters that name sources of a release."""

series_option = click.option(
    "--series",
    type=common.TEXT,
    help="A series folder, or the target of a series.  [default: the one in the tree, else the "
    "catalog's only one]",
)
from_option = click.option(
    "--from",
    "start_name",
    type=common.TEXT,
    metavar="SOURCE",
    help="The source that the series applies to.  [default: the revision of --series' target]",
)
wheel_option = click.option(
    "--wheel", "wheels", type=common.EXISTING_PATH, multiple=True, help="A wheel; can be repeated."
)
git_option = click.option(
    "--git",
    "repositories",
    type=common.EXISTING_PATH,
    multiple=True,
    help="A git repository; can be repeated.",
)
accept_option = click.option(
    "--accept",
    type=common.TEXT,
    multiple=True,
    is_flag=False,
    flag_value="*",  # pkgtools.port.work.EVERY_FILE, which most commands do not import
    metavar="[FILE]",
    help="Go on with a port that waits: take the proposals first, in all files or in this one.",
)


def source_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --wheel and --git."""
    return wheel_option(git_option(function))


def choose_series(catalog: Catalog, given: str | None, trees: Sequence[Tree] = ()) -> NamedSeries:
    """Return the series that --series names, else the last in a tree, else the only one."""
    if given is not None:
        return named_series(catalog, given)
    found = [target for tree in trees if (target := edited_target(catalog, tree))]
    series = {target.directory: target for target in reversed(catalog.targets)}
    if not found and len(series) == 1:
        found = list(series.values())
    if not found:
        names = ", ".join(target.name for target in catalog.targets)
        raise UsageError(
            f"--series is missing, and {catalog.path} has "
            + (f"several: {names}" if names else "no target"),
            remedy=f"name one of these targets: --target {catalog.targets[-1].name}"
            if names
            else "name the series' folder with --series",
        )
    say(f"note: the series is that of {found[0].name}", err=True)
    return named_series(catalog, found[0].name)


def open_work(
    catalog: Catalog,
    series: str | None,
    start_name: str | None,
    wheels: Sequence[Path],
    repositories: Sequence[Path],
    tree: Path | None = None,
    *,
    python: str | None = None,
    is_edited: bool = False,
) -> SeriesWork:
    """Return the series that the options name, with its source.

    Where no source is given, the repository of an edited checkout is one: it has the release's
    tag, and so all files of the release, of which a wheel may lack some.
    """
    if tree is not None and not wheels and not repositories and (tree / ".git").exists():
        repositories = [tree]
    is_open = is_edited and series is None
    trees = open_trees(catalog, catalog.upstreams, tree, python) if is_open else []
    named = choose_series(catalog, series, trees)
    finder = Finder(catalog, named.upstream, common.Progress(), wheels, repositories)
    source = finder.find(named.source_name(start_name)).source
    return SeriesWork(catalog, named, common.Progress(), source)


def open_at_hand(
    catalog: Catalog, wheels: Sequence[Path], repositories: Sequence[Path], *, download: bool = True
) -> AtHand:
    """Return the sources that the options name; pip downloads other releases."""
    repos = open_repositories(repositories)
    return AtHand(common.Progress(), check_wheels(catalog, wheels), repos, download)


def edited_tree(work: SeriesWork, tree: Path | None, python: str | None) -> Tree:
    """Return the tree with the edits: from --tree or --python, else the installed package."""
    return open_trees(work.catalog, [work.named.upstream], tree, python)[0]


def proving_lines(
    named: NamedSeries, *, edited: bool = False, every_series: bool = False
) -> Iterator[str]:
    """Yield the commands to run after a change of a series: `lock`, then `adopt`.

    `edited`: a tree has the edits that the series took. `every_series`: other series changed too.
    """
    if named.source is None:
        yield "  next: name the series in a target, then `pkgtools lock`"
        return
    sources = common.given(*SOURCES, "catalog")
    target = [] if every_series else ["--target", named.source]
    yield f"  next: `{common.shell('lock', *target, *sources)}`"
    if edited:
        words = ["--target", named.source, *common.given("tree", "python"), *sources]
        yield f"  then: `{common.shell('adopt', *words)}` writes a receipt for the edited tree"
