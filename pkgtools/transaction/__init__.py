"""Writing to a user's tree: what to write, in which order, and all of it or nothing."""

from pkgtools.transaction.commit import commit, locked, recover
from pkgtools.transaction.writes import writes_to_apply, writes_to_reverse

__all__ = ["commit", "locked", "recover", "writes_to_apply", "writes_to_reverse"]
