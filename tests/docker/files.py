"""The files below docker/, and the deployment whose values they must have."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

REPOSITORY: Final = Path(__file__).resolve().parents[2]
DOCKER: Final = REPOSITORY / "docker"
DOCKERFILE: Final = DOCKER / "Dockerfile"
ENTRYPOINT: Final = DOCKER / "entrypoint.py"
SECRET: Final = f"hf_{uuid4().hex}"
"""A token that lies about in a checkout, and must be in no image."""

SERVER: Final = {
    "--host": ["0.0.0.0"],  # noqa: S104 - what the deployment says
    "--port": ["30000"],
    "--model-path": ["/model"],
    "--tp-size": ["8"],
    "--mem-fraction-static": ["0.76"],
    "--context-length": ["66048"],
    "--max-running-requests": ["1"],
    "--max-total-tokens": ["66048"],
    "--attention-backend": ["trtllm_mla"],
    "--moe-runner-backend": ["marlin"],
    "--mamba-radix-cache-strategy": ["extra_buffer"],
    "--max-mamba-cache-size": ["5"],
    "--disable-cuda-graph": [],
    "--chunked-prefill-size": ["-1"],
    "--enable-spec-capture": [],
    "--spec-capture-method": ["dspark"],
    "--spec-capture-aux-layer-ids": ["7", "23", "51", "67", "83"],
    "--trust-remote-code": [],
    "--skip-tokenizer-init": [],
}
"""The server's arguments on the capture node of Kimi K3."""

MASTER: Final = {
    "--logtostderr": [],
    "--rpc_port": ["35551"],
    "--enable_http_metadata_server": ["true"],
    "--http_metadata_server_host": ["0.0.0.0"],  # noqa: S104
    "--http_metadata_server_port": ["35880"],
    "--metrics_port": ["35903"],
    "--default_kv_lease_ttl": ["5m"],
}

STORE: Final = {
    "MOONCAKE_MASTER_SERVER_ADDR": "10.0.0.1:35551",
    "MOONCAKE_METADATA_SERVER": "http://10.0.0.1:35880/metadata",
    "MOONCAKE_LOCAL_HOSTNAME": "10.0.0.1",
    "MC_TCP_BIND_ADDRESS": "10.0.0.1",
    "MOONCAKE_PROTOCOL": "tcp",
    "MOONCAKE_GLOBAL_SEGMENT_SIZE": "1tb",
    "MOONCAKE_LOCAL_BUFFER_SIZE": "1gb",
    "MC_TRANSFER_TIMEOUT": "300",
}
"""The server's variables on a node that the trainer reaches by 10.0.0.1."""

_VARIABLE: Final = re.compile(r"\$\{(\w+)(?:(:[-?])([^}]*))?\}")


def options(arguments: list[str]) -> dict[str, list[str]]:
    """Return each option with its values, whether written ``--a=b`` or ``--a b c``."""
    found: dict[str, list[str]] = {}
    name = ""
    for argument in arguments:
        if argument.startswith("--"):
            name, equals, value = argument.partition("=")
            assert name not in found, f"{name} twice"
            found[name] = [value] if equals else []
        else:
            found[name].append(argument)
    return found


def read_compose(variables: Mapping[str, str]) -> Any:
    """Return compose.capture.yml as `docker compose config` would resolve it.

    Raises:
        KeyError: a variable that the file demands is not given.

    """

    def value(match: re.Match[str]) -> str:
        name, kind, rest = match.groups()
        if given := variables.get(name):
            return given
        if kind != ":-":
            raise KeyError(name)
        return str(rest)

    def resolve(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: resolve(inner) for key, inner in node.items()}
        if isinstance(node, list):
            return [resolve(inner) for inner in node]
        return _VARIABLE.sub(value, node) if isinstance(node, str) else node

    return resolve(yaml.safe_load((DOCKER / "compose.capture.yml").read_text()))


def clean_environment(**more: str) -> dict[str, str]:
    """Return this environment without what the entry point reads, and with `more`."""
    mine = ("CAPTURE_", "MOONCAKE_", "MC_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(mine)}
    return {**kept, **more}
