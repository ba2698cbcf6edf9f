"""Verifying that a series would apply, as `apply` would judge it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from pkgtools.catalog import Catalog, Revision, Target
from pkgtools.errors import ForeignError, PkgtoolsError, SourceUnavailableError
from pkgtools.plan import Plan
from pkgtools.source import Source, Tree
from pkgtools.source.at_hand import AtHand
from pkgtools.tree.check import Refusal, check, judge, refuse_other_target, refuse_unfit
from pkgtools.tree.release import other_version
from pkgtools.tree.shadow import refuse_shadowed
from pkgtools.tree.stack import NOTHING_APPLIED, load_stack
from pkgtools.tree.state import identify
from pkgtools.tree.void import AppliedStack


class Outcome(StrEnum):
    """What verification says of one revision of one target."""

    APPLIES = "applies"
    PATCHED = "patched"
    UNVERIFIED = "unverified"
    REFUSED = "refused"


@dataclass(frozen=True)
class PatchPlace:
    """Where one patch goes in one file."""

    patch: str
    path: str
    offsets: tuple[int, ...]
    """Of each hunk, in lines."""


@dataclass(frozen=True)
class DryRun:
    """Whether a series applies to one source of one revision."""

    target: str
    revision: str
    source: str | None
    outcome: Outcome
    places: tuple[PatchPlace, ...] = ()
    message: str | None = None
    remedy: str | None = None
    exit_code: int = 0
    refusal: Refusal | None = None
    other_version: str | None = None
    """The package's version, where it is that of another release than `revision`."""


def dry_run(
    catalog: Catalog, revisions: Iterable[tuple[Target, Revision]], at_hand: AtHand
) -> Iterator[DryRun]:
    """Yield a verdict for each revision of a target, on its own source."""
    for target, revision in revisions:
        try:
            for source in at_hand.find(target, revision):
                yield verdict(catalog, target, source, revision.name)
        except PkgtoolsError as error:  # a bad lock or wheel must not hide the other targets
            yield _refused(target.name, revision.name, None, error)


def dry_run_source(catalog: Catalog, target: Target | None, source: Source) -> DryRun:
    """Return the verdict on one source, for `target` or for the one that it belongs to.

    A tree is judged as `apply` would judge it: an older series of the target as if it
    were undone, those of others as they lie.
    """
    applied = load_stack(source) if isinstance(source, Tree) else NOTHING_APPLIED
    stack = applied.standing(source)
    if target is None:
        target = stack.own_top(catalog)
    if target is None:
        target = catalog.target(identify(catalog, stack.pristine(source))[0].target)
    if not isinstance(source, Tree):
        return verdict(catalog, target, source)
    if source.is_checkout:  # which can hold several packages
        source = replace(source, upstream=target.upstream)
    try:
        judged = judge(catalog, target, AppliedStack(applied, source, source))
    except SourceUnavailableError:
        raise
    except PkgtoolsError as error:
        return _refused(target.name, "", source.label, error)
    return _fitting(target, judged.revisions, source, judged.plan)


def verdict(
    catalog: Catalog,
    target: Target,
    source: Source,
    revision: str | None = None,
) -> DryRun:
    """Hold a source against a target; a refusal is a verdict too.

    The source must be `revision`, by default any of the target's.
    """
    try:
        if isinstance(source, Tree):
            refuse_unfit(target, source)
        refuse_other_target(catalog, target, source)
        revisions, plan = check(catalog, target, source)
        if revision is not None and revision not in revisions:
            raise ForeignError(
                f"{source.label} should be {revision}, its files are those of "
                f"{' and '.join(revisions)}"
            )
        if plan is not None:
            refuse_shadowed(target, source, plan)
    except SourceUnavailableError:
        raise
    except PkgtoolsError as error:
        return _refused(target.name, revision or "", source.label, error)
    return _fitting(target, [revision] if revision else revisions, source, plan)


def _fitting(target: Target, revisions: Sequence[str], source: Source, plan: Plan | None) -> DryRun:
    return DryRun(
        target=target.name,
        revision=revisions[0],
        other_version=other_version(revisions, source),
        source=source.label,
        outcome=Outcome.PATCHED if plan is None else Outcome.APPLIES,
        places=tuple(
            PatchPlace(step.patch, step.path, tuple(p.offset for p in step.placements))
            for step in (plan.steps if plan is not None else ())
        ),
    )


def _refused(target: str, revision: str, source: str | None, error: PkgtoolsError) -> DryRun:
    is_missing = isinstance(error, SourceUnavailableError)
    return DryRun(
        target,
        revision,
        source,
        Outcome.UNVERIFIED if is_missing else Outcome.REFUSED,
        message=error.message,
        remedy=error.remedy,
        exit_code=error.exit_code,
        refusal=error.details if isinstance(error.details, Refusal) else None,
    )
