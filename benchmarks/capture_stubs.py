"""The capture module of a series, among stand-ins for SGLang's scheduler, a model, and Mooncake.

Needs torch, numpy and the standard library. What the patches add is loaded as it is;
`load` can change a line of it, for a mutant.
"""

# Where torch is not installed its classes have no types.
# mypy: disallow-subclassing-any=False

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "checks"))

from guards import kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

HIDDEN: Final = 7168
LAYER_IDS: Final = [7, 23, 51, 67, 83]
LAYERS: Final = 84
"""Kimi K3's hidden size, the layers that are captured, and a depth that has them all."""
CUDA: Final[Any] = torch.cuda
"""Untyped, as its events and streams are."""
_ADDED: Final = "python/sglang/srt/spec_capture/"


class LogitsProcessor(torch.nn.Module):
    """Where the capture's hook is: takes the last hidden state, gives the next token."""

    def forward(
        self,
        input_ids: object,
        hidden_states: torch.Tensor,
        lm_head: object,
        logits_metadata: object,
        aux_hidden_states: object = None,
    ) -> torch.Tensor:
        """Return the token of the last row; the captured layers must be hidden from it."""
        del input_ids, lm_head, logits_metadata
        assert aux_hidden_states is None
        return hidden_states[-1:].argmax(-1)


class Abort:
    """Stands in for SGLang's `AbortReq` and `FINISH_ABORT`."""


def added_files(series: Path) -> dict[str, str]:
    """Return the text of each file that a series adds, by its path."""
    return {
        path.relative_to(series / name).as_posix(): path.read_text()
        for name in (series / "series").read_text().split()
        if name.endswith("/")
        for path in (series / name).rglob("*.py")
    }


def load(series: Path, *changes: tuple[str, str]) -> ModuleType:
    """Return the series' `spec_capture.capture` as a module of its own.

    Args:
        series: the folder of the patches.
        changes: text that is once in one of its files, and what takes its place.

    """
    srt = "sglang.srt"
    kernels.stub(f"{srt}.layers.logits_processor", LogitsProcessor=LogitsProcessor)
    kernels.stub(f"{srt}.managers.io_struct", AbortReq=Abort)
    kernels.stub(f"{srt}.managers.schedule_batch", FINISH_ABORT=Abort)
    parallel = SimpleNamespace(attn_tp_rank=0, attn_tp_size=1, attn_dp_size=1)
    kernels.stub(f"{srt}.runtime_context", get_parallel=lambda: parallel)
    kernels.stub(f"{srt}.utils", get_bool_env_var=lambda _: False)
    files = added_files(series)
    for old, new in changes:
        (path,) = (path for path, text in files.items() if text.count(old) == 1)
        files[path] = files[path].replace(old, new)
    os.environ.setdefault("MOONCAKE_MASTER_SERVER_ADDR", "stub:1")
    names = "memory sink request __init__ job copier writer methods capture"
    for name in names.split():
        full = f"{srt}.spec_capture" + ("" if name == "__init__" else f".{name}")
        kernels.stub(full)
        exec(compile(files[f"{_ADDED}{name}.py"], f"{name}.py", "exec"), vars(sys.modules[full]))  # noqa: S102
    return sys.modules[f"{srt}.spec_capture.capture"]


