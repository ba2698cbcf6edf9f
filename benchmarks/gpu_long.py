"""65,536 tokens at Kimi K3's hidden size: what capture costs, and what the guards change."""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from gpu_capture import K3_ARGUMENTS, K3_HEADS, K3_ON_GPU, SMALL, layers_of, read
from gpu_server import FAST_COPIES, GIB, GpuServer, Setup, distance, serve

from serving import k3
from serving.entries import ask, captured, keys
from serving.models import LLAMA, write_k3
from serving.server import greedy

if TYPE_CHECKING:
    from collections.abc import Mapping

TOKENS: Final = 65_536
HIDDEN: Final = 7168
_LONG: Final = (
    "--context-length=66048",
    "--max-prefill-tokens=66048",
    "--max-total-tokens=140000",
    "--disable-radix-cache",
)
_LAYERS: Final = (1, 2, 3, 4, 5)
_LLAMA: Final[dict[str, Any]] = {
    **LLAMA,
    "hidden_size": HIDDEN,
    "intermediate_size": 1024,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 66_048,
    "torch_dtype": "bfloat16",
}
_BYTES: Final = (len(_LAYERS) + 1) * HIDDEN * TOKENS * 2


def timeline(setup: Setup) -> dict[str, Any]:
    """Time captured prompts one after the other, and what another request sees of them."""
    model = setup.folder / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(_LLAMA))
    arguments = ["--load-format=dummy", *_LONG, "--max-running-requests=4"]
    arguments += ["--spec-capture-aux-layer-ids", *map(str, _LAYERS)]
    environment = {
        **FAST_COPIES,
        "SGLANG_SPEC_CAPTURE_LOG": "1",
        "PKGTOOLS_E2E_CLOCK": str(setup.folder),
    }
    with serve(
        setup, setup.release, model, arguments, environment=environment, segment=12 * GIB
    ) as (server, reader):
        _prefill(server, 0, None)  # what the engine itself does once
        plain = [_prefill(server, n, None) for n in range(1, 4)]
        samples = []
        for number in range(4):
            entry = ask(str(number))
            samples.append(_prefill(server, 10 + number, entry))
            assert reader.store.batch_remove(keys(entry), True) == [0, 0]
        quiet = _gaps(server, None)
        entry = ask("gaps")
        busy = _gaps(server, entry)
        puts = _put_rates(server.process.log())
    later = statistics.median(samples[1:])
    return {
        "sample_bytes": _BYTES,
        "plain_s": statistics.median(plain),
        "first_s": samples[0],
        "later_s": later,
        "first_over_later": samples[0] / later,
        "into_the_store_gb_s": _BYTES / (later - statistics.median(plain)) / 1e9,
        "puts_gb_s": puts,
        "mooncake_alone_gb_s": _mooncake_alone(setup.folder, FAST_COPIES),
        "mooncake_alone_untuned_gb_s": _mooncake_alone(setup.folder, {}),
        "pauses_plain_ms": quiet,
        "pauses_captured_ms": busy,
        "longest_hooks_ms": _longest_hooks(setup.folder),
    }


def _prefill(server: GpuServer, seed: int, entry: dict[str, Any] | None) -> float:
    more = {} if entry is None else {"spec_capture": entry}
    tokens = _prompt(seed)
    start = time.perf_counter()
    reply = server.generate(timeout=300, input_ids=tokens, sampling_params=greedy(), **more)
    seconds = time.perf_counter() - start
    if entry is not None:
        assert "error" not in captured(reply), captured(reply)
    return seconds


def _prompt(seed: int) -> list[int]:
    draw = random.Random(seed)  # noqa: S311 - a seed, so that a run can be repeated
    return [draw.randrange(3, 250) for _ in range(TOKENS)]


def _gaps(server: GpuServer, entry: dict[str, Any] | None) -> list[float]:
    """Return the longest five pauses of a stream of tokens while a long prompt is prefilled.

    One of them is the prefill itself; what capture adds on the scheduler's thread is in the
    difference from those without it.
    """
    long = threading.Timer(1.0, _prefill, [server, 99, entry])
    long.start()
    parameters = greedy(3000)
    chunks = server.stream(timeout=300, input_ids=[5, 6, 7], sampling_params=parameters)
    times = [time.perf_counter() for _ in chunks]
    long.join()
    return [round(gap * 1e3, 1) for gap in sorted(np.diff(times), reverse=True)[:5]]


