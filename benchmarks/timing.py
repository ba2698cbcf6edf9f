"""Timing two ways to do one thing, in turn, so that the machine's moods cancel out."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pkgtools.catalog import Series

PKGTOOLS: Final = [sys.executable, "-m", "pkgtools"]


def print_header() -> None:
    """Print the columns of `print_row`."""
    print(f"{'work':42} {'pkgtools':>9} {'instead':>9} {'ratio':>7}")


def print_row(work: str, ours: Callable[[], None], instead: Callable[[], None], runs: int) -> None:
    """Run both sides in turn, after one run of each that is not counted, and print medians."""
    pairs = [(seconds(ours), seconds(instead)) for _ in range(runs + 1)][1:]
    mine, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    print(f"{work:42} {mine:8.2f}s {theirs:8.2f}s {ratio:7.3f}")


def seconds(work: Callable[[], None]) -> float:
    """Return how long `work` takes, in seconds of wall time."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def patch_files(series: Series, folder: Path) -> list[Path]:
    """Write a series as patch files, for git and patch(1), and return them in order."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{n:04}.patch" for n, _ in enumerate(series.patches, 1)]
    for path, patch in zip(paths, series.patches, strict=True):
        path.write_bytes(patch.data)
    return paths


def run(
    command: Sequence[str], cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> None:
    """Run a command whose output does not matter.

    Args:
        command: the program and its arguments.
        cwd: where.
        env: set on top of this process's environment.

    """
    everything = {**os.environ, **(env or {})}
    everything.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program has its bytecode
    done = subprocess.run(command, cwd=cwd, env=everything, check=False, capture_output=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr.decode(errors='replace')}")
