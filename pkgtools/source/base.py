"""What every source is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pkgtools.blob import Blob
    from pkgtools.catalog import Upstream


class Source(Protocol):
    """Where the files of one revision are read from."""

    @property
    def label(self) -> str:
        """What to call it in a report."""
        ...

    @property
    def upstream(self) -> Upstream | None:
        """Whose files it holds; None where it does not say (a git revision)."""
        ...

    def read(self, path: str) -> Blob | None:
        """Return the content of a path of the source tree, or None where there is none.

        Raises:
            PkgtoolsError: the source cannot be read, or cannot hold such a path.

        """
        ...
