"""A series that a command edits."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pkgtools.blob import Blob
from pkgtools.catalog import Catalog
from pkgtools.catalog.named import NamedSeries
from pkgtools.catalog.writes import locked_catalog, write_catalog
from pkgtools.source import Source, Tree
from pkgtools.transaction import reading
from pkgtools.util.progress import Reporter


@dataclass(frozen=True)
class CatalogWork:
    """A series to edit, with its catalog."""

    catalog: Catalog
    named: NamedSeries
    reporter: Reporter

    @property
    def folder(self) -> Path:
        """The folder to lock and to write in."""
        return self.catalog.folder_of(self.named.directory)

    @contextlib.contextmanager
    def locked(self, tree: Tree | None = None) -> Iterator[None]:
        """Keep out other commands that write to the catalog, or to a tree that is read inside.

        Read the series inside: another command may have changed it before.
        """
        # flock(2) would let this process wait for itself where they are one folder.
        trees = [tree] if tree is not None and tree.root != self.folder else []
        with locked_catalog(self.folder, self.reporter), reading(trees, self.reporter):
            yield

    def write(self, files: Mapping[Path, Blob | None]) -> None:
        """Write files of the locked catalog, all or none; None removes a file."""
        write_catalog(self.folder, files)


@dataclass(frozen=True)
class SeriesWork(CatalogWork):
    """A series to edit, with the source that it applies to."""

    source: Source
