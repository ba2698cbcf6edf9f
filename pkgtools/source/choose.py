"""Choosing the tree, wheel or repository that a user means."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, TypeVar

from pkgtools.errors import UsageError
from pkgtools.source.base import Source
from pkgtools.source.python import find_package
from pkgtools.source.tree import Tree, find_tree
from pkgtools.source.wheel import WheelSource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pkgtools.catalog import Catalog, Target, Upstream
    from pkgtools.source.git import Repository

S = TypeVar("S", bound=Source)


def open_tree(
    catalog: Catalog, target: Target | None, tree: Path | None, python: str | None
) -> Tree:
    """Return the tree that is meant: of the target's upstream, else of the first that fits.

    Raises:
        UsageError: there is none.

    """
    if tree is not None and python is not None:
        raise UsageError("--tree and --python name different trees: give one")
    upstreams = [target.upstream] if target else list(catalog.upstreams)
    found = (
        installed_tree(upstreams, python) if tree is None else _of_first(upstreams, tree, find_tree)
    )
    if found is None:
        names = " or ".join(upstream.package for upstream in upstreams)
        raise UsageError(
            f"{python or sys.executable} has no package {names} (of {catalog.path})",
            remedy="give its folder with --tree, its interpreter with --python, or another "
            "catalog with --catalog",
        )
    return found


def installed_tree(upstreams: list[Upstream], python: str | None) -> Tree | None:
    """Return the installed package of the first upstream that a Python has."""
    for upstream in upstreams:
        folder = find_package(python, upstream.package)
        if folder is not None:
            return find_tree(folder, upstream)
    return None


def _of_first(upstreams: Sequence[Upstream], path: Path, find: Callable[[Path, Upstream], S]) -> S:
    """Return what is at a path, as the first upstream has it that fits; else the last's error."""
    *others, last = upstreams
    for upstream in others:
        with contextlib.suppress(UsageError):
            return find(path, upstream)
    return find(path, last)


def open_wheel(catalog: Catalog, path: Path) -> WheelSource:
    """Return a wheel of whichever upstream it is.

    Raises:
        UsageError: it is no wheel, or no upstream's.

    """
    return _of_first(catalog.upstreams, path, WheelSource)


def check_wheels(catalog: Catalog, paths: Sequence[Path]) -> Sequence[Path]:
    """Return the wheels that were given.

    Raises:
        UsageError: one of them is no upstream's.

    """
    for path in paths:
        with open_wheel(catalog, path):
            pass
    return paths


def open_repositories(paths: Sequence[Path]) -> list[Repository]:
    """Return the repositories at `paths`, importing what knows git only for some."""
    if not paths:
        return []
    from pkgtools.source.git import Repository  # noqa: PLC0415 - GitPython is slow to import

    return [Repository(path) for path in paths]


def open_revision(repository: Path, revision: str) -> Source:
    """Return a revision in a repository."""
    return open_repositories([repository])[0].get(revision)
