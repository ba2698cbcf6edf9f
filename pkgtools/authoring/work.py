"""A series that a command edits, and the names that its patches can have."""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pkgtools.blob import Blob
from pkgtools.catalog import Catalog
from pkgtools.catalog.named import NamedSeries
from pkgtools.catalog.writes import locked_catalog, write_catalog
from pkgtools.errors import UsageError
from pkgtools.patch import Patch
from pkgtools.source import Source, Tree
from pkgtools.transaction import reading
from pkgtools.util.progress import Reporter

_NAME: Final = re.compile(r"[^\s/#.][^\s/#]*\.(?:patch|diff)")


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
    def locked(self, *sources: Source | None) -> Iterator[None]:
        """Keep out other commands that write to the catalog, or to trees that are read inside.

        Read the series inside: another command may have changed it before.
        """
        # Each folder once, because flock(2) lets a process wait for itself; and in the order of
        # `pkgtools.transaction.locked`, so that two commands never wait in a circle.
        locks = {self.folder: locked_catalog(self.folder, self.reporter)}
        for each in sources:
            if isinstance(each, Tree):
                locks.setdefault(each.root, reading([each], self.reporter))
        with contextlib.ExitStack() as stack:
            for folder in sorted(locks):
                stack.enter_context(locks[folder])
            yield

    def write(self, files: Mapping[Path, Blob | None]) -> None:
        """Write files of the locked catalog, all or none; None removes a file."""
        write_catalog(self.folder, files)

    def refuse_absorbed(self, patches: Iterable[Patch]) -> None:
        """Refuse to remove a patch that a target calls absorbed."""
        paths = {patch.path.resolve(): patch.name for patch in patches if patch.path is not None}
        for target in self.catalog.targets:
            for path in target.absorbed:
                if name := paths.get(path.resolve()):
                    raise UsageError(
                        f"{name} is kept: {target.name} calls it absorbed, and is proven with it",
                        remedy=f"take {target.absorbed_name(path)} out of `absorbed` of "
                        f"{target.name} in {self.catalog.path} first",
                    )


@dataclass(frozen=True)
class SeriesWork(CatalogWork):
    """A series to edit, with the source that it applies to."""

    source: Source
    version: str | None = None
    """The release that the source is."""

    @contextlib.contextmanager
    def locked(self, *sources: Source | None) -> Iterator[None]:
        """Lock the series' own source too."""
        with super().locked(self.source, *sources):
            yield


def check_name(name: str) -> str:
    """Return the name of a patch file; a `UsageError` if a ``series`` file cannot hold it."""
    if not _NAME.fullmatch(name) or not name.isprintable():
        raise UsageError(
            f"invalid patch name {name!r}",
            remedy="use a name like limit.patch, without a folder, blanks or #",
        )
    return name
