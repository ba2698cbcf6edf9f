"""Capture in the scheduler: features out of a prefill, results into its responses.

One batch of a prefill makes one job: its features are copied to host memory on streams
of their own (`copier`), one thread writes them with one batched put (`writer`), and the
scheduler's own loop takes the result and sends the responses that waited for it. Requests
without capture skip all of this.

Every rank holds the same requests and must plan the same batches, so every rank counts
jobs; only attention-TP rank 0 copies, writes and answers. It tells the others one number,
of the jobs that it has finished, and only while a job is in flight.
"""

import logging
import os
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

import torch
from sglang.srt.layers.logits_processor import LogitsProcessor
from sglang.srt.managers.io_struct import AbortReq
from sglang.srt.managers.schedule_batch import FINISH_ABORT
from sglang.srt.runtime_context import get_parallel
from sglang.srt.spec_capture.copier import Copier, Row
from sglang.srt.spec_capture.job import CaptureState, Job
from sglang.srt.spec_capture.memory import SlabPool
from sglang.srt.spec_capture.methods import resolve_layer_ids, set_layers_to_capture
from sglang.srt.spec_capture.sink import MooncakeSink, StoreConfig
from sglang.srt.spec_capture.writer import Writer

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req, ScheduleBatch
    from sglang.srt.managers.scheduler import Scheduler

logger = logging.getLogger(__name__)

_LOGITS_ARGS = (
    "input_ids",
    "hidden_states",
    "lm_head",
    "logits_metadata",
    "aux_hidden_states",
)

# In how many rounds of the scheduler's loop rank 0 tells once what it has finished. All ranks
# take it so many rounds later: to wait for a broadcast in the round in which it begins costs
# a fifth of a small model's decode step.
_SYNC_ROUNDS = 4

# How long a prefill waits to be told that its keys are taken: a store that works answers
# within a millisecond.
_LOOK_S = 0.01


