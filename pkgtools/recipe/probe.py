"""A program that talks to a Mooncake store.

It runs under the interpreter that has Mooncake, often another than pkgtools', and in a process
of its own because Mooncake's client can hang or crash. It reads a request as JSON from stdin
and writes its answer as the last line of stdout. Only reading tensors needs numpy.
"""

import ctypes
import json
import mmap
import os
import sys
from typing import Any, Final

_WIDTHS: Final = {"bfloat16": 2, "float16": 2, "float32": 4}
_CHUNK: Final = 1 << 26
_MISSING: Final = -704


def main() -> None:
    """Answer one request."""
    del sys.path[0]  # this folder, whose secrets.py would hide the standard library's
    request = json.load(sys.stdin)
    try:
        from mooncake.store import MooncakeDistributedStore  # noqa: PLC0415 - the remedy is below
    except ImportError as error:
        answer: dict[str, Any] = {
            "error": f"Mooncake cannot be imported: {error}",
            "remedy": "name an interpreter that has it with --python, or install "
            "mooncake-transfer-engine (-non-cuda without a GPU), libibverbs1 and libnuma1",
        }
    else:
        store = MooncakeDistributedStore()
        try:
            answer = _answer(store, request)
        except ValueError as error:
            answer = {"error": str(error)}
        finally:
            store.close()
    sys.stdout.write("\n" + json.dumps(answer) + "\n")
    sys.stdout.flush()


def _answer(store: Any, request: dict[str, Any]) -> dict[str, Any]:
    names = (os.environ["MOONCAKE_LOCAL_HOSTNAME"], os.environ["MOONCAKE_METADATA_SERVER"])
    transport = (os.environ["MOONCAKE_PROTOCOL"], os.environ.get("MOONCAKE_RDMA_DEVICES", ""))
    master = os.environ["MOONCAKE_MASTER_SERVER_ADDR"]
    status = store.setup(*names, request["segment"], request["buffer"], *transport, master)
    _expect(status == 0, f"no connection to the store ({status})")
    if "tensors" in request:
        return {"tensors": [_look(store, tensor) for tensor in request["tensors"]]}
    return _round_trip(store, request["key"], bytes(range(256)) * 256)


def _round_trip(store: Any, key: str, data: bytes) -> dict[str, Any]:
    store.remove(key, True)  # of an earlier run that was killed
    status = store.put(key, data)
    _expect(status == 0, f"the store refused an object ({status})")
    found = store.get(key)
    removed = store.remove(key, True)
    _expect(found == data, f"the store returned other bytes: {len(found)} for {len(data)}")
    _expect(removed == 0, f"the object cannot be removed ({removed})")
    return {"bytes": len(data)}


def _look(store: Any, tensor: dict[str, Any]) -> dict[str, Any]:
    """Read an object as a tensor, remove it, and say what is in it."""
    key, shape, dtype = tensor["key"], tensor["shape"], tensor["dtype"]
    size = store.get_size(key)
    _expect(size != _MISSING, f"{key} is not in the store")
    _expect(size > 0, f"{key} cannot be read ({size})")
    expected = _WIDTHS[dtype]
    for length in shape:
        expected *= length
    _expect(size == expected, f"{key} has {size} bytes, {dtype} {shape} has {expected}")
    with mmap.mmap(-1, size) as memory:
        view = ctypes.c_char.from_buffer(memory)
        pointer = ctypes.addressof(view)
        status = store.register_buffer(pointer, size)
        _expect(status == 0, f"no memory to read {key} into ({status})")
        got = store.get_into(key, pointer, size)
        store.unregister_buffer(pointer)
        _expect(got == size, f"{key} returned {got} bytes instead of {size}")
        finite, largest = _values(memory, size, dtype)
        del view
    store.remove(key, True)
    return {**tensor, "bytes": size, "finite": finite, "largest": largest}


def _values(memory: mmap.mmap, size: int, dtype: str) -> tuple[bool, float]:
    """Return whether all values are finite, and the largest magnitude of those that are."""
    import numpy as np  # noqa: PLC0415

    largest, finite = 0.0, True
    for start in range(0, size, _CHUNK):
        count = min(_CHUNK, size - start) // _WIDTHS[dtype]
        if dtype == "bfloat16":
            bits = np.frombuffer(memory, "<u2", count, start).astype("<u4") << 16
            values = bits.view("<f4")
        else:
            values = np.frombuffer(memory, np.dtype(dtype).newbyteorder("<"), count, start)
        good = np.isfinite(values)
        finite = finite and bool(good.all())
        largest = max(largest, float(np.abs(values[good]).max(initial=0)))
    return finite, largest


def _expect(holds: bool, problem: str) -> None:
    if not holds:
        raise ValueError(problem)


if __name__ == "__main__":
    main()
