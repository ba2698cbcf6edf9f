"""Write the processes for a shell, for compose, and for Slurm. The output is reproducible."""

import ipaddress
import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from pkgtools.recipe.processes import VISIBLE_GPUS, Process

_IS_HEALTHY: Final = (
    "import sys, urllib.request as r; "
    "r.build_opener(r.ProxyHandler({})).open(sys.argv[1], timeout=5)"
)
_CONTINUED: Final = " \\\n  "


def shell(name: str, processes: Sequence[Process]) -> str:
    """Return a script that takes the process to start as its argument, if there are several."""
    lines = ["#!/bin/sh", f"# {name}: sh FILE {'|'.join(p.name for p in processes)}", "set -eu"]
    if len(processes) == 1:
        return "\n".join([*lines[:1], f"# {name}", lines[2], *_shell_process(processes[0]), ""])
    lines.append('case "${1-}" in')
    for process in processes:
        lines += [f"{process.name})", *_shell_process(process), ";;"]
    names = ", ".join(process.name for process in processes)
    lines += ["*)", f"echo 'which one? {names}' >&2", "exit 2", ";;", "esac", ""]
    return "\n".join(lines)


def _shell_process(process: Process) -> Iterator[str]:
    yield f"# on {process.address}, inside {process.image}"
    yield from _need_secrets(process)
    yield f"exec {_command(process)}"


def _need_secrets(process: Process) -> Iterator[str]:
    for secret in process.secrets:
        yield f': "${{{secret}:?has to come from the environment}}"'


def _command(process: Process) -> str:
    """Return the command and its environment in shell syntax, one option a line."""
    lines: list[list[str]] = []
    if process.unset or process.environment:
        lines.append(["env", *(word for variable in process.unset for word in ("-u", variable))])
        lines += [[f"{name}={value}"] for name, value in process.environment.items()]
    lines.append([process.command[0]])
    for word in process.command[1:]:
        if word.startswith("--"):
            lines.append([])
        lines[-1].append(word)
    return _CONTINUED.join(" ".join(map(shlex.quote, line)) for line in lines)


def slurm(name: str, processes: Sequence[Process]) -> str:
    """Return a batch script: one node for each address; the trainer waits for a healthy server."""
    nodes: dict[str, list[Process]] = {}
    for process in processes:
        nodes.setdefault(process.address, []).append(process)
    lines = ["#!/bin/bash", f"#SBATCH --job-name={name}"]
    for number, (address, group) in enumerate(nodes.items()):
        if number:
            lines.append("#SBATCH hetjob")
        lines += _slurm_node(address, group)
    lines += ["set -euo pipefail", *[line for p in processes for line in _need_secrets(p)]]
    if len(processes) == 1:
        return "\n".join([*lines, f"exec srun --ntasks=1 {_command(processes[0])}", ""])
    groups = {address: number for number, address in enumerate(nodes)}
    for process in processes:
        part = f"--het-group={groups[process.address]} " if len(nodes) > 1 else ""
        step = f"srun {part}--overlap --ntasks=1 {_command(process)}"
        if process.after:
            healthy = f"curl --fail --silent --max-time 5 {shlex.quote(process.after)}"
            step = f"{{\nuntil {healthy} >/dev/null; do sleep 5; done\n{step}\n}}"
        lines += [f"# {process.name}, inside {process.image}", f"{step} &"]
    lines += ["wait -n  # the first to end ends all", ""]
    return "\n".join(lines)


def _slurm_node(address: str, processes: Sequence[Process]) -> Iterator[str]:
    yield "#SBATCH --nodes=1"
    yield f"#SBATCH --ntasks={len(processes)}"
    try:
        ipaddress.ip_address(address)
        yield f"# this node has to be the one with the address {address}"
    except ValueError:
        yield f"#SBATCH --nodelist={shlex.quote(address)}"
    memory = max(process.memory for process in processes)
    if memory:
        yield f"#SBATCH --mem={memory // 2**20}M"
    gpus = sum(process.gpus for process in processes)
    if gpus:
        yield f"#SBATCH --gpus-per-node={gpus}"


def compose(name: str, processes: Sequence[Process]) -> str:
    """Return a compose file; on each node its own services are started by name."""
    lines = [f"name: {_yaml(name.lower().replace('.', '-'))}", "services:"]
    names = {process.name for process in processes}
    for process in processes:
        lines += [f"  {line}" for line in _service(process, names)]
    return "\n".join([*lines, ""])


def _service(process: Process, names: set[str]) -> Iterator[str]:
    yield f"{process.name}:"
    yield f"  # on {process.address}"
    yield f"  image: {_yaml(process.image)}"
    yield "  network_mode: host"
    yield "  ipc: host"
    yield "  init: true"
    yield "  ulimits: {memlock: -1}"
    if process.unset:
        entry = ["env", *(word for name in process.unset for word in ("-u", name))]
        yield f"  entrypoint: [{', '.join(map(_yaml, entry))}]"
    else:
        yield "  entrypoint: []"
    yield "  command:"
    yield from (f"    - {_yaml(word)}" for word in process.command)
    # A container counts the GPUs that it is given from 0.
    hidden = {VISIBLE_GPUS} if process.gpu_ids else set()
    environment = {n: v for n, v in process.environment.items() if n not in hidden}
    if environment or process.secrets:
        yield "  environment:"
        yield from (f"    {n}: {_yaml(value)}" for n, value in environment.items())
        # Without a value: compose takes it from where it is started.
        yield from (f"    {secret}:" for secret in process.secrets)
    if process.reads or process.writes:
        yield "  volumes:"
        for path in (*process.reads, *process.writes):
            both = f"source: {_yaml(path)}, target: {_yaml(path)}"
            read_only = str(path not in process.writes).lower()
            yield f"    - {{type: bind, {both}, read_only: {read_only}}}"
    if process.gpus:
        ids = ", ".join(_yaml(str(number)) for number in process.gpu_ids)
        which = f"device_ids: [{ids}]" if ids else f"count: {process.gpus}"
        device = f"{{driver: nvidia, {which}, capabilities: [gpu]}}"
        yield f"  deploy: {{resources: {{reservations: {{devices: [{device}]}}}}}}"
    if process.health:
        # The image's own would ask on loopback, and for another process of the image.
        test = ", ".join(map(_yaml, ("CMD", "python3", "-c", _IS_HEALTHY, process.health)))
        yield f"  healthcheck: {{test: [{test}], interval: 10s, timeout: 10s, start_period: 30m}}"
    if process.name == "server" and "master" in names:
        yield "  depends_on: {master: {condition: service_healthy}}"


def _yaml(text: str) -> str:
    """Return a quoted scalar in which compose sees no variable."""
    return json.dumps(text.replace("$", "$$"), ensure_ascii=False)


FORMATS: Final[dict[str, Callable[[str, Sequence[Process]], str]]] = {
    "shell": shell,
    "compose": compose,
    "slurm": slurm,
}
