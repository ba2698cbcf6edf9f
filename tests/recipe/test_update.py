"""The first optimizer update, as a trainer writes it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import pytest

from pkgtools.errors import CheckFailedError
from pkgtools.recipe import checkpoint, update
from pkgtools.recipe.artifacts import digest
from pkgtools.recipe.update import check_update

_GOOD: Final = '{"step": 1, "loss": 2.5}\n{"step": 2, "loss": 2.25, "checkpoint": "step_2"}\n'


def _write(output: Path, text: str) -> Path:
    (output / "step_2").mkdir()
    (output / "step_2" / "weights").write_bytes(b"w")
    (output / "empty").mkdir()
    (output / "empty" / "weights").write_bytes(b"")
    (output / "metrics.jsonl").write_text(text)
    return output


def test_the_first_step_with_a_checkpoint(tmp_path: Path) -> None:
    found = check_update(_write(tmp_path, f"{_GOOD}not read\n"), 1, "python")
    assert (found["step"], found["loss"], found["checkpoint"]) == (2, 2.25, "step_2")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("2.25", "NaN", "metrics.jsonl:2: the loss of step 2 is nan, not finite"),
        ("2.25", "Infinity", "not finite"),
        ("2.5", "-1e999", "metrics.jsonl:1: the loss of step 1 is -inf"),
        ("2.5", '"2.5"', "not finite"),
        ("2.5", "true", "not finite"),
        ('"step": 1', '"step": 0', "step is 0, not a number from 1 on"),
        ('"step": 1', '"step": true', "step is True"),
        ('"loss": 2.5', '"lr": 2.5', "no step and loss"),
        ("{", "[", "no step and loss"),
        ('{"step": 1, "loss": 2.5}', "[1]", "no step and loss"),
        ("step_2", "step_3", "step_3 is not there, or is empty"),
        ("step_2", "empty", "is not there, or is empty"),
        ("step_2", "../elsewhere", "is not inside"),
        ("step_2", "/etc", "is not inside"),
        ("step_2", ".", "is not inside"),
        ('"step_2"', "7", "not a path"),
        (', "checkpoint": "step_2"', "", "has no checkpoint in 2 steps"),
    ],
)
def test_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in _GOOD
    with pytest.raises(CheckFailedError) as caught:
        check_update(_write(tmp_path, _GOOD.replace(old, new, 1)), 1, "python")
    assert message in caught.value.message


def test_a_link_does_not_lead_out(tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.mkdir()
    _write(output, _GOOD.replace("step_2", "away"))
    (output / "away").symlink_to(tmp_path)
    with pytest.raises(CheckFailedError, match="is not inside"):
        check_update(output, 1, "python")


def test_nothing_written(tmp_path: Path) -> None:
    with pytest.raises(CheckFailedError, match=r"no RUN-stepN/training_state\.pt") as caught:
        check_update(tmp_path, 1, "python")
    assert caught.value.remedy is not None


def _save(output: Path, step: int, ranks: int, **changes: Any) -> Path:
    """Write a checkpoint as SpecForge's CheckpointManager does, and its link."""
    torch = pytest.importorskip("torch", exc_type=ImportError)
    folder = output / f"k3-step{step}"
    folder.mkdir(parents=True)
    weights = {"fc.weight": torch.ones(3, 4).bfloat16(), "embedding.ids": torch.arange(3)}
    state = {
        "draft_state_dict": weights,
        "global_step": step,
        "epoch": 0,
        "strategy": "dspark",
        "run_id": "k3",
        "world_size": ranks,
        **changes,
    }
    torch.save(state, folder / "training_state.pt")
    for rank in range(ranks):
        torch.save({"optimizer": None}, folder / f"training_state_rank{rank}.pt")
    link = output / "k3-latest"
    link.unlink(missing_ok=True)
    link.symlink_to(folder.name)
    return folder


@pytest.mark.torch
def test_the_first_checkpoint_of_spec_forge(tmp_path: Path) -> None:
    for step in (16, 8):
        _save(tmp_path, step, 2)
    found = check_update(tmp_path, 2, sys.executable)
    assert (found["step"], found["checkpoint"], found["ranks"]) == (8, "k3-step8", 2)
    assert (found["finite"], found["largest"], found["tensors"]) == (True, 1.0, 1)
    assert found["sha256"] == digest(tmp_path / "k3-step8")


def _read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read without a process for each case: an import of torch takes seconds."""

    def ask(_: object, *, given: str, **_more: object) -> dict[str, Any]:
        answer = checkpoint.read(Path(given))
        if "error" in answer:
            raise CheckFailedError(answer["error"])
        return answer

    monkeypatch.setattr(update, "ask", ask)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("changes", "ranks", "message"),
    [
        ({"weight": float("nan")}, 2, "not finite everywhere"),
        ({"weight": float("inf")}, 2, "not finite everywhere"),
        ({"weight": 0.0}, 2, "all zeros or none"),
        ({"draft_state_dict": {}}, 2, "all zeros or none"),
        ({"global_step": 7}, 2, "it says {'step': 7}"),
        ({"run_id": "other"}, 2, "it says {'run': 'other'}"),
        ({}, 4, "it says {'ranks': 2}"),
        ({"world_size": 4}, 4, "no state of ranks [2, 3]"),
        ({"epoch": Path}, 2, "cannot be read: UnpicklingError"),
    ],
    ids=str,
)
def test_a_checkpoint_that_is_refused(
    tmp_path: Path,
    changes: dict[str, Any],
    ranks: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _read_here(monkeypatch)
    torch = pytest.importorskip("torch", exc_type=ImportError)
    if "weight" in changes:
        changes = {"draft_state_dict": {"w": torch.full((2, 2), changes["weight"])}}
    _save(tmp_path, 8, 2, **changes)
    with pytest.raises(CheckFailedError) as caught:
        check_update(tmp_path, ranks, sys.executable)
    assert message in caught.value.message


@pytest.mark.torch
def test_a_checkpoint_that_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _read_here(monkeypatch)
    state = _save(tmp_path, 8, 2) / "training_state.pt"
    state.write_bytes(state.read_bytes()[:-200])
    with pytest.raises(CheckFailedError, match="cannot be read"):
        check_update(tmp_path, 2, sys.executable)


def test_checkpoints_of_two_runs(tmp_path: Path) -> None:
    for run in ("a", "b"):
        (tmp_path / f"{run}-step8").mkdir()
        (tmp_path / f"{run}-step8" / "training_state.pt").touch()
    with pytest.raises(CheckFailedError, match="several runs: a, b"):
        check_update(tmp_path, 2, sys.executable)


def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a-step8").mkdir()
    (tmp_path / "a-step8" / "training_state.pt").touch()
    with pytest.raises(CheckFailedError, match="cannot read"):
        check_update(tmp_path, 2, str(tmp_path / "python"))
