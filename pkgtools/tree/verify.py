"""Verifying that a series would apply, or that a tree is exactly what its target makes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from pkgtools.blob import SYMLINK
from pkgtools.errors import (
    CheckFailedError,
    ForeignError,
    PartialError,
    PkgtoolsError,
    SourceError,
    SourceUnavailableError,
)
from pkgtools.source import Tree
from pkgtools.tree.check import check
from pkgtools.tree.identify import identify
from pkgtools.tree.receipt import Before, load_receipt, standing_receipt
from pkgtools.tree.record import make_row, row_path
from pkgtools.tree.state import State, match_target
from pkgtools.util.files import read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pkgtools.catalog import Catalog, Revision, Target
    from pkgtools.plan import Plan
    from pkgtools.source import Source
    from pkgtools.source.at_hand import AtHand
    from pkgtools.tree.check import Refusal
    from pkgtools.tree.state import Identity


class NotPatchedError(SourceError, CheckFailedError):
    """The source is a known revision without its series."""


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


def dry_run(
    catalog: Catalog, revisions: Iterable[tuple[Target, Revision]], at_hand: AtHand
) -> Iterator[DryRun]:
    """Yield a verdict for each revision of a target, on its own source."""
    for target, revision in revisions:
        try:
            for source in at_hand.find(target, revision):
                yield verdict(catalog, target, source, revision.name)
        except SourceUnavailableError as error:
            unverified = _refused(target.name, revision.name, None, error)
            yield replace(unverified, outcome=Outcome.UNVERIFIED)
        except PkgtoolsError as error:  # a bad lock or wheel must not hide the other targets
            yield _refused(target.name, revision.name, None, error)


def dry_run_source(catalog: Catalog, target: Target | None, source: Source) -> DryRun:
    """Return the verdict on one source, for `target` or for the one that it belongs to.

    A tree that a receipt of ours stands for is judged as `apply` would: by what it
    was before.
    """
    receipt = standing_receipt(source) if isinstance(source, Tree) else None
    if target is None:
        names = [t.name for t in catalog.targets]
        known = receipt is not None and receipt.target in names
        name = receipt.target if receipt and known else identify(catalog, source)[0].target
        target = catalog.target(name)
    if isinstance(source, Tree) and receipt and receipt.series != target.series.digest:
        return verdict(catalog, target, Before(source, receipt))
    return verdict(catalog, target, source)


def verdict(
    catalog: Catalog, target: Target, source: Source, revision: str | None = None
) -> DryRun:
    """Hold a source against a target; a refusal is a verdict too.

    Args:
        catalog: in which a stranger's nearest revision is looked for.
        target: whose series.
        source: where the files are read from.
        revision: the one that the source must be; by default any of the target's.

    """
    try:
        revisions, plan = check(catalog, target, source)
        if revision is not None and revision not in revisions:
            raise ForeignError(
                f"{source.label} should be {revision}, its files are those of "
                f"{' and '.join(revisions)}"
            )
    except SourceUnavailableError:
        raise
    except PkgtoolsError as error:
        return _refused(target.name, revision or "", source.label, error)
    return DryRun(
        target=target.name,
        revision=revision or revisions[0],
        source=source.label,
        outcome=Outcome.PATCHED if plan is None else Outcome.APPLIES,
        places=_places(plan),
    )


def _refused(target: str, revision: str, source: str | None, error: PkgtoolsError) -> DryRun:
    return DryRun(
        target,
        revision,
        source,
        Outcome.REFUSED,
        message=error.message,
        remedy=error.remedy,
        exit_code=error.exit_code,
        refusal=error.refusal if isinstance(error, SourceError) else None,
    )


def _places(plan: Plan | None) -> tuple[PatchPlace, ...]:
    steps = plan.steps if plan else ()
    return tuple(
        PatchPlace(step.patch, step.path, tuple(p.offset for p in step.placements))
        for step in steps
    )


def verify(catalog: Catalog, target: Target | None, source: Source) -> Identity:
    """Return what `source` is, if it is exactly what its target makes.

    Every touched file has the locked content, every touched Python file
    compiles, and in an installed package RECORD agrees.

    Raises:
        CheckFailedError: it is not patched, or a check failed.
        PartialError: some of the series is in it.
        ForeignError: it is no known revision, or was edited.
        MalformedError: the series that is in it has no lock that fits.

    """
    if isinstance(source, Tree):
        _refuse_older_series(catalog, source)
    match = match_target(target, source)[0] if target else identify(catalog, source)[0]
    if target is None and not match.is_known and isinstance(source, Tree):
        _refuse_unsound(catalog, source)
    if match.state is not State.PATCHED:
        if isinstance(source, Tree):
            _refuse_other_catalogs(catalog, source)
        raise _not_patched(catalog, match, source)
    _compile_all(match, source)
    if isinstance(source, Tree):
        _check_record(match, source)
    return match


def _refuse_older_series(catalog: Catalog, tree: Tree) -> None:
    """Raise where the tree is what its receipt says, and the catalog's series is another now."""
    receipt = standing_receipt(tree)
    for target in catalog.sound_targets:
        if receipt and receipt.target == target.name and receipt.series != target.series.digest:
            raise CheckFailedError(
                f"{tree.label} is patched with an older series of {target.name}",
                remedy=f"replace it with `pkgtools apply --target {target.name} --tree "
                f"{tree.root}`",
            )


