"""What capture costs: requests a second with it on, off, and without the patches.

    PYTHONPATH=tests python benchmarks/capture.py [--target v0.5.23] [--seconds 10]

A tiny Llama on the CPU, so the numbers compare, and say nothing about a GPU. The servers
take turns in one run. With capture on, it also shows when each batch was copied and
written and when the next prefill ran: a transfer that overlaps the next prefill ends after
that has begun.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from e2e.models import write_llama
from e2e.mooncake import Master, Reader
from e2e.server import LLAMA_ARGUMENTS, LLAMA_CAPTURE, Server, greedy
from e2e.trees import Trees

_PROMPT: Final = [3 + i % 250 for i in range(256)]
_CLIENTS: Final = 8


def main() -> None:
    """Compare, in a folder that goes again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="v0.5.23")
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        _compare(Path(name), options.target, options.seconds)


def _compare(folder: Path, target: str, seconds: float) -> None:
    trees = Trees(folder / "trees")
    model = write_llama(folder / "llama")
    with Master(folder) as master:
        environment = {
            **master.environment(512 << 20),
            "SGLANG_SPEC_CAPTURE_LOG": "1",
        }
        servers = {
            "unpatched": Server(
                trees.pristine(target), model, folder / "unpatched", LLAMA_ARGUMENTS
            ),
            "off": Server(trees.patched(target), model, folder / "off", LLAMA_ARGUMENTS),
            "on": Server(trees.patched(target), model, folder / "on", LLAMA_CAPTURE, environment),
        }
        try:
            rates: dict[str, list[float]] = {
                "unpatched": [],
                "off": [],
                "on, nothing captured": [],
                "on, all captured": [],
            }
            reader = Reader(master)
            for _ in range(3):
                for what, measured in rates.items():
                    server = servers[what.partition(",")[0]]
                    measured.append(_rate(server, seconds, capture="all" in what))
                    reader.store.remove_all(True)
            print(f"{target}: requests a second, median of 3, {_CLIENTS} clients, 256 tokens each")
            for what, measured in rates.items():
                share = statistics.median(measured) / statistics.median(rates["unpatched"])
                print(f"  {what:22} {statistics.median(measured):7.1f}  {share:6.1%}")
            _timeline(servers["on"].process.log())
        finally:
            for server in servers.values():
                server.close()


def _rate(server: Server, seconds: float, *, capture: bool) -> float:
    """Return the requests that were answered in a second."""
    end = time.monotonic() + seconds
    numbers = iter(range(10**9))
    lock = threading.Lock()
    store = f"{time.time_ns()}"

    def client(_: int) -> int:
        count = 0
        while time.monotonic() < end:
            with lock:
                number = next(numbers)
            body: dict[str, Any] = {
                # No prompt is like another from the start: nothing comes from the cache.
                "input_ids": [3 + number % 250, 3 + number // 250, *_PROMPT],
                "sampling_params": greedy(),
            }
            if capture:
                body["spec_capture"] = {
                    "store_id": store,
                    "sample_id": str(number),
                    "gen": 0,
                    "features": {"aux": "hidden", "last_hidden": "last"},
                }
            result = server.generate(**body)["meta_info"].get("spec_capture")
            assert (result is not None) == capture, result
            assert result is None or "error" not in result, result
            count += 1
        return count

    with ThreadPoolExecutor(_CLIENTS) as pool:
        return sum(pool.map(client, range(_CLIENTS))) / seconds


def _timeline(log: str) -> None:
    """Show, for some batches: prefilled, copied, written; and the overlap of all."""
    jobs = [
        [float(at) for at in match.split()]
        for match in re.findall(r"spec capture job: ([\d. ]+)", log)
    ]
    jobs = sorted(job for job in jobs if len(job) == 4)
    overlaps = [late[0] < early[3] for early, late in pairwise(jobs)]
    print(
        f"{len(jobs)} batches captured; during {statistics.mean(overlaps):.0%} of the transfers "
        "the next prefill had been run"
    )
    print("  milliseconds: prefill ran, copied, transfer began, in the store")
    middle = len(jobs) // 2
    for job in jobs[middle : middle + 6]:
        print("  " + "".join(f"{(at - jobs[middle][0]) * 1e3:10.2f}" for at in job))


if __name__ == "__main__":
    main()
