"""What a client asks for and what it is told: plain data, checked once.

The tokenizer process checks a request and turns its tensors into bytes: what it sends to
every scheduler rank is small and correct. An error is data as well: it is the result of
one request, and the others of the same HTTP call go on.
"""

import base64
import binascii
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sglang.srt.spec_capture.sink import MARKER

if TYPE_CHECKING:
    from sglang.srt.managers.io_struct import GenerateReqInput
    from sglang.srt.managers.schedule_batch import Req
    from sglang.srt.server_args import ServerArgs

# What the engine can capture, by the names that a client uses.
AUX = "aux"
LAST_HIDDEN = "last_hidden"
FEATURES = (AUX, LAST_HIDDEN)

_NUMPY = {
    name: np.dtype(name)
    for name in (
        ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
    )
}
_ITEM_BYTES = {"bfloat16": 2, **{name: t.itemsize for name, t in _NUMPY.items()}}

# The key of a result in the finish reason of its request: the one field that every stage
# between the scheduler and the tokenizer process passes on, and only at the end.
_FIELD = "spec_capture"


class RequestError(ValueError):
    """Why one request cannot be captured."""


def parse_spec_capture(obj: "GenerateReqInput", server_args: "ServerArgs") -> dict[str, Any] | None:
    """Return the checked form of a request's `spec_capture`, or the error in it."""
    entry = obj.spec_capture
    if entry is None or not server_args.enable_spec_capture:
        return None
    first = entry[0] if isinstance(entry, list) and len(entry) == 1 else entry
    sample_id = first.get("sample_id") if isinstance(first, dict) else None
    sample_id = str(sample_id) if isinstance(sample_id, int) else sample_id
    try:
        if (obj.sampling_params or {}).get("n", 1) != 1:
            raise RequestError("n must be 1: samples of one prompt share its keys")
        if obj.session_params:
            raise RequestError("a session reuses its prefix: it cannot be captured")
        return _parse(entry)
    except RequestError as e:
        return {"sample_id": sample_id, "error": str(e)}


def take_result(meta_info: dict[str, Any]) -> None:
    """Move a result from the finish reason to its place in `meta_info`."""
    reason = meta_info["finish_reason"]
    if isinstance(reason, dict) and _FIELD in reason:
        meta_info[_FIELD] = reason.pop(_FIELD)


def holds_back(req: "Req") -> bool:
    """Whether a finished request waits until its objects are in the store."""
    state = req.__dict__.get(_FIELD)
    return state is not None and state.capture.hold(req, state)


def add_result(req: "Req", finished_reasons: list[Any]) -> None:
    """Put a result into the finish reason that was just added for its request."""
    state = req.__dict__.get(_FIELD)
    if state is not None and req.finished():
        finished_reasons[-1][_FIELD] = state.result


def _parse(entry: Any) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise RequestError(
            "spec_capture must be an object, and a list of them, one for each prompt, "
            "in a request with several prompts"
        )
    # Fields that it does not know are a later client's: they do not change what is written.
    store_id, sample_id = (_as_id(entry, key) for key in ("store_id", "sample_id"))
    gen = entry.get("gen")
    gen = 1 if gen is None else gen
    if isinstance(gen, bool) or not isinstance(gen, int) or gen < 0:
        raise RequestError("gen must be an integer, 0 or greater")
    replace = entry.get("replace")
    replace = False if replace is None else replace
    if not isinstance(replace, bool):
        raise RequestError("replace must be true or false")
    features = entry.get("features")
    features = {} if features is None else features
    if not isinstance(features, dict):
        raise RequestError("features must map what to capture to its name")
    for feature in features:
        if feature not in FEATURES:
            raise RequestError(f"unknown feature {feature!r}: there are {' and '.join(FEATURES)}")
    passthrough = entry.get("passthrough")
    passthrough = [] if passthrough is None else passthrough
    if not isinstance(passthrough, list):
        raise RequestError("passthrough must be a list")
    tensors = [_parse_tensor(i, tensor) for i, tensor in enumerate(passthrough)]
    names = [*features.values(), *(tensor["name"] for tensor in tensors)]
    for i, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise RequestError("a name must be a string that is not empty")
        if name == MARKER:
            raise RequestError(f"{MARKER} cannot be a name: the store keeps it for itself")
        if name in names[:i]:
            raise RequestError(f"two tensors are called {name!r}")
    return {
        "store_id": store_id,
        "sample_id": sample_id,
        "gen": gen,
        "replace": replace,
        "features": dict(features),
        "passthrough": tensors,
    }


