"""Requests to the master and the server of a deployment: direct, bounded, and as JSON."""

import http.client
import urllib.error
import urllib.request
from typing import Any, Final

import msgspec

from pkgtools.errors import CheckFailedError
from pkgtools.recipe.errors import EvidenceError

_LIMIT: Final = 16 << 20
_SECONDS: Final = 30
# Processes of a deployment talk directly: ignore http_proxy and the like.
_OPENER: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def request(
    url: str, method: str = "GET", body: object = None, *, seconds: float = _SECONDS
) -> bytes:
    """Return the body of a successful response."""
    data = None if body is None else msgspec.json.encode(body)
    headers = {} if data is None else {"Content-Type": "application/json"}
    try:
        made = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 - http only
        with _OPENER.open(made, timeout=seconds) as response:
            found: bytes = response.read(_LIMIT + 1)
    except urllib.error.HTTPError as error:
        said = error.read(500).decode(errors="replace")
        raise EvidenceError(
            f"{method} {url} failed with status {error.code}: {said}",
            evidence={"status": error.code},
        ) from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise CheckFailedError(
            f"{method} {url} failed: {reason}",
            remedy="start what listens there, as `pkgtools recipe render` prints it",
        ) from None
    if len(found) > _LIMIT:
        raise CheckFailedError(f"{method} {url} returned more than {_LIMIT} bytes")
    return found


def request_json(
    url: str, method: str = "GET", body: object = None, *, seconds: float = _SECONDS
) -> dict[str, Any]:
    """Return the JSON object that a URL returns."""
    try:
        return msgspec.json.decode(request(url, method, body, seconds=seconds), type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CheckFailedError(f"{method} {url} did not return a JSON object: {error}") from None
