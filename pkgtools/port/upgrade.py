"""The series of an upstream's newest release, for a scheduled job.

Steps that are done already are left out, so a run that was killed, or that waited for a person,
is simply started again::

    1. port the series           patches/sglang/v0.5.24/
    2. name and tell it          targets.toml, CHANGELOG.md
    3. prove it                  patches/sglang/v0.5.24/lock.toml
    4. run the given checks      in a copy of the package, after each patch
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from packaging.version import Version

from pkgtools.authoring.changelog import with_entry
from pkgtools.authoring.lock import write_locks
from pkgtools.blob import Blob
from pkgtools.catalog import Catalog, Target, Upstream, load_catalog
from pkgtools.catalog.named import named_series
from pkgtools.catalog.writes import locked_catalog, write_catalog
from pkgtools.errors import MalformedError, UsageError
from pkgtools.port.exec import CheckRun, run_check
from pkgtools.port.job import Route, new_job, unfinished_job
from pkgtools.port.route import Finder, newest_target
from pkgtools.port.state import work_folder
from pkgtools.port.target import check_writable, release_tag, target_table, with_target
from pkgtools.port.work import Job, PortReport, resume, start
from pkgtools.source.at_hand import Sources
from pkgtools.util.files import read_bytes, read_text
from pkgtools.util.progress import Reporter

_CHANGELOG: Final = "CHANGELOG.md"


class UpgradeOutcome(StrEnum):
    """The outcome of an upgrade."""

    CURRENT = "current"
    """The newest release has a target."""
    UPGRADED = "upgraded"
    ABSORBED = "absorbed"
    """Upstream has every patch: there is no series to write."""
    CONFLICT = "conflict"
    """Files wait for a person."""
    CHECK_FAILED = "check-failed"
    """The series is written, and a given check failed."""


@dataclass(frozen=True)
class UpgradeOptions:
    """What a user gives an upgrade."""

    sources: Sources
    """Where releases are looked for beside the package index."""
    checks: Sequence[str] = ()
    """Shell commands that run after each patch."""
    accept: Sequence[str] = ()
    """Files whose proposals are taken, as for `resume`."""


@dataclass(frozen=True)
class Upgrade:
    """The result of an upgrade."""

    outcome: UpgradeOutcome
    start: Target
    """The target whose series is ported."""
    version: str
    """The newest release."""
    is_default: bool = False
    """Whether the catalog's default target is the start."""
    target: Target | None = None
    """The new target, once it is written."""
    port: PortReport | None = None
    """None where an earlier run ported."""
    checks: tuple[CheckRun, ...] = ()


def upgrade(
    catalog: Catalog, name: str | None, options: UpgradeOptions, reporter: Reporter
) -> Upgrade:
    """Port a series to the newest release, and write its target, lockfile and changelog entry.

    Args:
        catalog: where it is written.
        name: the target to start from; None for the newest release's.
        options: sources, checks and answers.
        reporter: is told about long work.

    Raises:
        UsageError: no target to start from, or the new series cannot be named.
        SourceUnavailableError: no release can be had.
        DoesNotApplyError: an edited conflict is not ready yet.

    """
    begin = catalog.target(name) if name is not None else newest_target(catalog)
    finder = Finder(catalog, begin.upstream, reporter, options.sources)
    version = finder.latest()
    found = Upgrade(UpgradeOutcome.CURRENT, begin, version, begin == catalog.default)
    known = _target_of(catalog, begin, version)
    if known is not None and _is_proven(known, version):
        return replace(found, target=known)
    if known is None:
        _read_changelog(catalog.path.parent)  # An unreadable one stops the run before any write.
        job, report = _port(catalog, begin, version, options, reporter)
        if not report.done:
            return replace(found, outcome=UpgradeOutcome.CONFLICT, port=report)
        if not report.patches:
            return replace(found, outcome=UpgradeOutcome.ABSORBED, port=report)
        _write(catalog, begin, version, job, report)
        found = replace(found, port=report)
        catalog = load_catalog(catalog.path)
        known = catalog.target(job.output.name)
    at_hand = options.sources.at_hand(catalog, reporter)
    write_locks([known], at_hand)
    source = at_hand.find(known, known.revision)[0]
    runs = tuple(
        run for check in options.checks for run in run_check(known, source, check, reporter)
    )
    passed = all(run.status == 0 for run in runs)
    outcome = UpgradeOutcome.UPGRADED if passed else UpgradeOutcome.CHECK_FAILED
    return replace(found, outcome=outcome, target=known, checks=runs)


def _target_of(catalog: Catalog, begin: Target, version: str) -> Target | None:
    """Return the target of a release; the start's own where that is as new."""
    own = begin.revision.version
    if own is not None and Version(own) >= Version(version):
        return begin
    for target in catalog.targets:
        known = target.revision.version
        if target.upstream == begin.upstream and known and Version(known) == Version(version):
            return target
    return None


def _is_proven(target: Target, version: str) -> bool:
    try:
        return target.lock.find(target.revision.version or version) is not None
    except MalformedError:  # no lockfile, or one of another series
        return False


def _port(
    catalog: Catalog, begin: Target, version: str, options: UpgradeOptions, reporter: Reporter
) -> tuple[Job, PortReport]:
    named = named_series(catalog, begin.name)
    output = begin.shelf / f"v{version}"
    if work_folder(output).exists():
        job = unfinished_job(output, reporter)
        check_writable(catalog, job)
        return job, resume(job, reporter, options.accept)
    if options.accept:
        raise UsageError(
            f"--accept: no port to {output} waits",
            remedy="leave it out: conflicts and their proposals come first",
        )
    route = Route(None, version, (), options.sources)
    job = new_job(catalog, named, route, output, reporter)
    check_writable(catalog, job)
    return job, start(job, reporter)


def _write(catalog: Catalog, begin: Target, version: str, job: Job, report: PortReport) -> None:
    """Write the new target and its changelog entry, both or none."""
    table = catalog.path.resolve()
    folder = table.parent
    with locked_catalog(folder):
        added = with_target(read_bytes(table), target_table(job, report))
        entry = _entry(catalog, begin, version, job, report)
        told = with_entry(_read_changelog(folder), entry).encode()
        write_catalog(folder, {table: Blob(added), folder / _CHANGELOG: Blob(told)})


def _read_changelog(folder: Path) -> str:
    path = folder / _CHANGELOG
    return read_text(path) if path.exists() else "# Changelog\n"


def _entry(catalog: Catalog, begin: Target, version: str, job: Job, report: PortReport) -> str:
    upstream = begin.upstream
    patches = f"{len(report.patches)} {'patch' if len(report.patches) == 1 else 'patches'}"
    dropped = f", {len(report.dropped)} left out" if report.dropped else ""
    release = f"[{upstream.distribution} {version}]({release_page(catalog, upstream, version)})"
    return f"`{job.output.name}`: the series of `{begin.name}` for {release}, {patches}{dropped}."


def release_page(catalog: Catalog, upstream: Upstream, version: str) -> str:
    """Return the URL of a release on the upstream's forge, else on PyPI."""
    if upstream.git is None:
        return f"https://pypi.org/project/{upstream.distribution}/{version}/"
    forge = upstream.git.removesuffix(".git").rstrip("/")
    return f"{forge}/releases/tag/{release_tag(catalog, upstream, version)}"
