"""The threads that talk to the store."""

import logging
import queue
import threading
import time
from collections import deque
from typing import Any

from sglang.srt.spec_capture.job import CaptureState, Job
from sglang.srt.spec_capture.sink import MooncakeSink, Objects, lacks_room

logger = logging.getLogger(__name__)

_ROOM_POLL_S = 0.1
_LEFTOVERS_POLL_S = 2.0


class Writer:
    """Writes jobs, removes what nobody will read, and asks whether keys are taken.

    `done` has the jobs that the scheduler can settle. Where a store is full, a job waits
    for others to remove objects until `room_s` before its deadline.
    """

    def __init__(
        self, sink: MooncakeSink, aux_layer_ids: list[int], room_s: float, device: Any
    ) -> None:
        self.done: deque[Job] = deque()
        self._sink = sink
        self._aux_layer_ids = aux_layer_ids
        self._room_s = room_s
        self._device = device
        # Reentrant: a collected request can be cancelled in the middle of a locked part.
        self._lock = threading.RLock()
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._to_look: queue.SimpleQueue[tuple[CaptureState, list[str]]] = queue.SimpleQueue()
        self._to_remove: deque[Objects] = deque()
        self._to_release: deque[Objects] = deque()
        number = None if device is None else device.current_device()
        threading.Thread(
            target=self._write_all, args=(number,), name="spec-capture", daemon=True
        ).start()
        threading.Thread(target=self._look, name="spec-capture-look", daemon=True).start()

    def put(self, job: Job) -> None:
        """Write a job when those before it are written."""
        self._jobs.put(job)

    def look(self, state: CaptureState) -> None:
        """Ask whether its keys are taken: `taken` says which, once `looked` is set."""
        state.looked = threading.Event()
        self._to_look.put((state, state.keys()))

    def cancel(self, state: CaptureState) -> None:
        """Remove what a request has in the store, or will have."""
        with self._lock:
            state.cancelled = True
            stored, state.stored = state.stored, None
        if stored is not None:
            self._to_remove.append(stored)
            self._jobs.put(None)

    def release(self, state: CaptureState) -> None:
        """Let go of what a request has in the store: its client has been told."""
        with self._lock:
            stored, state.stored = state.stored, None
        if stored is not None:
            self._to_release.append(stored)
            self._jobs.put(None)

    def _look(self) -> None:
        while True:
            state, keys = self._to_look.get()
            state.taken = self._sink.taken(keys)
            state.looked.set()

    def _write_all(self, device: int | None) -> None:
        if device is not None:
            self._device.set_device(device)
        try:
            self._sink.open()
        except Exception as e:
            logger.warning("spec capture: %s; requests fail until it does", e)
        while True:
            job = self._next()
            self._clean_up()
            if job is None:
                continue
            try:
                self._write(job)
            except Exception as e:
                logger.exception("spec capture: could not write a batch")
                for state in job.states:
                    if state.result is None:
                        state.fail(f"could not write: {e}")
            job.times.append(time.monotonic())
            self.done.append(job)

    def _next(self) -> Job | None:
        try:
            return self._jobs.get(timeout=_LEFTOVERS_POLL_S if self._sink.has_leftovers else None)
        except queue.Empty:
            return None

    def _clean_up(self) -> None:
        try:
            released = [self._to_release.popleft() for _ in range(len(self._to_release))]
            removed = [self._to_remove.popleft() for _ in range(len(self._to_remove))]
            self._sink.release(released)
            self._sink.remove(removed)
        except Exception:
            logger.exception("spec capture: could not clean up")

    def _write(self, job: Job) -> None:
        if job.copied is not None:
            job.copied.synchronize()
        job.sources = []
        job.times.append(time.monotonic())
        if job.replaced_slab is not None:
            self._sink.forget(job.replaced_slab.pointer)
            job.replaced_slab = None
        going = list(zip(job.states, job.groups, strict=False))
        while going := [(s, group) for s, group in going if not s.cancelled]:
            errors = self._sink.write(
                [group for _, group in going], (job.slab.pointer, job.slab.size)
            )
            waits = time.monotonic() < job.deadline - self._room_s
            without_room = []
            for (state, group), error in zip(going, errors, strict=False):
                if error is not None and waits and lacks_room(error):
                    without_room.append((state, group))
                else:
                    self._settle(state, group, error)
            going = without_room
            if going:
                time.sleep(_ROOM_POLL_S)
                self._clean_up()  # which may be what makes room

    def _settle(self, state: CaptureState, group: Objects, error: str | None) -> None:
        with self._lock:
            if not state.cancelled:
                if error is not None:
                    state.fail(error)
                else:
                    state.stored = group
                    state.succeed(self._aux_layer_ids)
                return
        if error is None:
            self._sink.remove([group])