def _put_rates(log: str) -> list[float]:
    """Return how fast each captured batch was put, from the times that the server logs."""
    jobs = [line.partition("spec capture job: ")[2].split() for line in log.splitlines()]
    spans = [float(job[4]) - float(job[3]) for job in jobs if len(job) == 5]
    assert spans, "the server logged no times"
    return [round(_BYTES / span / 1e9, 2) for span in spans]


def _longest_hooks(folder: Path) -> dict[str, float]:
    """Return how long each hook of capture took at most on a scheduler's thread, in ms."""
    longest: dict[str, float] = {}
    for file in folder.glob("clock-*.json"):
        for hook, took in json.loads(file.read_text()).items():
            longest[hook] = max(round(took, 2), longest.get(hook, 0.0))
    assert "_before_logits" in longest, longest
    return longest


def _mooncake_alone(folder: Path, environment: Mapping[str, str]) -> dict[str, float]:
    """Return how fast Mooncake puts as many bytes into memory of its own process."""
    script = Path(__file__).with_name("gpu_store.py")
    alone = folder / f"alone-{len(environment)}"
    alone.mkdir()
    done = subprocess.run(
        [sys.executable, script, alone, str(_BYTES)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    rates: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return rates


_ROWS: Final = 128
"""The last tokens, which the spy writes down: all of them would be 30 GB."""


def guards(setup: Setup) -> dict[str, Any]:
    """Serve 65,536 tokens of a K3 of full width, with the guards and without, and compare values.

    A bank of seven rows a token passes 2**31 elements at token 42,800. A wrapped address can
    lie inside the allocator's pool, so that nothing crashes: values tell.
    """
    model = write_k3(
        setup.folder / "model",
        moe=False,
        text={
            **K3_ON_GPU,
            "hidden_size": HIDDEN,
            "num_hidden_layers": 8,
            "attn_res_block_size": 1,
            "max_position_embeddings": 66_048,
        },
        linear_attention={
            **K3_HEADS,
            "kda_layers": [1, 2, 3, 5, 7],
            "full_attn_layers": [4, 6, 8],
        },
    )
    found = {"with": _guarded(setup, setup.k3, model, "with")}
    if setup.pristine is not None:
        bare = setup.folder / "bare"
        shutil.copytree(setup.k3, bare)
        shutil.copytree(setup.pristine, bare, dirs_exist_ok=True)
        found["without"] = _guarded(setup, bare, model, "without")
        # Of values that are not numbers no comparison is true.
        assert found["without"] == "the server died" or not found["without"]["worst"] < 0.1, found
    assert found["with"]["worst"] < 2e-2, found
    return found


def _guarded(setup: Setup, tree: Path, model: Path, name: str) -> Any:
    spied = setup.folder / name
    spied.mkdir()
    environment = {
        **SMALL,
        "PKGTOOLS_E2E_SPY": str(spied),
        "PKGTOOLS_E2E_SPY_LAST": str(_ROWS),
    }
    layers = (1, 3, 5, 6)
    arguments = [*K3_ARGUMENTS, *_LONG, "--disable-cuda-graph", "--max-running-requests=1"]
    arguments += ["--spec-capture-method=dspark", "--max-mamba-cache-size=5"]
    arguments += ["--spec-capture-aux-layer-ids", *map(str, layers)]
    entry = ask(name)
    with serve(setup, tree, model, arguments, environment=environment, segment=12 * GIB) as (
        server,
        reader,
    ):
        try:
            reply = server.generate(
                timeout=300, input_ids=_prompt(7), sampling_params=greedy(), spec_capture=entry
            )
            aux, last = read(reader, entry, reply)
        except Exception:
            if name == "with" or server.is_healthy():
                raise
            return "the server died"
    expected, expected_last = k3.reference(spied, [_ROWS], layers)
    parts = [*layers_of(aux[-_ROWS:], len(layers)), last[-_ROWS:]]
    own = [
        distance(a, b)
        for a, b in zip(parts, [*layers_of(expected, len(layers)), expected_last], strict=True)
    ]
    return {"worst": max(own), "layers": own}
