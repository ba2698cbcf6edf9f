"""Reads a checkpoint of SpecForge's trainer, as a program of its own.

It runs under the interpreter that has torch: the trainer's or the server's. It reads the
path of a ``training_state.pt`` on stdin and writes JSON as the last line of stdout. Nothing
that the file pickles is run.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def main() -> None:
    """Answer one request."""
    del sys.path[0]  # this folder, whose secrets.py would hide the standard library's
    sys.stdout.write("\n" + json.dumps(read(Path(sys.stdin.read()))) + "\n")


def read(path: Path) -> dict[str, Any]:
    """Return what a checkpoint says of itself, and whether its weights are finite."""
    try:
        import torch  # noqa: PLC0415 - the remedy is below
    except ImportError as error:
        remedy = "name an interpreter that has torch with --python"
        return {"error": f"torch cannot be imported: {error}", "remedy": remedy}
    try:
        return _look(torch, torch.load(path, map_location="cpu", weights_only=True, mmap=True))
    except Exception as error:  # noqa: BLE001 - whatever a damaged file makes torch raise
        return {"error": f"{path} cannot be read: {type(error).__name__}: {error}"[:2000]}


def _look(torch: Any, state: dict[str, Any]) -> dict[str, Any]:
    finite, largest, count = True, 0.0, 0
    for tensor in _tensors(torch, state["draft_state_dict"]):
        if tensor.is_floating_point() and tensor.numel():
            count += 1
            finite = finite and bool(tensor.isfinite().all())
            largest = max(largest, float(tensor.abs().max()))
    return {
        "step": state["global_step"],
        "run": state["run_id"],
        "ranks": state["world_size"],
        "tensors": count,
        "finite": finite,
        "largest": largest if finite else None,
    }


def _tensors(torch: Any, value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(torch, item)


if __name__ == "__main__":
    main()
