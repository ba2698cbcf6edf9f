"""A Llama through a patched server: against Hugging Face, and all that can go wrong."""

from __future__ import annotations

import base64
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import numpy as np
import pytest

from serving.entries import ask, captured, is_answered_as_stored, keys
from serving.llama import PROMPT, check_values, holds_hugging_faces
from serving.models import LLAMA, hugging_face
from serving.server import LLAMA_CAPTURE, Server, greedy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from serving.mooncake import Master, Reader

    from .trees import Trees

pytestmark = pytest.mark.server

# Each method on two targets: their hooks differ, what follows is the same code.
_METHODS: Final = {
    "v0.5.14": "dflash",
    "v0.5.17": "eagle3",
    "v0.5.23": "dflash",
    "kimi-k3-ee560a2": "eagle3",
}


@pytest.fixture(scope="module", params=_METHODS)
def server(
    request: pytest.FixtureRequest,
    trees: Trees,
    llama: Path,
    master: Master,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Server]:
    """Serve one target after the other: each stays up for all tests of its own."""
    running = Server(
        trees.patched(request.param),
        llama,
        tmp_path_factory.mktemp("llama-server"),
        (
            *LLAMA_CAPTURE,
            f"--spec-capture-method={_METHODS[request.param]}",
            "--enable-return-hidden-states",
        ),
        master.environment(),
    )
    yield running
    running.close()


def test_the_values_are_hugging_faces(server: Server, reader: Reader, llama: Path) -> None:
    check_values(server, reader, llama)


def test_hidden_states_may_be_in_the_response_as_well(
    server: Server, reader: Reader, llama: Path
) -> None:
    """Those of the last layer, as without capture: not the captured layers beside them."""
    entry = ask()
    replies = server.generate(
        input_ids=[PROMPT, PROMPT],
        sampling_params=greedy(3),
        return_hidden_states=True,
        spec_capture=[entry, None],
    )
    for reply in replies:
        prefill, *decoded = reply["meta_info"]["hidden_states"]
        states, _ = hugging_face(llama, [*PROMPT, *reply["output_ids"][:-1]])
        rows = np.array([*prefill, *decoded])
        np.testing.assert_allclose(rows, states[-1][-len(rows) :], rtol=0, atol=1e-5)
        assert len(decoded) == 2
    assert len(replies[0]["meta_info"]["hidden_states"][0]) == len(PROMPT)
    states, _ = hugging_face(llama, PROMPT)
    holds_hugging_faces(reader, entry, captured(replies[0]), states)


def test_retracted_requests(server: Server, reader: Reader, llama: Path) -> None:
    """More than fits runs at once: some go back to the queue and are computed again."""
    random = np.random.default_rng(11)
    prompts = [random.integers(3, 250, 100).tolist() for _ in range(60)]
    entries = [ask(str(i)) if i % 2 else None for i in range(60)]
    # With ignore_eos the server would make room for all tokens beforehand.
    replies = server.generate(
        timeout=400,
        input_ids=prompts,
        sampling_params=greedy(100, ignore_eos=False),
        spec_capture=entries,
    )
    retracted = [reply["meta_info"]["num_retractions"] > 0 for reply in replies]
    assert any(retracted[::2])
    assert any(retracted[1::2])
    for prompt, entry, reply in zip(prompts, entries, replies, strict=True):
        tokens = reply["output_ids"]
        assert len(tokens) == 100 or tokens[-1] == LLAMA["eos_token_id"]
        states, logits = hugging_face(llama, [*prompt, *tokens])
        # Where two tokens are as likely as each other it may be either.
        before = logits[99:-1]
        assert (before.max(axis=1) - before[np.arange(len(tokens)), tokens]).max() < 1e-3
        if entry is None:
            assert "spec_capture" not in reply["meta_info"]
        else:
            prefill = [state[:100] for state in states]
            holds_hugging_faces(reader, entry, captured(reply), prefill)


@pytest.mark.parametrize("tokens", [0, 1, 2, 7])
def test_any_number_of_tokens_gets_an_answer(server: Server, reader: Reader, tokens: int) -> None:
    entry = ask()
    reply = server.generate(input_ids=PROMPT, sampling_params=greedy(tokens), spec_capture=entry)
    assert len(reply["output_ids"]) == tokens
    assert captured(reply)["features"]["last"]["shape"] == [1, len(PROMPT), 64]
    assert reader.exists(*keys(entry)) == [True, True]


