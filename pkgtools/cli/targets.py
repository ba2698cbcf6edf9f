"""``pkgtools targets``."""

from collections.abc import Iterator

import click

from pkgtools.catalog import Catalog, Revision, Target
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.next_step import next_step
from pkgtools.cli.output import say
from pkgtools.errors import MalformedError
from pkgtools.patch.headers import headers_of


@common.command()
@click.option("--patches", is_flag=True, help="Show the headers of each patch.")
def targets(patches: bool, catalog: Catalog) -> Output:
    """List the targets with their aliases, revisions and patches, and the sets.

    \b
    Examples:
      pkgtools targets
      pkgtools targets --patches
      pkgtools targets --json
      pkgtools targets --catalog ours/targets.toml
    """
    problems = [
        {"target": name, "message": error.message, "remedy": next_step(error)}
        for name, error in catalog.problems.items()
    ]
    facts = {
        "targets": [
            _facts(target, is_default=target == catalog.default) for target in catalog.sound_targets
        ],
        "sets": [
            {"name": each.name, "targets": [t.name for t in each.targets]} for each in catalog.sets
        ],
        "problems": problems,
    }
    lines = _lines(catalog, problems, patches=patches)
    return Output(facts, lines, MalformedError.exit_code if problems else 0)


def _facts(target: Target, *, is_default: bool) -> dict[str, object]:
    patches = target.series.patches
    return {
        "name": target.name,
        "default": is_default,
        "upstream": target.upstream.name,
        "revision": target.revision.name,
        "validated": _is_validated(target, target.revision),
        "aliases": [
            {
                "name": alias.name,
                "revision": alias.revision.name if alias.revision else None,
                "validated": _is_validated(target, alias.revision),
            }
            for alias in target.aliases
        ],
        "series": target.series.digest,
        "patches": [patch.name for patch in patches],
        "subjects": [patch.subject for patch in patches],
        "headers": [headers_of(patch) for patch in patches],
        "absorbed": [path.name for path in target.absorbed],
        "marker": target.marker,
    }


def _is_validated(target: Target, revision: Revision | None) -> bool:
    return revision is not None and target.lock.find(revision.name) is not None


def _lines(catalog: Catalog, problems: list[dict[str, str]], *, patches: bool) -> Iterator[str]:
    for target in catalog.sound_targets:
        mark = click.style("  default", fg="green") if target == catalog.default else ""
        yield f"{click.style(target.name, bold=True)}{mark}"
        revision = target.revision
        yield f"  revision  {target.upstream.name} {revision.name}{_note(target, revision)}"
        if target.marker is not None:
            yield f"  for       {target.marker}"
        for alias in target.aliases:
            known = alias.revision.name if alias.revision else "revision not known in full"
            yield f"  alias     {alias.name}  {known}{_note(target, alias.revision)}"
        for patch in target.series.patches:
            yield f"  patch     {patch.subject}"
            for name, value in headers_of(patch).shown() if patches else ():
                yield f"              {name}: {value}"
        yield from (f"  absorbed  {path.name}: upstream has it" for path in target.absorbed)
    for problem in problems:
        message = f"error: {problem['target']}: {problem['message']}"
        say(click.style(message, fg="red"), err=True)
        say(f"  next: {problem['remedy']}", err=True)
    for named in catalog.sets:
        members = ", ".join(target.name for target in named.targets)
        yield f"{click.style(named.name, bold=True)}  set of {members}"


def _note(target: Target, revision: Revision | None) -> str:
    is_validated = _is_validated(target, revision)
    return "" if is_validated else click.style("  not validated", fg="yellow")
