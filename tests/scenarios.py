"""What is done to a tree, in each of the places where one can lie."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from project import age
from silent import Silent

from pkgtools.tree.apply import TreeChange, apply_targets, recover_tree
from pkgtools.tree.reverse import reverse_trees

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from project import Project

    from pkgtools.source import Tree

    Act = Callable[[Project, Tree], object]


def apply(project: Project, tree: Tree) -> TreeChange:
    """Apply w-1.0."""
    catalog = project.catalog()
    return apply_targets(catalog, [(catalog.target("w-1.0"), tree)], Silent())[0]


def apply_changed(project: Project, tree: Tree) -> TreeChange:
    """Apply w-1.0 as the later catalog has it."""
    catalog = project.changed_catalog()
    return apply_targets(catalog, [(catalog.target("w-1.0"), tree)], Silent())[0]


def reverse(project: Project, tree: Tree) -> TreeChange:
    """Reverse whatever is applied."""
    return reverse_trees(project.catalog(), [(None, tree)], Silent())[0]


def recover(tree: Tree) -> str | None:
    """Finish or undo what was killed."""
    return recover_tree(tree, Silent()).recovered


def _nothing(project: Project, tree: Tree) -> None:
    pass


@dataclass(frozen=True)
class Scenario:
    """A tree of release 1.0 in a first state, and what is then done to it."""

    name: str
    layout: str
    prepare: Act
    act: Act

    def __str__(self) -> str:
        return f"{self.name}-{self.layout}"

    def tree(self, project: Project, where: Path) -> Tree:
        """Make the tree below `where`, in its first state.

        A copy is kept beside `where`: tests that kill a hundred runs ask for a hundred trees.
        """
        root, kept = where / "tree", where.parent / f"{where.name} {self}"
        if kept.exists():
            shutil.copytree(kept, root, symlinks=True)
            return project.tree(root)
        tree = make_tree(project, self.layout, where)
        self.prepare(project, tree)
        age(tree.root)
        shutil.copytree(root, kept, symlinks=True)
        return tree


def make_tree(project: Project, layout: str, where: Path) -> Tree:
    """Make a pristine tree of release 1.0."""
    root = where / "tree"
    if layout == "site":
        project.install(root, compiled=True)
    elif layout == "checkout":
        project.write_checkout(root)
    else:
        project.write_archive(root)
    return project.tree(root)


def _scenarios(layout: str) -> list[Scenario]:
    return [
        Scenario("apply", layout, _nothing, apply),
        Scenario("reverse", layout, apply, reverse),
        Scenario("replace", layout, apply, apply_changed),
    ]


IN_SITE = _scenarios("site")
IN_CHECKOUT = _scenarios("checkout")
IN_ARCHIVE = _scenarios("archive")
EVERY = [*IN_SITE, *IN_CHECKOUT, *IN_ARCHIVE]
