"""What keeps the code easy to follow: class names with one meaning, short calls, no cycles."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pkgtools

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def _imported(node: ast.AST) -> Iterator[str]:
    """Yield the packages of pkgtools that a module imports when it runs."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        names: list[str] = []
        if isinstance(child, ast.Import):
            names = [alias.name for alias in child.names]
        elif isinstance(child, ast.ImportFrom) and child.module == "pkgtools":
            names = [f"pkgtools.{alias.name}" for alias in child.names]
        elif isinstance(child, ast.ImportFrom):
            names = [child.module or ""]
        yield from (name.split(".")[1] for name in names if name.startswith("pkgtools."))
        yield from _imported(child)


def test_no_two_packages_import_each_other() -> None:
    """A topological order exists (https://docs.python.org/3/library/graphlib.html)."""
    imports: dict[str, set[str]] = {}
    for path, module in _modules().items():
        package = path.removesuffix(".py").partition("/")[0]
        imports.setdefault(package, set()).update(set(_imported(module)) - {package})
    assert imports["tree"] >= {"transaction", "source", "plan"}
    TopologicalSorter(imports).prepare()
