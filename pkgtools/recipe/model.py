"""The typed model of a recipe.

A site file may give the values that differ from site to site; a value that neither file gives
is `None`. docs/recipe.md explains each key.
"""

import math
import re
from typing import Annotated, Final, Literal

import msgspec

Text = Annotated[str, msgspec.Meta(min_length=1)]
# TOML has integers of any length; past these bounds their products have no float.
Count = Annotated[int, msgspec.Meta(ge=1, le=10**12)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Size = Annotated[str, msgspec.Meta(pattern="^[0-9]{1,15} ?(B|KiB|MiB|GiB|TiB)$")]
Gpu = Annotated[str, msgspec.Meta(pattern="^sm[0-9]{2,3}$")]
GpuList = Annotated[list[Annotated[int, msgspec.Meta(ge=0)]], msgspec.Meta(min_length=1)]
Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
Method = Literal["eagle3", "dflash", "dspark"]
_Number = Annotated[int, msgspec.Meta(ge=-(10**12), le=10**12)]
Flag = bool | _Number | float | str | list[_Number | str]

_UNITS: Final = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_WIDTHS: Final = {"bfloat16": 2, "float16": 2, "float32": 4}


class _RecipeTable(msgspec.Struct, forbid_unknown_fields=True):
    """A table of a recipe."""


class Model(_RecipeTable):
    """The model whose hidden states are captured."""

    layers: Count
    hidden_size: Count
    dtype: Literal["bfloat16", "float16", "float32"]
    hooks: list[Method]
    """The capture methods that it has a hook for, at the target's revision."""
    fused_widths: list[Count] = []
    """Elements of a row of each buffer of its fused all-reduce; empty without one."""
    path: Text | None = None
    """Its folder, the same on the node and in the container."""
    revision: Text | None = None
    """The commit of its repository on the hub."""


class DraftModel(_RecipeTable):
    """The checkpoint that the trainer starts from: a file or a folder."""

    path: Text | None = None
    sha256: Sha256 | None = None


class Dataset(_RecipeTable):
    """The data set to capture: a file of JSON lines, one row a line."""

    rows: Count
    longest_row: Count
    """Tokens."""
    path: Text | None = None
    sha256: Sha256 | None = None


class Node(_RecipeTable):
    """A machine."""

    address: Text | None = None
    """How the other node reaches it."""
    interfaces: list[Text] | None = None
    """The addresses of all its interfaces, bridges of containers included."""
    bind_address: Text | None = None
    memory: Size | None = None
    """Its share that the deployment may take, of the host."""


class Link(_RecipeTable):
    """The network between the nodes."""

    gigabits_per_second: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """What the deployment gets of it."""


class Master(_RecipeTable):
    """Mooncake's master, on the capture node."""

    rpc_port: Port
    metadata_port: Port
    metrics_port: Port
    lease_seconds: Count


class StoreSettings(_RecipeTable):
    """Settings of the store's clients."""

    segment: Size
    """What each lender lends."""
    lenders_per_node: Count
    """Ranks of the capture node that lend a segment; with spec capture rank 0 alone."""
    buffer: Size
    zero_copy: bool
    """Whether both sides move objects from and into registered memory, past the buffer."""
    transfer_timeout_seconds: Count
    protocol: Literal["tcp", "rdma"]
    rdma_devices: str = ""


class Server(_RecipeTable):
    """The patched server, on the capture node."""

    port: Port
    flags: dict[str, Flag]
    command: tuple[str, ...] = ("python3", "-m", "sglang.launch_server")
    environment: dict[str, str] = {}
    gpu: Gpu | None = None
    """The architecture that the flags are for."""
    gpu_memory: Size | None = None
    """Of one GPU."""
    gpus: GpuList | None = None
    """Those of the node that it takes, by number."""

    def has(self, flag: str) -> bool:
        """Whether a flag without a value is given."""
        return self.flags.get(flag) is True

    def number(self, flag: str) -> int | None:
        """Return the integer value of a flag, or None."""
        value = self.flags.get(flag)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def method(self) -> str:
        """The capture method; by default the server's."""
        return str(self.flags.get("spec-capture-method", "eagle3"))

    @property
    def layer_ids(self) -> list[int]:
        """The captured layers; empty if the server chooses them, or if they are not numbers."""
        value = self.flags.get("spec-capture-aux-layer-ids", [])
        items = value if isinstance(value, list) else [value]
        numbers = [i for i in items if isinstance(i, int) and not isinstance(i, bool)]
        return numbers if len(numbers) == len(items) else []


class Trainer(_RecipeTable):
    """The reader, on the trainer node."""

    ranks: Count
    optimizer_step: Count
    """Samples that one optimizer step takes, over all ranks."""
    low_watermark: Count
    """Requests in flight below which a paused producer goes on."""
    high_watermark: Count | None = None
    """Requests in flight at which it pauses."""
    resident_high_watermark: Size | None = None
    """What samples may take in the store before it pauses."""
    resident_low_watermark: Size | None = None
    gpus: GpuList | None = None
    """Those of the node that it takes, by number."""
    image: Text | None = None
    command: tuple[str, ...] | None = None
    output: Text | None = None
    environment: dict[str, str] = {}
    secrets: list[str] = []
    """Names of variables that come from where it is started, never from a file."""


class Recipe(_RecipeTable):
    """One deployment."""

    name: str
    target: Text
    model: Model
    dataset: Dataset
    master: Master
    store: StoreSettings
    server: Server
    trainer: Trainer
    draft: DraftModel | None = None
    capture_node: Node = msgspec.field(default_factory=Node)
    trainer_node: Node = msgspec.field(default_factory=Node)
    link: Link = msgspec.field(default_factory=Link)
    image: Text | None = None
    """Of the master and the server, by digest."""
    family: str = ""
    """Recipes of one family are compared with each other."""
    differs: list[str] = []
    """Keys in which this one is meant to differ from its family."""

    @property
    def row_bytes(self) -> int:
        """Bytes of one token's hidden state of one layer."""
        return self.model.hidden_size * _WIDTHS[self.model.dtype]

    @property
    def object_bytes(self) -> int:
        """Bytes of the captured layers of the longest row: the largest object."""
        return len(self.server.layer_ids) * self.row_bytes * self.dataset.longest_row

    @property
    def lent_bytes(self) -> int:
        """Bytes that the capture node lends to the store."""
        return self.store.lenders_per_node * size_bytes(self.store.segment)

    @property
    def sample_bytes(self) -> int:
        """Bytes of all that is captured of the longest row: the layers and the last state."""
        return self.object_bytes + self.row_bytes * self.dataset.longest_row

    @property
    def server_gpus(self) -> int:
        """How many GPUs the server takes."""
        return 0 if self.server.flags.get("device") == "cpu" else self.server.number("tp-size") or 1

    @property
    def samples_in_flight(self) -> int:
        """Samples that the trainer may have asked for and not yet taken."""
        trainer = self.trainer
        return max(trainer.high_watermark or 0, trainer.low_watermark, trainer.optimizer_step)

    @property
    def batches_in_flight(self) -> int:
        """Captured batches that may be on their way; the server's default is 2."""
        environment = self.server.environment
        names = ("SGLANG_SPEC_CAPTURE_MAX_INFLIGHT", "SGLANG_SPEC_CAPTURE_MAX_PENDING_BATCHES")
        text = next((environment[name] for name in names if environment.get(name)), "2")
        return int(text) if re.fullmatch("[0-9]{1,12}", text) else 2


def size_bytes(size: str) -> int:
    """Return a `Size` in bytes."""
    digits = size.rstrip("BKMGTi ")
    return int(digits) * _UNITS[size[len(digits) :].strip()]


def shown_bytes(count: float) -> str:
    """Return a number of bytes as a person reads it: 5.25 GiB."""
    power = min(4, int(math.log2(count) // 10)) if 1 <= count < math.inf else 0
    unit = list(_UNITS)[power]
    return f"{count / 2 ** (10 * power):.4g} {unit}"
