"""The steps that talk to a running deployment: the store, the server, one captured sample."""

import http.client
import json
import re
import socket
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

import msgspec

from pkgtools.errors import CheckFailedError, Evidence
from pkgtools.recipe.ask import ask
from pkgtools.recipe.model import Recipe, shown_bytes, size_bytes
from pkgtools.recipe.processes import host, server_url, store_environment

_PROBE: Final = Path(__file__).with_name("probe.py")
_KEY: Final = "pkgtools-recipe"
_LENT: Final = 64 << 20
"""Bytes that the probe lends, so that a store without a server takes an object."""
_CAPACITY: Final = re.compile(
    rb"^master_total_capacity_bytes ([0-9]{1,30}(?:\.[0-9]+)?(?:e\+?[0-9]{1,2})?)$", re.MULTILINE
)
_GRACE: Final = 120
"""Seconds on top of a transfer, to start and to connect."""
_REPLY_LIMIT: Final = 16 << 20
_REPLY_SECONDS: Final = 30
# Processes of a deployment talk directly: ignore http_proxy and the like.
_OPENER: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_LONGEST: Final = 1800
"""Seconds within which the server has to answer the longest row."""


def check_store(recipe: Recipe, python: str) -> Evidence:
    """Ask the master's two HTTP ports, and put an object and get it back."""
    base = f"http://{host(recipe.capture_node)}"
    _request(f"{base}:{recipe.master.metrics_port}/health")
    _reach(str(recipe.capture_node.address), recipe.master.rpc_port)
    url = f"{base}:{recipe.master.metadata_port}/metadata?key={_KEY}"
    _request(url, "PUT", _KEY)
    try:
        if json.loads(_request(url)) != _KEY:
            raise CheckFailedError(f"{url} returned another value than was stored")
    finally:
        _request(url, "DELETE")
    answer = _probe(recipe, python, {"segment": _LENT, "key": f"{_KEY}/store"})
    return Evidence(capacity=_capacity(recipe), round_trip=answer["bytes"])


def _reach(address: str, port: int) -> None:
    """Raise unless something listens: Mooncake's client would try for 90 seconds."""
    try:
        socket.create_connection((address, port), timeout=10).close()
    except OSError as error:
        raise CheckFailedError(
            f"the store's master at {address}:{port} does not answer: {error}",
            remedy="start it, as `pkgtools recipe render --process master` prints it",
        ) from None


def _capacity(recipe: Recipe) -> int:
    """Return the bytes that are lent to the store, as its master counts them."""
    url = f"http://{host(recipe.capture_node)}:{recipe.master.metrics_port}/metrics"
    match = _CAPACITY.search(_request(url))
    if match is None:
        raise CheckFailedError(f"{url} does not list master_total_capacity_bytes")
    return int(float(match[1]))


def check_server(recipe: Recipe) -> Evidence:
    """Ask the server whether it is healthy, and whether it runs with the recipe's flags."""
    url = server_url(recipe)
    _request(f"{url}/health")
    info = _request_json(f"{url}/get_server_info")
    meant: dict[str, object] = {
        **{flag.replace("-", "_"): value for flag, value in recipe.server.flags.items()},
        "model_path": recipe.model.path,
        "port": recipe.server.port,
    }
    other = {
        name: {"recipe": value, "server": info.get(name)}
        for name, value in meant.items()
        if info.get(name) != value
    }
    if other:
        told = "; ".join(f"{n} is {o['server']}, not {o['recipe']}" for n, o in other.items())
        raise CheckFailedError(
            f"{url} runs with arguments that differ from the recipe: {told}",
            remedy="start it with what `pkgtools recipe render` prints",
            details=Evidence(differing=other),
        )
    return Evidence(url=url, version=info.get("version"), flags=meant)


