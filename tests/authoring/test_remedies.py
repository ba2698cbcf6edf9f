"""Every refusal of the commands for a catalog's maintainer says what to do next."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pkgtools
from pkgtools import errors

_ROOT = Path(pkgtools.__file__).parent
_MODULES = sorted(
    [*(_ROOT / "authoring").glob("*.py"), *(_ROOT / "catalog").glob("[!t]*.py")]
    + [_ROOT / "catalog" / "table.py"]  # the readers of tomlfile.py add the remedy
    + [
        _ROOT / "cli" / f"{verb}.py"
        for verb in ("arrange", "checkout", "edits", "export", "import_", "init")
    ]
)
_ERRORS = {
    name
    for name, each in vars(errors).items()
    if isinstance(each, type) and issubclass(each, errors.PkgtoolsError)
}


@pytest.mark.parametrize("module", _MODULES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_error_has_a_remedy(module: Path) -> None:
    calls = [
        node.exc
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
    ]
    silent = [
        f"{module.name}:{call.lineno}"
        for call in calls
        if isinstance(call.func, ast.Name)
        and call.func.id in _ERRORS
        and "remedy" not in [keyword.arg for keyword in call.keywords]
    ]
    assert silent == []
