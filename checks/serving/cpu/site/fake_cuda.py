"""Shows SGLang eight H200s, as far as it looks while it resolves its arguments.

Its defaults of CUDA (chunked prefill, CUDA graphs, backends) can then be seen on a machine
without a GPU. No kernel runs.
"""

from __future__ import annotations

import importlib.abc
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

_GIB = 1 << 30


def install() -> None:
    cuda: Any = torch.cuda
    version: Any = torch.version
    version.cuda = "13.0"
    cuda.is_available = lambda: True
    cuda.device_count = lambda: 8
    cuda.current_device = lambda: 0
    cuda.get_device_capability = lambda *_: (9, 0)
    cuda.get_device_name = lambda *_: "NVIDIA H200"
    cuda.mem_get_info = lambda *_: (140 * _GIB, 141 * _GIB)
    device = SimpleNamespace(
        name="NVIDIA H200",
        major=9,
        minor=0,
        total_memory=141 * _GIB,
        multi_processor_count=132,
        gcnArchName="",
    )
    cuda.get_device_properties = lambda *_: device
    sys.meta_path.insert(0, _KernelLibraries())


class _KernelLibraries(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the libraries that SGLang imports names from where it has CUDA."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in {"flashinfer", "deep_gemm"}:
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, _spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__version__"] = "99.0"
        module.__dict__["__getattr__"] = _placeholder


def _placeholder(name: str) -> type:
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {})
