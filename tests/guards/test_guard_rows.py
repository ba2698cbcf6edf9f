"""Guards 4 and 5: rows beyond 2**31 elements in SiTU, and beyond the fusion's buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from guarded import (
    ALL_REDUCE_FUSION,
    ALL_REDUCE_FUSION_LATER,
    MARLIN_MOE,
    REVISIONS,
    interpreter,
    read,
)

from guards.interpreter import CaseError, CrashedError
from guards.proofs import check_far_activations, check_fused_all_reduces

if TYPE_CHECKING:
    from guarded import Guarded

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("revision", REVISIONS)
def test_situ_reaches_every_row(revision: str) -> None:
    file = read(revision, MARLIN_MOE)
    check_far_activations(interpreter(), file.after)
    with pytest.raises(CrashedError):
        check_far_activations(interpreter(), file.before)


def _fusion(revision: str) -> Guarded:
    target, _ = REVISIONS[revision]
    if target.name.startswith("kimi"):
        pytest.skip("its series has no patch of the fusion: the older of its commits has none")
    later = target.name >= "v0.5.21"
    return read(revision, ALL_REDUCE_FUSION_LATER if later else ALL_REDUCE_FUSION)


@pytest.mark.parametrize("revision", REVISIONS)
def test_more_rows_than_the_buffer_has_take_the_plain_path(revision: str) -> None:
    file = _fusion(revision)
    for rows in (2, 1024):  # as before
        check_fused_all_reduces(interpreter(), file.before, rows)
    for rows in (2, 1024, 1026):
        check_fused_all_reduces(interpreter(), file.after, rows)
    with pytest.raises(CaseError, match="AssertionError"):
        check_fused_all_reduces(interpreter(), file.before, 1026)
