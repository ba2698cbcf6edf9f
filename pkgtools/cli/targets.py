"""``pkgtools targets``."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from pkgtools.catalog import Catalog, Target, load_catalog
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.next_step import next_step
from pkgtools.cli.output import say
from pkgtools.errors import MalformedError
from pkgtools.patch.headers import PatchHeaders, headers_of


@dataclass(frozen=True)
class _AliasRow:
    name: str
    revision: str | None
    validated: bool


@dataclass(frozen=True)
class _Problem:
    """A target whose series or lock cannot be read."""

    target: str
    message: str
    remedy: str


@dataclass(frozen=True)
class _Row:
    name: str
    default: bool
    upstream: str
    revision: str
    validated: bool
    """Whether the lock has the revision."""
    aliases: tuple[_AliasRow, ...]
    series: str
    patches: tuple[str, ...]
    subjects: tuple[str, ...]
    headers: tuple[PatchHeaders, ...]
    """Of each patch."""
    absorbed: tuple[str, ...]
    marker: str | None
    """The environments that it is for, in PEP 508's words; None for all."""


@click.command(cls=common.Command)
@click.option("--patches", is_flag=True, help="Show the headers of each patch.")
@common.catalog_option
@common.command
def targets(patches: bool, catalog: Path) -> Output:
    """List the targets, their aliases, revisions and patches, what is validated, and the sets.

    \b
    Examples:
      pkgtools targets
      pkgtools targets --patches
      pkgtools targets --json
      pkgtools targets --catalog ours/targets.toml
    """
    table = load_catalog(catalog)
    rows = [_row(target, default=target == table.default) for target in table.sound_targets]
    problems = [_Problem(n, e.message, next_step(e)) for n, e in table.problems.items()]
    sets = [
        {"name": each.name, "targets": [target.name for target in each.targets]}
        for each in table.sets
    ]
    facts = {"targets": rows, "sets": sets, "problems": problems}
    code = MalformedError.exit_code if problems else 0
    return Output(facts, _lines(table, rows, problems, patches=patches), code)


def _lines(
    table: Catalog, rows: list[_Row], problems: list[_Problem], *, patches: bool
) -> Iterator[str]:
    for row in rows:
        yield from _row_lines(row, patches=patches)
    for problem in problems:
        say(click.style(f"error: {problem.target}: {problem.message}", fg="red"), err=True)
        say(f"  next: {problem.remedy}", err=True)
    for named in table.sets:
        members = ", ".join(target.name for target in named.targets)
        yield f"{click.style(named.name, bold=True)}  set of {members}"


def _row(target: Target, *, default: bool) -> _Row:
    locked = {revision.name for revision in target.lock.revision}
    return _Row(
        name=target.name,
        default=default,
        upstream=target.upstream.name,
        revision=target.revision.name,
        validated=target.revision.name in locked,
        aliases=tuple(
            _AliasRow(
                alias.name,
                alias.revision.name if alias.revision else None,
                alias.revision is not None and alias.revision.name in locked,
            )
            for alias in target.aliases
        ),
        series=target.series.digest,
        patches=tuple(patch.name for patch in target.series.patches),
        subjects=tuple(patch.subject for patch in target.series.patches),
        headers=tuple(headers_of(patch) for patch in target.series.patches),
        absorbed=tuple(path.name for path in target.absorbed),
        marker=target.marker,
    )


def _row_lines(row: _Row, *, patches: bool) -> Iterator[str]:
    mark = click.style("  default", fg="green") if row.default else ""
    yield f"{click.style(row.name, bold=True)}{mark}"
    yield f"  revision  {row.upstream} {row.revision}{_validated(row.validated)}"
    if row.marker is not None:
        yield f"  for       {row.marker}"
    for alias in row.aliases:
        revision = alias.revision or "revision not known in full"
        yield f"  alias     {alias.name}  {revision}{_validated(alias.validated)}"
    for subject, headers in zip(row.subjects, row.headers, strict=True):
        yield f"  patch     {subject}"
        for name, value in headers.shown() if patches else ():
            yield f"              {name}: {value}"
    for patch in row.absorbed:
        yield f"  absorbed  {patch}: upstream has it"


def _validated(validated: bool) -> str:
    return "" if validated else click.style("  not validated", fg="yellow")
