"""Every rule's right case, its look-alikes, and the checks behind them."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest
from block_cases import BLOCKS
from fit_cases import FITS
from order_cases import ORDERS
from part_cases import PARTS
from rename_cases import RENAMES
from rule_cases import CASES as RULES
from rule_cases import TWINS, Case
from word_cases import WORDS

from pkgtools.merge import How, merge

CASES = (*RULES, *TWINS, *RENAMES, *PARTS, *ORDERS, *WORDS, *FITS, *BLOCKS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rule(case: Case) -> None:
    merged = merge(*case.bytes(), python=True)
    told = [(str(c.how), c.rules, c.reason) for c in merged.chunks]
    if case.made is None:
        assert merged.conflicts, (merged.data.decode(), told)
        assert all(c.reason for c in merged.conflicts)
        return
    assert not merged.conflicts, told
    assert merged.data.decode() == dedent(case.made), told
    ast.parse(merged.data)
    assert all(c.rules for c in merged.chunks if c.how is How.MERGED)
    if case.rule is not None:
        assert case.rule in {rule for c in merged.chunks for rule in c.rules}, told


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_without_python_the_rules_are_off(case: Case) -> None:
    merged = merge(*case.bytes(), python=False)
    assert all(c.how is not How.MERGED for c in merged.chunks)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_the_same_changes_nothing(case: Case) -> None:
    base, ours, theirs = case.bytes()
    assert merge(base, ours, base, python=True).data == ours
    assert merge(base, base, theirs, python=True).data == theirs
    absorbed = merge(base, ours, ours, python=True)
    assert absorbed.data == ours
    assert {c.how for c in absorbed.chunks} <= {How.ABSORBED}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_lines_that_end_with_carriage_returns(case: Case) -> None:
    plain = merge(*case.bytes(), python=True)
    base, ours, theirs = (text.replace(b"\n", b"\r\n") for text in case.bytes())
    merged = merge(base, ours, theirs, python=True)
    assert merged.data == plain.data.replace(b"\n", b"\r\n")
    assert merged.chunks == plain.chunks


def test_mixed_line_ends_are_left_to_a_person() -> None:
    texts = "f(\n    a=1,\n)\n", "f(\n    a=1,\n    b=2,\n)\n", "f(\n    a=1,\n    c=3,\n)\n"
    base, ours, theirs = (text.replace("\n", "\r\n").encode() for text in texts)
    assert merge(base, ours, theirs.replace(b"\r", b"", 1), python=True).conflicts
    assert merge(base, ours, theirs.replace(b"\r", b""), python=True).conflicts


def test_absurd_nesting_falls_back_to_lines() -> None:
    deep = b"x = a" + b".b" * 5000 + b"\n"
    base, ours, theirs = b"a = 1\n", b"a = 1\n" + deep, b"a = 1\ny = 2\n"
    assert merge(base, ours, theirs, python=True).conflicts


def test_both_halves_of_a_move_wait_together() -> None:
    """Taking a line away without the conflict that puts it elsewhere would lose it."""
    base = b"def f(x):\n    a(x)\n    moved_line(x)\n    c(x)\n    d(x)\n    e(x)\n"
    ours = b"def f(x):\n    a(x)\n    c(x)\n    d(x)\n    e(x)\n    moved_line(x)\n"
    theirs = base + b"    more(x)\n"
    for python in (True, False):
        merged = merge(base, ours, theirs, python=python)
        assert len(merged.conflicts) == 2
        assert merged.data == theirs


def test_what_nothing_reaches_is_asked_about_alone() -> None:
    base = b"def f(x):\n    a(x)\n    b(x)\n\n\ndef g(x):\n    one(x)\n    two(x)\n    three(x)\n"
    ours = base.replace(b"    a(", b"    return a(").replace(b"three(x)", b"drei(x)")
    merged = merge(base, ours, base.replace(b"b(x)", b"b(x, 1)"), python=True)
    assert [c.chunk.old for c in merged.conflicts] == [1]
