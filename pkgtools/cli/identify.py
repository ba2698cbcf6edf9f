"""``pkgtools identify``."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from pkgtools.catalog import load_catalog
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.render import match_lines
from pkgtools.errors import ForeignError, PartialError, UsageError
from pkgtools.source import Source
from pkgtools.source.choose import open_revision, open_tree, open_wheel
from pkgtools.transaction import reading
from pkgtools.tree.shadow import shadowed
from pkgtools.tree.state import Identity, State
from pkgtools.tree.state import identify as identify_source


@common.command()
@common.tree_options
@click.option("--wheel", type=common.EXISTING_PATH, help="A wheel file.")
@click.option("--git", "repository", type=common.EXISTING_PATH, help="A git repository.")
@click.option("--rev", help="The revision in --git.  [default: HEAD]")
def identify(
    tree: Path | None,
    python: str | None,
    wheel: Path | None,
    repository: Path | None,
    rev: str | None,
    catalog_path: Path,
) -> Output:
    """Name the known revision of a tree, wheel or commit, from its files alone.

    Exits with 0 if the revision is known, 4 if a series is applied in part, and 5
    if no target matches; then the output names the nearest target and the files
    that differ.

    \b
    Examples:
      pkgtools identify
      pkgtools identify --wheel sglang-0.5.17-cp311-cp311-manylinux_2_34_x86_64.whl
      pkgtools identify --git ~/src/sglang --rev ee560a2
    """
    if sum(x is not None for x in (tree or python, wheel, repository)) > 1:
        raise UsageError("--tree, --python, --wheel and --git name different sources: give one")
    if rev is not None and repository is None:
        raise UsageError("--rev needs --git")
    catalog = load_catalog(catalog_path)
    source: Source
    if wheel is not None:
        source = open_wheel(catalog, wheel)
    elif repository is not None:
        source = open_revision(repository, "HEAD" if rev is None else rev)
    else:
        source = open_tree(catalog, None, tree, python)
    with reading([source], common.Progress()):
        found = identify_source(catalog, source)
        hidden = shadowed(source, [file.path for file in found[0].files if file.after])
    best = found[0]
    code = 0 if best.is_known else ForeignError.exit_code
    if best.state is State.PARTIAL:
        code = PartialError.exit_code
    facts = {"source": source.label, "state": best.state, "matches": found, "shadowed": hidden}
    return Output(facts, _lines(source.label, found, hidden), code)


def _lines(source: str, found: Sequence[Identity], hidden: Mapping[str, str]) -> Iterator[str]:
    best = found[0]
    if best.is_known:
        yield from (f"{source}: {each.target} ({each.revision}), {each.state}" for each in found)
        for file in best.files:
            held = f" by {', '.join(file.patches)}" if file.patches else ""
            yield f"  {file.state:8} {file.path}{held}"
    else:
        yield f"{source}: unknown revision"
        yield from match_lines(best)
    for path, module in hidden.items():
        yield f"  note: {path} is compiled into {module}, which Python imports instead"
