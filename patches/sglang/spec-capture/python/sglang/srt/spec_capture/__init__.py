"""Spec capture: hidden states of a request's prefill, written to a Mooncake store.

A trainer of a draft model reads them there; the HTTP response carries only keys, shapes
and dtypes. `request` is what a client asks for and is told, `sink` writes to the store,
`methods` tells the model which layers to keep, and `capture` joins them in the scheduler.
"""

from sglang.srt.spec_capture.request import (
    add_result,
    holds_back,
    parse_spec_capture,
    take_result,
)

__all__ = ["add_result", "holds_back", "parse_spec_capture", "take_result"]
