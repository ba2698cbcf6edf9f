"""Find an installed package without importing it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from pkgtools.errors import UsageError

T = TypeVar("T")

# `python -c` puts the current folder first on sys.path, where a folder with the name of the
# package would be found instead of it. find_spec of a top-level name runs no code of the package.
_SCRIPT: Final = """
import importlib.util, json, sys
sys.path[:] = [entry for entry in sys.path if entry]
spec = importlib.util.find_spec(sys.argv[1])
found = spec and (spec.submodule_search_locations or (spec.has_location and [spec.origin]))
print(json.dumps(list(found or [])))
"""
_DISTRIBUTION: Final = """
import importlib.metadata, json, sys
sys.path[:] = [entry for entry in sys.path if entry]
try:
    found = importlib.metadata.distribution(sys.argv[1])
except importlib.metadata.PackageNotFoundError:
    print("[]")
else:
    files = [str(path) for path in found.files or ()]
    print(json.dumps([{"name": found.metadata["Name"], "version": found.version, "files": files}]))
"""
_ENVIRONMENT: Final = """
import json, os, platform, sys
print(json.dumps({
    "implementation_name": sys.implementation.name,
    "os_name": os.name,
    "platform_machine": platform.machine(),
    "platform_system": platform.system(),
    "python_version": ".".join(platform.python_version_tuple()[:2]),
    "sys_platform": sys.platform,
}))
"""
_TOOL_MARKS: Final = ("pipx_metadata.json", "uv-receipt.toml")
"""Files that pipx and uv keep in the environment of a tool."""
_UV_RUNS: Final = "archive-v"
"""Prefix of the folder of uv's cache where uvx makes environments, without that file."""
_SECONDS: Final = 60


def last_words(error: Exception) -> str:
    """Return the last line that a failed program wrote to stderr, else what happened to it."""
    output = getattr(error, "stderr", None) or ""
    text = output.decode(errors="replace") if isinstance(output, bytes) else output
    if isinstance(error, subprocess.CalledProcessError) and not text.strip():
        return f"exit status {error.returncode}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else " ".join(str(error).split()) or type(error).__name__


def default_python() -> str:
    """Return the default interpreter.

    That is the one that runs this, but for a tool's own environment, as pipx, ``uv tool`` and
    uvx make one: then the active environment's (VIRTUAL_ENV), else ``python`` on PATH.
    """
    own = Path(sys.prefix)
    is_of_tool = any((own / mark).is_file() for mark in _TOOL_MARKS)
    if not (is_of_tool or own.parent.name.startswith(_UV_RUNS)):
        return sys.executable
    active = Path(os.environ.get("VIRTUAL_ENV") or own)
    if active != own and (active / "bin" / "python").is_file():
        return str(active / "bin" / "python")
    # uvx puts the tool's own folder first.
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(each for each in folders if Path(each) != own / "bin")
    return shutil.which("python", path=path) or shutil.which("python3", path=path) or sys.executable


def find_package(python: str | None, package: str) -> Path | None:
    """Return the folder or the module that `python` would import as `package`, or None."""
    folders = _ask(python, _SCRIPT, package, list[str])
    if len(folders) > 1:
        raise UsageError(
            f"{package!r} has several folders: {', '.join(folders)}; give one with --tree"
        )
    if folders and not Path(folders[0]).exists():
        # Its loader builds the checkout again at each import, and copies no .py file.
        raise UsageError(
            f"{package!r} is imported by a loader, not from a folder, as in an editable install of "
            f"meson-python: {folders[0]}",
            remedy="give its source checkout with --tree, or install it without --editable",
        )
    return Path(folders[0]) if folders else None


class InstalledDistribution(msgspec.Struct, frozen=True):
    """A distribution as the metadata of an environment describes it."""

    name: str
    version: str
    files: tuple[str, ...]
    """As RECORD lists them."""


def find_distribution(python: str | None, name: str) -> InstalledDistribution | None:
    """Return the installed distribution of that name (as on PyPI), or None."""
    return next(iter(_ask(python, _DISTRIBUTION, name, list[InstalledDistribution])), None)


def environment(python: str | None) -> dict[str, str]:
    """Return the facts about an interpreter that markers speak of (PEP 508)."""
    return _ask(python, _ENVIRONMENT, "", dict[str, str])


def _ask(python: str | None, script: str, name: str, kind: type[T]) -> T:
    """Run a script that prints JSON of a `kind` in an interpreter."""
    python = python or default_python()
    if Path(python).is_dir():
        raise UsageError(
            f"{python} is a folder, not an interpreter",
            remedy=f"give its interpreter: --python {Path(python) / 'bin' / 'python'}",
        )
    try:
        done = subprocess.run(
            [python, "-c", script, name],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=True,
        )
        return msgspec.json.decode(done.stdout.splitlines()[-1], type=kind)
    except msgspec.ValidationError:
        reason = f"is not a Python interpreter: it printed {done.stdout.strip()[:80]!r}"
    except (OSError, subprocess.SubprocessError, ValueError, IndexError, RecursionError) as error:
        reason = f"failed to find {name!r}: {last_words(error)}"
    raise UsageError(
        f"{python} {reason}",
        remedy="give an interpreter with --python, or the folder with --tree",
    )
