"""One captured request, and one batch of them on its way to the store."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import threading

    import torch
    from sglang.srt.spec_capture.capture import SpecCapture
    from sglang.srt.spec_capture.memory import Slab
    from sglang.srt.spec_capture.sink import Objects


class CaptureState:
    """A captured request, from its arrival until its response."""

    def __init__(self, capture: "SpecCapture", wire: dict[str, Any]) -> None:
        self.capture = capture
        self.wire = wire
        # Whether its prefill will be captured. Every rank has the same value, which
        # `result` has not: batches are planned by it.
        self.wanted = "error" not in wire
        self.looked: threading.Event | None = None
        self.taken: str | None = None
        self.cancelled = False  # its client has gone
        self.stored: Objects | None = None
        self.features: dict[str, dict[str, Any]] = {}
        self.result: dict[str, Any] | None = None
        if not self.wanted:
            self.fail(wire["error"])

    @property
    def prefix(self) -> str:
        """What all of its keys begin with."""
        return "{store_id}/{sample_id}/g{gen}".format(**self.wire)

    @property
    def has_failed(self) -> bool:
        """Whether its result is an error."""
        return self.result is not None and "error" in self.result

    def keys(self) -> list[str]:
        """Return the keys that it writes."""
        names = [*self.wire["features"].values()]
        names += [tensor["name"] for tensor in self.wire["passthrough"]]
        return [f"{self.prefix}/{name}" for name in names]

    def fail(self, error: str) -> None:
        """Make an error the result, and let go of what was to be written."""
        self.result = {"sample_id": self.wire.get("sample_id"), "error": error}
        self.wire = {"sample_id": self.wire.get("sample_id")}  # its bytes can go

    def succeed(self, aux_layer_ids: list[int]) -> None:
        """Make the names and shapes of what is stored the result."""
        self.result = {
            "sample_id": self.wire["sample_id"],
            "store_id": self.wire["store_id"],
            "gen": self.wire["gen"],
            "aux_layer_ids": aux_layer_ids,
            "features": self.features,
        }
        self.wire = {"sample_id": self.wire["sample_id"]}


class Job:
    """A batch's features, until they are in the store."""

    def __init__(self, states: list[CaptureState], deadline: float) -> None:
        self.states = states
        self.deadline = deadline
        self.groups: list[Objects] = []
        # Where each tensor goes in the slab; it keeps the device's memory.
        self.sources: list[tuple[int, torch.Tensor]] = []
        self.size = 0
        self.slab: Slab | None = None
        self.replaced_slab: Slab | None = None
        self.computed: Any = None  # an event of the forward stream
        self.copied: Any = None  # an event of the copy streams
        self.times: list[float] = []