def _positive(default: int, *names: str) -> int:
    """Return the number in the first of these variables that is set."""
    for name in names:
        if text := os.environ.get(name):
            if not text.isdecimal() or int(text) < 1:
                raise ValueError(f"{name} must be an integer greater than 0, not {text!r}")
            return int(text)
    return default


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
            args.spec_capture_aux_layer_ids,
            scheduler.model_config.num_hidden_layers,
        )
        self._hidden_size = scheduler.model_config.hidden_size
        self._scheduler = scheduler
        # The second name of each is SpecForge's.
        self._max_inflight = _positive(
            2,
            "SGLANG_SPEC_CAPTURE_MAX_INFLIGHT",
            "SGLANG_SPEC_CAPTURE_MAX_PENDING_BATCHES",
        )
        self._log_jobs = "1" in (
            os.environ.get("SGLANG_SPEC_CAPTURE_LOG"),
            os.environ.get("SGLANG_SPEC_CAPTURE_TIMING"),
        )
        # SpecForge's client waits 300 seconds: an error has to reach it before.
        self._timeout = _positive(270, "SGLANG_SPEC_CAPTURE_TIMEOUT")
        self._writes = get_parallel().attn_tp_rank == 0
        self._ranks = get_parallel().attn_tp_size

        # The same on every rank.
        self._tick = 0
        self._news: Any = None  # what rank 0 tells: a tensor, and the work that brings it
        self._launched = 0
        self._settled = 0
        self._stuck = False
        self._arrivals = 0
        self._defect: str | None = None
        self._current: list[Row] | None = None
        self._unscaled: torch.Tensor | None = None

        # Rank 0's own.
        self._begun_at = 0.0
        self._finished = 0
        self._outstanding: deque[Job] = deque()
        self._held: dict[str, Req] = {}
        self._waiting = False
        self._writer: Any = None  # a Writer on the rank that writes

        config = StoreConfig.from_env() if self._writes else None
        set_layers_to_capture(model, self.method, self.layer_ids)
        self._watch(model)
        if config is not None:
            self._open(config)
        logger.info(
            "spec capture: %s, layers %s, at most %d batches in flight",
            self.method,
            self.layer_ids,
            self._max_inflight,
        )

    def _watch(self, model: torch.nn.Module) -> None:
        processors = [m for m in model.modules() if isinstance(m, LogitsProcessor)]
        if not processors:
            raise ValueError(
                f"--enable-spec-capture: {type(model).__name__} has no logits processor"
            )
        for processor in processors:
            processor.register_forward_pre_hook(self._before_logits, with_kwargs=True)
        # Inkling divides the last hidden state for its LM head before the logits processor
        # (muP). A draft is trained on what it was, with a head that has the division in it.
        config = getattr(model, "config", None)
        config = getattr(config, "text_config", config)
        if getattr(config, "logits_mup_width_multiplier", None):
            language_model: Any = model.llm
            language_model.register_forward_hook(self._after_language_model)

    def _open(self, config: StoreConfig) -> None:
        """Make host memory, and start the threads."""
        s = self._scheduler
        device = None if torch.device(s.device).type == "cpu" else s.device_module
        model = s.model_config
        tokens = min(max(model.context_len, s.max_prefill_tokens), s.max_total_num_tokens)
        item = torch.empty(0, dtype=model.dtype).element_size()
        size = tokens * (len(self.layer_ids) + 1) * self._hidden_size * item
        self._slabs = SlabPool(pinned=device is not None)
        self._slabs.prepare(self._max_inflight, size, get_parallel().attn_dp_size)
        # A client compares the layers with those that it asked the server for.
        reported = s.server_args.spec_capture_aux_layer_ids or self.layer_ids
        # Before the deadline, so that the answer says that the store is full.
        room_s = min(1.0, self._timeout / 10)
        self._writer = Writer(MooncakeSink(config), list(reported), room_s, device)
        self._copier = Copier(
            device, self._slabs, self._writer.put, self._give_up, self._incomplete
        )

    # The scheduler's hooks, in the order in which a request meets them.

    def attach(self, req: "Req", wire: dict[str, Any] | None) -> None:
        """Take note of a request that arrives."""
        if wire is None:
            return
        if self._defect is not None and "error" not in wire:
            wire = {"sample_id": wire["sample_id"], "error": self._defect}
        state = CaptureState(self, wire)
        req.spec_capture = state
        if state.wanted:
            # The whole sequence has to be computed: no other request's prefix fits.
            self._arrivals += 1
            req.extra_key = f"{req.extra_key or ''}/spec-capture-{self._arrivals}"
        if self._writer is not None:
            if state.wanted and not wire["replace"]:
                self._writer.look(state)
            # Whatever becomes of the request, what it wrote does not stay unanswered.
            weakref.finalize(req, self._writer.cancel, state).atexit = False

    def must_wait(self, req: "Req") -> bool:
        """Whether a waiting request has to stay in the queue, for others to pass it."""
        state = req.__dict__.get("spec_capture")
        if state is None or not state.wanted:
            return False
        full = self._launched - self._settled >= self._max_inflight
        self._waiting = full and not self._stuck
        return self._waiting

    def begin(self, batch: "ScheduleBatch") -> None:
        """Take note of a batch that goes to the model."""
        self._settle_unseen()
        if not batch.forward_mode.is_extend():
            return
        rows: list[Row] = []
        end = 0
        for req, length, prefix in zip(
            batch.reqs, batch.extend_lens, batch.prefix_lens, strict=False
        ):
            start, end = end, end + length
            state = req.__dict__.get("spec_capture")
            if state is None or not state.wanted:
                continue
            if req.finished() or req.to_finish is not None:
                continue
            state.wanted = False
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
            self._refuse_taken([state for state, _, _ in rows])

    def hold(self, req: "Req", state: CaptureState) -> bool:
        """Whether a finished request's response has to wait for the store."""
        if self._writer is None:
            return False
        if isinstance(req.finished_reason, FINISH_ABORT) and not state.has_failed:
            # Also where all of it is stored: the client went away while it decoded.
            self._writer.cancel(state)
            state.fail("the request was aborted")
        if state.result is None:
            self._settle_unseen()
        if state.result is None and state.wanted:
            state.fail("the request ended before its prefill")
        if state.result is None:
            self._held[req.rid] = req
            return True
        self._held.pop(req.rid, None)
        self._writer.release(state)
        return False

    def poll(self, recv_reqs: list[Any]) -> None:
        """Once in each round of the scheduler's loop."""
        self._tick += 1
        if self._writer is not None:
            self._answer(recv_reqs)
        self._sync()

    def _answer(self, recv_reqs: list[Any]) -> None:
        for recv_req in recv_reqs or ():
            if isinstance(recv_req, AbortReq):
                self._abort_held(recv_req)
        self._take_done()
        self._end_late_jobs()
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
        if self._ranks == 1:
            self._settled, self._stuck = self._progress()
        elif self._tick % _SYNC_ROUNDS == 0:
            if self._news is not None:
                news, work = self._news
                work.wait()
                self._settled, self._stuck = int(news[0]), bool(news[1])
            self._news = self._tell() if self._settled < self._launched else None

    def _progress(self) -> tuple[int, bool]:
        """Return how many jobs have finished, and whether the oldest other one is too late."""
        late = bool(self._outstanding and time.monotonic() >= self._outstanding[0].deadline)
        return self._finished, late

    def _tell(self) -> tuple[torch.Tensor, Any]:
        news = torch.tensor(self._progress(), device="cpu")
        s = self._scheduler
        work = torch.distributed.broadcast(
            news, src=s.attn_tp_group.ranks[0], group=s.attn_tp_cpu_group, async_op=True
        )
        return news, work

    def _settle_unseen(self) -> None:
        """Fail a batch that ended without its features: a graph replayed it."""
        rows, self._current = self._current, None
        if rows is None or self._writer is None:
            return
        job = Job([state for state, _, _ in rows], 0.0)
        for state in job.states:
            if state.result is None:
                state.fail("the forward pass showed no features")
        self._outstanding.append(job)
        self._writer.done.append(job)

    # In the forward pass.

    def _after_language_model(
        self, module: torch.nn.Module, args: tuple[Any, ...], output: Any
    ) -> None:
        self._unscaled = output[0] if isinstance(output, tuple) else output

    def _before_logits(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Take the features, and hide them: the rest goes on as without capture."""
        named = {**dict(zip(_LOGITS_ARGS, args, strict=False)), **kwargs}
        rows, self._current = self._current, None
        unscaled, self._unscaled = self._unscaled, None
        hidden, aux = named["hidden_states"], named.get("aux_hidden_states")
        aux = [aux] if isinstance(aux, torch.Tensor) else list(aux or ())
        if aux:
            self._defect = self._incomplete(aux)
        if rows is not None and self._writer is not None:
            self._take(rows, hidden if unscaled is None else unscaled, aux)
        if "aux_hidden_states" in kwargs:
            kwargs = {**kwargs, "aux_hidden_states": None}
        at = _LOGITS_ARGS.index("aux_hidden_states")
        if len(args) > at:
            args = (*args[:at], None, *args[at + 1 :])
        return args, kwargs

    def _take(self, rows: list[Row], hidden: torch.Tensor, aux: list[torch.Tensor]) -> None:
        rows = [row for row in rows if row[0].result is None]
        job = Job([s for s, _, _ in rows], time.monotonic() + self._timeout)
        job.times += (self._begun_at, time.monotonic())
        self._outstanding.append(job)
        try:
            self._copier.copy(job, rows, hidden, aux)
        except Exception as e:
            self._give_up(job, e)

    def _give_up(self, job: Job, error: Exception) -> None:
        logger.error("spec capture: could not copy a batch", exc_info=error)
        for state in job.states:
            state.fail(f"could not copy the features: {error}")
        job.sources = []
        self._writer.done.append(job)

    def _incomplete(self, aux: list[torch.Tensor]) -> str | None:
        """Say what is wrong with captured layers: each is as wide as a hidden state.

        They come as a tensor each, or packed in one.
        """
        size, widths = self._hidden_size, [tensor.shape[-1] for tensor in aux]
        count = len(self.layer_ids)
        if widths in ([size] * count, [size * count]):
            return None
        return (
            f"the model gave {sum(widths) / size:g} of {count} layers of {size}: most "
            "models do not capture the output of their last layer"
        )

    # Ends of requests and jobs.

    def _refuse_taken(self, states: list[CaptureState]) -> None:
        """Fail what the store has already, before the prefill is captured."""
        for state in states:
            if state.looked is not None:
                left = self._begun_at + _LOOK_S - time.monotonic()
                state.looked.wait(max(0.0, left))
                if state.taken is not None:
                    state.fail(state.taken)

    def _take_done(self) -> None:
        while self._writer.done:
            job = self._writer.done.popleft()
            self._outstanding.remove(job)
            self._finished += 1
            if job.slab is not None:
                self._slabs.give_back(job.slab)
            if self._log_jobs:
                logger.info("spec capture job: %s", " ".join(map(str, job.times)))
        for job in self._outstanding:
            if job.copied is not None and job.copied.query():
                job.sources = []  # the writer may be long in coming to it

    def _end_late_jobs(self) -> None:
        now = time.monotonic()
        for job in self._outstanding:
            if now < job.deadline:
                break
            for state in job.states:
                if state.result is None:
                    self._writer.cancel(state)
                    state.fail(f"the store did not answer in {self._timeout} seconds")

    def _abort_held(self, recv_req: AbortReq) -> None:
        for req in self._held.values():
            state = req.spec_capture
            if recv_req.abort_all or req.rid.startswith(recv_req.rid or req.rid):
                self._writer.cancel(state)
                state.fail("the request was aborted")
