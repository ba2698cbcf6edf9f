"""Where a Python finds a package, without importing it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from pkgtools.errors import UsageError

# `python -c` puts the current folder first on the path, where a folder of the
# package's name would pass for it. Finding a top-level package runs none of its code.
_SCRIPT: Final = """
import importlib.util, json, sys
sys.path[:] = [entry for entry in sys.path if entry]
spec = importlib.util.find_spec(sys.argv[1])
print(json.dumps(list(spec.submodule_search_locations or []) if spec else []))
"""
_SECONDS: Final = 60


def find_package(python: str | None, package: str) -> Path | None:
    """Return the folder that `python` would import `package` from, or None.

    Args:
        python: an interpreter; by default the one that runs this.
        package: a top-level import name.

    Raises:
        UsageError: the interpreter cannot be run.

    """
    command = [python or sys.executable, "-c", _SCRIPT, package]
    if Path(command[0]).is_dir():
        raise UsageError(
            f"{command[0]} is a folder, not an interpreter",
            remedy=f"give its interpreter: --python {Path(command[0]) / 'bin' / 'python'}",
        )
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)
        folders = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        output = getattr(error, "stderr", None) or type(error).__name__
        raise UsageError(
            f"{command[0]} cannot be asked where {package!r} is: {output.strip().splitlines()[-1]}",
            remedy="give an interpreter with --python, or the folder with --tree",
        ) from None
    if len(folders) > 1:
        raise UsageError(f"{package!r} is spread over {', '.join(folders)}; give one with --tree")
    return Path(folders[0]) if folders else None