class Store:
    """Mooncake's calls, as far as the sink makes them; it looks at the bytes that it gets."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.tokens: dict[str, bytes] = {}
        self.expected: dict[str, tuple[list[torch.Tensor], Any]] = {}
        """What an object has to be: tensors side by side, and the event of when they are."""
        self.compared = 0
        self.wrong: list[str] = []
        self.bytes_a_second = float("inf")
        self.open = threading.Event()
        """Cleared, it keeps whoever writes."""
        self.open.set()
        self.regions: dict[int, int] = {}
        self.most_memory = 0
        self._stream = CUDA.Stream()

    def register_buffer(self, pointer: int, size: int) -> int:
        """Note memory that objects will come from."""
        self.regions[pointer] = size
        self.most_memory = max(self.most_memory, sum(self.regions.values()))
        return 0

    def unregister_buffer(self, pointer: int) -> int:
        """Forget it."""
        return 0 if self.regions.pop(pointer, None) is not None else -1

    def batch_is_exist(self, keys: list[str]) -> list[int]:
        """Say which keys are there."""
        return [int(key in self.keys) for key in keys]

    def batch_remove(self, keys: list[str], _: bool) -> list[int]:
        """Take keys out."""
        self.keys.difference_update(keys)
        return [0] * len(keys)

    def get_batch(self, keys: list[str]) -> list[bytes]:
        """Return the tokens of markers."""
        return [self.tokens[key] for key in keys]

    def batch_put_from(
        self, keys: list[str], pointers: list[int], sizes: list[int], _: object
    ) -> list[int]:
        """Compare the objects when the write begins and, as a slow transfer would, at its end."""
        objects = list(zip(keys, pointers, sizes, strict=True))
        markers = [each for each in objects if each[0].endswith("/.attempt")]
        self.tokens |= {key: ctypes.string_at(at, size) for key, at, size in markers}
        early = [key for key, at, size in objects if not self._right(key, at, size)]
        self.open.wait()
        time.sleep(sum(sizes) / self.bytes_a_second)
        late = [key for key, at, size in objects if not self._right(key, at, size)]
        self.wrong += sorted({*early, *late})
        self.compared += sum(key in self.expected for key in keys)
        self.keys.update(keys)
        return [0] * len(keys)

    def _right(self, key: str, pointer: int, size: int) -> bool:
        if key not in self.expected:
            return True
        whole = (ctypes.c_uint8 * size).from_address(pointer)
        tensors, computed = self.expected[key]
        with CUDA.stream(self._stream):
            got = torch.frombuffer(whole, dtype=torch.uint8).cuda()
            self._stream.wait_event(computed)
            wanted = torch.cat(tensors, dim=-1).view(torch.uint8).flatten()
            return bool(torch.equal(got, wanted))


class Model(torch.nn.Module):
    """A matrix product, a sum and a norm a layer, in bfloat16; captures as a K3 does."""

    def __init__(self, layers: int = LAYERS) -> None:
        super().__init__()
        weight = torch.randn(HIDDEN, HIDDEN, device="cuda") / HIDDEN**0.5
        self.weight = weight.bfloat16()
        self.layers = layers
        self.captured: list[int] = []
        self.processor = LogitsProcessor()
        self.ready: Any = None
        self.observe: Callable[[list[torch.Tensor], Any], None] | None = None
        """Is given copies of the features, made in the forward pass itself, and `ready`."""

    def set_dspark_layers_to_capture(self, layer_ids: list[int]) -> None:
        """Keep these layers."""
        self.captured = [i * self.layers // LAYERS for i in layer_ids]

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Run the layers and the logits processor; `ready` marks the time between them."""
        aux = []
        for layer in range(self.layers):
            mixed = hidden + hidden @ self.weight
            if layer in self.captured:
                aux.append(mixed)
            hidden = torch.nn.functional.rms_norm(mixed, (HIDDEN,))
        copies = [t.clone() for t in (*aux, hidden)] if self.observe is not None else []
        self.ready = CUDA.Event(enable_timing=True)
        self.ready.record()
        if self.observe is not None:
            self.observe(copies, self.ready)
        token: torch.Tensor = self.processor(None, hidden, None, None, aux or None)
        return token


class Request:
    """As much of SGLang's `Req` as the capture reads."""

    def __init__(self, name: str, tokens: int) -> None:
        self.rid = name
        self.origin_input_ids = range(tokens)
        self.extra_key: str | None = None
        self.to_finish = None
        self.finished_reason: object = None
        self.return_logprob = False

    def finished(self) -> bool:
        """Whether it has a reason to end."""
        return self.finished_reason is not None


@dataclass
class Prefill:
    """Marks of one prefill on the device's clock, and its job in the capture."""

    start: Any
    ready: Any
    """The features are computed."""
    end: Any
    readback: Any
    """The next tokens are on the host."""
    begin_s: float
    job: Any = None

    def compute_ms(self) -> float:
        """Return how long the forward pass took on the device."""
        return float(self.start.elapsed_time(self.end))

    def copy_ms(self) -> float:
        """Return how long the features took to the host, from when they were computed."""
        return float(self.ready.elapsed_time(self.job.copied))