def _as_id(entry: dict[str, Any], key: str) -> str:
    value = entry.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value:
        raise RequestError(f"{key} must be a string that is not empty, or an integer")
    return value


def _parse_tensor(i: int, tensor: Any) -> dict[str, Any]:
    if not isinstance(tensor, dict) or not isinstance(tensor.get("name"), str):
        raise RequestError(f"passthrough {i} must be an object with a name")
    where = f"passthrough {tensor['name']!r}"
    shape, dtype, data = (tensor.get(key) for key in ("shape", "dtype", "data"))
    dtype = "int64" if dtype is None else dtype
    if not isinstance(dtype, str) or dtype not in _ITEM_BYTES:
        raise RequestError(f"{where}: unknown dtype {dtype!r}: there are {', '.join(_ITEM_BYTES)}")
    if not isinstance(shape, list) or not all(
        isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in shape
    ):
        # The store refuses an empty object.
        raise RequestError(f"{where}: shape must be a list of integers greater than 0")
    if isinstance(data, str):
        raw = _from_base64(where, data)
        if len(raw) != math.prod(shape) * _ITEM_BYTES[dtype]:
            raise RequestError(
                f"{where}: data has {len(raw)} bytes, shape {shape} of {dtype} has "
                f"{math.prod(shape) * _ITEM_BYTES[dtype]}"
            )
    else:
        raw = _to_bytes(where, _as_array(where, data, shape), dtype)
    return {"name": tensor["name"], "shape": shape, "dtype": dtype, "data": raw}


def _from_base64(where: str, data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as e:
        raise RequestError(f"{where}: data is not base64: {e}") from e


def _as_array(where: str, data: Any, shape: list[int]) -> np.ndarray:
    try:
        array = np.asarray(data)
    except (ValueError, OverflowError) as e:
        raise RequestError(f"{where}: data is not a tensor: {e}") from e
    if array.dtype.kind not in "biuf":
        raise RequestError(f"{where}: data must be numbers, as lists or as base64")
    if list(array.shape) not in (shape, [math.prod(shape)]):
        raise RequestError(f"{where}: data has shape {list(array.shape)}, shape says {shape}")
    return array


def _to_bytes(where: str, array: np.ndarray, dtype: str) -> bytes:
    floating = dtype == "bfloat16" or _NUMPY[dtype].kind == "f"
    if floating:
        if dtype == "bfloat16":
            source = torch.from_numpy(array.astype(np.float32))
            cast = source.to(torch.bfloat16)
            finite = np.asarray(torch.isfinite(cast))
            raw = cast.view(torch.int16).numpy().tobytes()
        else:
            with np.errstate(over="ignore"):
                little = array.astype(_NUMPY[dtype].newbyteorder("<"))
            finite = np.isfinite(little)
            raw = little.tobytes()
        if not bool((finite | ~np.isfinite(array)).all()):
            raise RequestError(f"{where}: a value does not fit in {dtype}")
        return raw
    if array.dtype.kind == "f":
        raise RequestError(f"{where}: data has fractions, dtype is {dtype}")
    if dtype == "bool":
        low, high = 0, 1
    else:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    if int(array.min()) < low or int(array.max()) > high:
        raise RequestError(f"{where}: a value does not fit in {dtype}")
    return array.astype(_NUMPY[dtype].newbyteorder("<")).tobytes()
