"""What the guards' tests measure, by name: each case loads one source and returns plain numbers.

Runs in the interpreter's processes. A case says nothing about right or wrong:
`checks` does.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import TYPE_CHECKING, Any, Final

import torch

from . import kernels

if TYPE_CHECKING:
    from collections.abc import Callable

_FAR: Final = 1_100_000_000
"""A token stride in elements, of which twice is beyond 2**31."""

_NORESERVE: Final = 0x4000
"""Linux's MAP_NORESERVE, which `mmap` does not name: address space without memory behind it."""


def errors_by_scale(
    source: bytes, *, scales: list[float], dtype: str, eps: float, hidden: int, rows: int
) -> list[float]:
    """Return the mixture's error at each scale of the rows, against float64."""
    return [_error(source, _rows(hidden, rows, dtype, scale=scale), rows, eps) for scale in scales]


def error_of_mixed_scales(source: bytes) -> float:
    """Return the error where every row holds values from 1e-38 to 1e38."""
    values = _rows(2048, 3, "float32")
    exponents = torch.rand(values.shape) * 76 - 38
    return _error(source, (values * 10.0**exponents).bfloat16(), 3, 1e-5)


def error_of_mixed_rows(source: bytes) -> float:
    """Return the error where the rows of a token have scales from 1e-30 to 3e38."""
    values = _rows(1024, 4, "float32", tokens=2)
    scales = torch.tensor([1e-30, 1.0, 3e38, 1e19, 1e30])[None, :, None]
    return _error(source, (values * scales).bfloat16(), 4, 1e-5)


def error_of_zero_rows(source: bytes) -> list[float]:
    """Return the error with a zero snapshot, with a zero prefix, and where all is zero."""
    values = _rows(1024, 3, "bfloat16", scale=1e20)
    no_snapshot, no_prefix = values.clone(), values.clone()
    no_snapshot[:, 1] = 0
    no_prefix[:, -1] = 0
    cases = (no_snapshot, no_prefix, torch.zeros_like(values))
    return [_error(source, case, 3, 1e-5) for case in cases]


def far_tokens(source: bytes, kernel: str) -> float:
    """Return the error of tokens whose offset in the bank or the prefix is beyond 2**31.

    The memory in front of each tensor is closed: an offset that wrapped around
    ends the process, it reads nothing by chance.

    Args:
        source: of `attn_residual.py`.
        kernel: "bank" or "prefix", the tensor that is stretched.

    """
    values = _rows(1024, 2, "bfloat16", tokens=3)
    bank, prefix = values[:, :2], values[:, 2]
    if kernel == "bank":
        bank = _stretched(bank)
    else:
        prefix = _stretched(prefix)
    weight = _weight(1024)
    module = kernels.load_attn_residual(source)
    actual = module.aggregate_stream(prefix, bank, 2, *kernels.score_weights(weight, 1e-5))
    return kernels.relative_error(actual, kernels.mixture(prefix, bank, 2, weight, 1e-5))


def mixtures(source: bytes, scales: list[float], eps: float) -> list[list[float]]:
    """Return the float32 mixture itself at each scale, to hold two sources against each other."""
    every = (_rows(2048, 5, "float32", scale=scale) for scale in scales)
    return [_mix(source, rows, 5, eps, _weight(2048)).flatten().tolist() for rows in every]


def reductions(source: bytes, tokens: int) -> list[dict[str, Any]]:
    """Return the reductions that `fused_marlin_moe` calls for `tokens` tokens, with arguments."""
    torch.cuda.get_device_capability = lambda *_: (9, 0)
    marlin = kernels.load_marlin(source)
    result = marlin.run(tokens)
    return [
        {
            "name": call.name,
            "source": [*call.source.shape],
            "dtype": str(call.source.dtype),
            "out": [*call.out.shape],
            "factor": call.factor,
            "is_result": call.out is result,
        }
        for call in marlin.calls
    ]


def far_activations(source: bytes) -> float:
    """Return the error of SiTU on rows whose offset is beyond 2**31, read and written."""
    values = _rows(16, 2, "float32")[0]
    marlin = kernels.load_marlin(source)
    actual = _stretched(torch.zeros(3, 8))
    marlin.module.situ_and_mul(actual, _stretched(values), 2.0, 3.0)
    gate, up = values.double()[:, :8], values.double()[:, 8:]
    expected = 2 * (gate / 2).tanh() * gate.sigmoid() * 3 * (up / 3).tanh()
    return kernels.relative_error(actual, expected)


def far_convolutions(source: bytes, lengths: list[int]) -> float:
    """Return the error of KDA's convolution of sequences that end beyond 2**31 elements.

    Tokens lie so far apart that eight of them, which one program takes, stay below 2**31.
    """
    stride, width = 300_000_000, 4
    values = _rows(32, sum(lengths), "float32")[0, :-1]
    weight = torch.randn(32, width)
    out = _stretched(torch.zeros_like(values), stride)
    # Of its input, empty_like would make something dense.
    vars(torch)["empty_like"] = lambda _: out.T
    ends = torch.tensor([0, *lengths]).cumsum(0).int()
    states = torch.zeros(len(lengths), 32, width - 1)
    kernels.load_causal_conv1d(source).causal_conv1d_fn(
        _stretched(values, stride).T, weight, None, states, ends, lengths, activation=None
    )
    parts = torch.split(values, lengths)
    expected = [_convolved(part.double(), weight.double()) for part in parts]
    padded = [torch.nn.functional.pad(part.T, (width, 0)) for part in parts]
    return max(
        kernels.relative_error(out, torch.cat(expected)),
        kernels.relative_error(states, torch.stack([part[:, 1 - width :] for part in padded])),
    )


