"""What each guard promises, as checks on one source. A check that does not hold raises.

The same checks run on patched sources (they hold), on unpatched ones and on
mutants (they must not).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .interpreter import Interpreter

TOLERANCE: Final = {"bfloat16": 1e-2, "float16": 1e-2, "float32": 1e-4}
"""Of a mixture in that type against float64; bfloat16's own rounding is 3e-3."""

_SMALL: Final = (1e-30, 1e-10, 1e-3, 1.0, 1e4)
_LARGE: Final = (1e9, 1e18, 1e19, 1e21, 1e30, 1e38, 3.3e38)
SCALES: Final = _SMALL + _LARGE
"""Of the rows' largest values; bfloat16 and float32 end at 3.4e38."""

LIMIT: Final = 65_535
"""CUDA's largest grid.y."""


class DoesNotHoldError(AssertionError):
    """A source does not keep what its guard promises."""


def check_offsets(run: Interpreter, source: bytes) -> None:
    """Check that tokens beyond 2**31 elements are read where they are, bank and prefix."""
    for kernel in ("bank", "prefix"):
        _small(run.run("far_tokens", source, kernel=kernel), "bfloat16", f"far {kernel}")


def check_scales(run: Interpreter, source: bytes, dtype: str, eps: float) -> None:
    """Check the mixture at every scale that the type holds."""
    scales = (1e-3, 1.0, 1e4) if dtype == "float16" else SCALES
    errors = _errors(run, source, scales, dtype, eps, hidden=2048, rows=2)
    for scale, error in zip(scales, errors, strict=True):
        _small(error, dtype, f"scale {scale:g}, {dtype}, eps {eps:g}")


def check_rows(run: Interpreter, source: bytes, rows: int, hidden: int) -> None:
    """Check the mixture for a number of snapshots."""
    (error,) = _errors(run, source, [3.3e38], hidden=hidden, rows=rows)
    _small(error, "float32", f"{rows} snapshots of {hidden}")


def check_mixed(run: Interpreter, source: bytes) -> None:
    """Check values of every scale in one row, and rows of every scale in one token."""
    _small(run.run("error_of_mixed_scales", source), "bfloat16", "scales mixed in a row")
    _small(run.run("error_of_mixed_rows", source), "bfloat16", "scales mixed in a token")


def check_zeros(run: Interpreter, source: bytes) -> None:
    """Check that a row of zeros scores 0, whatever its neighbours hold."""
    for error in run.run("error_of_zero_rows", source):
        _small(error, "bfloat16", "zero rows")


def check_eps(run: Interpreter, source: bytes) -> None:
    """Check that where a row is as small as eps, the score shrinks as float64 says."""
    for scale, eps in ((3e-3, 1e-5), (1e-9, 1e-18), (1e-15, 1e-30), (1e12, 1e24), (1e18, 1e36)):
        (error,) = _errors(run, source, [scale], eps=eps)
        _small(error, "float32", f"scale {scale:g} with eps {eps:g}")


def check_like_before(run: Interpreter, before: bytes, after: bytes) -> None:
    """Check that where the unpatched kernel is right, only the order of summation differs."""
    scales = [1e-6, 1e-2, 1.0, 1e3, 1e8]
    every = [run.run("mixtures", file, scales=scales, eps=1e-5) for file in (before, after)]
    for scale, old, new in zip(scales, *every, strict=True):
        largest = max(abs(value) for value in old)
        far = max(abs(a - b) for a, b in zip(old, new, strict=True)) / largest
        if not far <= 2e-6:
            raise DoesNotHoldError(f"scale {scale:g}: {far:g} away from the unpatched mixture")


def check_tiny(run: Interpreter, before: bytes, after: bytes) -> None:
    """Check that below 1e-30 the patched kernel is no worse than the unpatched one."""
    scales = [1e-33, 1e-36, 1e-38]
    for eps in (1e-5, 0.0):
        every = [_errors(run, file, scales, eps=eps) for file in (before, after)]
        for scale, old, new in zip(scales, *every, strict=True):
            if math.isfinite(old) and not new <= max(old, TOLERANCE["float32"]):
                raise DoesNotHoldError(f"scale {scale:g}, eps {eps:g}: {new:g}, before {old:g}")


def check_reduction(run: Interpreter, source: bytes, tokens: int) -> None:
    """Check for the fast reduction up to CUDA's limit, the generic one above, and the arguments."""
    fast = tokens <= LIMIT
    expected = {
        "name": "moe_topk_sum" if fast else "moe_sum_reduce",
        "source": [tokens, 2, 16],
        "dtype": "torch.bfloat16",
        "out": [tokens, 16],
        # The router's weights are in the expert outputs already: a plain sum.
        "factor": None if fast else 1.0,
        "is_result": True,
    }
    called = run.run("reductions", source, tokens=tokens)
    if called != [expected]:
        raise DoesNotHoldError(f"{tokens} tokens: called {called}, should be [{expected}]")


def check_far_activations(run: Interpreter, source: bytes) -> None:
    """Check that SiTU reads and writes rows beyond 2**31 elements where they are."""
    _small(run.run("far_activations", source), "float32", "far rows of SiTU")


def check_far_convolutions(run: Interpreter, source: bytes, lengths: Sequence[int]) -> None:
    """Check that KDA's convolution reads and writes tokens beyond 2**31 where they are."""
    error = run.run("far_convolutions", source, lengths=[*lengths])
    _small(error, "float32", f"sequences of {lengths} tokens")


def check_fused_all_reduces(run: Interpreter, source: bytes, rows: int) -> None:
    """Check that rows beyond the fusion's buffer of 1,024 take the plain path, and are right."""
    found = run.run("fused_all_reduces", source, rows=rows)
    plain = "tensor_model_parallel_all_reduce"
    fused = {
        "all_reduce": "all_reduce_pull_res",
        "all_reduce_low_sm": "all_reduce_pull_res",
        "all_reduce_norm": "all_reduce_pull_norm",
    }
    for name, kernel in fused.items():
        by = [kernel if rows <= 1024 else plain]
        if (found[name]["by"], found[name]["in place"]) != (by, True):
            raise DoesNotHoldError(f"{name} of {rows} rows: {found[name]}, should be by {by}")
        _small(found[name]["error"], "bfloat16", f"{name} of {rows} rows")


def _errors(
    run: Interpreter,
    source: bytes,
    scales: Sequence[float],
    dtype: str = "float32",
    eps: float = 1e-5,
    *,
    hidden: int = 1024,
    rows: int = 2,
) -> list[float]:
    errors: list[float] = run.run(
        "errors_by_scale",
        source,
        scales=[*scales],
        dtype=dtype,
        eps=eps,
        hidden=hidden,
        rows=rows,
    )
    return errors


def _small(error: float, dtype: str, what: str) -> None:
    # NaN is not small, hence no ">".
    if not error <= TOLERANCE[dtype]:
        raise DoesNotHoldError(f"{what}: relative error {error:g}")
