"""Spec capture on a GPU: the bytes, what it costs the prefill, and what memory it takes.

Needs torch, numpy, a CUDA GPU with 40 GiB or more, and 64 GiB of host memory::

    python3 benchmarks/capture_gpu.py [--series patches/sglang/v0.5.23] [--json FILE]

The five files that a series adds run as they are. SGLang's scheduler, a model and Mooncake
are stand-ins (`capture_stubs.py`): one matrix product, sum and norm a layer in bfloat16 at
Kimi K3's hidden size, five layers captured and the last hidden state, one GPU.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from capture_report import failures, report
from capture_stubs import CUDA, HIDDEN, Model, Prefill, Server, load, objects

if TYPE_CHECKING:
    from collections.abc import Callable

SERIES: Final = Path(__file__).resolve().parent.parent / "patches" / "sglang" / "v0.5.23"
TOKENS: Final = (4096, 16_384, 65_536)
BOTH: Final = ("aux", "last_hidden")
TOKEN_BYTES: Final = 6 * HIDDEN * 2
"""Bytes of a token's features: five layers and the last hidden state."""
REGISTER: Final = "pinned_use_cuda_host_register:True,pinned_num_register_threads:8"
"""PyTorch's other way to make pinned memory."""
MUTANTS: Final = {
    "copies do not wait for the forward pass": (
        "self._streams[0].wait_event(computed)",
        "pass",
    ),
    "sources are let go at once": (
        "job.copied = self._copy_aside(copies, job.computed)",
        "job.copied = self._copy_aside(copies, job.computed); job.sources = []",
    ),
    "the writer does not wait for the copies": ("job.copied.synchronize()", "pass"),
    "one piece of host memory for all batches": (
        "job.slab = self._pool.take(job.size)",
        "job.slab = self._pool.take(job.size); self._pool.give_back(job.slab)",
    ),
}


def draw(tokens: int) -> torch.Tensor:
    """Return the hidden states of as many tokens before the first layer."""
    return torch.randn(tokens, HIDDEN, device="cuda", dtype=torch.bfloat16)


def reuse(stream: Any, lengths: list[int]) -> None:
    """Write over memory that a forward pass has let go, at once and on its stream."""
    with CUDA.stream(stream):
        shape = (sum(lengths), HIDDEN)
        options: Any = {"dtype": torch.bfloat16, "device": "cuda"}
        _ = [torch.full(shape, float("nan"), **options) for _ in range(6)]


def check_bytes(series: Path, batches: list[list[int]], *changes: tuple[str, str]) -> Any:
    """Compare what the store is given with copies that the forward passes made."""
    model = Model(24)
    server = Server(load(series, *changes), model)
    store = server.store
    store.bytes_a_second = 2e9
    hidden = draw(max(map(sum, batches)))

    def observe(requests: list[Any], copies: list[torch.Tensor], ready: Any) -> None:
        store.expected.update({k: (t, ready) for k, t in objects(requests, copies)})

    most = 0
    for number, lengths in enumerate(batches):
        # The second of three is an ordinary request; the others take turns in what they want.
        wanted = [BOTH, (), ("aux",), ("last_hidden",)]
        requests = [
            server.request(n, *wanted[(i + 2 * (number % 2)) % 4 if len(lengths) > 1 else 0])
            for i, n in enumerate(lengths)
        ]
        for request in requests:
            server.wait(request)
        model.observe = lambda copies, ready, r=requests: observe(r, copies, ready)
        server.prefill(hidden, *requests)
        reuse(server.forward_stream, lengths)
        most = max(most, len(server.capture._outstanding))  # noqa: SLF001
    server.drain()
    store.expected.clear()
    server.capture._slabs.clear()  # noqa: SLF001 - what follows can have its memory
    assert all("error" not in result for result in server.results), server.results
    return {"objects": store.compared, "wrong": len(set(store.wrong)), "in_flight": most}


def bytes_and_mutants(series: Path) -> dict[str, Any]:
    """Check the module, then that each mutant of it is seen."""
    batches = [[4096, 1111, 2985, 3], [8192], [1, 5000, 77, 900]] * 3
    found = {"small": check_bytes(series, batches), "64K": check_bytes(series, [[65_536]] * 3)}
    found["mutants"] = {
        name: check_bytes(series, batches, change) for name, change in MUTANTS.items()
    }
    return found


