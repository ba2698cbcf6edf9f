"""Spec capture and the guards in real SGLang servers on real GPUs.

Needs torch, an H200 or a GPU with as much memory, 64 GiB of host memory, and an environment
that runs the SGLang of the trees: 0.5.17 and kimi-k3-ee560a2, each patched with `pkgtools apply`::

    python3 benchmarks/server_gpu.py --release TREE --k3 TREE [--pristine FOLDER] [--tp N]
                                     [--path FOLDER ...] [--json FILE] [CASE ...]

TREE holds the package `sglang`. `--pristine` has upstream's own copies of the two files that the
guards change, below the same paths as in the K3 tree: the script then also serves K3 without the
guards and expects wrong values. `--path` goes in front of the servers' module path. Each case
prints a line of JSON as it ends, so that a run that is cut short keeps what it has.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import gpu_capture
import gpu_load
import gpu_long
from gpu_server import Setup

if TYPE_CHECKING:
    from collections.abc import Callable

CASES: Final[dict[str, Callable[[Setup], Any]]] = {
    "llama": gpu_capture.llama,
    "k3-dense": gpu_capture.k3_dense,
    "k3-experts": gpu_capture.k3_experts,
    "graphs": gpu_load.graphs,
    "load": gpu_load.load,
    "waiting": gpu_load.waiting,
    "timeline": gpu_long.timeline,
    "guards": gpu_long.guards,
}


def main() -> None:
    """Run the cases, print a line for each, and write the JSON that was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--release", type=Path, required=True, metavar="TREE")
    parser.add_argument("--k3", type=Path, required=True, metavar="TREE")
    parser.add_argument("--pristine", type=Path, metavar="FOLDER")
    parser.add_argument("--path", type=Path, action="append", default=[], metavar="FOLDER")
    parser.add_argument("--tp", type=int, default=1, metavar="N", help="tensor-parallel ranks")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results here")
    parser.add_argument("case", nargs="*", choices=[[], *CASES], metavar="CASE")
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as name:
        for case in options.case or CASES:
            setup = Setup(
                options.release.resolve(),
                options.k3.resolve(),
                options.pristine,
                tuple(path.resolve() for path in options.path),
                options.tp,
                Path(name) / case,
            )
            found[case] = _run(CASES[case], setup)
            sys.stdout.write(json.dumps({case: found[case]}) + "\n")
            sys.stdout.flush()
            if options.json is not None:
                options.json.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(any("failed" in result for result in found.values()))


def _run(case: Callable[[Setup], Any], setup: Setup) -> dict[str, Any]:
    start = time.monotonic()
    setup.folder.mkdir()
    try:
        result = dict(case(setup))
    except Exception as error:  # noqa: BLE001 - the other cases still run
        traceback.print_exc()
        result = {"failed": f"{type(error).__name__}: {error}"[-3000:]}
    return {**result, "tp": setup.tp, "seconds": round(time.monotonic() - start, 1)}


if __name__ == "__main__":
    main()