def _convolved(values: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return the causal convolution of [tokens, dim] with [dim, width], by PyTorch."""
    padded = torch.nn.functional.pad(values.T, (weight.shape[1] - 1, 0))
    return torch.nn.functional.conv1d(padded, weight[:, None], groups=len(weight)).T


def fused_all_reduces(source: bytes, rows: int) -> dict[str, Any]:
    """Return what each fused all-reduce of `rows` rows takes, and how far it is off.

    The buffers have 1,024 rows; two ranks hold the same numbers.
    """
    fusion = kernels.load_all_reduce_fusion(source, 1024)
    norm = fusion.module.NORM_DIM
    weight = torch.randn(norm).bfloat16()
    found: dict[str, Any] = {}

    def measure(name: str, width: int, reduce: Callable[..., Any], expected: Any) -> None:
        buffer = fusion.module.symm_buffer(name, rows, width, dtype=torch.bfloat16)
        values = torch.randn(rows, width).bfloat16()
        buffer.copy_(values)
        fusion.calls.clear()
        result = reduce(buffer)
        found[name] = {
            "by": [*fusion.calls],
            "in place": result.data_ptr() == buffer.data_ptr(),
            "error": kernels.relative_error(buffer, expected(2 * values.double())),
        }

    residual = torch.randn(rows, 64).bfloat16()
    module = fusion.module
    measure(
        "all_reduce", 64, lambda x: module.all_reduce(x, residual), lambda x: x + residual.double()
    )
    measure("all_reduce_low_sm", 64, module.all_reduce_low_sm, lambda x: x)
    measure(
        "all_reduce_norm",
        norm,
        lambda x: module.all_reduce_norm(x, weight, 1e-6, num_tokens=rows // 2),
        lambda x: _half_normed(x, weight.double()),
    )
    return found


def _half_normed(values: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    half = len(values) // 2
    scale = (values.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    return torch.cat([(values * scale * weight)[:half], values[half:]])


CASES: Final[dict[str, Callable[..., Any]]] = {
    case.__name__: case
    for case in (
        errors_by_scale,
        error_of_mixed_scales,
        error_of_mixed_rows,
        error_of_zero_rows,
        far_tokens,
        mixtures,
        reductions,
        far_activations,
        far_convolutions,
        fused_all_reduces,
    )
}


def _rows(
    hidden: int, rows: int, dtype: str, *, scale: float = 1.0, tokens: int = 1
) -> torch.Tensor:
    """Return [tokens, `rows` snapshots and the prefix, hidden]: random signs, near `scale`.

    Sizes from a fifth of `scale` up to it, so that 3.3e38 fits bfloat16 and a
    clamp at any scale below changes what the scores say.
    """
    torch.manual_seed(20)
    size = 0.2 + 0.8 * torch.rand(tokens, rows + 1, hidden)
    sign = torch.randint(0, 2, size.shape) * 2 - 1
    values: torch.Tensor = (size * sign * scale).to(getattr(torch, dtype))
    return values


def _weight(hidden: int) -> torch.Tensor:
    """Return norm times projection, [hidden] float32: scores of a few units, as trained ones."""
    weight: torch.Tensor = torch.randn(hidden) * (3.0 / hidden**0.5)
    return weight


def _mix(
    source: bytes, values: torch.Tensor, rows: int, eps: float, weight: torch.Tensor
) -> torch.Tensor:
    module = kernels.load_attn_residual(source)
    bank, prefix = values[:, :rows].contiguous(), values[:, rows].contiguous()
    mixed: torch.Tensor = module.aggregate_stream(
        prefix, bank, rows, *kernels.score_weights(weight, eps)
    )
    return mixed


def _error(source: bytes, values: torch.Tensor, rows: int, eps: float) -> float:
    weight = _weight(values.shape[-1])
    actual = _mix(source, values, rows, eps, weight)
    expected = kernels.mixture(values[:, rows], values[:, :rows], rows, weight, eps)
    return kernels.relative_error(actual, expected)


def _stretched(values: torch.Tensor, stride: int = _FAR) -> torch.Tensor:
    """Return `values` with `stride` elements from token to token, in memory taken but not filled.

    Everything that a wrapped 32-bit offset could reach in front of it is closed.
    """
    item = values.element_size()
    guard = 2**32 * item
    size = guard + (stride * (len(values) - 1) + values[0].numel()) * item
    size += -size % mmap.PAGESIZE
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    closed = ctypes.CDLL(None, use_errno=True).mprotect(
        ctypes.c_void_p(address), ctypes.c_size_t(guard), 0
    )
    assert closed == 0, ctypes.get_errno()
    flat = torch.frombuffer(memory, dtype=values.dtype, offset=guard)
    far = flat.as_strided(values.shape, (stride, *values.stride()[1:]))
    far.copy_(values)
    return far
