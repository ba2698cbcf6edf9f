"""The first optimizer update, as a trainer writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from pkgtools.errors import CheckFailedError
from pkgtools.recipe.update import check_update

if TYPE_CHECKING:
    from pathlib import Path

_GOOD: Final = '{"step": 1, "loss": 2.5}\n{"step": 2, "loss": 2.25, "checkpoint": "step_2"}\n'


def _write(output: Path, text: str) -> Path:
    (output / "step_2").mkdir()
    (output / "step_2" / "weights").write_bytes(b"w")
    (output / "empty").mkdir()
    (output / "empty" / "weights").write_bytes(b"")
    (output / "metrics.jsonl").write_text(text)
    return output


def test_the_first_step_with_a_checkpoint(tmp_path: Path) -> None:
    found = check_update(_write(tmp_path, f"{_GOOD}not read\n"))
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
        check_update(_write(tmp_path, _GOOD.replace(old, new, 1)))
    assert message in caught.value.message


def test_a_link_does_not_lead_out(tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.mkdir()
    _write(output, _GOOD.replace("step_2", "away"))
    (output / "away").symlink_to(tmp_path)
    with pytest.raises(CheckFailedError, match="is not inside"):
        check_update(output)


def test_nothing_written(tmp_path: Path) -> None:
    with pytest.raises(CheckFailedError, match="cannot be read") as caught:
        check_update(tmp_path)
    assert caught.value.remedy is not None
