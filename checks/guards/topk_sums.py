"""SGLang's two top-k sums, built from a tree's own CUDA sources: for `benchmarks/guards_gpu.py`."""

from __future__ import annotations

import importlib
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import torch

from . import kernels

if TYPE_CHECKING:
    from collections.abc import Callable

_OPS: Final = "sglang.kernels.ops.moe"


def fast(root: Path) -> Callable[[torch.Tensor, torch.Tensor], object]:
    """Build `moe_topk_sum` just in time, by the tree's own code; needs nvcc and apache-tvm-ffi.

    Args:
        root: the tree's `sglang` folder.

    """
    for name in ("sglang", "sglang.srt", "sglang.kernels", "sglang.kernels.ops", _OPS):
        # Packages without their __init__, which import far more than the kernel needs.
        package = ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package
    version = tuple(int(part) for part in (torch.version.cuda or "0.0").split("."))
    kernels.stub("sglang.utils", is_in_ci=lambda: False)
    kernels.stub("sglang.srt.debug_utils.cuda_coredump")
    kernels.stub("sglang.srt.utils.common", is_cuda=lambda: True, get_cuda_version=lambda: version)
    module: Any = importlib.import_module(f"{_OPS}.moe_topk_sum")
    function: Callable[[torch.Tensor, torch.Tensor], object] = module.moe_topk_sum
    return function


@cache
def generic(root: Path) -> Callable[..., object]:
    """Build sgl_kernel's `moe_sum_reduce`; a source tree has it, a wheel of SGLang has not.

    It includes one header of CUTLASS and uses nothing of it: an empty one stands in.
    """
    source = root / "kernels" / "aot" / "csrc" / "moe" / "moe_sum_reduce.cu"
    if not source.is_file():
        raise FileNotFoundError(f"{source}: no source of moe_sum_reduce in this tree")
    cpp_extension: Any = importlib.import_module("torch.utils.cpp_extension")
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "cutlass").mkdir()
        (Path(scratch) / "cutlass" / "array.h").touch()
        built = cpp_extension.load_inline(
            "moe_sum_reduce",
            cpp_sources="void moe_sum_reduce(at::Tensor& in, at::Tensor& out, double factor);",
            cuda_sources=f'#include "{source}"',
            functions=["moe_sum_reduce"],
            extra_include_paths=[scratch, str(root / "kernels" / "aot" / "include")],
        )
    function: Callable[..., object] = built.moe_sum_reduce
    return function
