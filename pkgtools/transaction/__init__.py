"""Writing to a user's tree: what to write, in which order, and all of it or nothing."""

from pkgtools.transaction.commit import commit, locked, recover, relative_writes
from pkgtools.transaction.writes import Draft, in_order

__all__ = ["Draft", "commit", "in_order", "locked", "recover", "relative_writes"]
