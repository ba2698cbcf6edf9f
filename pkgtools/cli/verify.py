"""``pkgtools verify``."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from pkgtools.catalog import Catalog, Target, Upstream, load_catalog
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.next_step import completed
from pkgtools.cli.render import error_facts, refusal_lines, show_error
from pkgtools.cli.sources import source_options
from pkgtools.errors import PkgtoolsError, SourceUnavailableError, UsageError
from pkgtools.source import Source, Tree
from pkgtools.source.at_hand import Sources
from pkgtools.source.choose import installed_trees, open_revision, open_trees, open_wheel
from pkgtools.transaction import reading
from pkgtools.tree.choose import patched_trees
from pkgtools.tree.dry_run import DryRun, Outcome, dry_run, dry_run_source
from pkgtools.tree.verify import verify as verify_source


@dataclass(frozen=True)
class _Request:
    catalog: Catalog
    tree: Path | None
    python: str | None
    sources: Sources
    rev: str | None
    target: Target | None = None
    name: str = ""
    """What the user typed for it: an alias stands for its own revision."""


@common.command()
@click.option("-n", "--dry-run", is_flag=True, help="Check that the series applies.")
@common.targets_option
@common.tree_options
@source_options
@click.option("--rev", help="A revision in --git.  [default: those that the targets name]")
@click.option(
    "--series-only", is_flag=True, help="Check the files of the series only, not the whole package."
)
@click.option("--allow-missing", is_flag=True, help="Do not fail for a target without a source.")
@common.format_option
def verify(
    dry_run: bool,
    targets: tuple[str, ...],
    tree: Path | None,
    python: str | None,
    sources: Sources,
    rev: str | None,
    series_only: bool,
    allow_missing: bool,
    catalog_path: Path,
) -> Output:
    """Check that a tree is patched exactly, or with --dry-run that a series applies.

    Without --dry-run, the tree must be exactly its target; the default is the targets
    that are applied to it. Every touched file must have the locked content, and every
    touched Python file must compile. The other files of an installed package must match
    RECORD, those of a checkout git; --series-only leaves these out.

    With --dry-run, one --tree, --wheel or --rev is checked against --target or its own
    target; the default is the installed package. If nothing is installed, or several
    wheels or repositories are given, every target (or --target) is checked on its own
    source. Without a source, pip downloads releases into a cache; nothing else is
    written. A target without a source is unverified, and the command fails.

    \b
    Examples:
      pkgtools verify --dry-run
      pkgtools verify --dry-run --allow-missing --json
      pkgtools verify --dry-run --target kimi-k3-ee560a2 --git ~/src/sglang
      pkgtools verify --dry-run --git ~/src/sglang --rev ee560a2
      pkgtools verify --target v0.5.23 --tree .venv/lib/python3.12/site-packages
      pkgtools verify -t v0.5.23 -t kernel-0.3.1
    """
    wheels, repositories = sources.wheels, sources.repositories
    if tree is not None and (wheels or repositories):
        raise UsageError("--tree excludes --wheel and --git: give one kind of source")
    if python is not None and (wheels or repositories):
        raise UsageError("--python excludes --wheel and --git: give one kind of source")
    if rev is not None and (len(repositories) != 1 or wheels):
        raise UsageError("--rev needs one --git and no --wheel")
    if not dry_run and repositories and rev is None:
        raise UsageError("without --dry-run, --git needs --rev")
    if not dry_run and len(wheels) + len(repositories) > 1:
        raise UsageError("without --dry-run, one source is verified at a time")
    if dry_run and series_only:
        raise UsageError("--series-only is for a patched tree: leave --dry-run out")
    if not dry_run and allow_missing:
        raise UsageError("--allow-missing needs --dry-run")
    catalog = load_catalog(catalog_path)
    request = _Request(catalog, tree, python, sources, rev)
    names = catalog.expanded(targets)
    requests = [replace(request, target=catalog.target(n), name=n) for n in names] or [request]
    if not dry_run:
        return _verify(requests, series_only=series_only)
    verdicts = []
    for each in requests:
        for found in _verdicts(each):
            remedy = completed(found.remedy) if found.remedy else None
            verdict = replace(found, remedy=remedy)
            verdicts.append(verdict)
            common.show(_verdict_lines(verdict))
    counts = Counter(verdict.outcome for verdict in verdicts)
    total = ", ".join(f"{outcome}: {count}" for outcome, count in counts.items())
    # The worst refusal's exit code, else that of a missing source.
    refused = [v.exit_code for v in verdicts if v.outcome is Outcome.REFUSED]
    missing = [v.exit_code for v in verdicts if v.outcome is Outcome.UNVERIFIED]
    code = max(refused or ([] if allow_missing else missing), default=0)
    return Output(verdicts, [total] if len(verdicts) > 1 else [], code)


def _verify(requests: Sequence[_Request], *, series_only: bool) -> Output:
    """Verify each target; with several, one that is refused does not hide the others."""
    facts: list[object] = []
    code = 0
    for request in requests:
        try:
            found = _named(request) or _patched(request)
            catalog, target = request.catalog, request.target
            with reading(found, common.Progress()):
                matches = [
                    verify_source(catalog, target, each, series_only=series_only) for each in found
                ]
        except PkgtoolsError as error:
            if len(requests) == 1:
                raise
            code = max(code, error.exit_code)
            facts.append({"target": request.name, **error_facts(error)})
            if common.is_text():
                show_error(error)
            continue
        facts += matches
        for source, match in zip(found, matches, strict=True):
            common.show([f"{source.label} is exactly {match.target} ({match.revision})"])
            common.show(f"  {file.path}" for file in match.files)
            if isinstance(source, Tree) and source.record is None and source.git_root is None:
                common.show(["  note: neither RECORD nor git lists other files to compare"])
    return Output(facts if len(facts) > 1 else facts[0], exit_code=code)


def _patched(request: _Request) -> Sequence[Source]:
    """Return the tree of the target, else all trees there that something is applied to."""
    trees = open_trees(request.catalog, _upstreams(request), request.tree, request.python)
    with reading(trees, common.Progress()):
        return patched_trees(trees)


def _upstreams(request: _Request) -> Sequence[Upstream]:
    return [request.target.upstream] if request.target else request.catalog.upstreams


def _named(request: _Request) -> Sequence[Source]:
    """Return the tree, wheel or revision that was named, if exactly one was."""
    wheels, repositories = request.sources.wheels, request.sources.repositories
    if request.tree is not None:
        return _patched(request)
    if len(wheels) == 1 and not repositories:
        return [open_wheel(request.catalog, wheels[0])]
    if request.rev is not None:
        return [open_revision(repositories[0], request.rev)]
    return []


def _verdicts(request: _Request) -> Iterator[DryRun]:
    catalog, target = request.catalog, request.target
    found = _named(request)
    is_given = bool(request.sources.wheels or request.sources.repositories)
    if not found and not is_given:
        installed = installed_trees(_upstreams(request), request.python)
        found = patched_trees(installed) if installed else []
    if found:
        with reading(found, common.Progress()):
            yield from [dry_run_source(catalog, target, source) for source in found]
        return
    at_hand = request.sources.at_hand(catalog, common.Progress(), download=not is_given)
    if target is None:
        revisions = [(t, revision) for t in catalog.targets for revision in t.revisions]
    elif revision := target.revision_of(request.name):
        revisions = [(target, revision)]
    else:
        raise SourceUnavailableError(
            f"{request.name} was not validated: its revision is not known in full",
            remedy="give the revision that you mean with --git and --rev, or a tree with --tree",
        )
    yield from dry_run(catalog, revisions, at_hand)


def _verdict_lines(verdict: DryRun) -> Iterator[str]:
    color = {Outcome.REFUSED: "red", Outcome.UNVERIFIED: "yellow"}.get(verdict.outcome, "green")
    source = f"  {verdict.source}" if verdict.source else ""
    name = f"{verdict.target} ({verdict.revision[:12]})" if verdict.revision else verdict.target
    yield f"{click.style(f'{verdict.outcome:10}', fg=color)} {name}{source}"
    yield from common.release_note(verdict.target, [verdict.revision], verdict.other_version)
    for place in verdict.places:
        if any(place.offsets):
            yield f"  {place.patch}: {place.path} at offsets {list(place.offsets)}"
    if verdict.message:
        yield f"  {verdict.message}"
    if verdict.refusal:
        yield from refusal_lines(verdict.refusal)
    if verdict.remedy:
        yield f"  next: {verdict.remedy}"
