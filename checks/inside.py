"""Check a patched SGLang inside an image; the image's own Python runs this file.

`pkgtools image test` copies this folder into a container and runs this file with
the folder that holds the package. Every check prints one line
of JSON. It needs neither pytest nor pkgtools; torch, triton, numpy, requests
and Mooncake come from the image.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ATTN_RESIDUAL: Final = "sglang/srt/layers/attn_residual.py"
_NEEDED: Final = {"torch", "triton", "numpy", "requests", "mooncake"}
_MARLIN_MOE: Final = "sglang/srt/layers/moe/fused_moe_triton/fused_marlin_moe.py"


def main(site: Path) -> None:
    """Run every check that the package in `site` must pass."""
    # Mooncake looks for another interface than loopback; the container runs without network.
    os.environ["MC_TCP_BIND_ADDRESS"] = "127.0.0.1"
    for name, check in _checks(site):
        start = time.monotonic()
        try:
            check()
        except Exception as error:  # noqa: BLE001 - whatever it is, this check failed
            traceback.print_exc()
            _say(name, start, f"{type(error).__name__}: {error}"[-2000:], _remedy(error))
        else:
            _say(name, start)


def _checks(site: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    file = site / _ATTN_RESIDUAL
    if file.is_file():  # the releases before K3 have neither
        yield "guard-offsets", lambda: _guards("check_offsets", file)
        yield "guard-scales", lambda: _guards("check_scales", file, "bfloat16", 1e-5)
        yield "guard-mixed-scales", lambda: _guards("check_mixed", file)
        yield "guard-grid", lambda: _guards("check_reduction", site / _MARLIN_MOE, 65_536)
        yield "capture-dspark", lambda: _capture_k3(site)
    else:
        yield "capture-eagle3", lambda: _capture_llama(site)


def _guards(check: str, file: Path, *arguments: object) -> None:
    import torch  # noqa: F401, PLC0415 - the interpreter's process needs both
    import triton  # noqa: F401, PLC0415

    from guards import proofs  # noqa: PLC0415 - releases before K3 lack the kernels
    from guards.interpreter import Interpreter  # noqa: PLC0415

    with Interpreter() as run:
        getattr(proofs, check)(run, file.read_bytes(), *arguments)


def _capture_k3(site: Path) -> None:
    from serving.k3 import check_capture  # noqa: PLC0415
    from serving.models import write_k3  # noqa: PLC0415
    from serving.mooncake import Master, Reader  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = write_k3(folder / "model", moe=False)
        with Master(folder) as master:
            check_capture(site, model, master, Reader(master), folder / "server", "image")


def _capture_llama(site: Path) -> None:
    from serving.llama import check_values  # noqa: PLC0415
    from serving.models import write_llama  # noqa: PLC0415
    from serving.mooncake import Master, Reader  # noqa: PLC0415
    from serving.server import LLAMA_CAPTURE, Server  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = write_llama(folder / "model")
        with Master(folder) as master:
            server = Server(site, model, folder / "server", LLAMA_CAPTURE, master.environment())
            check_values(server, Reader(master), model)


def _remedy(error: Exception) -> str | None:
    if isinstance(error, ModuleNotFoundError) and error.name in _NEEDED:
        return f"build on a base that serves: the checks need its {', '.join(sorted(_NEEDED))}"
    return None


def _say(name: str, start: float, message: str | None = None, remedy: str | None = None) -> None:
    seconds = time.monotonic() - start
    facts = {"name": name, "message": message, "seconds": seconds, "remedy": remedy}
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
