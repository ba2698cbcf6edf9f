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
    from collections.abc import Collection, Iterator

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


def _imported(node: ast.AST, known: Collection[str]) -> Iterator[str]:
    """Yield the modules of pkgtools that a module imports when it runs, also in its functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names if alias.name in known)
        elif isinstance(child, ast.ImportFrom) and (module := child.module or "") in known:
            names = (f"{module}.{alias.name}" for alias in child.names)
            yield from (name if name in known else module for name in names)
        yield from _imported(child, known)


def _imports() -> dict[str, set[str]]:
    """Return what each module imports, by its name."""
    dotted = {
        f"pkgtools.{path.removesuffix('.py').replace('/', '.')}".removesuffix(".__init__"): module
        for path, module in _modules().items()
    }
    return {name: set(_imported(module, dotted)) - {name} for name, module in dotted.items()}


def test_no_two_packages_import_each_other() -> None:
    """A topological order exists (https://docs.python.org/3/library/graphlib.html)."""
    imports: dict[str, set[str]] = {}
    for name, others in _imports().items():
        packages = {each.split(".")[1] for each in (name, *others) if "." in each}
        package = name.split(".")[1] if "." in name else name
        imports.setdefault(package, set()).update(packages - {package})
    assert imports["tree"] >= {"transaction", "source", "plan"}
    TopologicalSorter(imports).prepare()


def test_no_two_modules_import_each_other() -> None:
    imports = _imports()
    assert "pkgtools.cli.render" in imports["pkgtools.cli.common"]  # inside a function
    TopologicalSorter(imports).prepare()