def test_only_the_last_chunk_of_a_stream_has_the_result(server: Server, reader: Reader) -> None:
    entry = ask()
    chunks = list(server.stream(input_ids=PROMPT, sampling_params=greedy(4), spec_capture=entry))
    assert len(chunks) > 1
    assert ["spec_capture" in chunk["meta_info"] for chunk in chunks] == [False] * (
        len(chunks) - 1
    ) + [True]
    assert "spec_capture" not in chunks[-1]["meta_info"]["finish_reason"]
    assert reader.exists(*keys(entry)) == [True, True]


def test_a_cached_prefix_is_not_reused(server: Server, reader: Reader) -> None:
    prompt = list(range(100, 164))
    cached = server.generate(input_ids=[*prompt, 1, 2], sampling_params=greedy())
    again = server.generate(input_ids=[*prompt, 3], sampling_params=greedy())
    assert again["meta_info"]["cached_tokens"] > 0, "the server has no cache to reuse"
    entry = ask()
    reply = server.generate(input_ids=[*prompt, 4], sampling_params=greedy(), spec_capture=entry)
    assert captured(reply)["features"]["last"]["shape"] == [1, 65, 64]
    assert reply["meta_info"]["cached_tokens"] == 0
    assert len(cached["output_ids"]) == 1
    assert reader.exists(*keys(entry)) == [True, True]


def test_passthrough_is_stored_verbatim(server: Server, reader: Reader) -> None:
    raw = bytes(range(24))
    tensors: list[tuple[str, Any, list[int], str]] = [
        ("ids", [[1, -2, 2**53 + 1]], [1, 3], "int64"),
        ("mask", [True, False], [2], "bool"),
        ("flat", [0.5, -1, 3, 4], [2, 2], "float32"),
        ("half", [1.0, 1.0078125], [2], "bfloat16"),
        ("raw", base64.b64encode(raw).decode(), [2, 3], "int32"),
    ]
    passthrough = [
        {"name": name, "data": data, "shape": shape, "dtype": dtype}
        for name, data, shape, dtype in tensors
    ]
    entry = ask(features={}, passthrough=passthrough)
    reply = server.generate(input_ids=PROMPT, sampling_params=greedy(), spec_capture=entry)
    assert captured(reply)["features"] == {
        name: {"shape": shape, "dtype": dtype} for name, _, shape, dtype in tensors
    }
    for name, data, shape, dtype in tensors:
        stored = reader.read(f"{entry['store_id']}/s/g0/{name}", shape, dtype)
        if name == "raw":
            assert stored.tobytes() == raw
        else:
            np.testing.assert_array_equal(stored, np.asarray(data).reshape(shape))


_TENSOR: Final = {"name": "t", "data": [1, 2], "shape": [2], "dtype": "int64"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"features": {"logits": "x"}}, "unknown feature 'logits'"),
        ({"features": {"aux": "x", "last_hidden": "x"}}, "two tensors are called 'x'"),
        ({"passthrough": [{**_TENSOR, "shape": [3]}]}, r"shape \[2\], shape says \[3\]"),
        ({"passthrough": [{**_TENSOR, "shape": [0]}]}, "integers greater than 0"),
        ({"passthrough": [{**_TENSOR, "dtype": "int65"}]}, "unknown dtype 'int65'"),
        ({"passthrough": [{**_TENSOR, "dtype": "int8", "data": [1, 300]}]}, "does not fit"),
        ({"passthrough": [{**_TENSOR, "data": [1, 2.5]}]}, "fractions"),
        ({"passthrough": [{**_TENSOR, "data": [[1], [2, 3]]}]}, "not a tensor"),
        ({"passthrough": [{**_TENSOR, "data": "!"}]}, "not base64"),
        ({"passthrough": [{**_TENSOR, "data": "AAAA"}]}, "3 bytes"),
        ({"store_id": ""}, "store_id"),
        ({"gen": -1}, "gen"),
        ({"replace": "yes"}, "replace"),
        ({"passthrough": [{**_TENSOR, "name": ".attempt"}]}, "cannot be a name"),
    ],
)
def test_a_wrong_request_fails_alone(
    server: Server, reader: Reader, change: dict[str, Any], reason: str
) -> None:
    good, bad = ask("good"), ask("bad", **change)
    replies = server.generate(
        input_ids=[PROMPT, PROMPT, PROMPT],
        sampling_params=greedy(2),
        spec_capture=[bad, good, None],
    )
    result = captured(replies[0])
    assert set(result) == {"sample_id", "error"}
    assert result["sample_id"] == "bad"
    assert re.search(reason, result["error"]), result["error"]
    assert "error" not in captured(replies[1])
    assert "spec_capture" not in replies[2]["meta_info"]
    assert len({tuple(reply["output_ids"]) for reply in replies}) == 1
    assert reader.exists(*keys(good)) == [True, True]


