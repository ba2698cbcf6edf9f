"""Capture beside decode with CUDA graphs, and under retraction and aborts."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from gpu_capture import LLAMA_LAYERS, judge, layers_of, llama_model, read
from gpu_server import GpuServer, Setup, serve

from serving.entries import ask, is_answered_as_stored
from serving.llama import LAYERS
from serving.models import hugging_face
from serving.server import greedy

if TYPE_CHECKING:
    from pathlib import Path

    from serving.mooncake import Reader

_REQUESTS: Final = 48


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
