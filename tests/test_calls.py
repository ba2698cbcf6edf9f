"""Calls that a reader can follow: nobody counts seven positional arguments."""

from __future__ import annotations

import ast
from pathlib import Path

import pkgtools


def test_no_call_has_seven_positional_arguments() -> None:
    package = Path(pkgtools.__file__).parent
    files = sorted(package.rglob("*.py"))
    assert len(files) > 100
    found = [
        f"{path.relative_to(package)}:{node.lineno}: {ast.unparse(node.func)}"
        for path in files
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Call) and len(node.args) >= 7
    ]
    assert found == []
