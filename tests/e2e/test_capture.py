"""The capture module on the CPU, among stand-ins for SGLang's scheduler, a model and a store."""

from __future__ import annotations

import ctypes
import importlib
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest

torch: Any = pytest.importorskip("torch", exc_type=ImportError)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.torch

_ROOT: Final = Path(__file__).parents[2]
_SERIES: Final = _ROOT / "patches" / "sglang" / "v0.5.23"
_WIDTH: Final = 8
_SCALE: Final = 4.0


@pytest.fixture
def stubs(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(_ROOT / "benchmarks")
    return importlib.import_module("capture_stubs")


@pytest.fixture
def module(stubs: Any) -> Iterator[Any]:
    """Load the capture module; SGLang's names are others' again afterwards."""
    before = {name: found for name, found in sys.modules.items() if name.startswith("sglang")}
    yield stubs.load(_SERIES)
    for name in [name for name in sys.modules if name.startswith("sglang")]:
        del sys.modules[name]
    sys.modules.update(before)


class _Muped(torch.nn.Module):  # type: ignore[misc]
    """As Inkling: the language model's state is divided for the LM head that follows."""

    def __init__(self, processor: Any, multiplier: float | None) -> None:
        super().__init__()
        text = SimpleNamespace(logits_mup_width_multiplier=multiplier)
        self.config = SimpleNamespace(text_config=text)
        self.llm = torch.nn.Identity()
        self.processor = processor
        self.multiplier = multiplier

    def set_dspark_layers_to_capture(self, layer_ids: list[int]) -> None:
        self.layer_ids = layer_ids

    def forward(self, hidden: Any) -> Any:
        last = self.llm(hidden)
        if self.multiplier:
            last = last / self.multiplier
        return self.processor(None, last, None, None, [hidden + 1])


class _Store:
    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def register_buffer(self, _pointer: int, _size: int) -> int:
        return 0

    def batch_is_exist(self, keys: list[str]) -> list[int]:
        return [int(key in self.objects) for key in keys]

    def batch_remove(self, keys: list[str], _force: bool) -> list[int]:
        return [0 if self.objects.pop(key, None) else -704 for key in keys]

    def batch_put_from(
        self, keys: list[str], pointers: list[int], sizes: list[int], _keep: object
    ) -> list[int]:
        for key, pointer, size in zip(keys, pointers, sizes, strict=True):
            self.objects[key] = bytes((ctypes.c_char * size).from_address(pointer))
        return [0] * len(keys)


@pytest.mark.parametrize("multiplier", [_SCALE, None])
def test_the_last_state_is_stored_as_it_was_before_it_was_scaled_for_the_head(
    module: Any, stubs: Any, multiplier: float | None
) -> None:
    model, store = _Muped(stubs.LogitsProcessor(), multiplier), _Store()
    capture = module.SpecCapture.create(_scheduler(module, model, store))
    request = stubs.Request("r", 3)
    wire = {"store_id": "s", "sample_id": "r", "gen": 0, "replace": False, "passthrough": []}
    capture.attach(request, {**wire, "features": {"aux": "aux", "last_hidden": "last"}})
    _begin(capture, request)
    hidden = torch.arange(3.0 * _WIDTH).reshape(3, _WIDTH)
    seen: list[Any] = []
    model.processor.register_forward_pre_hook(lambda _, args: seen.append(args[1]))
    model(hidden)
    _finish(capture)
    assert request.spec_capture.result["features"]["last"]["shape"] == [1, 3, _WIDTH]
    assert torch.equal(_stored(store, "last"), hidden)
    assert torch.equal(_stored(store, "aux"), hidden + 1)
    # The head itself gets what it got without capture.
    assert torch.equal(seen[0], hidden / (multiplier or 1))


@pytest.mark.parametrize("is_taken", [True, False])
def test_a_taken_key_is_refused_before_its_prefill_is_captured(
    module: Any, stubs: Any, is_taken: bool
) -> None:
    model, store = _Muped(stubs.LogitsProcessor(), None), _Store()
    if is_taken:
        store.objects["s/r/g0/last"] = b"another run's"
    capture = module.SpecCapture.create(_scheduler(module, model, store))
    request = stubs.Request("r", 3)
    wire = {"store_id": "s", "sample_id": "r", "gen": 0, "replace": False, "passthrough": []}
    capture.attach(request, {**wire, "features": {"aux": "aux", "last_hidden": "last"}})
    _begin(capture, request)
    refused = request.spec_capture.result
    assert (refused is not None) == is_taken
    if is_taken:
        assert "replace is not set" in refused["error"]
        model(torch.zeros(3, _WIDTH))
        _finish(capture)
        assert store.objects == {"s/r/g0/last": b"another run's"}


def test_ranks_agree_on_when_a_waiting_request_may_run_and_seldom_speak(
    module: Any, stubs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 0 alone knows that a batch is done; all hear of it in the same round, a later one."""
    monkeypatch.setenv("SGLANG_SPEC_CAPTURE_MAX_INFLIGHT", "1")
    parallel = sys.modules["sglang.srt.runtime_context"].get_parallel()
    parallel.attn_tp_size = 2
    told: list[Any] = []
    heard: list[Any] = []
    waits: list[int] = []
    number = 0

    def broadcast(news: Any, src: int, group: str, *, async_op: bool) -> Any:
        assert (src, async_op) == (0, True)
        if group == "rank 0":
            told.append(news.clone())
        begun, index = number, len(heard)
        heard.extend([] if group == "rank 0" else [news])

        def wait() -> None:
            waits.append(number - begun)
            if group != "rank 0":
                news.copy_(told[index])

        return SimpleNamespace(wait=wait)

    monkeypatch.setattr(torch.distributed, "broadcast", broadcast)
    store, ranks = _Store(), []
    for rank in range(2):
        parallel.attn_tp_rank = rank
        scheduler = _scheduler(module, _Muped(stubs.LogitsProcessor(), None), store)
        scheduler.attn_tp_group = SimpleNamespace(ranks=[0, 1])
        scheduler.attn_tp_cpu_group = f"rank {rank}"
        ranks.append((module.SpecCapture.create(scheduler), stubs.Request("next", 3)))
    wire = {"store_id": "s", "gen": 0, "replace": False, "passthrough": []}
    for capture, request in ranks:
        first = stubs.Request("first", 3)
        for each in (first, request):
            capture.attach(each, {**wire, "sample_id": each.rid, "features": {"aux": "aux"}})
        _begin(capture, first)
    decisions = []
    for number in range(40):
        if number == 20:  # its features reach the store
            ranks[0][0]._scheduler.tp_worker.model_runner.model(torch.zeros(3, _WIDTH))
            while not ranks[0][0]._writer.done:
                time.sleep(0.001)
        for capture, _ in ranks:
            capture.poll([])
        decisions.append([capture.must_wait(request) for capture, request in ranks])
    assert all(a == b for a, b in decisions)
    assert all(a for a, _ in decisions[:20])
    assert not any(a for a, _ in decisions[28:])
    # Once in four rounds, none once all is done, and nobody waits in the round in which it begins.
    assert len(told) == len(heard) <= 28 / 4
    assert min(waits) > 0


def _begin(capture: Any, request: Any) -> None:
    """Begin a prefill of three tokens."""
    forward_mode = SimpleNamespace(is_extend=lambda: True)
    capture.begin(
        SimpleNamespace(forward_mode=forward_mode, reqs=[request], extend_lens=[3], prefix_lens=[0])
    )


def _finish(capture: Any) -> None:
    deadline = time.monotonic() + 10
    while capture.busy() and time.monotonic() < deadline:
        capture.poll([])
        time.sleep(0.001)


def _stored(store: _Store, name: str) -> Any:
    raw = bytearray(store.objects[f"s/r/g0/{name}"])
    return torch.frombuffer(raw, dtype=torch.float32).reshape(3, _WIDTH)


def _scheduler(module: Any, model: Any, store: _Store) -> Any:
    sink = sys.modules["sglang.srt.spec_capture.sink"].MooncakeSink
    module.MooncakeSink = lambda config: sink(config, lambda _: (store, None))
    return SimpleNamespace(
        device="cpu",
        server_args=SimpleNamespace(
            enable_spec_capture=True,
            spec_capture_method="dspark",
            spec_capture_aux_layer_ids=[0],
        ),
        model_config=SimpleNamespace(
            num_hidden_layers=2, hidden_size=_WIDTH, context_len=64, dtype=torch.float32
        ),
        max_prefill_tokens=64,
        max_total_num_tokens=64,
        tp_worker=SimpleNamespace(model_runner=SimpleNamespace(model=model)),
        output_streamer=SimpleNamespace(stream_output=lambda *_: None),
        maybe_send_health_check_signal=lambda: None,
    )
