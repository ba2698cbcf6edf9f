"""How fast Mooncake alone puts an object into memory of its own process, as JSON.

    python3 benchmarks/gpu_store.py FOLDER BYTES

A program of its own, because the C library reads GLIBC_TUNABLES when a process starts.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, Final

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "checks"))

from serving.mooncake import Master

_ROUNDS: Final = 3


def main() -> None:
    """Put an object several times; the first one goes into memory that nothing has touched."""
    from mooncake.store import MooncakeDistributedStore  # noqa: PLC0415

    folder, size = Path(sys.argv[1]), int(sys.argv[2])
    source = torch.ones(size, dtype=torch.uint8)
    if torch.cuda.is_available():
        source = source.pin_memory()  # as the server's
    with Master(folder) as master:
        store: Any = MooncakeDistributedStore()
        assert not store.setup(
            "127.0.0.1", master.metadata, size + (1 << 30), 64 << 20, "tcp", "", master.address
        )
        assert not store.register_buffer(source.data_ptr(), size)
        rates = [_put(store, source, size) for _ in range(1 + _ROUNDS)]
        store.close()
    sys.stdout.write(json.dumps({"untouched": rates[0], "touched": max(rates[1:])}) + "\n")


def _put(store: Any, source: torch.Tensor, size: int) -> float:
    start = time.perf_counter()
    assert not store.put_from("object", source.data_ptr(), size)
    rate = round(size / (time.perf_counter() - start) / 1e9, 2)
    store.batch_remove(["object"], True)
    return rate


if __name__ == "__main__":
    main()