def _refuse_other_catalogs(catalog: Catalog, tree: Tree) -> None:
    """Raise where the tree is what its receipt says, of a target that the catalog has not."""
    receipt = standing_receipt(tree)
    if receipt and receipt.target not in [target.name for target in catalog.targets]:
        raise ForeignError(
            f"{tree.label} is patched with {receipt.target}, which {catalog.path} does not know",
            remedy="give the catalog that it was patched with (--catalog)",
        )


def _refuse_unsound(catalog: Catalog, tree: Tree) -> None:
    """Raise where the series that was applied cannot be read now, or changed since its lock.

    The nearest of the other targets would be named else.
    """
    receipt = load_receipt(tree.home)
    problem = catalog.problems.get(receipt.target) if receipt else None
    if problem:
        raise problem


def _not_patched(catalog: Catalog, match: Identity, source: Source) -> PkgtoolsError:
    name = match.target
    if match.state is State.PARTIAL:
        held = ", ".join(f"{f.path} ({f.state})" for f in match.files)
        return PartialError(
            f"{source.label} holds some of {name}: {held}",
            remedy="reinstall the package, or check its files out again, and apply to that",
            found=match,
        )
    if match.state is State.PRISTINE:
        apply = f"`pkgtools apply --target {name}"
        return NotPatchedError(
            f"{source.label} is {name} ({match.revision}), pristine: the series is not in it",
            remedy=f"apply it with {apply} --tree {source.root}`"
            if isinstance(source, Tree)
            else "verify a patched tree, or use --dry-run",
            found=match,
        )
    best = identify(catalog, source)[0]
    if best.is_known:
        return ForeignError(
            f"{source.label} is not {name}: it is {best.target} ({best.revision}), {best.state}",
            remedy=f"verify it with --target {best.target}",
            found=match,
        )
    differing = ", ".join(
        f.path + (" (only its line ends differ)" if f.crlf else "") for f in match.differing
    )
    return ForeignError(
        f"{source.label} is not what {name} makes; these files differ: {differing}",
        remedy="undo the edits if these are yours, or reinstall, or check the files out again",
        found=match,
    )


def _compile_all(match: Identity, source: Source) -> None:
    for file in match.files:
        blob = source.read(file.path)
        if blob is None or blob.mode == SYMLINK or not file.path.endswith(".py"):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # upstream's own, not this check's matter
                compile(blob.data, file.path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            raise CheckFailedError(
                f"{source.label}: {file.path} does not compile: {error}"
            ) from None


def _check_record(match: Identity, tree: Tree) -> None:
    """Raise unless RECORD has the right row for each touched file."""
    if tree.dist_info is None or not (tree.dist_info / "RECORD").is_file():
        return
    raw = read_bytes(tree.dist_info / "RECORD")
    rows = {row_path(row): row.strip() for row in raw.splitlines()}
    for file in match.files:
        name, blob = tree.name(file.path), tree.read(file.path)
        expected = None
        if blob is not None:  # a symbolic link's row has no hash
            expected = make_row(name, None if blob.mode == SYMLINK else blob.data).strip()
        if rows.get(name) != expected:
            raise CheckFailedError(
                f"{tree.dist_info / 'RECORD'} has another row for {name} than the file: an "
                "upgrade or uninstall would leave it behind",
                remedy="reinstall the package and apply with `pkgtools apply`",
            )
