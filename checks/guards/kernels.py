"""SGLang's guarded files, loaded from their bytes with SGLang's own imports stubbed.

Needs torch and triton and nothing of SGLang. The tests run this in processes of
their own (see `interpreter`), and `benchmarks/guards_gpu.py` runs it on a GPU.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ATTN_RESIDUAL: Final = "python/sglang/srt/layers/attn_residual.py"
MARLIN_MOE: Final = "python/sglang/srt/layers/moe/fused_moe_triton/fused_marlin_moe.py"

_PACK: Final = 16
"""Marlin's weights pack 16 rows of the hidden dimension into one (`w1.shape[1] * 16`)."""


@cache
def load_attn_residual(source: bytes) -> ModuleType:
    """Return `attn_residual.py` as a module: its Triton kernels and what launches them."""
    stub("sglang.srt.layers.layernorm", RMSNorm=object)
    stub("sglang.srt.layers.linear", ReplicatedLinear=object)
    _stub_platform()
    return _load(source)


@dataclass(frozen=True)
class Reduction:
    """One call of a top-k reduction, as `fused_marlin_moe` made it."""

    name: str
    source: torch.Tensor
    """Float, [tokens, top-k, hidden]."""
    out: torch.Tensor
    """Float, [tokens, hidden]."""
    factor: float | None
    """What the sum is multiplied with; the fast kernel takes none."""


