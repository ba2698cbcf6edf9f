"""Choosing the tree, wheel or repository that a user means."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pkgtools.catalog import Catalog, Target, Upstream
from pkgtools.errors import UsageError
from pkgtools.source.base import Source
from pkgtools.source.python import default_python, find_package
from pkgtools.source.tree import Tree, find_tree
from pkgtools.source.wheel import WheelSource

if TYPE_CHECKING:
    from pkgtools.source.git import Repository


def open_tree(
    catalog: Catalog, target: Target | None, tree: Path | None, python: str | None
) -> Tree:
    """Return the tree that is meant: of the target's upstream, else of the first that fits."""
    upstreams = [target.upstream] if target else catalog.upstreams
    return open_trees(catalog, upstreams, tree, python)[0]


def open_trees(
    catalog: Catalog, upstreams: Sequence[Upstream], tree: Path | None, python: str | None
) -> list[Tree]:
    """Return the trees of `upstreams` at a path, or in a Python."""
    if tree is not None and python is not None:
        raise UsageError("--tree and --python name different trees: give one")
    if tree is not None:
        found = []
        for upstream in upstreams:
            with contextlib.suppress(UsageError):
                found.append(find_tree(tree, upstream))
        return found or [find_tree(tree, upstreams[-1])]  # which raises, and says why
    found = installed_trees(upstreams, python)
    if not found:
        names = " or ".join(upstream.package for upstream in upstreams)
        raise UsageError(
            f"{python or default_python()} has no package {names} (of {catalog.path})",
            remedy="give its folder with --tree, its interpreter with --python, or another "
            "catalog with --catalog",
        )
    return found


def installed_trees(upstreams: Sequence[Upstream], python: str | None) -> list[Tree]:
    """Return the installed packages of the upstreams that a Python has."""
    python = python or default_python()
    return [
        replace(find_tree(folder, upstream), python=python)
        for upstream in upstreams
        if (folder := find_package(python, upstream.package)) is not None
    ]


def open_wheel(catalog: Catalog, path: Path) -> WheelSource:
    """Return a wheel of whichever known upstream it is."""
    *others, last = catalog.upstreams
    for upstream in others:
        with contextlib.suppress(UsageError):
            return WheelSource(path, upstream)
    return WheelSource(path, last)  # or say why not


def open_repositories(paths: Sequence[Path]) -> list[Repository]:
    """Return the repositories at `paths`, importing what knows git only for some."""
    if not paths:
        return []
    from pkgtools.source.git import Repository  # noqa: PLC0415 - GitPython is slow to import

    return [Repository(path) for path in paths]


def open_revision(repository: Path, revision: str) -> Source:
    """Return a revision in a repository."""
    return open_repositories([repository])[0].get(revision)
