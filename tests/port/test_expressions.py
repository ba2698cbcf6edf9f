"""Random edits of one expression by both sides, held against Python's own syntax tree.

Each side edits one node. The right result has both edits. Where they edit the same node, there are
two results, one for each order: then only a conflict will do.
"""

from __future__ import annotations

import ast
import copy
import random
from typing import TYPE_CHECKING

import pytest

from pkgtools.merge import merge

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Edit = Callable[[ast.expr], ast.expr]

STATEMENTS = (
    "def f():\n    x = {}\n    return x\n",
    "def f():\n    if {}:\n        first()\n",
    "def f():\n    first()\n    {}\n    last()\n",
    "x = call(\n    a,\n    {},\n    b=1,\n)\n",
)


def expression(chance: random.Random, depth: int) -> ast.expr:
    """Return a random expression."""

    def inner() -> ast.expr:
        return expression(chance, depth - 1)

    name = ast.Name(f"n{chance.randrange(60)}")
    return (
        name
        if not depth
        else chance.choice(
            (
                lambda: name,
                lambda: ast.Attribute(inner(), name.id),
                lambda: ast.Call(name, [inner()], [ast.keyword("k", inner())]),
                lambda: ast.Call(ast.Attribute(inner(), name.id), [], []),
                lambda: ast.BinOp(inner(), chance.choice((ast.Add(), ast.Mult())), inner()),
                lambda: ast.BoolOp(chance.choice((ast.And(), ast.Or())), [inner(), inner()]),
                lambda: ast.Compare(inner(), [ast.Lt()], [inner()]),
                lambda: ast.Subscript(inner(), inner()),
            )
        )()
    )


def wrapping(chance: random.Random, new: str) -> Edit:
    """Return an edit that puts an expression into another one."""
    name = ast.Name(new)
    return chance.choice(
        (
            lambda node: ast.Call(name, [node], []),
            lambda node: ast.Call(name, [], [ast.keyword(new, node)]),
            lambda node: ast.Call(ast.Attribute(node, new), [], []),
            lambda node: ast.BinOp(node, ast.Mult(), name),
            lambda node: ast.BoolOp(ast.And(), [name, node]),
            lambda node: ast.BoolOp(ast.Or(), [node, name]),
            lambda node: ast.Subscript(node, name),
            lambda node: ast.IfExp(name, node, name),
        )
    )


def inside(node: ast.expr, new: str) -> Edit | None:
    """Return an edit in a node itself, if it has something to edit."""
    if isinstance(node, ast.Name):
        return lambda _: ast.Name(new)
    if isinstance(node, ast.Call):
        return lambda node: (
            ast.Call(node.func, node.args, [*node.keywords, ast.keyword(new, ast.Name(new))])
            if isinstance(node, ast.Call)
            else node
        )
    return None


class Edited(ast.NodeTransformer):
    """Makes edits in an expression, by the numbers of the nodes."""

    def __init__(self, edits: Mapping[int, list[Edit]]) -> None:
        self.edits = edits

    def visit(self, node: ast.AST) -> ast.AST:
        edits = self.edits.get(getattr(node, "number", -1), [])
        made = self.generic_visit(node)
        for edit in edits:
            assert isinstance(made, ast.expr)
            made = edit(made)
        return made


def source(statement: str, tree: ast.expr, edits: Mapping[int, list[Edit]]) -> bytes:
    made = Edited(edits).visit(copy.deepcopy(tree))
    return statement.format(ast.unparse(ast.fix_missing_locations(made))).encode()


@pytest.mark.parametrize("seed", range(120))
def test_both_edits_or_a_conflict(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - chance, not secrecy
    tree = expression(chance, 3)
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.expr)]
    for number, node in enumerate(nodes):
        node.number = number  # type: ignore[attr-defined]
    one = chance.randrange(len(nodes))
    other = one if chance.random() < 0.5 else chance.randrange(len(nodes))
    mine, yours = wrapping(chance, "ours"), wrapping(chance, "theirs")
    if one != other:
        mine = inside(nodes[one], "ours") or mine
    statement = chance.choice(STATEMENTS)
    base = source(statement, tree, {})
    ours, theirs = source(statement, tree, {one: [mine]}), source(statement, tree, {other: [yours]})
    merged = merge(base, ours, theirs, python=True)
    if merged.conflicts:
        return
    assert one != other, merged.data.decode()
    right = source(statement, tree, {one: [mine], other: [yours]})
    assert ast.dump(ast.parse(merged.data)) == ast.dump(ast.parse(right)), merged.data.decode()