def plain_copy(source: torch.Tensor, target: torch.Tensor, stream: Any) -> tuple[Any, Any]:
    """Copy to pinned memory in one piece; return the events around it."""
    events = CUDA.Event(enable_timing=True), CUDA.Event(enable_timing=True)
    with CUDA.stream(stream):
        events[0].record()
        target.copy_(source, non_blocking=True)
        events[1].record()
    return events


def overlap(server: Server, tokens: int, rounds: int) -> dict[str, Any]:
    """Time prefills with and without a transfer in flight, and transfers with and without one."""
    hidden = draw(tokens)
    source = torch.empty(tokens * TOKEN_BYTES, dtype=torch.uint8, device="cuda")
    target = torch.empty(tokens * TOKEN_BYTES, dtype=torch.uint8, pin_memory=True)
    stream = CUDA.Stream()
    times: dict[str, list[float]] = defaultdict(list)

    def run(*features: str) -> Prefill:
        return server.prefill(hidden, server.request(tokens, *features))

    def settle() -> None:
        CUDA.synchronize()
        server.drain()

    first = run(*BOTH)
    settle()
    for _ in range(rounds):
        run()
        alone = run()
        settle()
        busy = run(*BOTH)
        during = run()
        settle()
        idle = run(*BOTH)
        settle()
        run()
        stream.wait_stream(server.forward_stream)
        plain = plain_copy(source, target, stream)
        beneath = run()
        settle()
        alone_copy = plain_copy(source, target, stream)
        settle()
        times["alone"].append(alone.compute_ms())
        times["during"].append(during.compute_ms())
        times["beneath"].append(beneath.compute_ms())
        times["busy"].append(busy.copy_ms())
        times["idle"].append(idle.copy_ms())
        times["plain_busy"].append(plain[0].elapsed_time(plain[1]))
        times["plain_idle"].append(alone_copy[0].elapsed_time(alone_copy[1]))
        times["hook"].append((busy.job.times[2] - busy.job.times[1]) * 1e3)
        times["begin"].append(busy.begin_s * 1e3)
    first_ms = (first.job.times[2] - first.job.times[1]) * 1e3
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {"tokens": tokens, "bytes": tokens * TOKEN_BYTES, "first_hook": first_ms, **medians}


def readback(server: Server, tokens: int, *features: str) -> dict[str, Any]:
    """Time how long next tokens take to the host: of a prefill, and of decode steps behind it."""
    hidden = draw(tokens)
    prefill = server.prefill(hidden, server.request(tokens, *features))
    steps: list[float] = []
    small = draw(16)
    prefill.readback.synchronize()
    while len(steps) < 50:
        step = server.prefill(small, server.request(16))
        step.readback.synchronize()
        steps.append(step.end.elapsed_time(step.readback))
    CUDA.synchronize()
    server.drain()
    return {
        "prefill_ms": prefill.end.elapsed_time(prefill.readback),
        "step_median_ms": statistics.median(steps),
        "step_most_ms": max(steps),
    }


def timeline(server: Server, tokens: int, count: int = 4) -> list[dict[str, float]]:
    """Run captured prefills one after the other; return when each thing was, in ms."""
    hidden = draw(tokens)
    server.store.bytes_a_second = 10e9
    CUDA.synchronize()
    zero = CUDA.Event(enable_timing=True)
    zero.record()
    zero.synchronize()
    origin = time.monotonic()
    done = []
    for _ in range(count):
        request = server.request(tokens, *BOTH)
        server.wait(request)
        done.append(server.prefill(hidden, request))
    server.drain()
    server.store.bytes_a_second = float("inf")
    return [
        {
            "start": zero.elapsed_time(p.start),
            "computed": zero.elapsed_time(p.ready),
            "copied": zero.elapsed_time(p.job.copied),
            "stored": (p.job.times[-1] - origin) * 1e3,
        }
        for p in done
    ]


def kernels_of(run: Callable[[], object]) -> list[str]:
    """Return the kernels, copies and fills that a run has on the device, in order."""
    run()
    CUDA.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run()
        CUDA.synchronize()
    events: list[Any] = [e for e in profile.events() if e.device_type.name == "CUDA"]
    return [e.name for e in sorted(events, key=lambda e: e.time_range.start)]


