"""Capture beside decode: with CUDA graphs, under retraction and aborts, behind a stuck store."""

from __future__ import annotations

import random
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from gpu_capture import LLAMA_LAYERS, judge, layers_of, llama_model, read
from gpu_server import GpuServer, Setup, serve

from serving.entries import ask, captured, is_answered_as_stored
from serving.llama import LAYERS
from serving.models import hugging_face
from serving.server import greedy

if TYPE_CHECKING:
    from pathlib import Path

    from serving.mooncake import Reader

_REQUESTS: Final = 48
_STEPS: Final = 1000


def graphs(setup: Setup) -> dict[str, Any]:
    """Decode 64 tokens of four requests with CUDA graphs, two of them captured.

    The tokens are those of the same batch without capture, and the captured prefills are
    Hugging Face's: a graph replays none of the capture.
    """
    model = llama_model(setup.folder / "model")
    prompts = [list(range(n, n + 40)) for n in (3, 50, 90, 130)]
    entries = [ask("0"), None, ask("2"), None]
    with serve(setup, setup.release, model, LLAMA_LAYERS) as (server, reader):
        plain = server.generate(input_ids=prompts, sampling_params=greedy(64))
        _flush(server)
        replies = server.generate(
            input_ids=prompts, sampling_params=greedy(64), spec_capture=entries
        )
        tokens = [[reply["output_ids"] for reply in batch] for batch in (plain, replies)]
        assert tokens[0] == tokens[1], tokens
        states = [
            _against_hugging_face(reader, model, prompt, entry, reply)
            for prompt, entry, reply in zip(prompts, entries, replies, strict=True)
            if entry is not None
        ]
        log = server.process.log()
    assert "cuda graph: True" in log, "no decode step replayed a CUDA graph"
    return {"worst": max(s["worst"] for s in states), "same_tokens": len(prompts)}


def _against_hugging_face(
    reader: Reader, model: Path, prompt: list[int], entry: dict[str, Any], reply: Any
) -> dict[str, float]:
    aux, last = read(reader, entry, reply)
    expected = hugging_face(model, prompt)[0]
    found = [*layers_of(aux, len(LAYERS)), last]
    return judge(found, [*(expected[layer + 1] for layer in LAYERS), expected[-1]])


def _flush(server: GpuServer) -> None:
    """Drop the prefix cache: a request that it answers has no whole prefill to capture."""
    import requests  # noqa: PLC0415

    requests.post(f"{server.url}/flush_cache", timeout=30).raise_for_status()


def load(setup: Setup) -> dict[str, Any]:
    """Send more requests than the cache holds, and abort a third of them.

    Every answer says what the store holds: the whole sample, or nothing of it.
    """
    model = llama_model(setup.folder / "model")
    arguments = [*LLAMA_LAYERS, "--max-total-tokens=1200", "--max-running-requests=16"]
    # The server reserves room for tokens to come by this share: at 0.1 it runs out and retracts.
    arguments += ["--schedule-conservativeness=0.1", "--disable-radix-cache"]
    with (
        serve(setup, setup.release, model, arguments) as (server, reader),
        ThreadPoolExecutor(_REQUESTS) as pool,
    ):
        entries = [ask(str(number)) for number in range(_REQUESTS)]
        jobs = [pool.submit(_request, server, n, entry) for n, entry in enumerate(entries)]
        for number in range(0, _REQUESTS, 3):
            time.sleep(0.05)
            server.abort(f"request-{number}")
        replies = [job.result() for job in jobs]
        results = [reply["meta_info"].get("spec_capture") for reply in replies]
        for entry, result in zip(entries, results, strict=True):
            is_answered_as_stored(result, reader, entry)
        assert server.is_healthy()
        retracted = sum(reply["meta_info"].get("num_retractions", 0) for reply in replies)
    whole = sum(result is not None and "error" not in result for result in results)
    assert retracted > 0, "the load made the server retract nothing"
    assert whole >= _REQUESTS // 2, results
    return {"requests": _REQUESTS, "captured": whole, "retractions": retracted}


def _request(server: GpuServer, number: int, entry: dict[str, Any]) -> Any:
    draw = random.Random(number)  # noqa: S311 - a seed, so that a run can be repeated
    return server.generate(
        timeout=120,
        rid=f"request-{number}",
        input_ids=[draw.randrange(3, 250) for _ in range(60)],
        # With ignore_eos the server would make room for all tokens beforehand.
        sampling_params=greedy(150, ignore_eos=False),
        spec_capture=entry,
    )


def waiting(setup: Setup) -> dict[str, Any]:
    """Time decode steps while a captured request waits for a place behind a stuck store.

    Meanwhile rank 0 tells the others how many batches are done. `added_us` is the median of
    what a step takes more than the one measured just before; at one rank nothing is told.
    """
    model = llama_model(setup.folder / "model")
    environment = {"SGLANG_SPEC_CAPTURE_MAX_INFLIGHT": "1"}
    with (
        serve(setup, setup.release, model, LLAMA_LAYERS, environment=environment) as (server, _),
        ThreadPoolExecutor(2) as pool,
    ):
        _steps(server)
        # Its host memory is registered, by the metadata server in the master's process.
        assert "error" not in (found := _captured_prefill(server)), found
        quiet, beside = [], []
        for _ in range(15):
            quiet.append(_steps(server))
            beside.append(_steps_beside_a_waiting_request(server, pool))
    return {
        "step_ms": statistics.median(quiet),
        "step_while_waiting_ms": statistics.median(beside),
        "added_us": 1e3 * statistics.median(b - q for q, b in zip(quiet, beside, strict=True)),
        "steps_ms": [quiet, beside],
    }


def _steps(server: GpuServer) -> float:
    """Return the milliseconds of a decode step: the mean of a stream's."""
    chunks = server.stream(input_ids=[5, 6, 7], sampling_params=greedy(_STEPS))
    next(chunks)
    start = time.perf_counter()
    for _ in chunks:
        pass
    return (time.perf_counter() - start) / (_STEPS - 1) * 1e3


def _steps_beside_a_waiting_request(server: GpuServer, pool: ThreadPoolExecutor) -> float:
    _flush(server)
    server.master.pause()
    try:
        # The first is on its way to the store, so the second waits in the queue.
        first = pool.submit(_captured_prefill, server)
        time.sleep(0.3)
        second = pool.submit(_captured_prefill, server)
        time.sleep(0.1)
        found = _steps(server)
        assert not second.done(), second.result()
    finally:
        server.master.resume()
    assert "error" not in first.result(), first.result()
    assert "error" not in second.result(), second.result()
    return found


def _captured_prefill(server: GpuServer) -> Any:
    reply = server.generate(
        timeout=120, input_ids=[*range(3, 40)], sampling_params=greedy(), spec_capture=ask()
    )
    return captured(reply)
