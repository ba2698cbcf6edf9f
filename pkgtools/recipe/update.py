"""The first optimizer update, read from what the trainer wrote.

The trainer's output folder has a ``metrics.jsonl``: a JSON object a line, for each optimizer
step, with ``step`` (from 1 on) and ``loss``, and, where a checkpoint was written after it,
``checkpoint``: its path below the folder.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pkgtools.errors import CheckFailedError
from pkgtools.recipe.artifacts import digest
from pkgtools.util.files import read_text

if TYPE_CHECKING:
    from pathlib import Path

_FILE: Final = "metrics.jsonl"
_MOST: Final = float("inf")


def check_update(output: Path) -> dict[str, object]:
    """Return the first step that has a checkpoint, and the checkpoint's digest.

    Raises:
        CheckFailedError: no step has a checkpoint, a loss is not finite, or the checkpoint
            is missing.

    """
    path = output / _FILE
    try:
        lines = read_text(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CheckFailedError(
            f"{path} cannot be read: {error}",
            remedy="run the trainer for one optimizer step; docs/recipe.md says what it writes",
        ) from None
    for number, line in enumerate(lines, 1):
        step, loss, checkpoint = _read(line, f"{path}:{number}")
        if checkpoint is not None:
            file = _checkpoint(output, checkpoint)
            return {"step": step, "loss": loss, "checkpoint": checkpoint, "sha256": digest(file)}
    raise CheckFailedError(f"{path} has no checkpoint in {len(lines)} steps")


def _read(line: str, where: str) -> tuple[int, float, str | None]:
    try:
        row: Any = json.loads(line)  # which reads NaN, as trainers write it
        step, loss, checkpoint = row["step"], row["loss"], row.get("checkpoint")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise CheckFailedError(f"{where}: no step and loss: {error!r}") from None
    if not isinstance(step, int) or isinstance(step, bool) or step < 1:
        raise CheckFailedError(f"{where}: step is {step!r}, not a number from 1 on")
    if isinstance(loss, bool) or not isinstance(loss, int | float) or not -_MOST < loss < _MOST:
        raise CheckFailedError(f"{where}: the loss of step {step} is {loss!r}, not finite")
    if checkpoint is not None and not isinstance(checkpoint, str):
        raise CheckFailedError(f"{where}: checkpoint is {checkpoint!r}, not a path")
    return step, loss, checkpoint


def _checkpoint(output: Path, name: str) -> Path:
    path = (output / name).resolve()
    if not path.is_relative_to(output.resolve()) or path == output.resolve():
        raise CheckFailedError(f"the checkpoint {name} is not inside {output}")
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    if not any(file.stat().st_size for file in files):
        raise CheckFailedError(f"the checkpoint {path} is not there, or is empty")
    return path
