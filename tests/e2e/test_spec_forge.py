"""Requests as SpecForge's client makes them, to a server that is started as its launcher does.

The layers are given in another order than the model's. For DSpark's hook, which a Llama does not
have, its DFlash's is called.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import numpy as np
import pytest
import requests

from serving.entries import captured, keys
from serving.llama import PROMPT
from serving.models import LLAMA, hugging_face
from serving.server import LLAMA_ARGUMENTS, Server, greedy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from serving.mooncake import Master, Reader

    from .trees import Trees

pytestmark = pytest.mark.server

_GIVEN: Final = [4, 0, 2]
_LONG: Final = greedy(1500)


_SERVERS: Final = [
    ("v0.5.17", "dspark"),
    ("v0.5.20", "dflash"),
    ("v0.5.23", "eagle3"),
    ("kimi-k3-ee560a2", "dspark"),
]


@pytest.fixture(scope="module", params=_SERVERS, ids="-".join)
def server(
    request: pytest.FixtureRequest,
    trees: Trees,
    llama: Path,
    master: Master,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Server]:
    target, method = request.param
    running = Server(
        trees.patched(target),
        llama,
        tmp_path_factory.mktemp(target),
        (
            *LLAMA_ARGUMENTS,
            "--enable-spec-capture",
            f"--spec-capture-method={method}",
            "--spec-capture-aux-layer-ids",
            *map(str, _GIVEN),
        ),
        {
            **master.environment(),
            "SGLANG_SPEC_CAPTURE_MAX_PENDING_BATCHES": "1",
            "SGLANG_SPEC_CAPTURE_TIMING": "1",
        },
    )
    yield running
    running.close()


def _payload(prompt: list[int], store_id: str, name: str, **more: Any) -> dict[str, Any]:
    return {
        "store_id": store_id,
        "sample_id": f"run:{name}",
        "gen": 1,
        "replace": False,
        "features": {"aux": "hidden_states", "last_hidden": "target"},
        "passthrough": [
            {"name": name, "data": data, "shape": [1, len(prompt)], "dtype": "int64"}
            for name, data in (
                ("input_ids", prompt),
                ("loss_mask", [1] * len(prompt)),
                ("attention_mask", [1] * len(prompt)),
            )
        ],
        **more,
    }


def _batch(server: Server, prompts: list[list[int]], payloads: list[Any]) -> list[Any]:
    rows = server.generate(
        input_ids=prompts,
        extra_key=[uuid4().hex for _ in prompts],
        sampling_params={"temperature": 0.0, "max_new_tokens": 1},
        spec_capture=payloads,
    )
    return [captured(row) for row in rows]


def test_a_batch_of_its_client(server: Server, reader: Reader, llama: Path) -> None:
    prompts, store_id = [PROMPT, PROMPT[:4]], uuid4().hex
    payloads = [_payload(p, store_id, str(i)) for i, p in enumerate(prompts)]
    for replace in (False, True):
        sent = [{**payload, "replace": replace} for payload in payloads]
        for prompt, payload, result in zip(
            prompts, payloads, _batch(server, prompts, sent), strict=True
        ):
            assert (result["store_id"], result["sample_id"]) == (store_id, payload["sample_id"])
            assert (result["gen"], result["aux_layer_ids"]) == (1, _GIVEN)
            states, _ = hugging_face(llama, prompt)
            key = f"{store_id}/{payload['sample_id']}/g1"
            features = result["features"]
            aux = reader.read(f"{key}/hidden_states", **features["hidden_states"])
            # In the order of the model's layers, whatever the order of the argument.
            expected = np.concatenate([states[i + 1] for i in sorted(_GIVEN)], axis=-1)
            np.testing.assert_allclose(aux[0], expected, rtol=0, atol=1e-5)
            last = reader.read(f"{key}/target", **features["target"])
            np.testing.assert_allclose(last[0], states[-1], rtol=0, atol=1e-5)
            ids = reader.read(f"{key}/input_ids", **features["input_ids"])
            assert ids.tolist() == [prompt]
            assert features["loss_mask"] == {"shape": [1, len(prompt)], "dtype": "int64"}
    assert "spec capture job" in server.process.log()


def test_what_its_server_takes_as_well(server: Server, reader: Reader) -> None:
    """Numbers for ids, no gen, no dtype, fields that a later client has."""
    tensor = {"name": "mask", "data": [1, 1, 0], "shape": [1, 3]}
    run = uuid4().int >> 80
    entry = {"store_id": run, "sample_id": 7, "later": True, "passthrough": [tensor]}
    (result,) = _batch(server, [[1, 2, 3]], [entry])
    assert [result.get(name) for name in ("store_id", "sample_id", "gen")] == [str(run), "7", 1], (
        result
    )
    assert result["features"] == {"mask": {"shape": [1, 3], "dtype": "int64"}}
    assert reader.read(f"{run}/7/g1/mask", [1, 3], "int64").tolist() == [[1, 1, 0]]


def test_a_taken_key_is_refused(server: Server, reader: Reader) -> None:
    payload = _payload(PROMPT, uuid4().hex, "twice")
    (first,) = _batch(server, [PROMPT], [payload])
    assert "error" not in first
    (again,) = _batch(server, [PROMPT], [payload])
    assert "replace is not set" in again["error"]
    assert reader.exists(f"{payload['store_id']}/run:twice/g1/target") == [True]


@pytest.mark.parametrize("is_streaming", [False, True])
def test_a_client_that_goes_away_while_its_request_decodes(
    server: Server, reader: Reader, is_streaming: bool
) -> None:
    entry = {**_payload(PROMPT, uuid4().hex, "gone"), "gen": 0, "sample_id": "s"}
    entry["features"] = {"aux": "hidden", "last_hidden": "last"}
    body = {
        "input_ids": PROMPT,
        "sampling_params": _LONG,
        "spec_capture": entry,
        "stream": is_streaming,
    }
    with requests.Session() as session:
        try:
            response = session.post(
                f"{server.url}/generate", json=body, stream=is_streaming, timeout=(5, 1.5)
            )
            lines = response.iter_lines()
            next(lines)  # and no more: what nobody holds is closed
        except requests.Timeout:
            assert not is_streaming
        assert _wait(reader, entry, [True, True]), "it was stored while the client was there"
        if is_streaming:
            response.close()  # a session does not close what is being read
    # SGLang looks every four seconds whether the client of an answer that is not streamed
    # is still there.
    assert _wait(reader, entry, [False, False])


def _wait(reader: Reader, entry: dict[str, Any], expected: list[bool]) -> bool:
    deadline = time.monotonic() + 15
    while (found := reader.exists(*keys(entry)) == expected) is False:
        if time.monotonic() > deadline:
            return found
        time.sleep(0.1)
    return True


def test_its_launcher_finds_a_patched_server(trees: Trees) -> None:
    """It asks Python's import system for this module, and starts nothing without it."""
    tree = trees.patched("v0.5.23")
    assert (tree / "sglang" / "srt" / "spec_capture_sink.py").is_file()
    assert LLAMA["num_hidden_layers"] > max(_GIVEN)
