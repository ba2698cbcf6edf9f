"""The target that a ported series needs in the catalog."""

import json
from pathlib import Path

from pkgtools.blob import Blob
from pkgtools.catalog import Catalog, Upstream
from pkgtools.catalog.writes import locked_catalog, write_catalog
from pkgtools.errors import UsageError
from pkgtools.port.route import Stop
from pkgtools.port.work import Job, PortReport
from pkgtools.util.files import read_bytes


def revision_of(catalog: Catalog, upstream: Upstream, stop: Stop) -> str | None:
    """Return the line that names a source in a target; None if nothing names it for good."""
    if stop.version is not None:
        tag = release_tag(catalog, upstream, stop.version)
        named = f", tag = {json.dumps(tag)}" if tag else ""
        return f"release = {{ version = {json.dumps(stop.version)}{named} }}"
    return f"commit = {json.dumps(stop.commit)}" if stop.commit is not None else None


def release_tag(catalog: Catalog, upstream: Upstream, version: str) -> str | None:
    """Return the tag of a release, named as the upstream's other releases are."""
    for target in reversed(catalog.targets):
        known, tag = target.revision.version, target.revision.tag
        if target.upstream == upstream and known and tag and tag.endswith(known):
            return tag.removesuffix(known) + version
    return f"v{version}" if upstream.git else None


def target_table(job: Job, report: PortReport) -> str:
    """Return the TOML table of the target."""
    table = [
        "[[target]]",
        f"name = {json.dumps(job.output.name)}",
        f"upstream = {json.dumps(job.upstream.name)}",
        f"series = {json.dumps(job.place(job.output) or job.output.name)}",
        job.revision or "# commit = ... or release = ...: the source has neither",
    ]
    if report.absorbed:
        table.append(f"absorbed = {json.dumps(report.absorbed)}")
    return "\n".join(table) + "\n"


def check_writable(catalog: Catalog, job: Job) -> None:
    """Refuse to write the target of a port before the port is made.

    Raises:
        UsageError: the catalog could not name the series, or has such a target.

    """
    name = job.output.name
    if job.place(job.output) is None:
        raise UsageError(
            f"{job.output}: its target cannot be written: it is outside {job.shelf}",
            remedy=f"give -o {job.shelf / name}, or leave --write out",
        )
    if any(name in (t.name, *(a.name for a in t.aliases)) for t in catalog.targets):
        raise UsageError(
            f"{name}: {catalog.path} has a target of that name",
            remedy="give another folder with -o, or leave --write out",
        )
    if job.revision is None:
        raise UsageError(
            f"{name}: its target cannot be written: the source has no version and no commit",
            remedy="give --to a release or a commit, or leave --write out",
        )


def with_target(catalog: bytes, table: str) -> bytes:
    """Return a targets.toml with one more target at its end; every other byte stays."""
    glue = b"" if catalog.endswith(b"\n") else b"\n"
    return catalog + glue + b"\n" + table.encode()


def write_target(catalog: Path, table: str) -> None:
    """Add a target at the end of a catalog."""
    path = catalog.resolve()
    with locked_catalog(path.parent):
        write_catalog(path.parent, {path: Blob(with_target(read_bytes(path), table))})
