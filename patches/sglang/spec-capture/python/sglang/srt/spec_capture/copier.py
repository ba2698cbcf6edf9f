"""Copies features to host memory, beside what the device does next."""

import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from sglang.srt.spec_capture.job import CaptureState, Job
from sglang.srt.spec_capture.memory import SlabPool
from sglang.srt.spec_capture.request import AUX, LAST_HIDDEN
from sglang.srt.spec_capture.sink import Objects

logger = logging.getLogger(__name__)

_ALIGNMENT = 256
_PIECE_BYTES = 16 << 20

Row = tuple[CaptureState, int, int]  # and where its tokens begin and end in the batch


class Copier:
    """Lays a job's features out, joins them, and copies them.

    Args:
        device: SGLang's module of the device, or None for a CPU.
        pool: host memory.
        copied: is given each job whose copies are queued.
        failed: is given each job that could not be copied, and why.
        incomplete: says what is wrong with captured layers.

    """

    def __init__(
        self,
        device: Any,
        pool: SlabPool,
        copied: Callable[[Job], None],
        failed: Callable[[Job, Exception], None],
        incomplete: Callable[[list[torch.Tensor]], str | None],
    ) -> None:
        self._device = device
        self._pool = pool
        self._copied = copied
        self._failed = failed
        self._incomplete = incomplete
        self._to_grow: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._streams: list[Any] = []
        if device is not None:
            self._streams = [device.Stream() for _ in range(2)]
            threading.Thread(
                target=self._grow,
                args=(device.current_device(),),
                name="spec-capture-memory",
                daemon=True,
            ).start()

    def copy(
        self,
        job: Job,
        rows: list[Row],
        hidden: torch.Tensor,
        aux: list[torch.Tensor],
    ) -> None:
        """Begin to copy, in the forward pass: what it computes must be read on its stream."""
        given = {AUX: aux, LAST_HIDDEN: [hidden]}
        job.states, job.groups = [], []
        for state, start, end in rows:
            if AUX in state.wire["features"] and (defect := self._incomplete(aux)):
                state.fail(defect)
            elif any(
                tensor.shape[0] < end
                for feature in state.wire["features"]
                for tensor in given[feature]
            ):
                state.fail("the model gave fewer rows than there are tokens")
            else:
                job.states.append(state)
                job.groups.append(self._lay_out(job, state, given, start, end))
        if self._device is not None:
            job.computed = self._device.Event()
            job.computed.record()
        job.slab = self._pool.take(job.size)
        if job.slab is None:
            job.replaced_slab = self._pool.take_smallest()
            if self._device is not None:
                self._to_grow.put(job)
                return
            job.slab = self._pool.make(job.size)
        self._fill(job)

    def _lay_out(
        self,
        job: Job,
        state: CaptureState,
        given: dict[str, list[torch.Tensor]],
        start: int,
        end: int,
    ) -> Objects:
        """Say where each object of a request goes; join the layers that it has."""
        wire = state.wire
        group = Objects(wire["replace"], state.prefix)
        for feature, name in wire["features"].items():
            source = _side_by_side([tensor[start:end] for tensor in given[feature]])
            shape, dtype = [1, *source.shape], str(source.dtype).removeprefix("torch.")
            state.features[name] = {"shape": shape, "dtype": dtype}
            _append(job, group, name, source.view(-1).view(torch.uint8))
        for tensor in wire["passthrough"]:
            shape, dtype = tensor["shape"], tensor["dtype"]
            state.features[tensor["name"]] = {"shape": shape, "dtype": dtype}
            _append(job, group, tensor["name"], _as_tensor(tensor["data"]))
        group.token_at = _place(job, _as_tensor(group.token))
        return group

    def _fill(self, job: Job) -> None:
        memory, pointer = job.slab.memory, job.slab.pointer
        copies = [(memory[at : at + raw.numel()], raw) for at, raw in job.sources]
        for group in job.groups:
            group.pointers = [pointer + offset for offset in group.pointers]
            group.token_at += pointer
        if self._device is not None:
            job.copied = self._copy_aside(copies, job.computed)
        else:
            for target, raw in copies:
                target.copy_(raw)
            job.sources = []
        job.times.append(time.monotonic())
        self._copied(job)

    def _copy_aside(self, copies: list[tuple[torch.Tensor, torch.Tensor]], computed: Any) -> Any:
        """Copy behind the forward pass, beside what follows; return the event of its end.

        A device copies all that one stream has queued before it looks at the next: other
        copies, of the next tokens among them, would come behind gigabytes. So it goes in
        pieces, each of which waits on one stream for the last on the other.
        """
        device = self._device
        self._streams[0].wait_event(computed)
        after = self._streams[0]
        streams = itertools.cycle(reversed(self._streams))
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

    def _grow(self, device: int) -> None:
        """Make larger host memory, which takes seconds, off the scheduler's thread."""
        self._device.set_device(device)
        while True:
            job = self._to_grow.get()
            try:
                job.slab = self._pool.make(job.size)
                self._fill(job)
            except Exception as e:
                self._failed(job, e)


def _append(job: Job, group: Objects, name: str, raw: torch.Tensor) -> None:
    group.add(f"{group.prefix}/{name}", _place(job, raw), raw.numel())


def _place(job: Job, raw: torch.Tensor) -> int:
    """Give bytes a place in the job's memory; return its offset."""
    at = job.size
    job.sources.append((at, raw))
    job.size += -(-raw.numel() // _ALIGNMENT) * _ALIGNMENT
    return at


def _as_tensor(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _side_by_side(tensors: list[torch.Tensor]) -> torch.Tensor:
    """Return one contiguous tensor, made on the stream of the forward pass.

    Later, on another stream, each kernel would wait for those of the next prefill to
    leave a processor free. A copy to the host needs none.
    """
    if len(tensors) == 1:
        return tensors[0].contiguous()
    return torch.cat(tensors, dim=-1)
