"""Whether what a series makes of Python still compiles."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from pkgtools.blob import SYMLINK

if TYPE_CHECKING:
    from pkgtools.blob import Blob
    from pkgtools.plan.model import Change, Plan


def compile_error(path: str, blob: Blob | None) -> str | None:
    """Return why this Python does not compile a file; None if it does, or is not Python."""
    if blob is None or blob.mode == SYMLINK or not path.endswith(".py"):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # upstream's own
            compile(blob.data, path, "exec", dont_inherit=True)
    # The last two are of code that is nested too deep; MemoryError has no text.
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return str(error) or type(error).__name__
    return None


def broken_by(plan: Plan) -> list[tuple[Change, str]]:
    """Return the changes that compiled before and do not after, with the reason.

    What did not compile before (a template, another Python's syntax) is not the series'
    fault, and says nothing of it.
    """
    found = [(change, compile_error(change.path, change.after)) for change in plan.changes]
    return [
        (change, error)
        for change, error in found
        if error is not None and compile_error(change.path, change.before) is None
    ]
