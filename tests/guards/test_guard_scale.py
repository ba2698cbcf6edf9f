"""Guard 2: scores that do not depend on the rows' scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from guarded import ATTN_RESIDUAL, REVISIONS, interpreter, read

from guards.proofs import (
    DoesNotHoldError,
    check_eps,
    check_like_before,
    check_mixed,
    check_rows,
    check_scales,
    check_tiny,
    check_zeros,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from guards.interpreter import Interpreter

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("dtype", "eps"), [("bfloat16", 1e-5), ("float16", 1e-5), ("float32", 1e-5), ("float32", 0.0)]
)
@pytest.mark.parametrize("revision", REVISIONS)
def test_every_scale_agrees_with_float64(revision: str, dtype: str, eps: float) -> None:
    check_scales(interpreter(), read(revision, ATTN_RESIDUAL).after, dtype, eps)


@pytest.mark.parametrize(("rows", "hidden"), [(1, 1024), (8, 7168), (15, 3072)])
@pytest.mark.parametrize("revision", REVISIONS)
def test_any_number_of_snapshots(revision: str, rows: int, hidden: int) -> None:
    check_rows(interpreter(), read(revision, ATTN_RESIDUAL).after, rows, hidden)


@pytest.mark.parametrize("check", [check_mixed, check_zeros, check_eps])
@pytest.mark.parametrize("revision", REVISIONS)
def test_rows_of_every_kind(revision: str, check: Callable[[Interpreter, bytes], None]) -> None:
    check(interpreter(), read(revision, ATTN_RESIDUAL).after)


@pytest.mark.parametrize("revision", REVISIONS)
def test_what_was_right_stays_the_same(revision: str) -> None:
    file = read(revision, ATTN_RESIDUAL)
    check_like_before(interpreter(), file.before, file.after)


@pytest.mark.parametrize("revision", REVISIONS)
def test_below_1e_30_nothing_gets_worse(revision: str) -> None:
    file = read(revision, ATTN_RESIDUAL)
    check_tiny(interpreter(), file.before, file.after)


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_unpatched_kernel_is_wrong(revision: str) -> None:
    source = read(revision, ATTN_RESIDUAL).before
    with pytest.raises(DoesNotHoldError, match="scale 1e"):
        check_scales(interpreter(), source, "bfloat16", 1e-5)
    with pytest.raises(DoesNotHoldError):
        check_mixed(interpreter(), source)
    with pytest.raises(DoesNotHoldError):
        check_zeros(interpreter(), source)
