"""The interface of all sources."""

from typing import Protocol

from pkgtools.blob import Blob
from pkgtools.catalog import Upstream


class Source(Protocol):
    """A reader of the files of one revision."""

    @property
    def label(self) -> str:
        """Its name in reports."""
        ...

    @property
    def upstream(self) -> Upstream | None:
        """The upstream of its files; None if unknown (a git revision)."""
        ...

    def read(self, path: str) -> Blob | None:
        """Return the content of a path of the source tree, or None where there is none.

        Raises:
            PkgtoolsError: the source cannot be read, or cannot hold such a path.
        """
        ...
