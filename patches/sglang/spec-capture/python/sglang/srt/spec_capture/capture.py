"""Capture in the scheduler: features out of a prefill, results into its responses.

One batch of a prefill makes one job: its features are copied to host memory on streams
of their own, one thread writes them with one batched put, and the scheduler's own loop
picks the result up and sends the responses that waited for it. Requests without capture
pass by all of this.

Every rank holds the same requests and must plan the same batches, so every rank counts
jobs; only attention-TP rank 0 copies, writes and answers. The number of jobs that it has
finished is the one thing that the others have to be told, and they are told only while a
captured request waits for a place.
"""

import itertools
import logging
import os
import queue
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

import torch
from sglang.srt.layers.logits_processor import LogitsProcessor
from sglang.srt.managers.io_struct import AbortReq
from sglang.srt.managers.schedule_batch import FINISH_ABORT
from sglang.srt.runtime_context import get_parallel
from sglang.srt.spec_capture.methods import resolve_layer_ids, set_layers_to_capture
from sglang.srt.spec_capture.request import AUX, LAST_HIDDEN
from sglang.srt.spec_capture.sink import MooncakeSink, Objects, StoreConfig
from sglang.srt.utils import broadcast_pyobj

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req, ScheduleBatch
    from sglang.srt.managers.scheduler import Scheduler

logger = logging.getLogger(__name__)

_ALIGNMENT = 256
_PIECE_BYTES = 16 << 20
_LOGITS_ARGS = (
    "input_ids",
    "hidden_states",
    "lm_head",
    "logits_metadata",
    "aux_hidden_states",
)


def _positive(name: str, default: int) -> int:
    text = os.environ.get(name) or str(default)
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{name} must be a whole number above 0, not {text!r}")
    return int(text)


class CaptureState:
    """One captured request, from its arrival until its response."""

    def __init__(self, capture: "SpecCapture", wire: dict[str, Any]) -> None:
        self.capture = capture
        self.wire = wire
        self.begun = False  # its prefill is being captured, or was
        self.cancelled = False  # nobody will read what is written for it
        self.stored: list[str] = []  # the keys that it has in the store
        self.features: dict[str, dict[str, Any]] = {}
        self.result: dict[str, Any] | None = None
        if "error" in wire:
            self.fail(wire["error"])

    def fail(self, error: str) -> None:
        """Make an error the result, and let go of what was to be written."""
        self.result = {"sample_id": self.wire.get("sample_id"), "error": error}
        self.wire = {"sample_id": self.wire.get("sample_id")}  # its bytes can go


class _Slab:
    """Host memory that a job's bytes lie in until they are in the store; used again."""

    def __init__(self, size: int, pinned: bool) -> None:
        self.memory = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)

    @property
    def size(self) -> int:
        return self.memory.numel()

    @property
    def pointer(self) -> int:
        return self.memory.data_ptr()


class _Job:
    def __init__(self, states: list[CaptureState], deadline: float) -> None:
        self.states = states
        self.deadline = deadline
        self.groups: list[Objects] = []
        self.slab: _Slab | None = None
        self.replaced_slab: _Slab | None = None
        self.copied: Any = None  # an event of the copy stream
        self.sources: Any = None  # keeps the device tensors until they are copied
        self.times: list[float] = []


