"""The entry point of the capture image, run with programs that only tell how they were run."""

from __future__ import annotations

import http.server
import json
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

import pytest
from files import ENTRYPOINT, MASTER, SERVER, STORE, clean_environment, options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_TELL: Final = """\
import json, os, sys
print(json.dumps({"arguments": sys.argv[1:], "pid": os.getpid(), "environment": dict(os.environ)}))
sys.exit(7)
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Make a folder with a mooncake_master and a package sglang."""
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang" / "__init__.py").touch()
    (tmp_path / "sglang" / "launch_server.py").write_text(_TELL)
    master = tmp_path / "mooncake_master"
    master.write_text(f"#!{sys.executable}\n{_TELL}")
    master.chmod(0o755)
    return tmp_path


def _start(programs: Path, *arguments: str, **variables: str) -> Any:
    """Return what the program tells that the entry point became."""
    process = subprocess.Popen(
        [sys.executable, ENTRYPOINT, *arguments],
        env=clean_environment(PATH=str(programs), PYTHONPATH=str(programs), **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    printed, errors = process.communicate(timeout=30)
    assert printed, errors
    told = json.loads(printed)
    assert told["pid"] == process.pid, "the program must get the signals itself"
    assert process.returncode == 7
    return told


def _refusal(programs: Path, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, ENTRYPOINT],
        env=clean_environment(PATH=str(programs), PYTHONPATH=str(programs), **variables),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


def test_the_server_has_the_deployments_arguments_and_variables(programs: Path) -> None:
    told = _start(programs, MC_TCP_BIND_ADDRESS="10.0.0.1")
    assert options(told["arguments"]) == SERVER
    assert {name: told["environment"].get(name) for name in STORE} == STORE


def test_the_master_has_the_deployments_arguments(programs: Path) -> None:
    told = _start(programs, CAPTURE_ROLE="master")
    assert options(told["arguments"]) == MASTER


@pytest.mark.parametrize("role", ["master", "server"])
def test_arguments_come_last(programs: Path, role: str) -> None:
    extra = ["--tp-size", "4", "--rpc_port=1"]
    told = _start(programs, *extra, CAPTURE_ROLE=role, MC_TCP_BIND_ADDRESS="10.0.0.1")
    assert told["arguments"][-3:] == extra


def test_a_variable_that_is_set_wins_and_an_empty_one_does_not(programs: Path) -> None:
    told = _start(
        programs,
        MC_TCP_BIND_ADDRESS="10.0.0.1",
        MOONCAKE_MASTER_SERVER_ADDR="10.0.0.9:1",
        MOONCAKE_METADATA_SERVER="",
        MOONCAKE_GLOBAL_SEGMENT_SIZE="2tb",
        MC_TRANSFER_TIMEOUT="",
        CAPTURE_PORT="30001",
        CAPTURE_METADATA_PORT="35881",
        CAPTURE_MODEL="/elsewhere",
    )
    found = options(told["arguments"])
    assert (found["--port"], found["--model-path"]) == (["30001"], ["/elsewhere"])
    changed = {
        "MOONCAKE_MASTER_SERVER_ADDR": "10.0.0.9:1",
        "MOONCAKE_METADATA_SERVER": "http://10.0.0.1:35881/metadata",
        "MOONCAKE_GLOBAL_SEGMENT_SIZE": "2tb",
    }
    assert {name: told["environment"].get(name) for name in STORE} == STORE | changed


@pytest.mark.parametrize("name", ["CUDA_VISIBLE_DEVICES", "http_proxy"])
def test_an_empty_variable_of_another_program_stays(programs: Path, name: str) -> None:
    """It says something: no GPU, no proxy."""
    told = _start(programs, MC_TCP_BIND_ADDRESS="10.0.0.1", MOONCAKE_RDMA_DEVICES="", **{name: ""})
    assert told["environment"][name] == ""
    assert "MOONCAKE_RDMA_DEVICES" not in told["environment"]


def test_the_ports_of_the_master_can_be_others(programs: Path) -> None:
    told = _start(
        programs,
        CAPTURE_ROLE="master",
        CAPTURE_RPC_PORT="1",
        CAPTURE_METADATA_PORT="2",
        CAPTURE_METRICS_PORT="3",
    )
    ports = {"--rpc_port": ["1"], "--http_metadata_server_port": ["2"], "--metrics_port": ["3"]}
    assert options(told["arguments"]) == MASTER | ports


def test_a_server_without_an_address_is_refused(programs: Path) -> None:
    assert "MC_TCP_BIND_ADDRESS is not set" in _refusal(programs)


def test_an_unknown_role_is_refused(programs: Path) -> None:
    assert "it can be master or server" in _refusal(programs, CAPTURE_ROLE="trainer")


class _Health(http.server.BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/health" else 404)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        pass


class _Busy(_Health):
    status = 503


def _serve(handler: type[_Health]) -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield str(server.server_port)
        server.shutdown()


@pytest.fixture
def healthy() -> Iterator[str]:
    yield from _serve(_Health)


@pytest.fixture
def busy() -> Iterator[str]:
    yield from _serve(_Busy)


@pytest.fixture
def silent() -> Iterator[str]:
    """Hold a port on which nothing listens."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield str(holder.getsockname()[1])


def _health(**variables: str) -> int:
    return subprocess.run(
        [sys.executable, ENTRYPOINT, "--health"],
        env=clean_environment(MC_TCP_BIND_ADDRESS="10.0.0.1", **variables),
        check=False,
        timeout=30,
    ).returncode


def test_health_of_the_server(healthy: str, busy: str, silent: str) -> None:
    assert _health(CAPTURE_PORT=healthy) == 0
    assert _health(CAPTURE_PORT=busy) == 1
    assert _health(CAPTURE_PORT=silent) == 1


def test_health_of_the_master_is_that_of_both_its_servers(
    healthy: str, busy: str, silent: str
) -> None:
    def ask(metrics: str, metadata: str) -> int:
        return _health(
            CAPTURE_ROLE="master", CAPTURE_METRICS_PORT=metrics, CAPTURE_METADATA_PORT=metadata
        )

    assert ask(healthy, healthy) == 0
    assert ask(healthy, busy) == 1
    assert ask(silent, healthy) == 1


def test_health_does_not_ask_a_proxy(healthy: str, silent: str) -> None:
    assert _health(CAPTURE_PORT=silent, http_proxy=f"http://127.0.0.1:{healthy}") == 1
    assert _health(CAPTURE_PORT=healthy, http_proxy=f"http://127.0.0.1:{silent}") == 0
