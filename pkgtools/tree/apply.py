"""Patching a tree and undoing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pkgtools.errors import ForeignError, PartialError
from pkgtools.transaction import commit, locked, recover, writes_to_apply, writes_to_reverse
from pkgtools.tree.check import check
from pkgtools.tree.identify import identify
from pkgtools.tree.receipt import PROVENANCE, Before, Receipt, load_receipt
from pkgtools.tree.state import Identity, State, match_target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pkgtools.catalog import Catalog, Target
    from pkgtools.source import Tree
    from pkgtools.util.progress import Reporter


@dataclass(frozen=True)
class TreeChange:
    """What a command did to a tree."""

    tree: str
    path: str
    """Where it lies."""
    target: str | None
    revisions: tuple[str, ...]
    """What the tree was: more than one where their touched files are the same."""
    changed: tuple[str, ...]
    """The paths that were written or removed; empty when there was nothing to do."""
    replaced: str | None = None
    """The digest of an older series that was undone in the same transaction."""
    has_receipt: bool = True
    """False for a tree that is patched, but by other means, so that it cannot be reversed."""
    recovered: str | None = None
    """What became of an earlier run that was killed: finished or undone."""


class EditedError(ForeignError):
    """Files were edited since they were patched."""

    def __init__(self, message: str, *, remedy: str, paths: list[str]) -> None:
        super().__init__(message, remedy=remedy)
        self.paths = paths

    @property
    def details(self) -> object:
        """The paths."""
        return {"edited": self.paths}


def apply_target(catalog: Catalog, target: Target, tree: Tree, reporter: Reporter) -> TreeChange:
    """Make `tree` what `target` says, or change nothing.

    A series of an older state, recorded by a receipt, is undone in the same
    transaction.

    Raises:
        PkgtoolsError: a refusal, as `check` raises it, or a tree that cannot be
            written.

    """
    with locked(tree, reporter):
        recovered = recover(tree)
        receipt = _receipt_to_undo(target, tree)
        if receipt is not None and _is_done(target, tree, receipt):
            return _nothing_done(tree, target.name, receipt.revisions, recovered)
        revisions, plan = check(catalog, target, Before(tree, receipt) if receipt else tree)
        if plan is None:
            return _nothing_done(tree, target.name, revisions, recovered, has_receipt=False)
        commit(tree, writes_to_apply(target, revisions, tree, plan, receipt))
        changed = {change.path for change in plan.changes}
        changed |= {file.path for file in receipt.files} if receipt else set()
        replaced = receipt.series if receipt else None
    return TreeChange(
        tree.label,
        tree.place,
        target.name,
        revisions,
        tuple(sorted(changed)),
        replaced,
        recovered=recovered,
    )


def reverse_tree(catalog: Catalog, tree: Tree, reporter: Reporter) -> TreeChange:
    """Make `tree` what it was before, to the byte.

    Raises:
        ForeignError: files were edited since, or pkgtools did not patch them.
        TreeError: the tree cannot be written.

    """
    with locked(tree, reporter):
        recovered = recover(tree)
        receipt = load_receipt(tree.home)
        if receipt is None:
            _refuse_patched_otherwise(catalog, tree)
            return _nothing_done(tree, None, (), recovered)
        edited = receipt.drifted(tree)
        if edited and not receipt.is_undone(tree):
            raise _edited(receipt, edited)
        commit(tree, writes_to_reverse(tree, receipt))
        if edited:  # the files were checked out again: only the receipt was left
            return _nothing_done(tree, None, (), recovered)
    changed = tuple(file.path for file in receipt.files)
    return TreeChange(
        tree.label,
        tree.place,
        receipt.target,
        tuple(receipt.revisions),
        changed,
        recovered=recovered,
    )


def recover_tree(tree: Tree, reporter: Reporter) -> TreeChange:
    """Finish or undo what an earlier run was killed in.

    Raises:
        TreeError: files were edited since, so that neither is possible.

    """
    with locked(tree, reporter):
        return _nothing_done(tree, None, (), recover(tree))


def _nothing_done(
    tree: Tree,
    target: str | None,
    revisions: Sequence[str],
    recovered: str | None,
    *,
    has_receipt: bool = True,
) -> TreeChange:
    return TreeChange(
        tree.label,
        tree.place,
        target,
        tuple(revisions),
        (),
        has_receipt=has_receipt,
        recovered=recovered,
    )


def _is_done(target: Target, tree: Tree, receipt: Receipt) -> bool:
    """Whether the tree is what `target` makes; targets of several revisions can share a series."""
    if receipt.series != target.series.digest:
        return False
    return match_target(target, tree)[0].state is State.PATCHED


def _receipt_to_undo(target: Target, tree: Tree) -> Receipt | None:
    """Return the tree's receipt if the tree still is what it says.

    A tree that was replaced under its receipt (another branch checked out, the
    package unpacked again) is judged by its files, and the receipt is void.

    Raises:
        ForeignError: files were edited since they were patched.

    """
    receipt = load_receipt(tree.home)
    if receipt is None:
        return None
    edited = receipt.drifted(tree)
    if not edited:
        return receipt
    known = (State.PRISTINE, State.PATCHED)
    if any(match.state in known for match in match_target(target, tree)):
        return None
    raise _edited(receipt, edited)


def _edited(receipt: Receipt, paths: list[str]) -> ForeignError:
    return EditedError(
        f"edited since {receipt.target} was applied, so nothing is touched: {', '.join(paths)}",
        remedy="undo these edits, or keep them elsewhere and reinstall the package",
        paths=paths,
    )


def _refuse_patched_otherwise(catalog: Catalog, tree: Tree) -> None:
    """Raise where there is something to reverse and no receipt to do it with."""
    best = identify(catalog, tree)[0]
    state = best.state
    if state is State.PARTIAL:
        raise PartialError(
            f"some of {best.target} is in {tree.label}, but there is no receipt: it was patched "
            "by other means",
            remedy="reinstall the package, or check its files out again",
        )
    if state is not State.PATCHED:
        return
    if tree.dist_info is not None and (tree.dist_info / PROVENANCE).is_file():
        raise ForeignError(
            f"{tree.label} was installed from a wheel that has {best.target} in it",
            remedy=_reinstall(catalog, tree, best),
        )
    raise ForeignError(
        f"{tree.label} is patched with {best.target}, but there is no receipt: it was patched "
        "by other means",
        remedy="reinstall the package, or check its files out again",
    )


def _reinstall(catalog: Catalog, tree: Tree, match: Identity) -> str:
    """Return how to get the upstream's own package back in place of a patched wheel."""
    version = next(
        (r.version for r in catalog.target(match.target).revisions if r.name == match.revision),
        None,
    )
    if version is None:
        return f"install the wheel again that it was built from ({PROVENANCE} names it)"
    # The installed version has a local part, which pip takes for the same one.
    requirement = f"{tree.upstream.distribution}=={version}"
    return f"install the upstream's own: pip install --force-reinstall --no-deps {requirement}"
