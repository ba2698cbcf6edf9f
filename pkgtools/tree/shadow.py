"""Extension modules that hide a patched file, so that the patch has no effect."""

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from pkgtools.catalog import Target
from pkgtools.errors import DoesNotApplyError
from pkgtools.plan import Plan
from pkgtools.source import Source, Tree, WheelSource

COMPILED: Final = {".pyx", ".pxd", ".c", ".cc", ".cpp", ".cxx", ".cu", ".rs", ".go", ".proto"}
"""Suffixes of files that are built into an extension module."""


def shadowed(source: Source, paths: Iterable[str]) -> dict[str, str]:
    """Return the extension module of each path that has one, in a tree or a wheel.

    Python looks for an extension module before it looks for a ``.py`` of the same name
    (`importlib.machinery.FileFinder`), and what is compiled was built already.
    """
    wanted = [path for path in paths if PurePosixPath(path).suffix in {".py", *COMPILED}]
    if isinstance(source, Tree):
        found = {path: source.compiled_beside(path) for path in wanted}
    elif isinstance(source, WheelSource):
        found = {path: source.compiled_beside(source.member(path)) for path in wanted}
    else:
        return {}
    return {path: module for path, module in found.items() if module is not None}


def refuse_shadowed(target: Target, source: Source, plan: Plan) -> None:
    """Raise if an extension module would hide a patched file at run time.

    In a checkout the modules are built again, as after any other edit.
    """
    if isinstance(source, Tree) and source.is_checkout:
        return
    patched = (change.path for change in plan.changes if change.after is not None)
    for path, module in shadowed(source, patched).items():
        raise DoesNotApplyError(
            f"{target.name}: {path} is compiled into {module}, so that patching it changes nothing",
            remedy="build and install the package from a patched source checkout",
        )
