"""What a merge made is held against the patch: each way to be wrong is found."""

from __future__ import annotations

from collections import Counter

import pytest

from pkgtools.merge import merge
from pkgtools.merge.comparison import problem
from pkgtools.merge.syntax.blocks import parse

BASE = b"def f():\n    a()\n    b()\n"
OURS = b"def f():\n    a()\n    new()\n    b()\n"
THEIRS = b"def f():\n    a(1)\n    b()\n    c()\n"


@pytest.mark.parametrize("renested", [False, True])
@pytest.mark.parametrize(
    ("made", "fault"),
    [
        (b"def f():\n    a(1)\n    new()\n    b()\n    c()\n", None),
        (THEIRS, "once and whole"),
        (b"def f():\n    a(1)\n    new()\n    new()\n    b()\n    c()\n", "once and whole"),
        (b"def f():\n    a(1)\n    new()\n    b()\n", "once and whole"),
        (b"def f():\n    a(1)\n    new(\n    b()\n    c()\n", "not Python"),
    ],
)
def test_problem(made: bytes, fault: str | None, *, renested: bool) -> None:
    change = parse(BASE), parse(OURS), ((parse(THEIRS), parse(made)),)
    found = problem(*change, absorbed=Counter(), renested=renested)
    assert found is None if fault is None else fault in (found or "")


def test_another_block_is_another_place() -> None:
    theirs = b"def f():\n    a(1)\n    b()\n    c()\n    if x:\n        pass\n"
    other = theirs.replace(b"pass", b"pass\n        new()")
    change = parse(BASE), parse(OURS), ((parse(theirs), parse(other)),)
    assert "not in the same block" in (problem(*change, absorbed=Counter(), renested=False) or "")
    assert problem(*change, absorbed=Counter(), renested=True) is None


def test_python_itself_must_read_the_result() -> None:
    """tree-sitter takes names of an import on lines of their own without parentheses."""
    base, ours = b"from a import b\n", b"from a import b, c\n"
    made = b"from a import b,\nc\n"
    change = parse(base), parse(ours), ((parse(base), parse(made)),)
    assert problem(*change, absorbed=Counter(), renested=False) == "the result is not Python"


def test_a_method_that_both_sides_have_twice_is_not_made_three_times() -> None:
    """A method defined twice is valid Python; one definition more is one too many."""
    one = "    def m(self, x):\n        y = 6\n        x += 0\n        return x\n"
    two = "    def m(self, x):\n        for y in x:\n            use(y)\n        z = 7\n"
    head, other = "class C:\n    f: int = 2\n\n", "    def n(self, x):\n        call(x)\n"
    end = "        return x\n"
    base = head + other + end + "\n" + two + end
    ours = head + "\n" + one + end + "\n" + two + end
    theirs = head + other + "\n" + one + end + "\n" + two
    merged = merge(*(text.encode() for text in (base, ours, theirs)), python=True)
    assert merged.conflicts or merged.data.count(b"def m(") == 2
