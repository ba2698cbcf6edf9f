"""Which files a package has in a source."""

import os
from collections.abc import Hashable
from pathlib import Path

from pkgtools.catalog import Upstream
from pkgtools.source.base import Source
from pkgtools.source.tree import Tree
from pkgtools.source.wheel import WheelSource


def package_files(source: Source, upstream: Upstream) -> dict[str, Hashable]:
    """Return the paths of a package's files, each with a cheap mark of its content if any.

    Equal marks of one kind of source mean equal content. The caches of Python are left out.
    """
    marks: dict[str, Hashable] = {}
    if isinstance(source, WheelSource):
        files = (info for info in source.members() if not info.is_dir())
        marks = {upstream.in_source(i.filename): (i.CRC, i.file_size) for i in files}
    elif isinstance(source, Tree):
        marks = {path: object() for path in _walk(source)}
    elif hasattr(source, "paths"):  # a git revision
        marks = source.paths(upstream.in_source(f"{upstream.package}/"))
        marks |= source.paths(upstream.in_source(upstream.module))
    return {p: mark for p, mark in marks.items() if upstream.installed_path(p) is not None}


def _walk(tree: Tree) -> list[str]:
    upstream, package = tree.upstream, tree.root / tree.package_path
    found = [upstream.in_source(upstream.module)] if package.is_file() else []
    for at, folders, names in os.walk(package):
        folders[:] = [folder for folder in folders if folder != "__pycache__"]
        below = upstream.package / Path(at).relative_to(package)
        found += [upstream.in_source((below / name).as_posix()) for name in names]
    return found


def not_ignored(tree: Tree) -> tuple[set[str], set[str]] | None:
    """Return the package's files that git tracks in a checkout, and the others but ignored ones.

    None where the tree is not a checkout, or not git's.
    """
    if tree.git_root is None:
        return None
    from pkgtools.source.git import Repository  # noqa: PLC0415 - GitPython is slow to import

    below = tree.root.relative_to(tree.git_root)
    tracked, others = Repository(tree.git_root).work_files((below / tree.package_path).as_posix())

    def named(paths: set[str]) -> set[str]:
        inside = (Path(path).relative_to(below) for path in paths)
        return {path.as_posix() for path in inside if "__pycache__" not in path.parts}

    return named(tracked), named(others)
