"""Guard 3: the fast top-k sum only where CUDA's grid.y has room for the tokens."""

from __future__ import annotations

import pytest
from guarded import MARLIN_MOE, REVISIONS, interpreter, read

from guards.proofs import DoesNotHoldError, check_reduction

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("tokens", [1, 65_535, 65_536, 66_048])
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_reduction_fits_the_grid(revision: str, tokens: int) -> None:
    check_reduction(interpreter(), read(revision, MARLIN_MOE).after, tokens)


@pytest.mark.parametrize("tokens", [65_536, 66_048])
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_unpatched_branch_takes_the_fast_one_beyond_the_limit(
    revision: str, tokens: int
) -> None:
    source = read(revision, MARLIN_MOE).before
    with pytest.raises(DoesNotHoldError, match=r"called .*'moe_topk_sum'"):
        check_reduction(interpreter(), source, tokens)
