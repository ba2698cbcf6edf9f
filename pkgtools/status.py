"""What a tree is, said without touching it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pkgtools.identify import identify
from pkgtools.receipt import load_receipt
from pkgtools.state import FileState, State
from pkgtools.transaction.journal import load_journal

if TYPE_CHECKING:
    from pkgtools.catalog import Catalog
    from pkgtools.source import Tree


@dataclass(frozen=True)
class Status:
    """What a tree is, and what its receipt says."""

    tree: str
    state: State
    target: str | None
    revisions: tuple[str, ...]
    """More than one where their touched files are the same."""
    series: str | None
    """The digest of the series in the tree, as the receipt has it."""
    pkgtools: str | None
    """The version of the tool that applied it; None without a receipt."""
    is_current: bool
    """Whether the catalog's series of that target is the one in the tree."""
    edited: tuple[str, ...]
    """Patched files that were edited since."""
    interrupted: bool
    """Whether an earlier run was killed, so that `recover` has something to do."""
    files: tuple[FileState, ...]


def status_of(catalog: Catalog, tree: Tree) -> Status:
    """Say what a tree is, touching nothing."""
    receipt = load_receipt(tree.home)
    interrupted = load_journal(tree.home) is not None
    identity = identify(catalog.targets, tree)
    known = identity.state not in (State.FOREIGN, State.MISSING)
    if receipt is None:
        return Status(
            tree.label,
            identity.state,
            identity.best.target if known else None,
            tuple(match.revision for match in identity.matches) if known else (),
            None,
            None,
            is_current=False,
            edited=(),
            interrupted=interrupted,
            files=identity.best.files,
        )
    edited = tuple(receipt.drifted(tree))
    current = any(
        t.name == receipt.target and t.series.digest == receipt.series for t in catalog.targets
    )
    return Status(
        tree.label,
        identity.state if edited else State.PATCHED,
        receipt.target,
        tuple(receipt.revisions),
        receipt.series,
        receipt.pkgtools,
        current,
        edited,
        interrupted,
        identity.best.files if edited or current else (),
    )