class Server:
    """A scheduler that does with the capture what the patched one does, on one GPU."""

    def __init__(self, module: ModuleType, model: Model, *, enabled: bool = True) -> None:
        self.model = model
        self.store = Store()
        self.forward_stream = CUDA.Stream()
        self.copy_stream = CUDA.Stream()
        # SGLang's events carry no time; these do.
        timed = SimpleNamespace(**{k: v for k, v in vars(torch.cuda).items() if k[0] != "_"})
        timed.Event = lambda: CUDA.Event(enable_timing=True)
        self.device_module = timed
        self.device = "cuda"
        self.server_args = SimpleNamespace(
            enable_spec_capture=enabled,
            spec_capture_method="dspark",
            spec_capture_aux_layer_ids=LAYER_IDS,
        )
        self.model_config = SimpleNamespace(
            num_hidden_layers=LAYERS,
            hidden_size=HIDDEN,
            context_len=66_048,
            dtype=torch.bfloat16,
        )
        self.max_prefill_tokens = 16_384
        self.max_total_num_tokens = 66_048
        self.tp_worker = SimpleNamespace(model_runner=SimpleNamespace(model=model))
        self.output_streamer = SimpleNamespace(stream_output=self._answer)
        self.results: list[dict[str, Any]] = []
        self._request = sys.modules["sglang.srt.spec_capture.request"]
        real = sys.modules["sglang.srt.spec_capture.sink"].MooncakeSink
        module.MooncakeSink = lambda config: real(config, lambda _: (self.store, None))  # type: ignore[attr-defined]
        self.capture = module.SpecCapture.create(self)
        self._count = 0

    def maybe_send_health_check_signal(self) -> None:
        """Say that the scheduler lives."""

    def request(self, tokens: int, *features: str) -> Request:
        """Return a new request that captures the features, if there are any."""
        self._count += 1
        request = Request(str(self._count), tokens)
        if features:
            names = {feature: feature for feature in features}
            wire = {"store_id": "s", "sample_id": request.rid, "gen": 0, "replace": False}
            self.capture.attach(request, {**wire, "features": names, "passthrough": []})
        return request

    def wait(self, request: Request, seconds: float = 60) -> None:
        """Run the scheduler's rounds until the request may go into a batch."""
        end = time.monotonic() + seconds
        self.capture.poll([])
        while self.capture.must_wait(request):
            assert time.monotonic() < end
            time.sleep(1e-4)
            self.capture.poll([])

    def prefill(self, hidden: torch.Tensor, *requests: Request) -> Prefill:
        """Run one batch, whose rows `hidden` holds, and read its tokens back."""
        lengths = [len(request.origin_input_ids) for request in requests]
        batch = SimpleNamespace(
            forward_mode=SimpleNamespace(is_extend=lambda: True),
            reqs=requests,
            extend_lens=lengths,
            prefix_lens=[0] * len(lengths),
        )
        before = time.perf_counter()
        if self.capture is not None:
            self.capture.begin(batch)
        start, end, readback = (CUDA.Event(enable_timing=True) for _ in range(3))
        begin_s = time.perf_counter() - before
        with CUDA.stream(self.forward_stream):
            start.record()
            token = self.model(hidden[: sum(lengths)])
            end.record()
        done = Prefill(start, self.model.ready, end, readback, begin_s)
        if any("spec_capture" in vars(request) for request in requests):
            done.job = self.capture._outstanding[-1]  # noqa: SLF001
        self.read_back(token, done.readback)
        for request in requests:
            request.finished_reason = "length"
            self._request.holds_back(request)
        return done

    def read_back(self, token: torch.Tensor, event: Any) -> None:
        """Bring tokens to the host, where SGLang's scheduler does: on its copy stream."""
        self.copy_stream.wait_stream(self.forward_stream)
        with CUDA.stream(self.copy_stream):
            host = torch.empty_like(token, device="cpu", pin_memory=True)
            host.copy_(token, non_blocking=True)
            token.record_stream(self.copy_stream)
            event.record()

    def drain(self, seconds: float = 120) -> None:
        """Run the scheduler's rounds until every response is out."""
        end = time.monotonic() + seconds
        while self.capture.busy():
            assert time.monotonic() < end
            self.capture.poll([])
            time.sleep(1e-4)

    def _answer(self, requests: Sequence[Any], _: bool) -> None:
        for request in requests:
            assert not self._request.holds_back(request)
            self.results.append(request.spec_capture.result)


def objects(
    requests: Sequence[Any], features: list[torch.Tensor]
) -> Iterator[tuple[str, list[torch.Tensor]]]:
    """Give the key of each object that a batch has to store, and what is side by side in it."""
    end = 0
    for request in requests:
        start, end = end, end + len(request.origin_input_ids)
        rows = [tensor[start:end] for tensor in features]
        state = vars(request).get("spec_capture")
        for feature in state.wire["features"] if state is not None else ():
            yield f"s/{request.rid}/g0/{feature}", rows[:-1] if feature == "aux" else rows[-1:]
