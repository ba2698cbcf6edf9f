"""What keeps the code easy to follow: one meaning for each class name, and short calls."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pkgtools

PACKAGE = Path(pkgtools.__file__).parent


@cache
def _modules() -> dict[str, ast.Module]:
    """Return the syntax tree of each module, by its path below the package."""
    paths = sorted(PACKAGE.rglob("*.py"))
    assert len(paths) > 100
    return {str(path.relative_to(PACKAGE)): ast.parse(path.read_bytes()) for path in paths}


def test_no_call_has_seven_positional_arguments() -> None:
    found = [
        f"{path}:{node.lineno}: {ast.unparse(node.func)}"
        for path, module in _modules().items()
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and len(node.args) >= 7
    ]
    assert found == []


def test_each_class_name_has_one_meaning() -> None:
    names = Counter(
        node.name
        for module in _modules().values()
        for node in module.body
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []
