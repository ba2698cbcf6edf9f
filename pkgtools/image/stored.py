"""Images on disk: read layer by layer, without an engine."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pkgtools.errors import TreeError
from pkgtools.image.layer import Kind, Member, parents
from pkgtools.image.merged import StoredLayer, merge
from pkgtools.image.package import FoundPackage, PackageQuery, choose_folder, package_at

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


@dataclass
class StoredFiles:
    """The files of an image on disk."""

    label: str
    layers: Sequence[StoredLayer]
    tree: str | None
    """The folder that holds the package, if the user says so."""
    _members: dict[str, Member] = field(default_factory=dict)
    _query: PackageQuery | None = None

    def find(self, query: PackageQuery) -> FoundPackage:
        """Return where the package lies; see `Image.find`."""
        self._query = query
        self._members = merge(self.layers, query.wants)
        marker = f"{query.upstream.package}/__init__.py"
        folders = [
            posixpath.dirname(posixpath.dirname(path))
            for path, member in self._members.items()
            if member.kind is Kind.FILE and f"/{path}".endswith(f"/{marker}")
        ]
        folder = choose_folder(query, folders, self.tree, self.label)
        package = package_at(query, folder, self._members, self._members)
        self._refuse_links(package)
        return package

    def _refuse_links(self, package: FoundPackage) -> None:
        """Raise where a layer has a file below what is no folder: engines differ in what that is.

        Raises:
            TreeError: it has.

        """
        for path in sorted({parent for name in package.names for parent in parents(name)}):
            member = self._members.get(path)
            if member is not None and member.kind is not Kind.FOLDER:
                raise TreeError(f"/{path} of {self.label} is no folder, and files lie below it")

    def read(self, paths: Collection[str]) -> dict[str, Member]:
        """Return what is at each path that there is; see `Image.read`."""
        if not paths:
            return {}
        found = self._members
        if self._query is None or any(self._is_unread(self._query, path) for path in paths):
            found = merge(self.layers, set(paths).__contains__)
        return {path: found[path] for path in paths if path in found}

    def _is_unread(self, query: PackageQuery, path: str) -> bool:
        """Whether a file's content was not kept: a receipt names it, and no series does."""
        member = self._members.get(path)
        return member is not None and member.kind is Kind.FILE and not query.wants(path)
