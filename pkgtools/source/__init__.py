"""Sources: each answers one question, the bytes of this path of the source tree, or none."""

from pkgtools.source.base import Source
from pkgtools.source.tree import Tree, find_tree
from pkgtools.source.wheel import WheelSource

__all__ = ["Source", "Tree", "WheelSource", "find_tree"]
