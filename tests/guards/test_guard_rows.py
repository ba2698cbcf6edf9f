"""Guards of rows beyond 2**31 elements in SiTU and KDA's convolution, and beyond the fusion's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from guarded import (
    ALL_REDUCE_FUSION,
    ALL_REDUCE_FUSION_LATER,
    CAUSAL_CONV1D,
    MARLIN_MOE,
    REVISIONS,
    interpreter,
    read,
)

from guards.interpreter import CaseError, CrashedError
from guards.proofs import (
    DoesNotHoldError,
    check_far_activations,
    check_far_convolutions,
    check_fused_all_reduces,
)

if TYPE_CHECKING:
    from guarded import Guarded

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("revision", REVISIONS)
def test_situ_reaches_every_row(revision: str) -> None:
    file = read(revision, MARLIN_MOE)
    check_far_activations(interpreter(), file.after)
    with pytest.raises(CrashedError):
        check_far_activations(interpreter(), file.before)


@pytest.mark.parametrize("lengths", [[1] * 9, [10], [3, 7]], ids=str)
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_convolution_reaches_every_token(revision: str, lengths: list[int]) -> None:
    if revision.startswith("v0.5.14"):
        pytest.skip("0.5.14 has no Kimi K3, so its series has no guards")
    file = read(revision, CAUSAL_CONV1D)
    check_far_convolutions(interpreter(), file.after, lengths)
    if file.before != file.after:  # else the release carries it
        with pytest.raises(CrashedError):
            check_far_convolutions(interpreter(), file.before, lengths)


def test_releases_from_0_5_18_on_carry_the_convolution_s_guard() -> None:
    guarded = {name for name in REVISIONS if "kda-conv1d" in str(_patches(name))}
    carried = {f"v0.5.{n}@0.5.{n}" for n in (14, *range(18, 24))}  # 0.5.14 has no K3
    assert guarded == REVISIONS.keys() - carried


def _patches(revision: str) -> list[str]:
    return [patch.name for patch in REVISIONS[revision][0].series.patches]


def _fusion(revision: str) -> Guarded:
    target, _ = REVISIONS[revision]
    later = "v0.5.21" <= target.name < "w"
    return read(revision, ALL_REDUCE_FUSION_LATER if later else ALL_REDUCE_FUSION)


@pytest.mark.parametrize("revision", REVISIONS)
def test_more_rows_than_the_buffer_has_take_the_plain_path(revision: str) -> None:
    if "f8493a4" in revision:
        pytest.skip("its memory comes from a pool without a limit: see the next test")
    file = _fusion(revision)
    for rows in (2, 1024):  # as before
        check_fused_all_reduces(interpreter(), file.before, rows)
    for rows in (2, 1024, 1026):
        check_fused_all_reduces(interpreter(), file.after, rows)
    with pytest.raises(CaseError, match="AssertionError"):
        check_fused_all_reduces(interpreter(), file.before, 1026)


def test_a_fusion_without_such_buffers_stays_as_it_is() -> None:
    (revision,) = (name for name in REVISIONS if "f8493a4" in name)
    file = _fusion(revision)
    for rows in (2, 1026):
        assert interpreter().run("fused_all_reduces", file.after, rows=rows) == interpreter().run(
            "fused_all_reduces", file.before, rows=rows
        )
    with pytest.raises(DoesNotHoldError):  # no buffer, no limit: nothing to take another path
        check_fused_all_reduces(interpreter(), file.after, 1026)
