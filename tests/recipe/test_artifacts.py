"""What a recipe pins, against what lies on the disk."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from typing import TYPE_CHECKING, Any, Final

import pytest

from pkgtools.errors import CheckFailedError
from pkgtools.recipe.artifacts import check_dataset, check_draft, check_model, digest
from pkgtools.recipe.model import Dataset, DraftModel, Model

if TYPE_CHECKING:
    from pathlib import Path

_COMMIT: Final = "cdd2e49a2c1cf8d4713b513955e415ed75405a72"
_OTHER: Final = "0dd2e49a2c1cf8d4713b513955e415ed75405a72"


def _write_model(folder: Path, *weights: str) -> Path:
    folder.mkdir(parents=True)
    config = {"text_config": {"num_hidden_layers": 93, "hidden_size": 7168}}
    (folder / "config.json").write_text(json.dumps(config))
    index = {"weight_map": {f"layer.{i}": name for i, name in enumerate(weights)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    for name in weights:
        (folder / name).write_bytes(b"w")
    return folder


def _model(path: Path, **more: Any) -> Model:
    values = {"layers": 93, "hidden_size": 7168, "revision": _COMMIT, **more}
    return Model(dtype="bfloat16", hooks=["dspark"], path=str(path), **values)


def _record(folder: Path, name: str, commit: str) -> None:
    """Write what `hf download --local-dir` writes for a file."""
    path = folder / ".cache/huggingface/download" / f"{name}.metadata"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{commit}\netag\n1760000000.0\n")


def test_a_model_in_the_hubs_cache(tmp_path: Path) -> None:
    folder = _write_model(tmp_path / "snapshots" / _COMMIT, "a.safetensors", "b.safetensors")
    assert check_model(_model(folder))["files"] == 3
    link = tmp_path / "k3"
    link.symlink_to(folder)
    assert check_model(_model(link))["revision"] == _COMMIT


def test_a_model_in_a_folder_of_its_own(tmp_path: Path) -> None:
    folder = _write_model(tmp_path / "k3", "a.safetensors")
    for name in ("config.json", "a.safetensors"):
        _record(folder, name, _COMMIT)
    assert check_model(_model(folder))["files"] == 2
    _record(folder, "a.safetensors", _OTHER)
    with pytest.raises(CheckFailedError, match=f"{_OTHER} and {_COMMIT}"):
        check_model(_model(folder))


@pytest.mark.parametrize("text", ["[1]", '"x"', "7"])
def test_a_config_of_another_form(tmp_path: Path, text: str) -> None:
    folder = _write_model(tmp_path / "snapshots" / _COMMIT)
    (folder / "config.json").write_text(f'{{"text_config": {text}, "num_hidden_layers": 9}}')
    with pytest.raises(CheckFailedError, match="num_hidden_layers is 9, the recipe says 93"):
        check_model(_model(folder))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"revision": _OTHER}, f"should be {_OTHER}; the folder names {_COMMIT}"),
        ({"layers": 92}, "num_hidden_layers is 93, the recipe says 92"),
        ({"hidden_size": 64}, "hidden_size is 7168, the recipe says 64"),
        ({"path": "/none/of/this"}, "not found: /none/of/this"),
    ],
)
def test_another_model(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    folder = _write_model(tmp_path / "snapshots" / _COMMIT)
    model = _model(folder)
    for name, value in more.items():
        setattr(model, name, value)
    with pytest.raises(CheckFailedError, match=message):
        check_model(model)


def test_a_model_that_is_not_whole(tmp_path: Path) -> None:
    folder = _write_model(tmp_path / "snapshots" / _COMMIT, "a.safetensors")
    (folder / "a.safetensors").unlink()
    with pytest.raises(CheckFailedError, match=r"files of its index are missing: a\.safetensors"):
        check_model(_model(folder))
    (folder / "config.json").write_text("[]")
    with pytest.raises(CheckFailedError, match=r"config\.json cannot be read"):
        check_model(_model(folder))
    with pytest.raises(CheckFailedError, match="nothing: no snapshots folder"):
        check_model(_model(_write_model(tmp_path / "plain")))


def _dataset(path: Path, data: bytes, **more: Any) -> Dataset:
    path.write_bytes(data)
    values: dict[str, Any] = {"sha256": hashlib.sha256(data).hexdigest(), "rows": 2, **more}
    return Dataset(longest_row=3, path=str(path), **values)


_ROWS: Final = b'{"input_ids": [1, 2, 3]}\n\n{"text": "a"}'


def test_a_dataset(tmp_path: Path) -> None:
    found = check_dataset(_dataset(tmp_path / "d", _ROWS))
    assert (found["rows"], found["longest_row"]) == (2, 3)


@pytest.mark.parametrize(
    ("data", "more", "message"),
    [
        (_ROWS, {"sha256": "0" * 64}, "its sha256 is [0-9a-f]{64}, the recipe says 0000"),
        (_ROWS, {"rows": 462}, "has 2 rows, the recipe says 462"),
        (b'{"input_ids": [1, 2, 3, 4]}\n{}\n', {}, "a row of 4 tokens, the recipe says at most 3"),
        (b"{}\n{\n", {}, r"d:2: invalid JSON"),
        (b"{}\n" + b"[" * 100_000 + b"\n", {}, r"d:2: invalid JSON"),
    ],
)
def test_another_dataset(tmp_path: Path, data: bytes, more: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckFailedError, match=message) as caught:
        check_dataset(_dataset(tmp_path / "d", data, **more))
    assert "fetch it again" in str(caught.value.remedy)


_LIST: Final = (
    "find . -mindepth 1 -xtype f -printf '%P\\n' | LC_ALL=C sort | xargs -d '\\n' sha256sum"
    " | sha256sum"
)


def test_the_digest_of_a_folder_is_the_shells(tmp_path: Path) -> None:
    folder = tmp_path / "epoch_0_step_0"
    for name in ("b", "a/z", "a.b", "A", "é x", os.fsdecode(b"caf\xe9"), "Ω", "\U0001f600"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(os.fsencode(name))
    (folder / "link").symlink_to("b")
    (folder / "folder").symlink_to("a")
    shells = subprocess.run(
        ["sh", "-c", _LIST], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.split()[0]
    assert digest(folder) == shells
    draft = DraftModel(path=str(folder), sha256=shells)
    assert check_draft(draft)["sha256"] == shells
    (folder / "b").write_text("edited")
    with pytest.raises(CheckFailedError, match=f"the recipe says {shells}"):
        check_draft(draft)
    assert digest(folder / "A") == hashlib.sha256(b"A").hexdigest()
