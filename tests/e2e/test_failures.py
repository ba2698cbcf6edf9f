"""What fails outside of a request: the store, the start; and capture that is off."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import pytest

from serving.entries import ask, captured, is_answered_as_stored, keys
from serving.mooncake import Master, Reader
from serving.process import NotReadyError
from serving.server import LLAMA_ARGUMENTS, LLAMA_CAPTURE, Server, greedy

if TYPE_CHECKING:
    from pathlib import Path

    import requests

    from .trees import Trees

pytestmark = pytest.mark.server

_PROMPT: Final = [5, 17, 200, 31, 8, 99, 64, 3, 250]


def test_a_store_that_fails_and_returns(trees: Trees, llama: Path, tmp_path: Path) -> None:
    """One target is enough: the code is the same in all, and so are its hooks."""
    pytest.importorskip("mooncake.store", exc_type=ImportError)
    with Master(tmp_path) as master:
        server = Server(
            trees.patched("v0.5.23"),
            llama,
            tmp_path,
            LLAMA_CAPTURE,
            {**master.environment(16 << 20), "SGLANG_SPEC_CAPTURE_TIMEOUT": "6"},
        )
        try:
            assert "error" not in _capture(server)
            _dies_under_captures(server, master)
            master.start()
            _is_written_to_again(server)
            _is_full(server, master)
            _is_stopped_and_goes_on(server, master)
        finally:
            server.close()


def _capture(server: Server) -> Any:
    return captured(
        server.generate(input_ids=_PROMPT, sampling_params=greedy(), spec_capture=ask())
    )


def _plain(server: Server) -> float:
    """Return the seconds that a request without capture takes."""
    start = time.monotonic()
    reply = server.generate(input_ids=_PROMPT, sampling_params=greedy(2))
    assert len(reply["output_ids"]) == 2
    return time.monotonic() - start


def _is_written_to_again(server: Server) -> None:
    """Wait until the server has lent its memory to a master that came back empty."""
    deadline = time.monotonic() + 40
    while "error" in (result := _capture(server)):
        assert time.monotonic() < deadline, result
        time.sleep(0.5)


def _dies_under_captures(server: Server, master: Master) -> None:
    """Every captured prompt is told so, each in its time; the others know nothing of it."""
    expected = server.generate(input_ids=_PROMPT, sampling_params=greedy(2))["output_ids"]
    killed: list[float] = []

    def client(_: int) -> list[tuple[float, float, list[Any]]]:
        rounds: list[tuple[float, float, list[Any]]] = []
        while not killed or rounds[-1][0] < killed[0]:  # up to one that begins after it
            start = time.monotonic()
            replies = server.generate(
                input_ids=[_PROMPT, _PROMPT, list(range(3, 253))],
                sampling_params=greedy(2),
                spec_capture=[ask(), None, ask()],
            )
            rounds.append((start, time.monotonic() - start, replies))
        return rounds

    with ThreadPoolExecutor(8) as pool:
        clients = [pool.submit(client, i) for i in range(8)]
        time.sleep(1)
        master.pause()  # from here on no capture ends
        time.sleep(1)
        master.kill()
        killed.append(time.monotonic())
        assert _plain(server) < 5
        assert server.is_healthy()
        rounds = [a_round for future in clients for a_round in future.result(60)]
    in_flight = 0
    for start, took, replies in rounds:
        assert took < 20
        assert replies[1]["output_ids"] == expected
        assert "spec_capture" not in replies[1]["meta_info"]
        for reply in (replies[0], replies[2]):
            assert len(reply["output_ids"]) == 2
            error = captured(reply).get("error")
            assert error is not None or start < killed[0]
            # Where the machine is quick, the store was full before.
            assert error is None or re.search("(did|does) not answer|has no room", error)
            in_flight += error is not None and start < killed[0]
    assert in_flight, "the master died between two captures"


def _is_full(server: Server, master: Master) -> None:
    """Wait for room while others pass, and be told so where none comes."""
    reader = Reader(master)
    reader.store.remove_all(True)

    def capture(entry: dict[str, Any]) -> Any:
        prompt = list(range(3, 253)) * 4
        reply = server.generate(input_ids=prompt, sampling_params=greedy(), spec_capture=entry)
        return captured(reply)

    stored: list[dict[str, Any]] = []
    while True:
        start, entry = time.monotonic(), ask(str(len(stored)))
        result = capture(entry)
        is_answered_as_stored(result, reader, entry)
        if "error" in result:
            break
        stored.append(entry)
    assert "no room" in result["error"]
    assert time.monotonic() - start > 4, "it waits for most of the timeout of six seconds"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(capture, entry)
        time.sleep(1)
        assert _plain(server) < 5
        assert not waiting.done()
        reader.store.batch_remove([key for each in stored[:2] for key in keys(each)], True)
        assert "error" not in waiting.result(10)
    is_answered_as_stored(waiting.result(), reader, entry)
    reader.store.remove_all(True)
    assert "error" not in _capture(server)
    reader.close()


def _is_stopped_and_goes_on(server: Server, master: Master) -> None:
    """Nothing answers, so others pass, also more than may be in flight.

    What waits is told so in the end, and what came too late is taken out again.
    """
    reader = Reader(master)
    master.pause()
    entries = [ask(str(i)) for i in range(6)]
    with ThreadPoolExecutor(6) as pool:
        waiting = [
            pool.submit(
                server.generate,
                input_ids=_PROMPT,
                sampling_params=greedy(2),
                spec_capture=entry,
                rid=entry["store_id"],
            )
            for entry in entries
        ]
        time.sleep(1)
        # One that holds its response back for the store is answered when it is aborted.
        server.abort(entries[0]["store_id"])
        assert "aborted" in captured(waiting[0].result(2))["error"]
        assert _plain(server) < 3
        assert server.is_healthy()
        results = [captured(future.result(60)) for future in waiting]
    assert all(re.search("(did|does) not answer", r["error"]) for r in results[1:])
    master.resume()
    _is_written_to_again(server)
    for entry, result in zip(entries, results, strict=True):
        is_answered_as_stored(result, reader, entry)
    reader.close()


def test_layers_that_the_model_does_not_have_are_refused_at_start(
    trees: Trees, llama: Path, tmp_path: Path
) -> None:
    with pytest.raises(NotReadyError, match="has the layers 0 to 5, not 9"):
        Server(trees.patched("v0.5.23"), llama, tmp_path, (*LLAMA_CAPTURE, "9")).close()


@pytest.mark.parametrize("target", ["v0.5.23", "kimi-k3-ee560a2"])
def test_off_is_as_unpatched(target: str, trees: Trees, llama: Path, tmp_path: Path) -> None:
    """Byte for byte, but for what differs between two runs of one server anyway."""
    bodies: list[dict[str, Any]] = [
        {"input_ids": _PROMPT, "sampling_params": greedy(5), "rid": "a"},
        {"input_ids": [_PROMPT, [1, 2]], "sampling_params": greedy(3), "rid": ["b", "c"]},
        {"input_ids": _PROMPT, "sampling_params": greedy(4), "rid": "d", "stream": True},
        {"input_ids": _PROMPT, "sampling_params": greedy(2), "rid": "e", "return_logprob": True},
        {"input_ids": _PROMPT, "sampling_params": greedy(2), "rid": "f", "spec_capture": ask()},
        {"input_ids": [], "sampling_params": greedy(2)},
        {"sampling_params": greedy(2)},
    ]
    answers = []
    for name, tree in (("pristine", trees.pristine(target)), ("patched", trees.patched(target))):
        server = Server(tree, llama, tmp_path / name, LLAMA_ARGUMENTS)
        try:
            answers.append([_without_times(server.raw(**body)) for body in bodies])
        finally:
            server.close()
    assert answers[0] == answers[1]


def _without_times(response: requests.Response) -> tuple[int, bytes]:
    body = re.sub(rb'"(e2e_latency|\w+_ts|\w+_time)":[-0-9.e]+', rb'"\1":0', response.content)
    *_, last, done = [b"", *body.strip().split(b"\n\n")]
    # How many tokens come at once depends on the machine; the last event has them all.
    return response.status_code, last + done if done == b"data: [DONE]" else body
