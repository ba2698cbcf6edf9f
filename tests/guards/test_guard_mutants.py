"""Subtly wrong guards: the checks that a patched source passes must refuse each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest
from guarded import ATTN_RESIDUAL, MARLIN_MOE, interpreter, read

from guards.interpreter import CrashedError
from guards.proofs import (
    DoesNotHoldError,
    check_eps,
    check_mixed,
    check_offsets,
    check_reduction,
    check_scales,
    check_zeros,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from guards.interpreter import Interpreter

pytestmark = pytest.mark.torch

_REVISION: Final = "v0.5.22@0.5.22"
"""The newest release whose series carries all three guards."""


@dataclass(frozen=True)
class Mutant:
    """One change of a patched file, and the check that must notice."""

    path: str
    function: str
    """In which the text stands."""
    old: str
    new: str
    check: Callable[[Interpreter, bytes], None]

    def apply(self, source: bytes) -> bytes:
        """Return `source` with the change."""
        head, start, rest = source.decode().partition(f"def {self.function}(")
        assert start, self.function
        body, end, tail = rest.partition("\ndef ")
        assert body.count(self.old) == 1, self.old
        return "".join((head, start, body.replace(self.old, self.new), end, tail)).encode()


def _float32(run: Interpreter, source: bytes) -> None:
    check_scales(run, source, "float32", 1e-5)


def _bfloat16(run: Interpreter, source: bytes) -> None:
    check_scales(run, source, "bfloat16", 1e-5)


def _no_eps(run: Interpreter, source: bytes) -> None:
    check_scales(run, source, "float32", 0.0)


def _at_the_limit(run: Interpreter, source: bytes) -> None:
    check_reduction(run, source, 65_535)


def _above_the_limit(run: Interpreter, source: bytes) -> None:
    check_reduction(run, source, 65_536)


_SCORE: Final = (ATTN_RESIDUAL, "_score_kernel")
_MARLIN: Final = (MARLIN_MOE, "fused_marlin_moe")
_CLAMPED: Final = "tl.minimum(tl.maximum(v, -1.0e19), 1.0e19)"
_OUTSIDE: Final = "(sumsq > 1.0e30) or (sumsq < 1.0e-20)"
_EPS: Final = "eps * scale * scale"

MUTANTS: Final = {
    "int32 in the score kernel": Mutant(*_SCORE, ".to(tl.int64)", "", check_offsets),
    "int32 in the combine kernel": Mutant(
        ATTN_RESIDUAL, "_combine_kernel", ".to(tl.int64)", "", check_offsets
    ),
    "values clamped at 1e19, bfloat16": Mutant(
        *_SCORE, "v *= scale", f"v = {_CLAMPED} * scale", _bfloat16
    ),
    "values clamped at 1e19, float32": Mutant(
        *_SCORE, "v *= scale", f"v = {_CLAMPED} * scale", _float32
    ),
    "values clamped at 1e19, mixed": Mutant(
        *_SCORE, "v *= scale", f"v = {_CLAMPED} * scale", check_mixed
    ),
    "scale clamped at 1e19": Mutant(*_SCORE, "2.0**-72", "1.0e-19", _bfloat16),
    "scale of small rows for all": Mutant(*_SCORE, "2.0**-72", "2.0**50", _bfloat16),
    "scale of large rows for all": Mutant(*_SCORE, "2.0**50", "2.0**-72", _no_eps),
    "large rows not scanned again": Mutant(*_SCORE, _OUTSIDE, "sumsq < 1.0e-20", _bfloat16),
    "small rows not scanned again": Mutant(*_SCORE, _OUTSIDE, "sumsq > 1.0e30", _no_eps),
    "eps not scaled along": Mutant(*_SCORE, _EPS, "eps", check_eps),
    "eps scaled once": Mutant(*_SCORE, _EPS, "eps * scale", check_eps),
    "eps left out": Mutant(*_SCORE, _EPS, "0.0", check_eps),
    "zero rows without eps": Mutant(*_SCORE, _EPS, "0.0", check_zeros),
    "< for <= at 65,535": Mutant(*_MARLIN, "M <= 65535", "M < 65535", _at_the_limit),
    "one token too many": Mutant(*_MARLIN, "M <= 65535", "M <= 65536", _above_the_limit),
    "guard with the wrong factor": Mutant(
        *_MARLIN, "output, 1.0)", "output, routed_scaling_factor)", _above_the_limit
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_guard_is_noticed(name: str) -> None:
    mutant = MUTANTS[name]
    source = read(_REVISION, mutant.path).after
    mutant.check(interpreter(), source)
    with pytest.raises((DoesNotHoldError, CrashedError)):
        mutant.check(interpreter(), mutant.apply(source))


def test_a_clamp_on_the_unpatched_kernel_is_no_guard() -> None:
    load = "cw = tl.load(cw_ptr + offs_h)"
    mutant = Mutant(*_SCORE, load, f"{load}; v = {_CLAMPED}", _bfloat16)
    source = read(_REVISION, ATTN_RESIDUAL).before
    with pytest.raises(DoesNotHoldError):
        mutant.check(interpreter(), mutant.apply(source))