def test_a_batch_takes_one_entry_for_each_prompt(server: Server) -> None:
    for entries in ([ask()], ask()):
        replies = server.generate(
            input_ids=[PROMPT, PROMPT], sampling_params=greedy(), spec_capture=entries
        )
        assert all("one for each prompt" in captured(reply)["error"] for reply in replies)
    twice = server.generate(input_ids=PROMPT, sampling_params=greedy(n=2), spec_capture=ask())
    assert ["n must be 1" in captured(reply)["error"] for reply in twice] == [True, True]


def test_a_taken_key_needs_replace(server: Server, reader: Reader) -> None:
    entry = ask()
    for prompt, more, wrong in (
        (PROMPT, {}, None),
        ([1, 2, 3], {}, "replace is not set"),
        ([1, 2, 3], {"replace": True}, None),
    ):
        result = captured(
            server.generate(
                input_ids=prompt, sampling_params=greedy(), spec_capture={**entry, **more}
            )
        )
        assert wrong is None or wrong in result["error"]
        assert ("error" in result) == (wrong is not None)
        # A reader's lease must not keep the old one.
        expected = [1, 3 if more else len(PROMPT), 64]
        reader.read(keys(entry)[1], expected, "float32")
    same = ask("same")
    results = [
        captured(reply)
        for reply in server.generate(
            input_ids=[PROMPT, PROMPT], sampling_params=greedy(), spec_capture=[same, same]
        )
    ]
    assert sum("error" in result for result in results) == 1
    assert reader.exists(*keys(same)) == [True, True]


def test_an_aborted_request_leaves_nothing(server: Server, reader: Reader) -> None:
    entry = ask("aborted")
    rid = uuid4().hex
    chunks: list[Any] = []
    for chunk in server.stream(
        rid=rid, input_ids=PROMPT, sampling_params=greedy(1500), spec_capture=entry
    ):
        if not chunks:
            server.abort(rid)
        chunks.append(chunk)
    last = chunks[-1]["meta_info"]
    assert last["finish_reason"]["type"] == "abort"
    is_answered_as_stored(last["spec_capture"], reader, entry)


def test_two_hundred_mixed_requests(server: Server, reader: Reader) -> None:
    random = np.random.default_rng(7)
    entries = [ask(str(i)) for i in range(200)]
    prompts = [random.integers(3, 250, random.integers(1, 60)).tolist() for _ in entries]
    tokens = [int(n) for n in random.integers(1, 9, 200)]

    def one(i: int) -> Any:
        body: dict[str, Any] = {"input_ids": prompts[i], "sampling_params": greedy(tokens[i])}
        kind = i % 5
        if kind in {0, 1, 2}:
            body["spec_capture"] = entries[i]
        if kind == 2:
            body["rid"] = uuid4().hex
            body["sampling_params"] = greedy(300)
            threading.Timer(0.02 * (i % 50), server.abort, [body["rid"]]).start()
        if kind in {1, 4}:
            return list(server.stream(timeout=400, **body))[-1]
        return server.generate(timeout=400, **body)

    with ThreadPoolExecutor(200) as pool:
        replies = list(pool.map(one, range(200)))
    for i, reply in enumerate(replies):
        meta = reply["meta_info"]
        result = meta.get("spec_capture")
        match i % 5:
            case 0 | 1:
                assert len(reply["output_ids"]) == tokens[i]
                assert result["sample_id"] == str(i)
                assert result["features"]["last"]["shape"] == [1, len(prompts[i]), 64]
            case 2:
                assert meta["finish_reason"]["type"] in {"abort", "length"}
            case _:
                assert len(reply["output_ids"]) == tokens[i]
                assert result is None
        is_answered_as_stored(result, reader, entries[i])
