"""Looking for names by bytes finds what a walk of the syntax tree finds."""

from pathlib import Path

import pytest

import pkgtools
from pkgtools.merge.syntax.blocks import parse
from pkgtools.merge.syntax.tokens import identifiers, raw_walk

_FOLDER = Path(pkgtools.__file__).parent
_MODULES = [path.read_bytes() for path in (_FOLDER / "merge").rglob("u*.py")]


@pytest.mark.parametrize(
    "source",
    [
        *_MODULES,
        "é = éa = f'{é} é {éa!r:>{a}}'  # é a\na.é(é=é)\n".encode(),
        b"x = 'x' if x else 1\n",
    ],
)
def test_identifiers_are_those_of_a_walk(source: bytes) -> None:
    root = parse(source).raw[0]
    nodes = [n for n in raw_walk([root]) if n.type == "identifier"]
    assert nodes
    for name in {n.text for n in nodes}:
        assert name is not None
        assert list(identifiers(root, name)) == [n for n in nodes if n.text == name]


def test_identifiers_below_a_node_are_not_those_beside_it() -> None:
    root = parse(b"a = 1\ndef f():\n    return a\n").raw[0]
    assert [n.start_point.row for n in identifiers(root.children[1], b"a")] == [2]