class SpecCapture:
    """Capture on one rank of the scheduler."""

    @classmethod
    def create(cls, scheduler: "Scheduler") -> "SpecCapture | None":
        """Return the scheduler's capture, or None where it is not enabled."""
        return cls(scheduler) if scheduler.server_args.enable_spec_capture else None

    def __init__(self, scheduler: "Scheduler") -> None:
        args = scheduler.server_args
        model = scheduler.tp_worker.model_runner.model
        self.method = args.spec_capture_method
        self.layer_ids = resolve_layer_ids(
            self.method,
            args.spec_capture_aux_layer_ids,
            scheduler.model_config.num_hidden_layers,
        )
        self._scheduler = scheduler
        self._on_device = torch.device(scheduler.device).type != "cpu"
        self._max_inflight = _positive("SGLANG_SPEC_CAPTURE_MAX_INFLIGHT", 2)
        self._timeout = _positive("SGLANG_SPEC_CAPTURE_TIMEOUT", 600)
        self._begun_at = 0.0
        self._log_jobs = os.environ.get("SGLANG_SPEC_CAPTURE_LOG", "") == "1"
        self._writes = get_parallel().attn_tp_rank == 0
        self._copy_streams: list[Any] = []
        if self._on_device and self._writes:
            self._copy_streams = [scheduler.device_module.Stream() for _ in range(2)]

        # The same on every rank.
        self._tick = 0
        self._synced_tick = -1
        self._launched = 0
        self._settled = 0
        self._stuck = False
        self._arrivals = 0
        self._current: list[tuple[CaptureState, int, int]] | None = None

        # Rank 0's own.
        self._finished = 0
        self._outstanding: deque[_Job] = deque()
        self._held: dict[str, Req] = {}
        self._waiting = False
        self._slabs: list[_Slab] = []
        # Reentrant: a collected request can be cancelled in the middle of a locked part.
        self._lock = threading.RLock()
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._done: deque[_Job] = deque()

        if self._writes:
            self._sink = MooncakeSink(StoreConfig.from_env())
        set_layers_to_capture(model, self.method, self.layer_ids)
        processors = [m for m in model.modules() if isinstance(m, LogitsProcessor)]
        if not processors:
            raise ValueError(
                f"--enable-spec-capture: {type(model).__name__} has no logits processor"
            )
        for processor in processors:
            processor.register_forward_pre_hook(self._before_logits, with_kwargs=True)
        if self._writes:
            device = scheduler.device_module.current_device() if self._on_device else None
            threading.Thread(
                target=self._write_jobs,
                args=(device,),
                name="spec-capture",
                daemon=True,
            ).start()
        logger.info(
            "spec capture: %s, layers %s, at most %d batches in flight",
            self.method,
            self.layer_ids,
            self._max_inflight,
        )

    # The scheduler's hooks, in the order in which a request meets them.

    def attach(self, req: "Req", wire: dict[str, Any] | None) -> None:
        """Take note of a request that arrives."""
        if wire is None:
            return
        state = CaptureState(self, wire)
        req.spec_capture = state
        if state.result is None:
            # The whole sequence has to be computed: no other request's prefix fits.
            self._arrivals += 1
            req.extra_key = f"{req.extra_key or ''}/spec-capture-{self._arrivals}"
        # Whatever becomes of the request, what it wrote is not left behind unanswered.
        weakref.finalize(req, self._cancel, state).atexit = False

    def must_wait(self, req: "Req") -> bool:
        """Whether a waiting request has to stay in the queue, for others to pass it."""
        state = req.__dict__.get("spec_capture")
        if state is None or state.begun or "store_id" not in state.wire:
            return False
        if not self._stuck and self._launched - self._settled < self._max_inflight:
            return False
        if self._synced_tick != self._tick:
            self._synced_tick = self._tick
            self._sync()
        full = self._launched - self._settled >= self._max_inflight
        self._waiting = full and not self._stuck
        return self._waiting

    def begin(self, batch: "ScheduleBatch") -> None:
        """Take note of a batch that goes to the model."""
        self._settle_unseen()
        if not batch.forward_mode.is_extend():
            return
        rows: list[tuple[CaptureState, int, int]] = []
        end = 0
        for req, length, prefix in zip(
            batch.reqs, batch.extend_lens, batch.prefix_lens, strict=False
        ):
            start, end = end, end + length
            state = req.__dict__.get("spec_capture")
            if state is None or state.begun or "store_id" not in state.wire:
                continue
            if req.finished() or req.to_finish is not None:
                continue
            state.begun = True
            whole = len(req.origin_input_ids)
            if prefix or length != whole:
                state.fail(
                    f"the prefill was not whole: {prefix} of {whole} tokens came from "
                    f"a cache and {length} were computed"
                )
            elif self._stuck:
                state.fail("the store does not answer an earlier batch")
            else:
                rows.append((state, start, end))
        if rows:
            self._launched += 1
            self._current = rows
            self._begun_at = time.monotonic()

    def hold(self, req: "Req", state: CaptureState) -> bool:
        """Whether a finished request's response has to wait for the store."""
        if not self._writes:
            return False
        if state.result is None and isinstance(req.finished_reason, FINISH_ABORT):
            self._cancel(state)
            state.fail("the request was aborted")
        if state.result is None:
            self._settle_unseen()
        if state.result is None and not state.begun:
            state.fail("the request ended before its prefill")
        if state.result is None:
            self._held[req.rid] = req
            return True
        self._held.pop(req.rid, None)
        state.stored = []  # from here on it is the client's
        return False

    def poll(self, recv_reqs: list[Any]) -> None:
        """Once in each round of the scheduler's loop."""
        self._tick += 1
        if not self._writes:
            return
        for recv_req in recv_reqs or ():
            if isinstance(recv_req, AbortReq):
                self._abort_held(recv_req)
        while self._done:
            job = self._done.popleft()
            self._outstanding.remove(job)
            self._finished += 1
            if job.slab is not None:
                self._slabs.append(job.slab)
            if self._log_jobs:
                logger.info("spec capture job: %s", " ".join(map(str, job.times)))
        for job in self._outstanding:
            if job.copied is not None and job.copied.query():
                job.sources = None  # the writer may be long in coming to it
        now = time.monotonic()
        for job in self._outstanding:
            if now < job.deadline:
                break
            for state in job.states:
                if state.result is None:
                    self._cancel(state)
                    state.fail(f"the store did not answer in {self._timeout} seconds")
        ready = [r for r in self._held.values() if r.spec_capture.result is not None]
        if ready:
            self._scheduler.output_streamer.stream_output(
                ready, any(req.return_logprob for req in ready)
            )
        if self._waiting:
            # No batch may run meanwhile that would carry the sign of life.
            self._scheduler.maybe_send_health_check_signal()

    def busy(self) -> bool:
        """Whether the scheduler must not sleep."""
        return bool(self._outstanding or self._held)

    # What every rank knows.

    def _sync(self) -> None:
        stuck = bool(self._outstanding and time.monotonic() >= self._outstanding[0].deadline)
        news: list[Any] = [self._finished, stuck]
        s = self._scheduler
        if get_parallel().attn_tp_size > 1:
            group = s.attn_tp_group
            news = broadcast_pyobj(
                news if self._writes else [],
                group.rank,
                s.attn_tp_cpu_group,
                src=group.ranks[0],
            )
        self._settled, self._stuck = news

    def _settle_unseen(self) -> None:
        """Fail a batch that a graph replayed: it went by without its features."""
        rows, self._current = self._current, None
        if rows is None or not self._writes:
            return
        job = _Job([state for state, _, _ in rows], 0.0)
        for state in job.states:
            state.fail("the forward pass showed no features")
        self._outstanding.append(job)
        self._done.append(job)

    # In the forward pass.

    def _before_logits(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Take the features, and hide them: the rest goes on as without capture."""
        named = {**dict(zip(_LOGITS_ARGS, args, strict=False)), **kwargs}
        rows, self._current = self._current, None
        if rows is not None and self._writes:
            self._take(rows, named["hidden_states"], named.get("aux_hidden_states"))
        if "aux_hidden_states" in kwargs:
            kwargs = {**kwargs, "aux_hidden_states": None}
        at = _LOGITS_ARGS.index("aux_hidden_states")
        if len(args) > at:
            args = (*args[:at], None, *args[at + 1 :])
        return args, kwargs

    def _take(self, rows: list[tuple[CaptureState, int, int]], hidden: Any, aux: Any) -> None:
        job = _Job([s for s, _, _ in rows], time.monotonic() + self._timeout)
        job.times += (self._begun_at, time.monotonic())
        self._outstanding.append(job)
        try:
            aux = [aux] if isinstance(aux, torch.Tensor) else list(aux or ())
            self._copy(job, rows, hidden, aux)
        except Exception as e:
            logger.exception("spec capture: could not copy a batch's features")
            for state in job.states:
                state.fail(f"could not copy the features: {e}")
            self._done.append(job)
            return
        job.times.append(time.monotonic())
        self._queue.put(job)

    def _copy(
        self,
        job: _Job,
        rows: list[tuple[CaptureState, int, int]],
        hidden: torch.Tensor,
        aux: list[torch.Tensor],
    ) -> None:
        # First what goes where, then one piece of memory for it, then the copies.
        given = {AUX: aux, LAST_HIDDEN: [hidden]}
        size = 0
        parts: list[tuple[int, torch.Tensor]] = []
        layout: list[tuple[CaptureState, list[tuple[str, int, int]]]] = []
        for state, start, end in rows:
            wire, objects = state.wire, []
            wanted = [(name, given[key]) for key, name in wire["features"].items()]
            if AUX in wire["features"] and not self._complete(aux):
                state.fail(f"the model gave {len(aux)} of {len(self.layer_ids)} layers")
                continue
            if any(t.shape[0] < end for _, tensors in wanted for t in tensors):
                state.fail("the model gave fewer rows than there are tokens")
                continue
            for name, tensors in wanted:
                source = _side_by_side([t[start:end] for t in tensors])
                state.features[name] = {
                    "shape": [1, *source.shape],
                    "dtype": str(source.dtype).removeprefix("torch."),
                }
                raw = source.view(-1).view(torch.uint8)
                parts.append((size, raw))
                objects.append((name, size, raw.numel()))
                size += -(-raw.numel() // _ALIGNMENT) * _ALIGNMENT
            for tensor in wire["passthrough"]:
                raw = torch.frombuffer(bytearray(tensor["data"]), dtype=torch.uint8)
                state.features[tensor["name"]] = {
                    "shape": tensor["shape"],
                    "dtype": tensor["dtype"],
                }
                parts.append((size, raw))
                objects.append((tensor["name"], size, raw.numel()))
                size += -(-raw.numel() // _ALIGNMENT) * _ALIGNMENT
            layout.append((state, objects))
        slab = self._take_slab(job, max(size, 1))
        memory, pointer = slab.memory, slab.pointer
        copies = [(memory[at : at + raw.numel()], raw) for at, raw in parts]
        if self._on_device:
            job.copied = self._copy_aside(copies)
        else:
            for target, raw in copies:
                target.copy_(raw)
        job.sources = copies

        job.states = []
        for state, objects in layout:
            wire = state.wire
            group = Objects(wire["replace"])
            prefix = f"{wire['store_id']}/{wire['sample_id']}/g{wire['gen']}"
            for name, offset, nbytes in objects:
                group.add(f"{prefix}/{name}", pointer + offset, nbytes)
            job.states.append(state)
            job.groups.append(group)

    def _copy_aside(self, copies: list[tuple[torch.Tensor, torch.Tensor]]) -> Any:
        """Copy behind the forward pass, beside what follows; the event of its end.

        What one stream has queued, a device copies before it looks at the next: other
        copies, the next tokens' among them, would come behind gigabytes. So it goes in
        pieces, each of which waits on one stream for the last on the other.
        """
        device = self._scheduler.device_module
        after = device.current_stream()
        streams = itertools.cycle(self._copy_streams)
        for target, raw in copies:
            pieces = zip(target.split(_PIECE_BYTES), raw.split(_PIECE_BYTES), strict=False)
            for (to, piece), stream in zip(pieces, streams, strict=False):
                stream.wait_stream(after)
                with device.stream(stream):
                    to.copy_(piece, non_blocking=True)
                after = stream
        copied = device.Event()
        copied.record(after)
        return copied

    def _complete(self, aux: list[torch.Tensor]) -> bool:
        """Whether every layer is there: as a tensor each, or packed in one."""
        if len(aux) == 1 and len(self.layer_ids) > 1:
            return aux[0].shape[-1] % len(self.layer_ids) == 0
        return len(aux) == len(self.layer_ids)

    def _take_slab(self, job: _Job, size: int) -> _Slab:
        slab = self._slabs.pop() if self._slabs else None
        if slab is None or slab.size < size:
            job.replaced_slab = slab
            # In steps, so that a slightly longer batch does not need a new one. PyTorch
            # makes pinned memory a power of two whatever is asked for.
            step = 1 << (size - 1).bit_length()
            if not self._on_device:
                step = min(step, 256 << 20)
            slab = _Slab(-(-size // step) * step, pinned=self._on_device)
        job.slab = slab
        return slab

    # Ends of a request.

    def _cancel(self, state: CaptureState) -> None:
        with self._lock:
            state.cancelled = True
            stored, state.stored = state.stored, []
        if stored:
            self._queue.put(stored)

    def _abort_held(self, recv_req: AbortReq) -> None:
        for req in self._held.values():
            state = req.spec_capture
            if recv_req.abort_all or req.rid.startswith(recv_req.rid or req.rid):
                self._cancel(state)
                state.fail("the request was aborted")

    # The writer's thread.

    def _write_jobs(self, device: int | None) -> None:
        if device is not None:
            self._scheduler.device_module.set_device(device)
        try:
            self._sink.open()
        except Exception as e:
            logger.warning("spec capture: %s; requests fail until it does", e)
        while True:
            job = self._queue.get()
            if not isinstance(job, _Job):
                self._sink.remove(job)
                continue
            try:
                self._write(job)
            except Exception as e:
                logger.exception("spec capture: could not write a batch")
                for state in job.states:
                    if state.result is None:
                        state.fail(f"could not write: {e}")
            job.times.append(time.monotonic())
            self._done.append(job)

    def _write(self, job: _Job) -> None:
        if job.copied is not None:
            job.copied.synchronize()
        job.sources = None
        job.times.append(time.monotonic())
        if job.replaced_slab is not None:
            self._sink.forget(job.replaced_slab.pointer)
            job.replaced_slab = None
        going = [i for i, state in enumerate(job.states) if not state.cancelled]
        groups = [job.groups[i] for i in going]
        if job.slab is None or not groups:
            return
        errors = self._sink.write(groups, (job.slab.pointer, job.slab.size))
        unread: list[str] = []
        for i, error in zip(going, errors, strict=False):
            state, keys = job.states[i], job.groups[i].keys
            with self._lock:
                if state.cancelled:
                    unread.extend(keys if error is None else ())
                elif error is not None:
                    state.fail(error)
                else:
                    self._succeed(state, keys)
        self._sink.remove(unread)

    def _succeed(self, state: CaptureState, keys: list[str]) -> None:
        state.stored = keys
        state.result = {
            "sample_id": state.wire["sample_id"],
            "store_id": state.wire["store_id"],
            "gen": state.wire["gen"],
            "aux_layer_ids": self.layer_ids,
            "features": state.features,
        }
        state.wire = {"sample_id": state.wire["sample_id"]}


def _side_by_side(tensors: list[torch.Tensor]) -> torch.Tensor:
    """One contiguous tensor, made on the stream of the forward pass.

    Later, on another stream, each kernel would wait for those of the next prefill to
    leave a processor free. A copy to the host needs none.
    """
    if len(tensors) == 1:
        return tensors[0].contiguous()
    return torch.cat(tensors, dim=-1)
