"""SIGKILL to the server in the middle of a capture: what the store has then, and what comes after.

The memory of the store is another process's, so that it outlives the server.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest
import requests

from serving.entries import ask, captured, is_answered_as_stored, keys
from serving.models import hugging_face
from serving.mooncake import Lender, Master, Reader
from serving.server import LLAMA_CAPTURE, Server, greedy

if TYPE_CHECKING:
    from pathlib import Path

    from .trees import Trees

pytestmark = pytest.mark.server

_PROMPT = [5, 17, 200, 31, 8, 99, 64, 3, 250]


def test_whole_or_overwritten_by_a_new_attempt(trees: Trees, llama: Path, tmp_path: Path) -> None:
    pytest.importorskip("mooncake.store", exc_type=ImportError)
    master = Master(tmp_path, "--put_start_discard_timeout_sec=4")
    with master, Lender(master, tmp_path) as lender:

        def serve(name: str) -> Server:
            return Server(
                trees.patched("v0.5.23"),
                llama,
                tmp_path / name,
                LLAMA_CAPTURE,
                master.environment(0),
            )

        whole, *cut = entries = [ask("whole"), ask("cut"), ask("cut too")]
        reader = Reader(master)
        killed = serve("killed")
        try:
            first = killed.generate(input_ids=[1, 2], sampling_params=greedy(), spec_capture=whole)
            is_answered_as_stored(captured(first), reader, whole)
            # It is read behind the answer, and the store must not stand still meanwhile.
            marker = keys(whole)[0].replace("/hidden", "/.attempt")
            killed.process.wait_until(lambda: reader.exists(marker) == [False], 30)
            lender.pause()
            with ThreadPoolExecutor(1) as pool:
                unanswered = pool.submit(
                    killed.generate,
                    input_ids=[_PROMPT, _PROMPT],
                    sampling_params=greedy(),
                    spec_capture=cut,
                )
                begun = [key for entry in cut for key in keys(entry)]
                killed.process.wait_until(lambda: reader.is_unfinished(*begun), 30)
                killed.close()
                with pytest.raises(requests.ConnectionError):
                    unanswered.result(10)
        finally:
            killed.close()
        lender.resume()
        assert reader.exists(*keys(whole)) == [True, True]
        assert reader.exists(*begun) == [False] * 4

        restarted = serve("restarted")
        try:
            replies = restarted.generate(
                input_ids=[_PROMPT] * 3,
                sampling_params=greedy(),
                spec_capture=[{**entry, "replace": True} for entry in entries],
            )
        finally:
            restarted.close()
        states, _ = hugging_face(llama, _PROMPT)
        for entry, reply in zip(entries, replies, strict=True):
            assert "error" not in captured(reply)
            last = reader.read(keys(entry)[1], **captured(reply)["features"]["last"])
            np.testing.assert_allclose(last[0], states[-1], rtol=0, atol=1e-5)
        reader.close()