def check_sample(recipe: Recipe, python: str) -> Evidence:
    """Capture one row as long as the longest, and read its tensors back from the store."""
    tokens, model, ids = recipe.dataset.longest_row, recipe.model, recipe.server.layer_ids
    entry = {
        "store_id": _KEY,
        "sample_id": "sample",
        "gen": 0,
        "replace": True,
        "features": {"aux": "aux", "last_hidden": "last_hidden"},
    }
    body = {
        "input_ids": [10 + position % 200 for position in range(tokens)],
        "sampling_params": {"max_new_tokens": 1, "temperature": 0},
        "spec_capture": entry,
    }
    reply = _request_json(f"{server_url(recipe)}/generate", "POST", body, seconds=_LONGEST)
    result = _result(reply)
    expected = {
        "aux": {"shape": [1, tokens, len(ids) * model.hidden_size], "dtype": model.dtype},
        "last_hidden": {"shape": [1, tokens, model.hidden_size], "dtype": model.dtype},
    }
    for name, found, meant in (
        ("layers", result.get("aux_layer_ids"), ids),
        ("features", result.get("features"), expected),
    ):
        if found != meant:
            raise CheckFailedError(
                f"the sample's {name} are {found}, they should be {meant}",
                details=Evidence(result=result),
            )
    wanted = [{"key": f"{_KEY}/sample/g0/{name}", **what} for name, what in expected.items()]
    tensors = _probe(recipe, python, {"segment": 0, "tensors": wanted})["tensors"]
    for tensor in tensors:
        if not tensor["finite"] or tensor["largest"] == 0:
            what = "all zeros" if tensor["finite"] else "not finite everywhere"
            raise CheckFailedError(f"{tensor['key']} is {what}", details=Evidence(tensors=tensors))
    capacity, lent = _capacity(recipe), recipe.lent_bytes
    if capacity < lent:
        raise CheckFailedError(
            f"{shown_bytes(capacity)} are lent to the store, the recipe says {shown_bytes(lent)}",
            remedy="see the server's log: it lends less than its segment",
            details=Evidence(capacity=capacity, recipe=lent),
        )
    return Evidence(tokens=tokens, tensors=tensors, capacity=capacity)


def _result(reply: dict[str, Any]) -> dict[str, Any]:
    meta = reply.get("meta_info")
    result = meta.get("spec_capture") if isinstance(meta, dict) else None
    if not isinstance(result, dict):
        raise CheckFailedError(
            "the server returned no capture: it runs without the patches, or without "
            "--enable-spec-capture",
            details=Evidence(answer=sorted(reply)),
        )
    if "error" in result:
        raise CheckFailedError(
            f"the sample was not captured: {result['error']}", details=Evidence(result)
        )
    return result


def _probe(recipe: Recipe, python: str, request: dict[str, object]) -> dict[str, Any]:
    """Run the program that talks to the store, under the interpreter that has Mooncake."""
    store = recipe.store
    environment = store_environment(recipe, recipe.capture_node, 0)
    buffer = min(size_bytes(store.buffer), _LENT)
    return ask(
        [python, str(_PROBE)],
        given=json.dumps({**request, "buffer": buffer}),
        task="talk to the store",
        seconds=store.transfer_timeout_seconds + _GRACE,
        environment=environment,
    )


def _request(
    url: str, method: str = "GET", body: object = None, *, seconds: float = _REPLY_SECONDS
) -> bytes:
    data = None if body is None else msgspec.json.encode(body)
    headers = {} if data is None else {"Content-Type": "application/json"}
    try:
        made = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 - http only
        with _OPENER.open(made, timeout=seconds) as response:
            found: bytes = response.read(_REPLY_LIMIT + 1)
    except urllib.error.HTTPError as error:
        said = error.read(500).decode(errors="replace")
        raise CheckFailedError(
            f"{method} {url} failed with status {error.code}: {said}",
            details=Evidence(status=error.code),
        ) from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise CheckFailedError(
            f"{method} {url} failed: {reason}",
            remedy="start what listens there, as `pkgtools recipe render` prints it",
        ) from None
    if len(found) > _REPLY_LIMIT:
        raise CheckFailedError(f"{method} {url} returned more than {_REPLY_LIMIT} bytes")
    return found


def _request_json(
    url: str, method: str = "GET", body: object = None, *, seconds: float = _REPLY_SECONDS
) -> dict[str, Any]:
    reply = _request(url, method, body, seconds=seconds)
    try:
        return msgspec.json.decode(reply, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CheckFailedError(f"{method} {url} did not return a JSON object: {error}") from None
