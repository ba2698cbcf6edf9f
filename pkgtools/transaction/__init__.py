"""Writing to a user's tree: what to write, in which order, and all of it or nothing."""

from pkgtools.transaction.commit import commit, locked, recover
from pkgtools.transaction.writes import TreeDraft

__all__ = ["TreeDraft", "commit", "locked", "recover"]
