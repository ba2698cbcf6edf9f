"""What a tree is, said without touching it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pkgtools.transaction.journal import load_journal
from pkgtools.tree.identify import identify
from pkgtools.tree.receipt import PROVENANCE, Receipt, load_receipt
from pkgtools.tree.state import FileState, State

if TYPE_CHECKING:
    from pkgtools.catalog import Catalog, Target
    from pkgtools.source import Tree


@dataclass(frozen=True)
class Status:
    """What a tree is, and what its receipt says."""

    tree: str
    path: str
    """Where it lies; in an image, the folder there."""
    state: State
    target: str | None
    revisions: tuple[str, ...]
    """More than one where their touched files are the same."""
    files: tuple[FileState, ...]
    interrupted: bool
    """Whether an earlier run was killed, so that `recover` has something to do."""
    series: str | None = None
    """The digest of the series in the tree, as the receipt has it."""
    pkgtools: str | None = None
    """The version of the tool that applied it; None without a receipt."""
    is_current: bool = False
    """Whether the catalog's series of that target is the one in the tree."""
    edited: tuple[str, ...] = ()
    """Patched files that were edited since."""
    receipt_is_void: bool = False
    """Whether the files were replaced by a known revision's since they were patched."""
    from_wheel: bool = False
    """Whether the package was installed from a wheel that `build wheel` made."""


def status_of(catalog: Catalog, tree: Tree) -> Status:
    """Say what a tree is, touching nothing."""
    receipt = load_receipt(tree.home)
    interrupted = load_journal(tree.home) is not None
    edited = tuple(receipt.drifted(tree)) if receipt else ()
    if receipt is not None and not edited:
        return _as_received(catalog, tree, receipt, interrupted=interrupted)
    found_ids = identify(catalog, tree)
    best = found_ids[0]
    void = bool(edited) and best.state in (State.PRISTINE, State.PATCHED)
    found = Status(
        tree=tree.label,
        path=tree.place,
        state=best.state,
        target=best.target if best.is_known else None,
        revisions=tuple(each.revision for each in found_ids) if best.is_known else (),
        files=best.files,
        interrupted=interrupted,
        receipt_is_void=void,
        from_wheel=tree.dist_info is not None and (tree.dist_info / PROVENANCE).is_file(),
    )
    if receipt is None or void:
        return found
    return replace(
        found,
        target=receipt.target,
        series=receipt.series,
        pkgtools=receipt.pkgtools,
        is_current=_current(catalog, receipt) is not None,
        edited=edited,
    )


def _as_received(catalog: Catalog, tree: Tree, receipt: Receipt, *, interrupted: bool) -> Status:
    """Return the status of a tree that is what its receipt says."""
    current = _current(catalog, receipt)
    patches = current.series.patches if current else ()
    files = []
    for file in receipt.files:
        before = receipt.original(file.path)
        before_id = before.id if before else ""
        held = tuple(patch.name for patch in patches if file.path in patch.paths)
        files.append(FileState(file.path, State.PATCHED, file.after, before_id, file.after, held))
    return Status(
        tree=tree.label,
        path=tree.place,
        state=State.PATCHED,
        target=receipt.target,
        revisions=tuple(receipt.revisions),
        files=tuple(files),
        interrupted=interrupted,
        series=receipt.series,
        pkgtools=receipt.pkgtools,
        is_current=current is not None,
    )


def _current(catalog: Catalog, receipt: Receipt) -> Target | None:
    """Return the receipt's target, if the catalog's series of it is the one in the tree."""
    for target in catalog.sound_targets:
        if target.name == receipt.target and target.series.digest == receipt.series:
            return target
    return None
