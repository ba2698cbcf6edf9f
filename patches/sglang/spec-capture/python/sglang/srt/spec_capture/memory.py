"""Memory that is ready before it is needed: on the host, and what is lent to the store.

The kernel gives a process its pages the first time that they are written, at about 1 GB/s
for one thread, and pins them no faster. Whoever needs them at that moment waits.
"""

import ctypes
import logging
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import psutil
import torch

logger = logging.getLogger(__name__)

# Linux 5.14 and later: make the pages of a range present, and keep what they hold.
# https://man7.org/linux/man-pages/man2/madvise.2.html
_MADV_POPULATE_WRITE = 23
_STEP_BYTES = 64 << 20

Region = tuple[int, int]  # address and size


class Slab:
    """Host memory that a job's bytes lie in until they are in the store."""

    def __init__(self, size: int, pinned: bool) -> None:
        # Pinned or zeroed, every page of it is present from here on.
        make = torch.empty if pinned else torch.zeros
        self.memory = make(size, dtype=torch.uint8, pin_memory=pinned)

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self.memory.numel()

    @property
    def pointer(self) -> int:
        """Where it begins."""
        return self.memory.data_ptr()


class SlabPool:
    """One slab for each job in flight, used again. The scheduler's thread calls it."""

    def __init__(self, pinned: bool) -> None:
        self._pinned = pinned
        self._free: list[Slab] = []

    def prepare(self, count: int, size: int, processes: int) -> None:
        """Make slabs before the first job, of a quarter of the free memory at most."""
        most = psutil.virtual_memory().available // 4 // processes // count
        if size > most:
            logger.info(
                "spec capture: the longest prefill needs %.1f GiB of host memory, of which "
                "%.1f GiB are made now",
                size / 2**30,
                most / 2**30,
            )
        start = time.monotonic()
        self._free = [self.make(min(size, most)) for _ in range(count)]
        logger.info(
            "spec capture: made host memory for %d batches, %.2f GiB each, in %.1f s",
            count,
            self._free[0].size / 2**30,
            time.monotonic() - start,
        )

    def make(self, size: int) -> Slab:
        """Make a slab of that size or a little larger; any thread."""
        # In steps, so that a slightly longer batch does not need a new one. PyTorch
        # makes pinned memory a power of two whatever is asked for.
        size = max(size, 1)
        step = 1 << (size - 1).bit_length()
        if not self._pinned:
            step = min(step, 256 << 20)
        return Slab(-(-size // step) * step, self._pinned)

    def take(self, size: int) -> Slab | None:
        """Take the smallest free slab that is large enough."""
        self._free.sort(key=lambda slab: slab.size)
        for i, slab in enumerate(self._free):
            if slab.size >= size:
                return self._free.pop(i)
        return None

    def take_smallest(self) -> Slab | None:
        """Take a slab to free, for a larger one that takes its place."""
        return self._free.pop(0) if self._free else None

    def give_back(self, slab: Slab) -> None:
        """Let the next job have it."""
        self._free.append(slab)

    def clear(self) -> None:
        """Free what no job has."""
        self._free.clear()


def mapped_regions(at_least: int) -> set[Region]:
    """Return this process's private anonymous writable mappings of that size or larger."""
    regions: set[Region] = set()
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return regions  # not Linux
    for line in lines:
        fields = line.split()
        if len(fields) == 5 and fields[1] == "rw-p":
            start, end = (int(number, 16) for number in fields[0].split("-"))
            if end - start >= at_least:
                regions.add((start, end - start))
    return regions


def touch_in_background(regions: Iterable[Region]) -> None:
    """Make the pages of the smallest region present, on a thread of its own.

    Nothing that is in it changes, so others can use the memory meanwhile. Where it is
    unmapped in the meantime, and on a kernel before 5.14, it ends.
    """
    if wanted := sorted(regions, key=lambda region: region[1]):
        threading.Thread(
            target=_touch, args=wanted[0], name="spec-capture-touch", daemon=True
        ).start()


def _touch(address: int, size: int) -> None:
    start = time.monotonic()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for offset in range(0, size, _STEP_BYTES):
        step = min(_STEP_BYTES, size - offset)
        if libc.madvise(address + offset, step, _MADV_POPULATE_WRITE) != 0:
            logger.info(
                "spec capture: the store's memory is touched as it is written: madvise "
                "failed with errno %d",
                ctypes.get_errno(),
            )
            return
    logger.info(
        "spec capture: touched %.1f GiB that this server lends to the store in %.1f s",
        size / 2**30,
        time.monotonic() - start,
    )
