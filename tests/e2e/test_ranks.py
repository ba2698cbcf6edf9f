"""Several ranks, as a deployment has: one of them writes and answers, all plan the same."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from serving.entries import ask, captured, is_answered_as_stored
from serving.k3 import check_capture
from serving.llama import check_values
from serving.mooncake import Master, Reader
from serving.server import LLAMA_CAPTURE, Server, greedy, ranks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .trees import Trees

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def own_master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Master]:
    """Run a store that a test may stop."""
    pytest.importorskip("mooncake.store", exc_type=ImportError)
    with Master(tmp_path_factory.mktemp("mooncake")) as running:
        yield running


@pytest.fixture(scope="module", params=["v0.5.14", "v0.5.23", "kimi-k3-ee560a2"])
def server(
    request: pytest.FixtureRequest,
    trees: Trees,
    llama: Path,
    own_master: Master,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Server]:
    """Serve with two ranks, and one batch in flight, so that they must agree all the time."""
    size, cores = ranks(2)
    running = Server(
        trees.patched(request.param),
        llama,
        tmp_path_factory.mktemp("ranks"),
        (*LLAMA_CAPTURE, size),
        {
            **own_master.environment(),
            **cores,
            "SGLANG_SPEC_CAPTURE_MAX_INFLIGHT": "1",
            "SGLANG_SPEC_CAPTURE_TIMEOUT": "6",
        },
    )
    yield running
    running.close()


@pytest.fixture
def own_reader(own_master: Master) -> Iterator[Reader]:
    client = Reader(own_master)
    yield client
    client.close()


def test_the_values_are_hugging_faces(server: Server, own_reader: Reader, llama: Path) -> None:
    check_values(server, own_reader, llama)


def test_more_than_may_be_in_flight(server: Server, own_reader: Reader) -> None:
    """Ranks that planned other batches than each other would hang, or answer nonsense."""
    random = np.random.default_rng(5)
    prompts = [random.integers(3, 250, random.integers(1, 60)).tolist() for _ in range(60)]
    entries = [ask(str(i)) if i % 3 else None for i in range(60)]

    def one(i: int) -> Any:
        body: dict[str, Any] = {"spec_capture": entries[i]} if entries[i] else {}
        return server.generate(input_ids=prompts[i], sampling_params=greedy(1 + i % 4), **body)

    with ThreadPoolExecutor(60) as pool:
        together = list(pool.map(one, range(60)))
    for entry, reply in zip(entries, together, strict=True):
        if entry is not None:
            assert "error" not in captured(reply)
            is_answered_as_stored(captured(reply), own_reader, entry)
    alone = server.generate(input_ids=prompts[7], sampling_params=greedy(4))
    assert alone["output_ids"] == together[7]["output_ids"]


def test_a_store_that_does_not_answer(server: Server, own_master: Master) -> None:
    """Every rank comes to know that it is stuck; what is not captured passes by."""
    first, *others = entries = [ask(str(i)) for i in range(4)]
    body: dict[str, Any] = {"input_ids": [9, 8, 7], "sampling_params": greedy(20)}
    own_master.pause()
    try:
        chunks = server.stream(spec_capture=first, **body)
        next(chunks)  # its prefill is over, so the others come behind it
        with ThreadPoolExecutor(3) as pool:
            waiting = [pool.submit(server.generate, spec_capture=e, **body) for e in others]
            plain = server.generate(**body)
            assert "spec_capture" not in plain["meta_info"]
            replies = [list(chunks)[-1], *(future.result(60) for future in waiting)]
    finally:
        own_master.resume()
    errors = [captured(reply)["error"] for reply in replies]
    assert errors[0] == "the store did not answer in 6 seconds"
    assert errors[1:] == ["the store does not answer an earlier batch"] * 3
    assert all(reply["output_ids"] == plain["output_ids"] for reply in replies)
    reader = Reader(own_master)  # one from before may have lost its connection, and be stuck
    for entry, reply in zip(entries, replies, strict=True):
        is_answered_as_stored(captured(reply), reader, entry)
    reader.close()


@pytest.mark.parametrize("target", ["v0.5.23", "kimi-k3-ee560a2"])
def test_a_dense_k3(
    target: str,
    trees: Trees,
    k3_dense: Path,
    own_master: Master,
    own_reader: Reader,
    tmp_path: Path,
) -> None:
    """Attention and MLP leave each rank a part of their sum; what is captured is of the whole."""
    check_capture(
        trees.patched(target), k3_dense, own_master, own_reader, tmp_path, target, tp_size=2
    )
