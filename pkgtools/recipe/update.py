"""The first optimizer update, read from what the trainer wrote into its output folder.

SpecForge's trainer writes ``RUN-stepN/training_state.pt`` after optimizer step N, with the
draft's weights and the step, and a ``training_state_rankR.pt`` for each rank beside it. It
prints losses, or sends them to a tracker: no file has them. A step whose loss or gradient was not
finite leaves weights that are not.

Any other trainer can write a ``metrics.jsonl``: a JSON object a line, for each optimizer step,
with ``step`` (from 1 on) and ``loss``, and, where a checkpoint was written after it,
``checkpoint``: its path below the folder.
"""

import json
import re
from pathlib import Path
from typing import Any, Final

from pkgtools.errors import CheckFailedError, Evidence
from pkgtools.recipe.artifacts import digest
from pkgtools.recipe.ask import ask
from pkgtools.util.files import read_text

_METRICS: Final = "metrics.jsonl"
_STATE: Final = "training_state.pt"
_CHECKPOINT: Final = re.compile(r"(?P<run>.+)-step(?P<step>[0-9]+)")
_READER: Final = Path(__file__).with_name("checkpoint.py")
_SECONDS: Final = 600
_MOST: Final = float("inf")


def check_update(output: Path, ranks: int, python: str) -> Evidence:
    """Return the first step that has a checkpoint, read with a Python that has torch."""
    if (output / _METRICS).exists():
        return _from_metrics(output)
    found = _checkpoints(output)
    if not found:
        raise CheckFailedError(
            f"{output}: no RUN-stepN/{_STATE} and no {_METRICS}",
            remedy="run the trainer until it has saved a checkpoint (SpecForge: "
            "training.save_interval=1 training.max_steps=1); docs/recipe.md says what is read",
        )
    return _from_checkpoint(found[min(found)], min(found), ranks, python)


def _checkpoints(output: Path) -> dict[int, Path]:
    """Return the folders of one run's checkpoints, by step."""
    found: dict[int, Path] = {}
    runs = set()
    for state in sorted(output.glob(f"*-step*/{_STATE}")):
        match = _CHECKPOINT.fullmatch(state.parent.name)
        if match is not None and not state.parent.is_symlink():
            runs.add(match["run"])
            found[int(match["step"])] = state.parent
    if len(runs) > 1:
        raise CheckFailedError(
            f"{output}: checkpoints of several runs: {', '.join(sorted(runs))}",
            remedy="give trainer.output a folder of its own for each run",
        )
    return found


def _from_checkpoint(folder: Path, step: int, ranks: int, python: str) -> Evidence:
    state = folder / _STATE
    command = [python, str(_READER)]
    answer = ask(command, given=str(state), task=f"read {state}", seconds=_SECONDS)
    run = folder.name.rpartition("-step")[0]
    meant = {"run": run, "step": step, "ranks": ranks}
    other = {name: answer.get(name) for name in meant if answer.get(name) != meant[name]}
    if step < 1 or other:
        raise CheckFailedError(
            f"{folder}: expected {meant}, it says {other or answer['step']}",
            details=Evidence(answer),
        )
    states = {rank: folder / f"training_state_rank{rank}.pt" for rank in range(ranks)}
    missing = [n for n, path in states.items() if not (path.is_file() and path.stat().st_size)]
    if missing:
        raise CheckFailedError(f"{folder}: no state of ranks {missing}", details=Evidence(answer))
    if not answer["finite"] or not answer["largest"]:
        what = "all zeros or none" if answer["finite"] else "not finite everywhere"
        raise CheckFailedError(
            f"{folder}: the draft's weights are {what}", details=Evidence(answer)
        )
    return Evidence(answer | {"checkpoint": folder.name, "sha256": digest(folder)})


def _from_metrics(output: Path) -> Evidence:
    path = output / _METRICS
    lines = read_text(path).splitlines()
    for number, line in enumerate(lines, 1):
        step, loss, checkpoint = _read(line, f"{path}:{number}")
        if checkpoint is not None:
            file = _named_checkpoint(output, checkpoint)
            sha256 = digest(file)
            return Evidence(step=step, loss=loss, checkpoint=checkpoint, sha256=sha256)
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


def _named_checkpoint(output: Path, name: str) -> Path:
    path = (output / name).resolve()
    if not path.is_relative_to(output.resolve()) or path == output.resolve():
        raise CheckFailedError(f"the checkpoint {name} is not inside {output}")
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    if not any(file.stat().st_size for file in files):
        raise CheckFailedError(f"the checkpoint {path} is not there, or is empty")
    return path
