"""Code that is nested as no person writes it takes no more time than other code of its size."""

from __future__ import annotations

import time

import pytest

from pkgtools.merge import How, merge
from pkgtools.merge.syntax.blocks import is_deep


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("(" * 3_000, ")" * 3_000),
        ("f(" * 3_000, ")" * 3_000),
        ("", ".f()" * 50_000),
        ("", " + 1" * 50_000),
        ("[" * 3_000, "]" * 3_000),
        ("not " * 20_000, ""),
    ],
)
def test_a_deep_expression(before: str, after: str) -> None:
    """Without a bound, most of these take minutes."""
    base, ours = (f"x = {before}{name}{after}\ny = 1\n".encode() for name in "ab")
    theirs = base.replace(b"x = ", b"import q\nxx = ")
    start = time.process_time()
    merged = merge(base, ours, theirs, python=True)
    assert time.process_time() - start < 5
    assert [chunk.how for chunk in merged.chunks] == [How.CONFLICT]
    assert merged.data == theirs
    clean = merge(base, ours, base + b"z = 1\n", python=True)
    assert clean.data == ours + b"z = 1\n"


@pytest.mark.parametrize("depth", [1, 60, 190])
def test_what_people_write_is_not_deep(depth: int) -> None:
    assert not is_deep(f"x = {'(' * depth}1{')' * depth}\n".encode())
