"""What a client sends to capture a prompt, and how it checks what it is told."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from .mooncake import Reader


def ask(sample_id: str = "s", **more: Any) -> dict[str, Any]:
    """Return a capture entry under a store id of its own."""
    return {
        "store_id": uuid4().hex,
        "sample_id": sample_id,
        "gen": 0,
        "features": {"aux": "hidden", "last_hidden": "last"},
        **more,
    }


def captured(reply: Any) -> Any:
    return reply["meta_info"]["spec_capture"]


def keys(entry: dict[str, Any]) -> list[str]:
    prefix = f"{entry['store_id']}/{entry['sample_id']}/g{entry['gen']}"
    return [f"{prefix}/hidden", f"{prefix}/last"]


def is_answered_as_stored(result: Any, reader: Reader, entry: dict[str, Any]) -> None:
    """Hold a result against the store: whole where it says so, else nothing of it."""
    expected = [result is not None and "error" not in result] * 2
    deadline = time.monotonic() + 10
    while (found := reader.exists(*keys(entry))) != expected and time.monotonic() < deadline:
        time.sleep(0.1)  # what was written for an aborted request is removed behind it
    assert found == expected, (found, result)
