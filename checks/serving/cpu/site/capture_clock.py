"""Writes down the longest call of each of capture's hooks: they run on the scheduler's thread.

`clock-PID.json` has them in milliseconds, by name.
"""

from __future__ import annotations

import functools
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from after_import import after_import

if TYPE_CHECKING:
    from collections.abc import Callable

_HOOKS: Final = ("attach", "must_wait", "begin", "hold", "poll", "busy", "_before_logits")


def install(folder: str) -> None:
    """Time the hooks of the scheduler's capture."""
    longest: dict[str, float] = {}

    def timed(hook: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(hook)
        def call(*args: Any) -> Any:
            start = time.perf_counter()
            result = hook(*args)
            took = (time.perf_counter() - start) * 1e3
            if took > longest.get(hook.__name__, 0.0):
                longest[hook.__name__] = took
                Path(folder, f"clock-{os.getpid()}.json").write_text(json.dumps(longest))
            return result

        return call

    def watch(module: Any) -> None:
        for name in _HOOKS:
            setattr(module.SpecCapture, name, timed(getattr(module.SpecCapture, name)))

    after_import({"sglang.srt.spec_capture.capture": watch})
