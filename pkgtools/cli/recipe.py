"""``pkgtools recipe``."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import click

from pkgtools.catalog import load_catalog
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.output import to_json
from pkgtools.errors import CheckFailedError, UsageError
from pkgtools.recipe.load import load_recipe
from pkgtools.recipe.plan import RuleFinding, RuleOutcome, check_plan
from pkgtools.recipe.processes import processes
from pkgtools.recipe.render import FORMATS
from pkgtools.recipe.siblings import check_siblings
from pkgtools.recipe.validate import STEPS, Deployment, Validation, validate
from pkgtools.source import Source
from pkgtools.source.choose import open_tree

_FILE: Final = click.Path(path_type=Path, exists=True, dir_okay=False)
_COLORS: Final = {RuleOutcome.OK: "green", RuleOutcome.WRONG: "red", RuleOutcome.OPEN: "yellow"}
_site_option = click.option(
    "--site", type=_FILE, help="A file with the values that the recipe leaves out."
)


@click.group()
def recipe() -> None:
    """Check a deployment of spec capture before it takes a node.

    \b
    Examples:
      pkgtools recipe check docker/recipes/*.toml
      pkgtools recipe render docker/recipes/kimi-k3-capture.toml --site site.toml --format slurm
    """


@common.command(group=recipe, short_help="Check a recipe, without a machine.")
@click.argument("files", type=_FILE, nargs=-1, required=True)
@_site_option
def check(files: tuple[Path, ...], site: Path | None) -> Output:
    """Check recipes against the rules, and the recipes of one family against each other.

    Exits with 8 if a rule is broken, or if the site file lacks a value that the
    recipe leaves out.

    \b
    Examples:
      pkgtools recipe check docker/recipes/kimi-k3-capture.toml
      pkgtools recipe check docker/recipes/*.toml --site site.toml --json
    """
    loaded = [load_recipe(file, site) for file in files]
    by_file = {str(each.path): check_plan(each) for each in loaded}
    siblings = check_siblings(loaded)
    every = [finding for findings in by_file.values() for finding in findings] + siblings
    sound = all(finding.outcome is RuleOutcome.OK for finding in every)
    facts = {"recipes": by_file, "siblings": siblings}
    code = 0 if sound else CheckFailedError.exit_code
    lines = [
        line
        for file, findings in by_file.items()
        for line in (click.style(file, bold=True), *_finding_lines(findings))
    ]
    return Output(facts, [*lines, *_finding_lines(siblings)], code)


def _finding_lines(findings: Iterable[RuleFinding]) -> Iterator[str]:
    for finding in findings:
        outcome = click.style(f"{finding.outcome:6}", fg=_COLORS[finding.outcome])
        yield f"{outcome} {finding.rule}: {finding.found}"
        yield f"       {finding.computed}"
        if finding.outcome is not RuleOutcome.OK:
            yield f"       why: {finding.why}"
            yield f"       at {finding.where}: {finding.key}"


@common.command(group=recipe, short_help="Write each process's environment and command.")
@click.argument("file", type=_FILE)
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    help="The launcher to write for.  [default: shell]",
)
@click.option("--process", "name", help="A single process.  [default: all]")
@_site_option
def render(file: Path, form: str | None, name: str | None, site: Path | None) -> Output:
    """Write the environment and the command of the master, the server and the trainer.

    The output has no credentials: their values come from the environment in which a
    process is started.

    \b
    Examples:
      pkgtools recipe render kimi-k3-capture.toml --site site.toml > start.sh
      pkgtools recipe render kimi-k3-capture.toml --site site.toml --format compose
      pkgtools recipe render kimi-k3-capture.toml --site site.toml --process server --json
    """
    if form is not None and not common.is_text():
        raise UsageError("--json is for a program that starts them itself: give no --format")
    loaded = load_recipe(file, site)
    found = processes(loaded.recipe)
    if name is not None and name not in found:
        raise UsageError(f"unknown process {name!r}", remedy=f"one of {', '.join(found)}")
    chosen = [process for process in found.values() if name in (None, process.name)]
    if common.is_text():
        click.echo(FORMATS[form or "shell"](loaded.recipe.name, chosen), nl=False)  # noqa: TID251 - a program reads it
    return Output(chosen)


@common.command(group=recipe, short_help="Validate a deployment, step by step.")
@click.argument("file", type=_FILE)
@click.option(
    "--up-to", type=click.Choice(list(STEPS)), required=True, help="The last step to take."
)
@click.option("--report", "path", type=common.PATH, help="A file for the evidence, as JSON.")
@_site_option
@click.option(
    "--image", is_flag=True, help="Compare the recipe's image with its target, instead of a tree."
)
@common.tree_option()
@common.python_option()
def validate_command(
    file: Path,
    up_to: str,
    path: Path | None,
    site: Path | None,
    image: bool,
    tree: Path | None,
    python: str | None,
    catalog_path: Path,
) -> Output:
    """Validate a deployment: its plan, its parts, and then all processes together.

    The command takes the steps in order, up to the named one. It stops at the first
    step that fails, and exits with 8. Run it on the capture node, with the tree that
    the server runs from and a --python that has Mooncake. The last step reads the
    trainer's output. The full run is up to you.

    \b
    Examples:
      pkgtools recipe validate k3.toml --site site.toml --up-to artifacts
      pkgtools recipe validate k3.toml --up-to sample --python env/bin/python --report evidence.json
    """
    if image and tree is not None:
        raise UsageError("--image and --tree name different things: give one")
    if path is not None:
        common.check_output(path)
    loaded, catalog = load_recipe(file, site), load_catalog(catalog_path)

    def open_source() -> Source:
        chosen = catalog.target(loaded.recipe.target)
        return open_tree(catalog, chosen, tree, None if tree else python)

    source = None if image else open_source
    deployment = Deployment(loaded, catalog, source, python or sys.executable, common.Progress())
    found = validate(deployment, up_to)
    if path is not None:
        common.write_file(path, to_json(found))
    code = 0 if found.passed else CheckFailedError.exit_code
    return Output(found, _validation_lines(found), code)


def _validation_lines(found: Validation) -> Iterator[str]:
    for step in found.steps:
        word = click.style("passed", fg="green") if step.passed else click.style("failed", fg="red")
        yield f"{word} {step.step}"
        if step.message:
            yield f"       {step.message}"
        if step.remedy:
            yield f"       next: {step.remedy}"
    yield from (f"left   {name}" for name in found.left[1:])
