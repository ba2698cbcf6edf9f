"""Says how the server resolves lists of arguments as it starts, before it loads a model.

The lists come as JSON on standard input. The last line of standard output is a JSON list with
the reason of a refusal, or what was decided, for each. `PKGTOOLS_E2E_DEVICE=cuda` resolves
them as on a machine with GPUs.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

if os.environ.get("PKGTOOLS_E2E_DEVICE") == "cuda":
    import fake_cuda

    fake_cuda.install()

from sglang.srt.server_args import prepare_server_args

_DECIDED = ("device", "chunked_prefill_size", "max_prefill_tokens")


def _resolve(arguments: list[str]) -> str | dict[str, Any]:
    try:
        server_args = prepare_server_args(arguments)
        if hasattr(server_args, "resolve_once"):  # before 0.5.19 they resolve themselves
            server_args.resolve_once()
        server_args.check_server_args()
    except ValueError as error:
        return str(error)
    # From 0.5.19 on this is what `/server_info` tells; the record itself has what was typed.
    whole = getattr(server_args, "resolved_dict", lambda: vars(server_args))()
    decided = {name: whole[name] for name in _DECIDED}
    graphs = whole["cuda_graph_config"]
    for phase in ("prefill", "decode"):
        of_phase = graphs[phase]
        backend = of_phase["backend"] if isinstance(of_phase, dict) else of_phase.backend
        decided[f"{phase}_graphs"] = str(backend)
    return decided


if __name__ == "__main__":
    print(json.dumps([_resolve(arguments) for arguments in json.load(sys.stdin)]))  # noqa: T201
