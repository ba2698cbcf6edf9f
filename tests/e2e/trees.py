"""Trees of SGLang to serve from: a release's wheel or a commit, as it is or patched."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from filelock import FileLock
from index import wheel_of

from pkgtools.catalog import load_catalog

if TYPE_CHECKING:
    from pkgtools.catalog import Target

_APPLY: Final = (sys.executable, "-m", "pkgtools", "apply")
CATALOG: Final = Path(__file__).parents[2] / "targets.toml"


class Trees:
    """Makes each tree once, in `folder`, also where several processes ask for it.

    It is for reading: servers of all of them run from it, and share its bytecode.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._catalog = load_catalog(CATALOG)

    def pristine(self, name: str) -> Path:
        """Return the folder to put on the module path for a target's revision as it is.

        Skips the test where the source is not at hand.
        """
        root = self._folder / name / "pristine"
        with self._lock(name):
            if not root.exists():
                self._make(name, root)
        return _module_path(root)

    def patched(self, name: str) -> Path:
        """Return that of a target's revision with its series, applied by pkgtools."""
        root = self._folder / name / "patched"
        with self._lock(name):
            if not root.exists():
                self._make(name, root)
                subprocess.run(
                    [*_APPLY, "--catalog", str(CATALOG), "--target", name, "--tree", str(root)],
                    check=True,
                    capture_output=True,
                )
        return _module_path(root)

    def _lock(self, name: str) -> FileLock:
        self._folder.mkdir(parents=True, exist_ok=True)
        return FileLock(self._folder / f"{name}.lock")

    def _make(self, name: str, root: Path) -> None:
        target = self._catalog.target(name)
        if target.revision.version is None:
            _export(target, root)
        else:
            with zipfile.ZipFile(wheel_of(target)) as archive:
                archive.extractall(root)


def _module_path(root: Path) -> Path:
    return root / "python" if (root / "python").is_dir() else root


def _export(target: Target, root: Path) -> None:
    commit = target.revision.name
    for repository in filter(None, os.environ.get("PKGTOOLS_SGLANG_GIT", "").split(os.pathsep)):
        archive = subprocess.run(
            ["git", "-C", repository, "archive", commit, "python"],
            capture_output=True,
            check=False,
        )
        if archive.returncode == 0:
            root.mkdir(parents=True)
            subprocess.run(["tar", "-x", "-C", root], input=archive.stdout, check=True)
            return
    pytest.skip(f"no repository in PKGTOOLS_SGLANG_GIT holds {commit}")
