"""Lets Kimi K3 prefill on a CPU: only what stands between its code and the CPU.

What is changed is outside of what the tests look at: streams, launch, the choice among
equivalent kernels, and the weights.
"""

from __future__ import annotations

import contextlib
from typing import Any

import k3_weights
import numpy as np
import torch
import triton.language as tl
import triton_math
from after_import import after_import
from triton.runtime import autotuner, interpreter


def install() -> None:
    _no_streams()
    _no_autotuning()
    _bfloat16_constants()
    after_import(
        {
            **k3_weights.CHANGES,
            "sglang.srt.models.deepseek_common.attention_backend_handler": _absorbed_mla,
            "sglang.kernels.ops.attention.fla.op": _interpreted_math,
            "sglang.kernels.ops.attention.fla.kda": _interpreted_libdevice,
            "sglang.srt.layers.attention.linear.kernels.kda_triton": _triton_kda,
            "sglang.kernels.ops.elementwise.add3": _plain_add3,
        }
    )


class _Stream:
    """K3 makes CUDA streams and events even where it then uses none."""

    def __init__(self, *_: object, **__: object) -> None: ...
    def wait_stream(self, *_: object) -> None: ...
    def wait_event(self, *_: object) -> None: ...
    def synchronize(self) -> None: ...
    def record(self, *_: object) -> None: ...
    def wait(self, *_: object) -> None: ...

    def record_event(self, *_: object) -> _Stream:
        return _Stream()

    def query(self) -> bool:
        return True


def _no_streams() -> None:
    cuda: Any = torch.cuda
    cuda.Stream = cuda.Event = _Stream
    cuda.current_stream = lambda *_, **__: _Stream()
    cuda.stream = lambda *_, **__: contextlib.nullcontext()
    cuda.get_device_capability = lambda *_, **__: (0, 0)


def _no_autotuning() -> None:
    """Take the first configuration: the tuner times kernels on a GPU driver."""

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        config = self.configs[0]
        named = dict(zip(self.arg_names, args, strict=False))
        if config.pre_hook:
            config.pre_hook({**named, **kwargs, **config.all_kwargs()})
        return self.fn.run(*args, **kwargs, **config.all_kwargs())

    autotuner.Autotuner.run = run


def _bfloat16_constants() -> None:
    """Round a float32 to even: the interpreter cannot make a bfloat16 constant."""
    builder: Any = interpreter.InterpreterBuilder
    if hasattr(builder, "get_bf16"):
        return

    def get_bf16(_self: Any, value: float) -> Any:
        bits = np.array([value], dtype=np.float32).view(np.uint32)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        return interpreter.TensorHandle(rounded.astype(np.uint16), tl.bfloat16)

    builder.get_bf16 = get_bf16


def _absorbed_mla(module: Any) -> None:
    """Take the form of MLA's prefill that fits the pool of the native backend."""
    module.AttentionBackendRegistry.register("torch_native", module._dispatch_mla_subtype)


def _interpreted_math(module: Any) -> None:
    for name in ("exp", "exp2", "log", "log2"):
        setattr(module, name, getattr(triton_math, name))


def _interpreted_libdevice(module: Any) -> None:
    """Do the same where a later release calls the GPU's library by its own name."""
    if hasattr(module, "libdevice"):
        module.libdevice = triton_math


def _triton_kda(module: Any) -> None:
    """Of the KDA kernels, the interpreter runs those in Triton."""
    from sglang.kernels.ops.attention.fla.kda import chunk_kda  # noqa: PLC0415

    module.chunk_kda = chunk_kda


def _plain_add3(module: Any) -> None:
    module.add3 = lambda a, b, c, *_, **__: a + b + c
