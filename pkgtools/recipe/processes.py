"""The environment and the command of each process that a recipe starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pkgtools.recipe.model import Flag, Node, Recipe, size_bytes
from pkgtools.recipe.plan import require_site
from pkgtools.recipe.rules import RENDEZVOUS

_FAST_COPIES: Final = {"GLIBC_TUNABLES": "glibc.cpu.x86_non_temporal_threshold=1048576"}
"""Mooncake copies 16 MiB at a time into memory that it lends. Past the caches, that goes about 1.4
times as fast; by itself the C library does so from three quarters of the shared cache on:
https://sourceware.org/glibc/manual/latest/html_node/Hardware-Capability-Tunables.html"""
VISIBLE_GPUS: Final = "CUDA_VISIBLE_DEVICES"
_SERVER_URLS: Final = "DISAGG_SERVER_URLS"
"""The variable in which SpecForge's trainer looks for its capture servers."""


@dataclass(frozen=True)
class Process:
    """One process, as every format starts it."""

    name: str
    image: str
    address: str
    """Of the node that it runs on."""
    command: tuple[str, ...]
    environment: Mapping[str, str]
    secrets: tuple[str, ...] = ()
    """Variables that have to be set where it is started."""
    unset: tuple[str, ...] = ()
    """Variables that must not reach it."""
    reads: tuple[str, ...] = ()
    """Files and folders of the host."""
    writes: tuple[str, ...] = ()
    health: str = ""
    """A URL that answers while it is healthy."""
    after: str = ""
    """The health of the process that it has to wait for."""
    gpus: int = 0
    gpu_ids: tuple[int, ...] = ()
    """Which of the node's; empty where the recipe does not say."""
    memory: int = 0
    """Bytes of the node's memory; 0 where the recipe does not say."""


def processes(recipe: Recipe) -> dict[str, Process]:
    """Return the master, the server and the trainer, by name."""
    require_site(recipe)
    return {p.name: p for p in (_master(recipe), _server(recipe), _trainer(recipe))}


def store_environment(recipe: Recipe, node: Node, segment: int) -> dict[str, str]:
    """Return Mooncake's variables of a client on `node` that lends `segment` bytes."""
    master, store = recipe.master, recipe.store
    capture = host(recipe.capture_node)
    variables = {
        "MOONCAKE_MASTER_SERVER_ADDR": f"{capture}:{master.rpc_port}",
        "MOONCAKE_METADATA_SERVER": f"http://{capture}:{master.metadata_port}/metadata",
        "MOONCAKE_LOCAL_HOSTNAME": str(node.address),
        "MOONCAKE_PROTOCOL": store.protocol,
        "MOONCAKE_GLOBAL_SEGMENT_SIZE": str(segment),
        "MOONCAKE_LOCAL_BUFFER_SIZE": str(size_bytes(store.buffer)),
        "MC_TCP_BIND_ADDRESS": str(node.bind_address),
        "MC_TRANSFER_TIMEOUT": str(store.transfer_timeout_seconds),
    }
    if store.rdma_devices:
        variables["MOONCAKE_RDMA_DEVICES"] = store.rdma_devices
    return variables


def host(node: Node) -> str:
    """Return a node's address in the form that precedes a port."""
    address = str(node.address)
    return f"[{address}]" if ":" in address else address


def server_url(recipe: Recipe) -> str:
    """Return where the server listens."""
    return f"http://{host(recipe.capture_node)}:{recipe.server.port}"


def _master(recipe: Recipe) -> Process:
    master, address = recipe.master, recipe.capture_node.bind_address
    command = (
        "mooncake_master",
        f"--rpc_address={address}",
        f"--rpc_port={master.rpc_port}",
        "--enable_http_metadata_server=true",
        f"--http_metadata_server_host={address}",
        f"--http_metadata_server_port={master.metadata_port}",
        # Kimi K3's own pin of Mooncake, 0.3.12, does not have the next option: gflags then
        # passes over it.
        "--undefok=metrics_host",
        f"--metrics_host={address}",
        f"--metrics_port={master.metrics_port}",
        f"--default_kv_lease_ttl={master.lease_seconds * 1000}",  # milliseconds
    )
    return Process(
        "master",
        str(recipe.image),
        str(recipe.capture_node.address),
        command,
        {},
        health=f"http://{host(recipe.capture_node)}:{master.metrics_port}/health",
    )


def _server(recipe: Recipe) -> Process:
    server, node = recipe.server, recipe.capture_node
    command = (
        *server.command,
        *("--model-path", str(recipe.model.path)),
        *("--host", str(node.bind_address)),
        *("--port", str(server.port)),
        *_arguments(server.flags),
    )
    segment = size_bytes(recipe.store.segment)
    return Process(
        "server",
        str(recipe.image),
        str(node.address),
        command,
        {
            **_FAST_COPIES,
            **store_environment(recipe, node, segment),
            **_visible(server.gpus),
            **server.environment,
        },
        reads=(str(recipe.model.path),),
        health=f"{server_url(recipe)}/health",
        gpus=recipe.server_gpus,
        gpu_ids=tuple(server.gpus or ()),
        memory=size_bytes(str(node.memory)),
    )


def _trainer(recipe: Recipe) -> Process:
    trainer, node, draft = recipe.trainer, recipe.trainer_node, recipe.draft
    reads = [str(recipe.dataset.path), *([str(draft.path)] if draft else [])]
    return Process(
        "trainer",
        str(trainer.image),
        str(node.address),
        trainer.command or (),
        {
            **store_environment(recipe, node, 0),
            _SERVER_URLS: server_url(recipe),
            **_visible(trainer.gpus),
            **trainer.environment,
        },
        secrets=tuple(trainer.secrets),
        unset=RENDEZVOUS,
        reads=tuple(reads),
        writes=(str(trainer.output),),
        after=f"{server_url(recipe)}/health",
        gpus=trainer.ranks,
        gpu_ids=tuple(trainer.gpus or ()),
    )


def _visible(gpus: Sequence[int] | None) -> dict[str, str]:
    return {} if gpus is None else {VISIBLE_GPUS: ",".join(map(str, gpus))}


def _arguments(flags: Mapping[str, Flag]) -> Sequence[str]:
    """Return flags as a command line has them; one that is false is left out."""
    words: list[str] = []
    for name, value in flags.items():
        if value is False:
            continue
        words.append(f"--{name}")
        if value is not True:
            words += [str(item) for item in (value if isinstance(value, list) else [value])]
    return words