@dataclass(frozen=True)
class Marlin:
    """`fused_marlin_moe.py` with everything around its choice of a reduction stubbed."""

    module: ModuleType
    calls: list[Reduction]

    def run(
        self,
        tokens: int,
        *,
        topk: int = 2,
        hidden: int = 16,
        device: str = "cpu",
    ) -> torch.Tensor:
        """Run `fused_marlin_moe` on random expert outputs; return what it returns.

        Args:
            tokens: of one prefill.
            topk: experts a token.
            hidden: the model's hidden size, a multiple of 16.
            device: of the tensors.

        """

        def empty(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
            return torch.empty(shape, dtype=dtype, device=device)

        self.calls.clear()
        # Scales of this type make it MXFP4, whose branch is the guarded one.
        scale = empty(1, dtype=torch.float8_e8m0fnu)
        result: torch.Tensor = self.module.fused_marlin_moe(
            empty(tokens, hidden, dtype=torch.bfloat16),
            w1=empty(1, hidden // _PACK, 1),
            w2=empty(1, 1, hidden * 2),
            w1_scale=scale,
            w2_scale=scale,
            gating_output=empty(tokens, 1),
            topk_weights=empty(tokens, topk),
            topk_ids=empty(tokens, topk),
            workspace=empty(1),
            num_bits=4,
            routed_scaling_factor=2.5,
        )
        return result


def load_marlin(source: bytes, reduce: Callable[[Reduction], None] | None = None) -> Marlin:
    """Return `fused_marlin_moe.py`, its reductions recorded and handed to `reduce`.

    The expert products are random numbers; everything between the function's
    entry and its last branch does nothing.
    """
    calls: list[Reduction] = []

    def note(call: Reduction) -> None:
        calls.append(call)
        if reduce is not None:
            reduce(call)

    def fast(source: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        note(Reduction("moe_topk_sum", source, out, None))
        return out

    def generic(source: torch.Tensor, out: torch.Tensor, factor: float) -> None:
        note(Reduction("moe_sum_reduce", source, out, factor))

    _stub_platform()
    stub("sgl_kernel", moe_sum_reduce=generic)
    stub("sgl_kernel.scalar_type", scalar_types=SimpleNamespace(float4_e2m1f=0, uint4b8=1))
    stub("sglang.srt.runtime_context", get_platform=lambda: SimpleNamespace(is_sm90=False))
    stub("sglang.srt.layers.zero_copy_context", get_moe_output=_none)
    stub("sglang.srt.utils.custom_op", register_custom_op=_undecorated)
    stub("sglang.srt.layers.moe.fused_moe_triton", moe_align_block_size=_align)
    activation = dict.fromkeys(("silu_and_mul", "silu_and_mul_with_activation_rounding"), _none)
    stub("sglang.kernels.ops.activation.activation", **activation)
    stub("sglang.kernels.ops.activation.minimax_m3_swiglu", swiglu_oai_split=_none)
    stub("sglang.kernels.ops.moe.moe_wna16_marlin", moe_wna16_marlin_gemm=_expert_products)
    stub("sglang.kernels.ops.moe.moe_topk_sum", moe_topk_sum=fast)
    stub("sglang.kernels.ops.moe.moe_align_single_token", moe_align_single_token=_align)
    return Marlin(_load(source), calls)


@dataclass(frozen=True)
class AllReduceFusion:
    """`k3_ar_fusion.py` among stand-ins, and the kernels that it called."""

    module: ModuleType
    calls: list[str]


def load_all_reduce_fusion(source: bytes, max_rows: int) -> AllReduceFusion:
    """Return the module on a rank of two that hold the same, with buffers of `max_rows` rows."""
    calls: list[str] = []
    buffers: dict[str, Any] = {}

    def get_buffer(name: str, create: Callable[[], Any]) -> Any:
        if name not in buffers:
            buffers[name] = create()
        return buffers[name]

    def reduced(name: str) -> Callable[..., Any]:
        def run(_size: int, x: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
            calls.append(name)
            x.mul_(2)
            if name.endswith("_norm"):
                weight, eps = rest
                rows = x[: named["num_norm_rows"]]
                rows.copy_(torch.nn.functional.rms_norm(rows, rows.shape[-1:], weight, eps))
            elif rest[0] is not None:
                x.add_(rest[0])
            return x

        return run

    def plain(x: torch.Tensor) -> torch.Tensor:
        calls.append("tensor_model_parallel_all_reduce")
        return x * 2

    group = SimpleNamespace(cpu_group=SimpleNamespace(group_name="tp"))
    schedule = SimpleNamespace(chunked_prefill_size=-1, max_prefill_tokens=max_rows)
    stub(
        "sglang.srt.runtime_context",
        get_buffer=get_buffer,
        get_server_args=lambda: schedule,
        get_schedule=lambda: schedule,
        get_parallel=lambda: SimpleNamespace(tp_group=group),
    )
    stub("sglang.kernels.jit.utils", cache_once=lambda function: function)
    stub("sglang.srt.environ", envs=SimpleNamespace())
    stub("sglang.srt.distributed", tensor_model_parallel_all_reduce=plain)
    stub("sglang.srt.distributed.parallel_state", get_tp_group=lambda: group)
    names = [f"all_reduce_{kind}" for kind in ("push_res", "pull_res", "push_norm", "pull_norm")]
    kernels = {name: reduced(name) for name in names}
    for package, name in (("kimi_k3", "all_reduce"), ("communication", "all_reduce_residual")):
        stub(f"sglang.kernels.ops.{package}", **{name: SimpleNamespace(**kernels)})
    module: Any = _load(source)
    comm = SimpleNamespace(max_push_size=0, mc_base_ptr=1)
    state = SimpleNamespace(comm=comm, world_size=2)
    if not hasattr(module, "symm_buffer"):  # f8493a4: memory comes from a pool without a limit
        module._STATE = state
        module._find_mc_ptr = lambda _state, _x: 1
        module.symm_buffer = lambda _name, *shape, dtype: torch.empty(shape, dtype=dtype)
        return AllReduceFusion(module, calls)
    module._get_state = lambda: state

    def create(_name: str, width: int, dtype: torch.dtype, _group: str) -> Any:
        region = torch.zeros(max_rows, width, dtype=dtype)
        buffer = module._Buffer(region, region.data_ptr(), 1, max_rows, width)
        module._BUFS.append(buffer)
        return buffer

    module._create_buffer = create
    return AllReduceFusion(module, calls)


def load_causal_conv1d(source: bytes) -> ModuleType:
    """Return `causal_conv1d_triton.py` as a module."""
    stub("sglang.kernels.jit.utils", is_arch_support_pdl=lambda: False)
    return _load(source)


def score_weights(weight: torch.Tensor, eps: float) -> tuple[SimpleNamespace, SimpleNamespace]:
    """Return stand-ins of the score's projection and norm, with `weight` as their product."""
    projection = SimpleNamespace(weight=torch.ones_like(weight)[None])
    return projection, SimpleNamespace(weight=weight, variance_epsilon=eps)


def mixture(
    prefix: torch.Tensor, bank: torch.Tensor, rows: int, weight: torch.Tensor, eps: float
) -> torch.Tensor:
    """Return what `aggregate_stream` should: the reference, in float64.

    Args:
        prefix: [tokens, hidden], the running prefix.
        bank: [tokens, at least `rows`, hidden], the snapshots.
        rows: how many of them are valid.
        weight: [hidden], the norm's weight times the projection's.
        eps: of the norm.

    """
    values = torch.cat([bank[:, :rows], prefix[:, None]], dim=1).double()
    # Scaling a row and eps along with it changes nothing and keeps the squares in range.
    scale = values.abs().amax(dim=-1, keepdim=True).clamp(min=1e-300)
    unit = values / scale
    norm = (unit.square().mean(dim=-1) + eps / scale[..., 0] ** 2).sqrt()
    scores = (unit * weight.double()).sum(dim=-1) / norm
    mixed: torch.Tensor = (scores.softmax(dim=-1)[..., None] * values).sum(dim=1)
    return mixed


def relative_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """Return ‖actual - expected‖ / ‖expected‖ in float64; NaN and infinity stay what they are."""
    scale = expected.double().abs().max().clamp(min=1e-300)
    difference = actual.double() / scale - expected.double() / scale
    return float(difference.norm() / (expected.double() / scale).norm().clamp(min=1e-300))


@cache
def source_folder() -> Path:
    """Return a folder for the sources, gone when this process ends; its forks share it."""
    folder = tempfile.TemporaryDirectory(prefix="guards-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


def _load(source: bytes) -> ModuleType:
    """Import `source` from a file: Triton reads a kernel's text from where it was defined."""
    name = f"guarded_{hashlib.sha256(source).hexdigest()[:16]}"
    path = source_folder() / f"{name}.py"
    path.write_bytes(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def stub(name: str, **attributes: Any) -> None:
    """Put a module with `attributes` where an import of `name` finds it, packages included."""
    for package in _packages(name):
        if package not in sys.modules:
            sys.modules[package] = ModuleType(package)
            sys.modules[package].__path__ = []
    module = ModuleType(name)
    module.__path__ = []
    vars(module).update(attributes)
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)


def _packages(name: str) -> Iterator[str]:
    parts = name.split(".")
    for length in range(1, len(parts)):
        yield ".".join(parts[:length])


def _stub_platform() -> None:
    stub(
        "sglang.srt.utils",
        is_cuda=lambda: True,
        is_hip=lambda: False,
        is_npu=lambda: False,
    )


def _none(*_: object, **__: object) -> None:
    return None


def _undecorated(**_: object) -> Callable[[Any], Any]:
    return lambda function: function


def _align(
    topk_ids: torch.Tensor, block_size: int, *_: object, **__: object
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return topk_ids.new_empty(block_size), topk_ids.new_empty(1), topk_ids.new_empty(1)


def _expert_products(_: torch.Tensor, out: torch.Tensor, *__: object, **___: object) -> Any:
    """Stand in for the Marlin matrix product: random numbers in its output buffer."""
    return out.normal_()
