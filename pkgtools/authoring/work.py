"""A series that a command edits."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pkgtools.catalog import Catalog
from pkgtools.catalog.named import NamedSeries
from pkgtools.catalog.writes import locked_catalog
from pkgtools.source import Source, Tree
from pkgtools.transaction import reading
from pkgtools.util.progress import Reporter


@dataclass(frozen=True)
class CatalogWork:
    """A series to edit, with its catalog."""

    catalog: Catalog
    named: NamedSeries
    reporter: Reporter

    @contextlib.contextmanager
    def locked(self, tree: Tree | None = None) -> Iterator[Path]:
        """Keep out other commands that write to the catalog; yield the locked folder.

        Read the series inside: another command may have changed it before.

        Args:
            tree: a tree that is read inside; commands that write to it are kept out too.

        """
        folder = self.catalog.folder_of(self.named.directory)
        # flock(2) would let this process wait for itself where they are one folder.
        trees = [tree] if tree is not None and tree.root != folder else []
        with locked_catalog(folder, self.reporter), reading(trees, self.reporter):
            yield folder


@dataclass(frozen=True)
class SeriesWork(CatalogWork):
    """A series to edit, with the source that it applies to."""

    source: Source
