"""An SGLang server on GPUs, a store beside it, and how far two tensors are apart."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "checks"))

from serving.mooncake import Master, Reader
from serving.process import NotReadyError, Process, free_port
from serving.server import CPU, Server

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

GIB: Final = 1 << 30
FAST_COPIES: Final = {"GLIBC_TUNABLES": "glibc.cpu.x86_non_temporal_threshold=1048576"}
"""What a rendered server has too: Mooncake copies 16 MiB at a time, past the caches."""
_ARGUMENTS: Final = (
    "--host=127.0.0.1",
    "--skip-tokenizer-init",
    "--skip-server-warmup",
    "--dtype=bfloat16",
    "--attention-backend=triton",
    "--sampling-backend=pytorch",
    "--grammar-backend=none",
    "--chunked-prefill-size=-1",
    "--mem-fraction-static=0.7",
    "--cuda-graph-max-bs-decode=4",
)


@dataclass(frozen=True)
class Setup:
    """What a case has to work with."""

    release: Path
    """The tree of a release, patched."""
    k3: Path
    """The tree of Kimi K3, patched."""
    pristine: Path | None
    """Upstream's own copies of the files that the guards change."""
    path: tuple[Path, ...]
    """Folders in front of the servers' module path."""
    tp: int
    """Tensor-parallel ranks, one a GPU."""
    folder: Path
    """An empty folder of the case."""


class GpuServer(Server):
    """A server on `setup.tp` GPUs that is ready, until it is closed."""

    master: Master
    """Of its store."""

    def __init__(
        self,
        setup: Setup,
        tree: Path,
        model: Path,
        arguments: Sequence[str],
        environment: Mapping[str, str],
    ) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        path = [*setup.path, CPU / "site", tree]
        self.process = Process(
            [
                sys.executable,
                "-m",
                "sglang.launch_server",
                f"--model-path={model}",
                f"--port={self.port}",
                f"--tp-size={setup.tp}",
                *_ARGUMENTS,
                *arguments,
            ],
            setup.folder / "server.log",
            {
                "PYTHONPATH": os.pathsep.join(map(str, path)),
                "HF_HUB_OFFLINE": "1",
                "TRANSFORMERS_OFFLINE": "1",
                "FLASHINFER_DISABLE_VERSION_CHECK": "1",
                **environment,
            },
        )
        try:
            self.process.wait_until(self.is_healthy, 300)
        except NotReadyError:
            self.close()
            raise


@contextmanager
def serve(  # noqa: PLR0913 - each is a fact of its own
    setup: Setup,
    tree: Path,
    model: Path,
    arguments: Sequence[str] = (),
    *,
    environment: Mapping[str, str] | None = None,
    segment: int = GIB,
) -> Iterator[tuple[GpuServer, Reader]]:
    """Start a master and a server that lends `segment` bytes to its store, and end both."""
    with Master(setup.folder) as master:
        server = GpuServer(
            setup,
            tree,
            model,
            ["--enable-spec-capture", *arguments],
            {**master.environment(segment), **(environment or {})},
        )
        server.master = master
        try:
            reader = Reader(master, segment)
            yield server, reader
            reader.close()
        finally:
            server.close()


def distance(found: Any, expected: Any) -> float:
    """Return ‖found - expected‖ / ‖expected‖, worked out in float64."""
    right = np.asarray(expected, np.float64)
    return float(np.linalg.norm(np.asarray(found, np.float64) - right) / np.linalg.norm(right))
