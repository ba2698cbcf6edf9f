"""Check that a patched Python file still compiles."""

import ast
import warnings
from collections.abc import Callable, Mapping
from typing import TypeGuard

from pkgtools.blob import SYMLINK, Blob
from pkgtools.plan.model import Change, Plan

Compile = Callable[[Mapping[str, Blob]], dict[str, str]]
"""Returns why Python does not compile some files, by path."""


def compile_error(path: str, blob: Blob | None, oldest: int | None = None) -> str | None:
    """Return why this Python does not compile a file; None if it does, or is not Python.

    With `oldest`, nor may it have syntax that Python 3.`oldest` does not have.
    """
    if not _is_python(blob, path):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # upstream's own
            compile(blob.data, path, "exec", dont_inherit=True)
            if oldest is not None:  # the parser knows since which version most syntax is there
                ast.parse(blob.data, path, feature_version=(3, oldest))
    # The last two are of code that is nested too deep; MemoryError has no text.
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return str(error) or type(error).__name__
    return None


def compile_here(files: Mapping[str, Blob], oldest: int | None = None) -> dict[str, str]:
    """Return why this Python does not compile some files, by path; see `compile_error`."""
    found = {path: compile_error(path, blob, oldest) for path, blob in files.items()}
    return {path: error for path, error in found.items() if error is not None}


def _modules(files: Mapping[str, Blob | None]) -> dict[str, Blob]:
    return {path: blob for path, blob in files.items() if _is_python(blob, path)}


def _is_python(blob: Blob | None, path: str) -> TypeGuard[Blob]:
    return blob is not None and blob.mode != SYMLINK and path.endswith(".py")


def broken_by(plan: Plan, compiled: Compile = compile_here) -> list[tuple[Change, str]]:
    """Return the changes that compiled before and do not after, with the reason."""
    changes = {change.path: change for change in plan.changes}
    after = {path: change.after for path, change in changes.items()}
    found = broken(after, lambda path: changes[path].before, compiled)
    return [(changes[path], error) for path, error in found.items()]


def broken(
    after: Mapping[str, Blob | None], before: Callable[[str], Blob | None], compiled: Compile
) -> dict[str, str]:
    """Return the paths that compiled before and do not after, with the reason.

    What did not compile before (a template, another Python's syntax) is not the series'
    fault, and is ignored.
    """
    errors = compiled(_modules(after))
    old = compiled(_modules({path: before(path) for path in errors}))
    return {path: error for path, error in errors.items() if path not in old}
