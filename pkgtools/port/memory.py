"""What one step of a port leaves to the next: files that were read, and checks that hold still.

Between two commits upstream changes few files. A patched file that it does not change needs no
check if nothing that its last check looked at has changed either: the check compares the old
package with the new one, and both are the same to it.
"""

from dataclasses import dataclass, field

from pkgtools.authoring.gitdiff import FileChange
from pkgtools.catalog import Upstream
from pkgtools.port.model import HunkReport
from pkgtools.port.upstream import Listing
from pkgtools.source import Source


@dataclass
class CheckedFile:
    """What the merge of a file and its checks looked at."""

    paths: set[str] = field(default_factory=set)
    """Files of the package, there or not."""
    listed: set[str] = field(default_factory=set)
    """Files of the new source, whatever the patches make of them."""
    names: set[bytes] = field(default_factory=set)
    """Attributes that are looked for near the file."""
    missed: set[bytes] = field(default_factory=set)
    """Attributes that upstream lacks now, and only a patched file can define."""
    reports: tuple[HunkReport, ...] = ()


class StepMemory:
    """Files of the last two sources, and the checks of unchanged files."""

    def __init__(self) -> None:
        self._listings: list[Listing] = []
        self.checked: dict[tuple[str, FileChange], CheckedFile] = {}
        """The last quiet check of what a patch does to a file."""

    def listing(self, source: Source, upstream: Upstream) -> Listing:
        """Return the files of a source."""
        for listing in self._listings:
            if listing.source is source:
                return listing
        before = self._listings[-1] if self._listings else None
        self._listings = [*self._listings[-1:], Listing(source, upstream, before)]
        return self._listings[-1]
