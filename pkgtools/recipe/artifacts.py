"""Compare the artifacts that a recipe pins with the files on disk."""

import hashlib
import io
import os
from pathlib import Path
from typing import Any, Final

import msgspec

from pkgtools.errors import CheckFailedError, Evidence
from pkgtools.recipe.model import Dataset, DraftModel, Model
from pkgtools.util.files import open_regular, read_bytes, sha256

_INDEX: Final = "model.safetensors.index.json"


def check_model(model: Model) -> Evidence:
    """Check a model's revision, its sizes, and that all its weights are there."""
    folder = _existing(model.path, "model")
    found = _revisions(folder)
    if found != {model.revision}:
        said = " and ".join(sorted(found)) or "nothing: no snapshots folder and no download record"
        raise CheckFailedError(
            f"{folder}: its revision should be {model.revision}; the folder names {said}",
            remedy="fetch it with `hf download --revision`, into the cache or with --local-dir",
        )
    config = _read_json(folder / "config.json")
    inner = config.get("text_config")
    text = inner if isinstance(inner, dict) and inner else config
    shape = {"num_hidden_layers": model.layers, "hidden_size": model.hidden_size}
    for key, expected in shape.items():
        if text.get(key) != expected:
            file = folder / "config.json"
            raise _other(f"{file}: {key} is {text.get(key)}, the recipe says {expected}")
    names = {"config.json"}
    if (folder / _INDEX).exists():
        weights = _read_json(folder / _INDEX).get("weight_map")
        names |= set(weights.values()) if isinstance(weights, dict) else set()
    missing = [n for n in sorted(map(str, names)) if not (folder / n).is_file()]
    if missing:
        raise CheckFailedError(
            f"{folder}: files of its index are missing: {', '.join(missing)}", remedy="fetch them"
        )
    return Evidence(path=str(folder), revision=model.revision, files=len(names))


def _revisions(folder: Path) -> set[str]:
    """Return the commits that the hub's client recorded: in the cache's path, or in metadata."""
    path = folder.resolve()
    if path.parent.name == "snapshots":
        return {path.name}
    records = (path / ".cache/huggingface/download").rglob("*.metadata")
    return {read_bytes(record).decode(errors="replace").partition("\n")[0] for record in records}


def check_dataset(dataset: Dataset) -> Evidence:
    """Check a data set's digest, its number of rows and its longest row."""
    path = _existing(dataset.path, "data set")
    _same_digest(path, sha256(path), dataset.sha256)
    rows = longest = 0
    with open_regular(path) as raw, io.BufferedReader(raw) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = msgspec.json.decode(line)
            except (msgspec.DecodeError, RecursionError) as error:
                raise _other(f"{path}:{number}: invalid JSON: {error}") from None
            rows += 1
            tokens = row.get("input_ids") if isinstance(row, dict) else None
            longest = max(longest, len(tokens) if isinstance(tokens, list) else 0)
    if rows != dataset.rows:
        raise _other(f"{path} has {rows} rows, the recipe says {dataset.rows}")
    if longest > dataset.longest_row:
        most = dataset.longest_row
        raise _other(f"{path} has a row of {longest} tokens, the recipe says at most {most}")
    return Evidence(path=str(path), sha256=dataset.sha256, rows=rows, longest_row=longest)


def check_draft(draft: DraftModel) -> Evidence:
    """Check the digest of a draft checkpoint."""
    path = _existing(draft.path, "draft checkpoint")
    _same_digest(path, digest(path), draft.sha256)
    return Evidence(path=str(path), sha256=draft.sha256)


def digest(path: Path) -> str:
    """Return a file's SHA-256; of a folder, that of its files' list as ``sha256sum`` prints it.

    The list has each file, by its path below the folder, sorted by bytes (docs/recipe.md has
    the command). Links to files count; links to folders are not followed.
    """
    if path.is_file():
        return sha256(path)
    names = [os.fsencode(p.relative_to(path)) for p in path.rglob("*") if p.is_file()]
    whole = hashlib.sha256()
    for name in sorted(names):
        whole.update(sha256(path / os.fsdecode(name)).encode() + b"  " + name + b"\n")
    return whole.hexdigest()


def _existing(path: str | None, what: str) -> Path:
    found = Path(str(path))
    if path is None or not found.exists():
        raise CheckFailedError(f"{what} not found: {path}", remedy="fetch it first")
    return found


def _same_digest(path: Path, found: str, expected: str | None) -> None:
    if found != expected:
        raise _other(f"{path}: its sha256 is {found}, the recipe says {expected}")


def _other(message: str) -> CheckFailedError:
    return CheckFailedError(message, remedy="fetch it again, or correct the recipe")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(read_bytes(path), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError, RecursionError) as error:
        raise CheckFailedError(f"{path} cannot be read: {error}") from None
