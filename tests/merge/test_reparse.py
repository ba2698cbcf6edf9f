"""A tree that is made from a similar source's tree is the tree that is made from nothing."""

from pathlib import Path

import tree_sitter
import tree_sitter_python
from hypothesis import given, settings
from hypothesis import strategies as st

from pkgtools.merge.syntax import reparse

_SOURCES = [
    b"".join(path.read_bytes().splitlines(keepends=True)[:90])
    for path in sorted(Path(reparse.__file__).parent.glob("[m-r]*.py"))
]
_LINES = [
    *(b"", b"    ", b"        # a comment", b"# a comment", b'"""', b"'", b"(", b")", b"\\"),
    *(b"else:", b"    return 1", b"if x:", b"    pass", b"class A:", b"\tx = 1", b'f"{x!r:>{n}}"'),
]
_EDITS = st.tuples(
    st.floats(0, 1, exclude_max=True), st.integers(0, 4), st.lists(st.sampled_from(_LINES))
)


def _nodes(tree: tree_sitter.Tree) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    stack = [tree.root_node]
    while stack:
        node = stack.pop()
        span = node.start_byte, node.end_byte, node.start_point, node.end_point
        found.append((node.type, *span, node.has_error))
        stack += node.children
    return found


@settings(deadline=None)  # the machine can be busy
@given(st.sampled_from(_SOURCES), st.lists(_EDITS, min_size=1, max_size=4))
def test_the_tree_of_an_edit_is_the_whole_source_s(
    source: bytes, edits: list[tuple[float, int, list[bytes]]]
) -> None:
    alone = tree_sitter.Parser(tree_sitter.Language(tree_sitter_python.language()))
    lines = source.split(b"\n")
    reparse.syntax_tree(source)
    for where, gone, added in edits:
        at = int(where * len(lines))
        lines[at : at + gone] = added
        made = b"\n".join(lines)
        assert _nodes(reparse.syntax_tree(made)) == _nodes(alone.parse(made))
