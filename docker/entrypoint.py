#!/usr/bin/env python3
"""Start one process of the capture deployment, or ask whether it is healthy.

CAPTURE_ROLE says which: ``server`` (the default), the patched SGLang, or ``master``, the master
of the Mooncake store with its metadata server. This process becomes the program, so signals and
the exit code are the program's own. Arguments come after those of the deployment and win over
them. With ``--health`` alone it exits with 0 where the role's program answers, else with 1.
"""

from __future__ import annotations

import os
import sys
import urllib.request
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULTS: Final = {
    "CAPTURE_ROLE": "server",
    "CAPTURE_MODEL": "/model",
    "CAPTURE_PORT": "30000",
    "CAPTURE_RPC_PORT": "35551",
    "CAPTURE_METADATA_PORT": "35880",
    "CAPTURE_METRICS_PORT": "35903",
    # Seconds, as long as the lease: see master.
    "MC_TRANSFER_TIMEOUT": "300",
    # Mooncake copies into the memory that the server lends: faster past the caches (capture.md).
    "GLIBC_TUNABLES": "glibc.cpu.x86_non_temporal_threshold=1048576",
    "MOONCAKE_PROTOCOL": "tcp",
    "MOONCAKE_GLOBAL_SEGMENT_SIZE": "1tb",
    "MOONCAKE_LOCAL_BUFFER_SIZE": "1gb",
}
"""The values of variables that are unset or empty."""

_DEPLOYMENTS: Final = ("CAPTURE_", "MOONCAKE_", "MC_")
"""Prefixes of variables that count as unset if they are empty: compose passes unset ones so. Other
variables can be empty on purpose: CUDA_VISIBLE_DEVICES, http_proxy."""

_HEALTH_TIMEOUT_S: Final = 5


def settings(given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a role's program.

    Raises:
        SystemExit: the server's address for other machines is unknown.

    """
    env = DEFAULTS | {
        name: value for name, value in given.items() if value or not name.startswith(_DEPLOYMENTS)
    }
    if env["CAPTURE_ROLE"] != "server":
        return env
    own = env.get("MC_TCP_BIND_ADDRESS")
    if own is None:
        sys.exit(
            "MC_TCP_BIND_ADDRESS is not set: give the address of this machine that the trainer's "
            "machine can reach. Without it, Mooncake can publish the address of a bridge."
        )
    # One machine has both roles, unless these say otherwise.
    return {
        "MOONCAKE_LOCAL_HOSTNAME": own,
        "MOONCAKE_MASTER_SERVER_ADDR": f"{own}:{env['CAPTURE_RPC_PORT']}",
        "MOONCAKE_METADATA_SERVER": f"http://{own}:{env['CAPTURE_METADATA_PORT']}/metadata",
    } | env


def master(env: Mapping[str, str]) -> list[str]:
    """Return the command of the store's master."""
    return [
        "mooncake_master",
        "--logtostderr",
        f"--rpc_port={env['CAPTURE_RPC_PORT']}",
        "--enable_http_metadata_server=true",
        "--http_metadata_server_host=0.0.0.0",
        f"--http_metadata_server_port={env['CAPTURE_METADATA_PORT']}",
        f"--metrics_port={env['CAPTURE_METRICS_PORT']}",
        # A 64K sample's features are 5.25 GiB: on a shared link Mooncake's own lease of seconds
        # ends while they are read.
        "--default_kv_lease_ttl=5m",
    ]


def server(env: Mapping[str, str]) -> list[str]:
    """Return the command of the capture server."""
    options = {
        "host": "0.0.0.0",  # noqa: S104 - the trainer asks from another machine
        "port": env["CAPTURE_PORT"],
        "model-path": env["CAPTURE_MODEL"],
        "tp-size": "8",
        "mem-fraction-static": "0.76",
        "context-length": "66048",
        "max-running-requests": "1",
        "max-total-tokens": "66048",
        "attention-backend": "trtllm_mla",
        "moe-runner-backend": "marlin",
        "mamba-radix-cache-strategy": "extra_buffer",
        "max-mamba-cache-size": "5",
        "chunked-prefill-size": "-1",
        "spec-capture-method": "dspark",
    }
    return [
        *(sys.executable, "-m", "sglang.launch_server"),
        *(f"--{name}={value}" for name, value in options.items()),
        *("--spec-capture-aux-layer-ids", "7", "23", "51", "67", "83"),
        "--disable-cuda-graph",
        "--enable-spec-capture",
        "--trust-remote-code",
        "--skip-tokenizer-init",
    ]


ROLES: Final = {"master": master, "server": server}


def is_healthy(env: Mapping[str, str]) -> bool:
    """Ask the role's program, on this machine."""
    master_ports = ("CAPTURE_METRICS_PORT", "CAPTURE_METADATA_PORT")
    ports = master_ports if env["CAPTURE_ROLE"] == "master" else ("CAPTURE_PORT",)
    # A proxy that the environment names is not for this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        for port in ports:
            url = f"http://127.0.0.1:{env[port]}/health"
            with opener.open(url, timeout=_HEALTH_TIMEOUT_S):
                pass
    except OSError:
        return False
    return True


def main() -> None:
    """Become the role's program, or answer for it.

    Raises:
        SystemExit: with 0 or 1 for ``--health``; with a message for an unknown role.

    """
    env = settings(os.environ)
    role = env["CAPTURE_ROLE"]
    if role not in ROLES:
        sys.exit(f"CAPTURE_ROLE is {role}: it can be {' or '.join(ROLES)}")
    if sys.argv[1:] == ["--health"]:
        sys.exit(0 if is_healthy(env) else 1)
    command = [*ROLES[role](env), *sys.argv[1:]]
    sys.stderr.write(f"{' '.join(command)}\n")
    sys.stderr.flush()
    os.execvpe(command[0], command, env)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()
