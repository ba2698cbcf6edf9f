"""How quick a patched wheel is beside unpacking, patching and packing it.

    python benchmarks/build.py

Needs the `wheel` package and patch(1). Prints medians and ratios.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from timing import PKGTOOLS, print_header, print_row, run, seconds

from pkgtools.catalog import Target, find_catalog, load_catalog
from pkgtools.report import Silent
from pkgtools.source.release import release_wheel


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", "--runs", default=5, type=int, help="of each side (default 5)")
    options = parser.parse_args()
    target = load_catalog(find_catalog(Path.cwd())).target("v0.5.17")
    wheel = release_wheel(target.upstream, "0.5.17", {}, Silent())
    print_header()
    with tempfile.TemporaryDirectory() as scratch:
        _wheel(target, wheel, Path(scratch), options.runs)


def _wheel(target: Target, wheel: Path, scratch: Path, runs: int) -> None:
    def ours() -> None:
        command = ["build", "wheel", "--target", target.name, "--wheel", str(wheel)]
        run([*PKGTOOLS, *command, "-o", str(scratch / "ours")])

    def instead() -> None:
        unpacked = scratch / "unpacked"
        run([sys.executable, "-m", "wheel", "unpack", "--dest", str(unpacked), str(wheel)])
        tree = next(unpacked.iterdir())
        for patch in target.series.patches:
            run(["patch", "-p2", "-i", str(target.directory / patch.name)], cwd=tree)
        run([sys.executable, "-m", "wheel", "pack", "--dest-dir", str(scratch), str(tree)])
        shutil.rmtree(unpacked)

    print_row(f"{target.name}, a patched wheel", ours, instead, runs, 1 / 15)
    copy = seconds(lambda: run(["cp", str(wheel), str(scratch / "copy")]))
    print(f"{'copying its bytes':42} {copy:8.2f}s")


if __name__ == "__main__":
    main()
