"""``pkgtools init``."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from pkgtools.authoring.init import (
    PackageFacts,
    facts_of_wheel,
    find_facts,
    linked_package,
    refuse_catalog,
    start_catalog,
)
from pkgtools.catalog import Target
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.next_step import given, shell
from pkgtools.cli.output import note, say
from pkgtools.errors import UsageError
from pkgtools.source.python import find_distribution


@common.command()
@click.argument("name", metavar="[PACKAGE]", required=False)
@click.option("--version", help="The release.  [default: the installed one]")
@click.option(
    "--wheel", type=common.EXISTING_PATH, help="A wheel with the name and version to use."
)
@click.option("--git", metavar="URL", help="Its repository.")
@click.option("--tag", help="The release's tag there.  [default: v and the version]")
@click.option(
    "--prefix",
    type=common.ANY_TEXT,
    default="",
    metavar="FOLDER",
    help="The folder of the repository that contains the package, such as src.",
)
@click.option(
    "--import",
    "package",
    metavar="NAME",
    help="The import package.  [default: the distribution's only one]",
)
@click.option(
    "-o",
    "--output",
    type=common.PATH,
    default=Path(),
    metavar="FOLDER",
    help="The catalog's folder.  [default: this one]",
)
@common.python_option()
def init(
    name: str | None,
    version: str | None,
    wheel: Path | None,
    git: str | None,
    tag: str | None,
    prefix: str,
    package: str | None,
    output: Path,
    python: str | None,
) -> Output:
    """Start a catalog: targets.toml with one target, and an empty series.

    PACKAGE is the name on PyPI. The version and the import name come from the installed package,
    otherwise from its wheel on the index. Without PACKAGE, init asks on a terminal. --git and
    --tag are for a package whose repository you have; a package in wheels does not need them.

    \b
    Examples:
      pkgtools init humanize
      pkgtools init humanize --version 4.12.3 -o patches-of-ours
      pkgtools init humanize --git https://github.com/python-humanize/humanize --prefix src
      pkgtools init --wheel humanize-4.12.3-py3-none-any.whl
    """
    refuse_catalog(output)
    if wheel is not None:
        if name is not None or version is not None:
            raise UsageError(
                "--wheel has the name and the version", remedy="leave out PACKAGE and --version"
            )
        facts = facts_of_wheel(wheel, package)
    elif name is not None:
        facts = find_facts(name, version, package, python, common.Progress())
    elif is_terminal() and common.is_text():
        facts, origin = _ask(version, package, python)
        git, tag, prefix = (
            given or asked for given, asked in zip((git, tag, prefix), origin, strict=True)
        )
    else:
        raise UsageError(
            "the name of the package is missing",
            remedy="name it as on PyPI: `pkgtools init PACKAGE`",
        )
    target = start_catalog(output, facts, git=git, tag=tag, prefix=prefix)
    made = {
        "catalog": str(output / "targets.toml"),
        "target": target.name,
        "series": str(target.directory),
        "distribution": facts.distribution,
        "package": facts.package,
        "version": facts.version,
        "tag": target.revision.tag,
    }
    return Output(made, _lines(output, target, facts, python))


def _lines(output: Path, target: Target, facts: PackageFacts, python: str | None) -> Iterator[str]:
    catalog = output / "targets.toml"
    yield f"wrote {catalog}: target {target.name} ({facts.distribution} {facts.version})"
    requirement = f"{facts.distribution}=={facts.version}"
    folder = linked_package(python, facts) if facts.is_installed else None
    if folder is not None:
        note(
            f"files of {folder} are hard links, which other environments share: an editor that "
            "writes in place changes them there too"
        )
        say(f"  first: UV_LINK_MODE=copy uv pip install --reinstall {requirement}", err=True)
    where = [] if output == Path() else ["--catalog", str(output)]
    command = ["new", "fix.patch", "--series", target.name, *given("python"), *where]
    edit = "edit the installed" if facts.is_installed else f"install {requirement} and edit"
    yield f"  next: {edit} {facts.package}, then `{shell(*command, '-m', 'What it does')}`"


def is_terminal() -> bool:
    """Whether a user can answer questions."""
    return sys.stdin.isatty()


def _ask(
    version: str | None, package: str | None, python: str | None
) -> tuple[PackageFacts, tuple[str, str, str]]:
    """Return the facts, and the repository's URL, tag and prefix."""
    name = click.prompt("Package, as on PyPI", err=True)
    found = find_distribution(python, name)
    if version is None:
        version = click.prompt("Release", default=found.version if found else None, err=True)
    facts = find_facts(name, version, package, python, common.Progress())
    git = click.prompt(
        "URL of its git repository (empty: wheels only)", default="", show_default=False, err=True
    )
    if not git:
        return facts, ("", "", "")
    tag = click.prompt("Tag of the release", default=f"v{facts.version}", err=True)
    prefix = click.prompt(
        "Folder in it that contains the package, such as src (empty: none)",
        default="",
        show_default=False,
        err=True,
    )
    return facts, (git, tag, prefix)
