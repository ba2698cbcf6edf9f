"""Writing to a user's tree: what to write, in which order, and all of it or nothing."""

from pkgtools.transaction.commit import commit, locked, reading, recover

__all__ = ["commit", "locked", "reading", "recover"]
