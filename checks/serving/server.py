"""An SGLang server on the CPU, read from a tree that is not installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import requests

from .process import NotReadyError, Process, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CPU: Final = Path(__file__).parent / "cpu"

CPU_ENVIRONMENT: Final = {
    "SGLANG_USE_CPU_ENGINE": "1",
    # On a busy machine, threads that wait for each other took 30 times as long.
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
}

_ARGUMENTS: Final = (
    "--device=cpu",
    "--skip-tokenizer-init",
    "--attention-backend=torch_native",
    "--sampling-backend=pytorch",
    "--disable-cuda-graph",
    "--mem-fraction-static=0.05",
    "--max-total-tokens=4096",
    "--skip-server-warmup",
    "--sleep-on-idle",
    "--host=127.0.0.1",
)

LLAMA_ARGUMENTS: Final = ("--dtype=float32", "--chunked-prefill-size=-1")

LLAMA_CAPTURE: Final = (
    *LLAMA_ARGUMENTS,
    "--enable-spec-capture",
    "--spec-capture-aux-layer-ids",
    "0",
    "2",
    "4",
)
"""Capture of three of its layers, by the default method."""

K3_ARGUMENTS: Final = ("--dtype=float32", "--load-format=dummy", "--disable-overlap-schedule")
"""For Kimi K3, whose kernels run under Triton's interpreter: bfloat16 is wrong there, and
the decode step, which overlap runs ahead of time, needs CPU kernels that are not there."""

K3_ENVIRONMENT: Final = {
    "PKGTOOLS_E2E_SHIM": "k3",
    "TRITON_INTERPRET": "1",
    "TORCHDYNAMO_DISABLE": "1",
}


class Server:
    """A server that is ready, until it is closed.

    Args:
        tree: the folder that holds the package directory `sglang`.
        model: the model's folder.
        folder: where it may write; its log goes there.
        arguments: more arguments of `sglang.launch_server`.
        environment: more variables.

    """

    def __init__(
        self,
        tree: Path,
        model: Path,
        folder: Path,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = Process(
            [
                sys.executable,
                "-m",
                "sglang.launch_server",
                f"--model-path={model}",
                f"--port={self.port}",
                *_ARGUMENTS,
                *arguments,
            ],
            folder / "server.log",
            {**_environment(tree), **(environment or {})},
        )
        try:
            self.process.wait_until(self.is_healthy, 180)
        except NotReadyError:
            self.close()
            raise

    def is_healthy(self) -> bool:
        try:
            return requests.get(f"{self.url}/health", timeout=5).ok
        except requests.RequestException:
            return False

    def generate(self, timeout: float = 60, **body: Any) -> Any:
        """Return the JSON of a `/generate` request."""
        return requests.post(f"{self.url}/generate", json=body, timeout=timeout).json()

    def raw(self, **body: Any) -> requests.Response:
        return requests.post(f"{self.url}/generate", json=body, timeout=60)

    def stream(self, timeout: float = 60, **body: Any) -> Iterator[Any]:
        """Yield the JSON of each chunk of a streaming `/generate` request."""
        with requests.post(
            f"{self.url}/generate", json={**body, "stream": True}, timeout=timeout, stream=True
        ) as response:
            for line in response.iter_lines():
                if line.startswith(b"data: ") and line != b"data: [DONE]":
                    yield json.loads(line.removeprefix(b"data: "))

    def abort(self, rid: str) -> None:
        requests.post(f"{self.url}/abort_request", json={"rid": rid}, timeout=30)

    def close(self) -> None:
        self.process.kill()


def ranks(count: int) -> tuple[str, dict[str, str]]:
    """Return the argument and the environment of a server with so many tensor-parallel ranks."""
    cores = islice(cycle(sorted(os.sched_getaffinity(0))), count)
    return f"--tp-size={count}", {"SGLANG_CPU_OMP_THREADS_BIND": "|".join(map(str, cores))}


def greedy(tokens: int = 1, **more: Any) -> dict[str, Any]:
    """Return sampling parameters for exactly `tokens` tokens, always the same."""
    return {"max_new_tokens": tokens, "temperature": 0, "ignore_eos": True, **more}


def refusals(tree: Path, model: Path, cases: Sequence[Sequence[str]]) -> list[str | None]:
    """Return why a server refuses arguments before it loads a model, for each list of them.

    None where it does not. One process for all: it takes as long as half a start.
    """
    resolved = _resolve(tree, [[f"--model-path={model}", *_ARGUMENTS, *case] for case in cases])
    return [each if isinstance(each, str) else None for each in resolved]


def resolve_for_cuda(
    tree: Path, model: Path, cases: Sequence[Sequence[str]]
) -> list[str | dict[str, Any]]:
    """Return what a server with CUDA's defaults decides, or why it refuses, for each list."""
    arguments = [[f"--model-path={model}", "--skip-tokenizer-init", *case] for case in cases]
    return _resolve(tree, arguments, {"PKGTOOLS_E2E_DEVICE": "cuda"})


def _resolve(
    tree: Path, arguments: list[list[str]], environment: Mapping[str, str] | None = None
) -> list[str | dict[str, Any]]:
    more = {"SGLANG_USE_CPU_ENGINE": "0"} if environment else {}
    done = subprocess.run(
        [sys.executable, "-m", "check_arguments"],
        input=json.dumps(arguments),
        env={**os.environ, **_environment(tree), **more, **(environment or {})},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    resolved: list[str | dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return resolved


def _environment(tree: Path) -> dict[str, str]:
    path = [str(CPU / "stubs"), str(CPU / "site"), str(tree)]
    return {"PYTHONPATH": os.pathsep.join(path), **CPU_ENVIRONMENT}
