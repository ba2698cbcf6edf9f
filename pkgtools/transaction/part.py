"""The trees of one transaction: each a part, with a journal of its own.

A journal has operations of its own tree alone, so that a hostile one in a downloaded checkout
reaches nothing outside that. What binds the parts is a reference both ways and one id.
"""

import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from pkgtools.source import Tree
from pkgtools.source.tree import home_of
from pkgtools.transaction.journal import Journal, StagedFile, TreeReference, load_journal


@dataclass(frozen=True)
class Part:
    """One tree's share of a transaction."""

    tree: Tree
    journal: Journal

    @cached_property
    def files(self) -> list[StagedFile]:
        """The file of each operation."""
        return [StagedFile(self.tree, operation) for operation in self.journal.operations]


def load_parts(tree: Tree) -> list[Part]:
    """Return the parts of the transaction that a killed run left in a tree, the leader first."""
    journal = load_journal(tree.home)
    if journal is None:
        return []
    if journal.phase == "led":
        leader = _referred(tree, journal.trees[0])
        found = load_journal(leader.home) if leader is not None else None
        led = [_referred(leader, each) for each in found.trees] if found and leader else []
        homes = [each.home for each in led if each is not None]
        if leader is None or found is None or found.id != journal.id or tree.home not in homes:
            # The leader ends last, so it was moved or replaced: what it decided is not known,
            # and as it was before is the one state that fits both.
            return [Part(tree, msgspec.structs.replace(journal, phase="undo", trees=[]))]
        tree, journal = leader, found
    parts, is_whole = [], True
    for named in journal.trees:
        other = _referred(tree, named)
        theirs = load_journal(other.home) if other is not None else None
        is_led = other is not None and _is_led(other, theirs, tree, journal)
        if other is not None and (theirs is None or is_led):
            parts.append(Part(other, theirs or Journal(1, "led", [], [], journal.id)))
        is_whole &= is_led
    if journal.phase == "commit" and not is_whole:  # a package was replaced or moved meanwhile
        journal = msgspec.structs.replace(journal, phase="undo")
    return [Part(tree, journal), *parts]


def _is_led(other: Tree, theirs: Journal | None, tree: Tree, journal: Journal) -> bool:
    """Whether the journal of another tree says that this one's decides."""
    if theirs is None or theirs.phase != "led" or not journal.id or theirs.id != journal.id:
        return False
    leader = _referred(other, theirs.trees[0])
    return leader is not None and leader.home == tree.home


def reference(tree: Tree, other: Tree) -> TreeReference:
    """Return how the journal of `tree` names another tree."""
    root, home = (
        quote(os.fsencode(os.path.relpath(path, tree.home))) for path in (other.root, other.home)
    )
    return TreeReference(root, home)


def _referred(tree: Tree, reference: TreeReference) -> Tree | None:
    """Return the tree that a journal names, or None where it is not there any more.

    Its home has to be the one that belongs to its root: else a journal could send another's
    operations to a root of its choice.
    """
    root, home = (
        Path(os.path.normpath(tree.home / unquote(path, errors="surrogateescape")))
        for path in (reference.root, reference.home)
    )
    # A symbolic link could lead the operations to another folder than the one that was locked.
    if not root.is_dir() or root.resolve() != root or home.resolve() != home:
        return None
    is_installed = home.suffix == ".dist-info" and _belongs(root, home)
    if not is_installed and home != home_of(root):
        return None
    return replace(tree, root=root, home=home, dist_info=home if is_installed else None)


def _belongs(root: Path, dist_info: Path) -> bool:
    """Whether a .dist-info lies beside its package, or beside a developer's link to that."""
    beside = dist_info.parent
    return beside == root or any(
        each.is_symlink() and each.resolve().parent == root for each in beside.iterdir()
    )
