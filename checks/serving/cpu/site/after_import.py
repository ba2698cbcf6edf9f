"""Changes to a module that are made the moment it is imported."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Mapping, Sequence
    from importlib.machinery import ModuleSpec


class AfterImport(importlib.abc.MetaPathFinder):
    def __init__(self, changes: Mapping[str, Callable[[Any], None]]) -> None:
        self._changes = changes

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        change = self._changes.get(fullname)
        if change is None:
            return None
        sys.meta_path.remove(self)  # to find the real one
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: types.ModuleType) -> None:
                execute(module)
                change(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def after_import(changes: Mapping[str, Callable[[Any], None]]) -> None:
    sys.meta_path.insert(0, AfterImport(changes))
