"""Code that `drop`, `reorder` and `rename` share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pkgtools.authoring.arrange import Arranged
from pkgtools.authoring.work import CatalogWork
from pkgtools.catalog import load_catalog
from pkgtools.cli import common
from pkgtools.cli.output import say
from pkgtools.cli.sources import choose_series, open_at_hand
from pkgtools.source.at_hand import AtHand


def open_arranging(
    catalog: Path,
    series: str | None,
    wheels: Sequence[Path] = (),
    repositories: Sequence[Path] = (),
) -> tuple[CatalogWork, AtHand]:
    """Return a series, and the sources that its lockfile is proven on."""
    table = load_catalog(catalog)
    work = CatalogWork(table, choose_series(table, series), common.Progress())
    return work, open_at_hand(table, wheels, repositories)


def show_arranged(done: Arranged, verb: str, *, as_json: bool) -> int:
    """Print what changed."""
    if as_json:
        common.print_json(done)
        return 0
    for name in done.changed:
        say(f"{verb} {name}")
    for name in done.patches:
        say(f"  {name}")
    for name in done.kept:
        say(f"{name} is shared: its file stays for other series")
    say(f"wrote {done.series} and the lockfile of {', '.join(done.targets) or 'no target'}")
    return 0
