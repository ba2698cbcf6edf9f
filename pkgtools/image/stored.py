"""Images on disk: read layer by layer, without an engine."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pkgtools.errors import TreeError
from pkgtools.image.layer import Kind, parents
from pkgtools.image.merged import StoredLayer, merge
from pkgtools.image.package import FoundPackage, choose_folder, package_at

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pkgtools.image.layer import Member
    from pkgtools.image.package import PackageQuery


@dataclass
class StoredFiles:
    """The files of an image on disk."""

    label: str
    layers: Sequence[StoredLayer]
    tree: str | None
    """The folder that holds the package, if the user says so."""

    def find(self, query: PackageQuery) -> FoundPackage:
        """Return where the package lies; see `Image.find`."""
        members = merge(self.layers, query.wants)
        marker = f"{query.upstream.package}/__init__.py"
        folders = [
            posixpath.dirname(posixpath.dirname(path))
            for path, member in members.items()
            if member.kind is Kind.FILE and f"/{path}".endswith(f"/{marker}")
        ]
        folder = choose_folder(query, folders, self.tree, self.label)
        package = package_at(query, folder, members, members)
        self._refuse_links(package, members)
        return package

    def _refuse_links(self, package: FoundPackage, members: Mapping[str, Member]) -> None:
        """Raise where a layer has a file below what is no folder: engines differ in what that is.

        Raises:
            TreeError: it has.

        """
        for path in sorted({parent for name in package.names for parent in parents(name)}):
            member = members.get(path)
            if member is not None and member.kind is not Kind.FOLDER:
                raise TreeError(
                    f"/{path} of {self.label} is no folder, and files lie below it",
                    remedy="build the image anew, with the package in a folder",
                )

    def read(self, paths: Collection[str]) -> dict[str, Member]:
        """Return what is at each path that there is; see `Image.read`."""
        if not paths:
            return {}
        found = merge(self.layers, set(paths).__contains__)
        return {path: found[path] for path in paths if path in found}
