"""Stands in for `sgl_kernel`, SGLang's compiled kernels, which are for GPUs.

SGLang imports many names of it that a text model on the CPU never calls: here every name
can be imported, and a call raises. No operator is registered, so SGLang finds that its own
CPU kernels are not there and takes its paths in plain PyTorch. In particular
`convert_weight_packed` must not exist: SGLang asks for it to decide.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from typing import TYPE_CHECKING, Any, Final, NoReturn

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

__version__ = "0.4.5"
__path__ = []


class _Missing:
    """A name that can be imported and looked into, and not called."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> _Missing:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Missing(f"{self._name}.{name}")

    def __call__(self, *_: object, **__: object) -> NoReturn:
        message = f"sgl_kernel.{self._name} needs a GPU"
        raise NotImplementedError(message)


class _Module(types.ModuleType):
    def __getattr__(self, name: str) -> _Missing:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Missing(name)


def __getattr__(name: str) -> _Missing:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Missing(name)


class _Submodules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith("sgl_kernel."):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        module.__path__ = []


sys.meta_path.insert(0, _Submodules())

# SGLang takes references to these when it is imported: they need a schema, no more.
_LIBRARY: Final[Any] = torch.library.Library("sgl_kernel", "FRAGMENT")
for _operator in (
    "fused_sigmoid_gating_delta_rule_update_cpu",
    "fused_gdn_gating_cpu",
    "fused_sigmoid_mul_cpu",
    "fused_qk_gemma_rmsnorm_cpu",
    "fused_qk_gemma_rmsnorm_with_gate_cpu",
    "fused_qkvzba_split_reshape_cat_contiguous_cpu",
    "fused_input_proj_cpu",
):
    _LIBRARY.define(f"{_operator}() -> ()")
