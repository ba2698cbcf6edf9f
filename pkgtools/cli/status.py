"""``pkgtools status``."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from pkgtools.catalog import Catalog
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.next_step import given, next_line, next_step, shell
from pkgtools.errors import ForeignError, PartialError
from pkgtools.source import Tree
from pkgtools.source.choose import open_trees
from pkgtools.transaction import reading
from pkgtools.tree.choose import patched_trees
from pkgtools.tree.state import State
from pkgtools.tree.status import AppliedSeries, Status, refusal_of, status_of

_EXIT: Final = {
    State.PRISTINE: 0,
    State.PATCHED: 0,
    State.PARTIAL: PartialError.exit_code,
    State.FOREIGN: ForeignError.exit_code,
    State.MISSING: ForeignError.exit_code,
}


@common.command()
@common.tree_options
def status(tree: Path | None, python: str | None, catalog: Catalog) -> Output:
    """Show what a tree is and what is applied to it.

    The output lists every applied series with its catalog and digest, from the top
    down. The exit code is 0 for a pristine or patched tree, 4 for a partial and 5 for
    a foreign one.

    \b
    Examples:
      pkgtools status
      pkgtools status --python .venv/bin/python --json
    """
    trees = open_trees(catalog, catalog.upstreams, tree, python)
    with reading(trees, common.Progress()):
        patched = patched_trees(trees)
        found = [status_of(catalog, each) for each in patched]
        steps = [_next_step(catalog, each, now) for each, now in zip(patched, found, strict=True)]
    stack = tuple(entry for each in found for entry in each.stack)
    lines = (line for each, step in zip(found, steps, strict=True) for line in _lines(each, step))
    code = next((code for each in found if (code := _EXIT[each.state])), 0)
    return Output(replace(found[0], stack=stack), lines, code)


def _next_step(catalog: Catalog, tree: Tree, found: Status) -> str | None:
    """Return what `apply` would ask for, of a tree that is neither pristine nor patched."""
    if not _EXIT[found.state] or found.interrupted:
        return None
    error = refusal_of(catalog, tree)
    return next_step(error) if error is not None else f"`{_command('apply', found.target)}`"


def _lines(found: Status, step: str | None) -> Iterator[str]:
    yield found.tree
    revisions = f" ({common.short(found.revisions)})" if found.revisions else ""
    yield f"  {found.state}" + (f", {found.target}{revisions}" if found.target else "")
    for entry in reversed(found.stack):
        if not found.receipt_is_void:
            yield from _entry_lines(entry, found)
    if not found.stack and found.from_wheel:
        yield "  installed from a wheel that pkgtools built"
    elif not found.stack and found.state is State.PATCHED:
        yield "  no receipt: it was patched by other means"
        yield next_line(f"`{_command('adopt', found.target)}`")
    for file in found.files:
        note = "  (only its line endings differ)" if file.crlf else ""
        yield f"  {file.state:8} {file.path}{note}"
    for path, module in found.shadowed.items():
        yield f"  note: {path} is compiled into {module}, which Python imports instead"
    before = {file.path for file in found.files if file.state is State.PRISTINE}
    for path in found.edited:
        what = "put back" if path in before else "edited"
        yield f"  {what} since it was patched: {path}"
    if found.receipt_is_void and found.state is State.PATCHED:
        yield "  the receipt is of an older series than the files"
        yield next_line(f"`{_command('apply', found.target)}`")
    elif found.receipt_is_void:
        yield "  the receipt is void: the files were replaced since they were patched"
    if found.interrupted:
        yield next_line("a run was killed here: `pkgtools recover`")
    elif step:
        yield f"  next: {step}"


def _command(verb: str, target: str | None) -> str:
    return shell(verb, "--target", str(target), *given("tree", "python", "catalog"))


def _entry_lines(entry: AppliedSeries, found: Status) -> Iterator[str]:
    catalog = entry.catalog or ("this catalog" if entry.is_own else "another catalog")
    name = f"{entry.target} of {catalog}, " if len(found.stack) > 1 or not entry.is_own else ""
    yield f"  {name}series {entry.series[:19]}, applied by pkgtools {entry.pkgtools}"
    if entry.is_own and not entry.is_current and not found.edited and not found.interrupted:
        yield next_line(f"the catalog has a newer series: `{_command('apply', entry.target)}`")