def off(series: Path) -> dict[str, Any]:
    """Hold a server without capture against a model that no capture has seen."""
    threads = threading.active_count()
    bare, model, other = Model(24), Model(24), Model(24)
    module = load(series)
    hidden = draw(512)
    disabled = Server(module, model, enabled=False)
    found = {
        "capture": disabled.capture,
        "hooks": len(model.processor._forward_pre_hooks),  # noqa: SLF001
        "layers": len(model.captured),
        "threads": threading.active_count() - threads,
    }
    enabled = Server(module, other)

    def captured() -> None:
        enabled.prefill(hidden, enabled.request(512, *BOTH))
        enabled.drain()

    kernels = {
        "never seen": kernels_of(lambda: bare(hidden)),
        "off": kernels_of(lambda: model(hidden)),
        "on, not captured": kernels_of(lambda: other(hidden)),
        "on, captured": kernels_of(captured),
    }
    found["kernels"] = {name: len(names) for name, names in kernels.items()}
    found["same"] = {name: names == kernels["never seen"] for name, names in kernels.items()}
    return found


def pressure(series: Path, tokens: int) -> dict[str, Any]:
    """Fill what may be in flight while the store takes nothing."""
    server = Server(load(series), Model())
    hidden = draw(tokens)
    server.prefill(hidden, server.request(tokens))
    CUDA.synchronize()
    baseline = CUDA.memory_allocated()
    CUDA.reset_peak_memory_stats()
    server.prefill(hidden, server.request(tokens))
    CUDA.synchronize()
    plain_peak = CUDA.max_memory_allocated()
    server.store.open.clear()
    CUDA.reset_peak_memory_stats()
    admitted = 0
    held: list[float] = []
    for _ in range(4):
        request = server.request(tokens, *BOTH)
        if server.capture.must_wait(request):
            continue
        server.prefill(hidden, request)
        admitted += 1
        held.append(server.capture._outstanding[-1].slab.size)  # noqa: SLF001
    CUDA.synchronize()
    peak = CUDA.max_memory_allocated()
    time.sleep(0.2)
    server.capture.poll([])  # as the scheduler does in each round
    kept = CUDA.memory_allocated()
    waited = server.request(tokens, *BOTH)
    refused = all(server.capture.must_wait(waited) for _ in range(100))
    server.store.open.set()
    server.wait(waited)
    server.prefill(hidden, waited)
    server.drain()
    CUDA.synchronize()
    server.capture._slabs.clear()  # noqa: SLF001
    return {
        "batch_bytes": tokens * TOKEN_BYTES,
        "offered": 4,
        "admitted": admitted,
        "then_refused": refused,
        "slabs_bytes": sum(held),
        "registered_bytes": server.store.most_memory,
        "device_extra_peak": peak - plain_peak,
        "device_kept_stalled": kept - baseline,
        "device_kept_end": CUDA.memory_allocated() - baseline,
        "answered": len(server.results),
    }


def pinned_s(allocator: str) -> float:
    """Return how long 8 GiB of pinned memory take, in a process with this allocator setting."""
    code = (
        "import time, torch; torch.empty(1, pin_memory=True); at = time.perf_counter(); "
        "torch.empty(1 << 33, dtype=torch.uint8, pin_memory=True); print(time.perf_counter() - at)"
    )
    environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": allocator}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def measure(series: Path) -> dict[str, Any]:
    """Do it all."""
    found: dict[str, Any] = {
        "versions": {
            "date": dt.datetime.now(dt.UTC).date().isoformat(),
            "GPU": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "CUDA": str(torch.version.cuda),
            "series": series.name,
        }
    }
    found["off"] = off(series)
    found["bytes"] = bytes_and_mutants(series)
    CUDA.empty_cache()
    found["pinned_s"] = {setting: pinned_s(setting) for setting in ("", REGISTER)}
    found["pressure"] = pressure(series, 16_384)
    server = Server(load(series), Model())
    found["overlap"] = [overlap(server, tokens, 7 if tokens < 65_536 else 3) for tokens in TOKENS]
    found["readback"] = {
        "not captured": readback(server, TOKENS[-1]),
        "captured": readback(server, TOKENS[-1], *BOTH),
    }
    found["timeline"] = timeline(server, TOKENS[-1])
    return found


def main() -> None:
    """Measure, print, and write the JSON that was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--series", type=Path, default=SERIES, metavar="FOLDER")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers here")
    options = parser.parse_args()
    found = measure(options.series)
    report(found)
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(bool(failures(found)))


if __name__ == "__main__":
    main()
