"""Run a user's check on a series, as ``git rebase --exec`` does: after each of its patches."""

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pkgtools.blob import Blob
from pkgtools.catalog import Target
from pkgtools.plan import plan_series
from pkgtools.source import Source
from pkgtools.source.listing import package_files
from pkgtools.util.files import inside, put_blob
from pkgtools.util.progress import Reporter

_LINES: Final = 20
"""How much of a failed check's output is kept: its end."""
_BYTES: Final = 64 * 1024


@dataclass(frozen=True)
class CheckRun:
    """One run of a check."""

    command: str
    patch: str
    """The last patch in the tree."""
    status: int
    """The exit status; negative: ended by that signal."""
    output: str
    """The last lines; empty if it passed."""


def run_check(target: Target, source: Source, command: str, reporter: Reporter) -> list[CheckRun]:
    """Run a shell command in a copy of the package, after each patch of a series.

    It runs in the folder to import the package from. ``PKGTOOLS_CATALOG`` is the catalog's
    folder, and ``PKGTOOLS_PATCH`` the patch.
    """
    runs = []
    with tempfile.TemporaryDirectory(prefix="pkgtools-exec-") as folder:
        root = Path(folder)
        for path in package_files(source, target.upstream):
            _put(root, path, source.read(path))
        patches = target.series.patches
        for number, patch in enumerate(patches, 1):
            # Each patch goes on the result of those before it: the plan starts from the source.
            for change in plan_series(patches[:number], source.read).changes:
                _put(root, change.path, change.after)
            with reporter.task(f"{command} after {patch.name}"):
                runs.append(_run(target, root / target.upstream.prefix, command, patch.name))
    return runs


def _put(root: Path, name: str, blob: Blob | None) -> None:
    path = inside(root, name)
    path.unlink(missing_ok=True)
    if blob is not None:
        put_blob(path, blob)


def _run(target: Target, folder: Path, command: str, patch: str) -> CheckRun:
    environment = {
        **os.environ,
        "PKGTOOLS_CATALOG": str(target.catalog_folder.resolve()),
        "PKGTOOLS_PATCH": patch,
        "PYTHONDONTWRITEBYTECODE": "1",  # a .pyc of one patch could hide the next
    }
    with tempfile.TemporaryFile() as printed:
        done = subprocess.run(  # noqa: S602 - the user's own command line
            command,
            shell=True,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            check=False,
        )
        size = printed.seek(0, os.SEEK_END)
        printed.seek(max(0, size - _BYTES))
        text = printed.read().decode(errors="replace")
    last = text.replace(str(folder), ".").splitlines()[-_LINES:] if done.returncode else []
    return CheckRun(command, patch, done.returncode, "\n".join(last))
