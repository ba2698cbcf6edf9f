"""``pkgtools image``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pkgtools.catalog import Catalog, Target
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.output import plain
from pkgtools.errors import CheckFailedError, UsageError
from pkgtools.image.checks import CheckResult, check_image, claimed_targets
from pkgtools.image.exchange import export_facts
from pkgtools.image.inspect import inspect_image, refuse_mismatches
from pkgtools.image.model import Runnable
from pkgtools.image.reference import open_base, open_image

if TYPE_CHECKING:
    from pkgtools.image.inspect import Inspection


@click.group()
def image() -> None:
    """Inspect a patched container image, or test it inside.

    \b
    Examples:
      pkgtools image inspect sglang:v0.5.23-k3
      pkgtools image test sglang:v0.5.23-k3
    """


@common.command(group=image, short_help="Compare an image's labels and receipt with its files.")
@click.argument("reference", metavar="IMAGE")
@common.image_platform_option
@common.image_tree_option
@common.image_python_option
def inspect(
    reference: str, platform: str | None, tree: str | None, python: str | None, catalog: Catalog
) -> Output:
    """Identify an image by its files, and compare its labels and receipt with them.

    IMAGE has a name as in pkgtools build image; an image in a registry is not pulled.
    If it has several platforms, this machine's is read, or --platform's. If labels or
    a receipt contradict the files, the exit code is 8.

    \b
    Examples:
      pkgtools image inspect sglang:v0.5.23-k3
      pkgtools image inspect oci:layout:v0.5.23-k3 --json
      pkgtools image inspect docker://registry.example.com/sglang:v0.5.23-k3
    """
    with open_image(reference, tree, python, platform) as opened:
        found = inspect_image(catalog, opened, common.Progress())
    refuse_mismatches(found)
    return Output(found, _lines(found))


@common.command(group=image, short_help="Write the facts that builds on an image need.")
@click.argument("reference", metavar="IMAGE")
@common.targets_option
@click.option(
    "-o",
    "--output",
    "place",
    metavar="PLACE",
    required=True,
    help="A file, or a repository to push a referrer to: docker://HOST/NAME.",
)
@common.image_platform_option
@common.image_tree_option
def facts(
    reference: str,
    targets: tuple[str, ...],
    place: str,
    platform: str | None,
    tree: str | None,
    catalog: Catalog,
) -> Output:
    """Write the facts that builds on an image need, for use on another machine.

    With these facts, pkgtools build image --facts PLACE reads no layer of the image.
    PLACE is a file of a few MB, or a repository, where the facts are an OCI referrer
    of the image's digest; the image can be elsewhere. Facts cannot be proved without
    reading the image, so a build uses only those that you name. If the image has
    several packages, --target chooses among them.

    \b
    Examples:
      pkgtools image facts docker://lmsysorg/sglang:v0.5.23 -o facts
      pkgtools image facts docker://lmsysorg/sglang:v0.5.23
        -o docker://registry.example.com/sglang
    """
    with open_base(reference, tree, None, platform) as opened:
        upstreams = {catalog.target(name).upstream for name in catalog.expanded(targets)}
        exported = export_facts(catalog, list(upstreams), opened, place, common.Progress())
    lines = [
        f"wrote {exported.place}",
        *(f"  facts of {digest}" for digest in exported.manifests),
        *(f"  referrer {digest}" for digest in exported.referrers),
    ]
    return Output(exported, lines)


@common.command(group=image, short_help="Test a patched image inside a container.")
@click.argument("reference", metavar="IMAGE")
@common.target_option
@click.option("--junit", type=common.PATH, help="Write the report as JUnit XML, too.")
@common.image_tree_option
@common.image_python_option
def test(
    reference: str,
    target: str | None,
    junit: Path | None,
    tree: str | None,
    python: str | None,
    catalog: Catalog,
) -> Output:
    """Test a patched image inside a container.

    The files must be those of the target, by blob ids, and RECORD must agree; the
    image's Python must compile them; and the upstream's checks that the catalog names
    must pass with that Python. For SGLang these are the proofs of the guards, and a
    capture from a real server into a real store, on the CPU. The container has no
    network and is removed afterwards; the image does not change. If a check fails, the
    exit code is 8.

    \b
    Examples:
      pkgtools image test sglang:v0.5.23-k3
      pkgtools image test sglang:v0.5.23-k3 --target v0.5.23 --junit report.xml
    """
    chosen = [catalog.target(target)] if target else []
    if junit is not None:
        common.check_output(junit)
    with open_image(reference, tree, python) as opened:
        if not isinstance(opened, Runnable):
            raise UsageError(
                f"{reference} is not in a Docker engine: the checks run in a container",
                remedy=f"copy it into the engine: skopeo copy {reference} docker-daemon:NAME:TAG",
            )
        chosen = chosen or claimed_targets(catalog, opened)
        checks: list[CheckResult] = []
        held: list[Target | None] = [*chosen] or [None]
        for each in held:
            title = f"{each.name}: " if each and len(held) > 1 else ""
            for found in check_image(catalog, each, opened, common.Progress()):
                check = replace(found, name=title + found.name)
                checks.append(check)
                common.show(_check_lines(check))
    if junit is not None:
        common.write_file(junit, _report(reference, checks))
    passed = all(check.message is None for check in checks)
    facts = {
        "reference": reference,
        "id": opened.id,
        "target": chosen[0].name if chosen else None,
        "passed": passed,
        "checks": checks,
    }
    return Output(facts, exit_code=0 if passed else CheckFailedError.exit_code)


def _report(reference: str, checks: Sequence[CheckResult]) -> bytes:
    from pkgtools.cli.findings import Finding, junit  # noqa: PLC0415 - only for a report

    findings = [
        Finding(
            f"{reference}: {check.name}",
            CheckFailedError.code,
            check.message and "\n".join(filter(None, [check.message, check.remedy])),
            seconds=check.seconds,
        )
        for check in checks
    ]
    return junit("image test", findings).encode()


def _check_lines(check: CheckResult) -> Iterator[str]:
    word, color = ("ok", "green") if check.message is None else ("failed", "red")
    yield f"{click.style(f'{word:7}', fg=color)} {plain(check.name)} ({check.seconds:.1f} s)"
    yield from (f"        {plain(line)}" for line in (check.message or "").splitlines())
    if check.remedy:
        yield f"        next: {plain(check.remedy)}"


def _lines(found: Inspection) -> Iterator[str]:
    for status in (found.status, *found.also):
        what = f"{status.target} ({common.short(status.revisions)})" if status.target else "unknown"
        yield f"{found.reference} {plain(status.path)}: {what}, {status.state}"
    yield f"  id {found.id}"
    if found.digest:
        yield f"  digest {found.digest}"
    yield from (f"  read by table of contents: {plain(digest)}" for digest in found.by_table)
    yield from (plain(f"  {key}: {value}") for key, value in found.labels.items())
    if not found.labels:
        yield "  it has no labels of pkgtools"
