"""Guard 1: token offsets of 64 bits in the score and the combine kernel."""

from __future__ import annotations

import pytest
from guarded import ATTN_RESIDUAL, REVISIONS, absorbs_offsets, interpreter, read

from guards.interpreter import CrashedError
from guards.proofs import check_offsets

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("revision", REVISIONS)
def test_patched_kernels_reach_every_token(revision: str) -> None:
    check_offsets(interpreter(), read(revision, ATTN_RESIDUAL).after)


@pytest.mark.parametrize("revision", REVISIONS)
def test_unpatched_kernels_crash_unless_the_release_carries_the_guard(revision: str) -> None:
    source = read(revision, ATTN_RESIDUAL).before
    if absorbs_offsets(revision):
        check_offsets(interpreter(), source)
        return
    for kernel in ("bank", "prefix"):
        with pytest.raises(CrashedError):
            interpreter().run("far_tokens", source, kernel=kernel)
