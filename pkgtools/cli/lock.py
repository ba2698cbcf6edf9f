"""``pkgtools lock``."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from pkgtools.authoring.lock import Proof, check_locks, write_locks
from pkgtools.authoring.policy import check_policy
from pkgtools.catalog import load_catalog
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.sources import source_options
from pkgtools.errors import SourceUnavailableError, UsageError
from pkgtools.source.at_hand import Sources


@common.command()
@click.option(
    "--check", is_flag=True, help="Compare the lockfiles with the sources; write nothing."
)
@common.targets_option
@source_options
@click.option(
    "--allow-missing", is_flag=True, help="With --check, accept revisions without a source."
)
@common.format_option
def lock(
    check: bool, targets: tuple[str, ...], sources: Sources, allow_missing: bool, catalog_path: Path
) -> Output:
    """Prove series on real sources and write their lockfiles (lock.toml).

    The source of a commit comes from the --git repositories. The source of a release
    is a --wheel file, a tag in the repositories, or a wheel that pip downloads into a
    cache. A revision without a source keeps its entry while its series is unchanged.
    Targets that share a series share its lockfile. The command writes all lockfiles, or
    none. --check also enforces the [policy] of targets.toml.

    \b
    Examples:
      pkgtools lock --target v0.5.23
      pkgtools lock --target kimi-k3-ee560a2 --git ~/src/sglang
      pkgtools lock --check --allow-missing
      pkgtools lock --check -t v0.5.23 -t kernel-0.3.1
      pkgtools lock --check --format sarif
    """
    if allow_missing and not check:
        raise UsageError("--allow-missing needs --check")
    catalog = load_catalog(catalog_path)
    chosen = [catalog.target(name) for name in catalog.expanded(targets)] or list(catalog.targets)
    if not check:
        paths = {t.directory for t in chosen}
        chosen = [t for t in catalog.targets if t.directory in paths]  # all that share a lock
    at_hand = sources.at_hand(catalog, common.Progress())
    if check:
        check_policy(catalog, chosen)
        proofs, last = check_locks(chosen, at_hand), []
    else:
        proofs, written = write_locks(chosen, at_hand)
        last = [f"wrote {path}" for path in written] or ["every lockfile is up to date"]
    fails = not allow_missing and any(proof.outcome == "unverified" for proof in proofs)
    code = SourceUnavailableError.exit_code if fails else 0
    return Output(proofs, [*_lines(proofs), *last], code)


def _lines(proofs: Iterable[Proof]) -> Iterator[str]:
    for proof in proofs:
        yield f"{proof.outcome:10} {proof.target} ({proof.revision[:12]})"
        if proof.message:
            yield f"  {proof.message}"
        yield from (f"  note: {note}" for note in proof.notes)
