"""The stages of docker/Dockerfile, built on a real base, and its capture image at work."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pytest
import requests
from containers import Container, Running, find_buildkit, find_compose, make_context
from engine import base_image, docker
from files import DOCKER, REPOSITORY, SECRET, clean_environment, read_compose

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.engine

_TARGET: Final = "v0.5.23"
_STUBS: Final = REPOSITORY / "checks" / "serving" / "cpu"
_PROMPT: Final = [5, 17, 200, 31, 8]

_ON_THE_CPU: Final = (
    "--device=cpu",
    "--dtype=float32",
    "--tp-size=1",
    "--attention-backend=torch_native",
    "--sampling-backend=pytorch",
    "--moe-runner-backend=auto",
    "--mamba-radix-cache-strategy=auto",
    "--context-length=2048",
    "--max-total-tokens=4096",
    "--mem-fraction-static=0.05",
    "--skip-server-warmup",
    "--sleep-on-idle",
    "--spec-capture-method=eagle3",
    *("--spec-capture-aux-layer-ids", "0", "2", "4"),
)
"""What a tiny Llama needs otherwise than the deployment."""


@pytest.fixture(scope="session")
def base() -> str:
    return base_image("PKGTOOLS_TEST_BASE")


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_context(tmp_path_factory.mktemp("context"))


@dataclass(frozen=True)
class _Builder:
    base: str
    context: Path
    program: str = "docker"
    buildkit: str = "0"

    def build(self, stage: str, target: str = _TARGET) -> str:
        """Return the name of a stage's image."""
        tag = f"pkgtools-test-{stage}:{self.buildkit}"
        docker(
            "build",
            f"--file={self.context / 'docker' / 'Dockerfile'}",
            f"--build-arg=BASE={self.base}",
            f"--build-arg=TARGET={target}",
            "--build-arg=PIP_NO_INDEX=1",
            "--build-arg=PIP_FIND_LINKS=/src/wheels",
            f"--target={stage}",
            f"--tag={tag}",
            # A build that fails leaves a container behind; BuildKit has none.
            *([] if self.buildkit == "1" else ["--force-rm"]),
            self.context,
            program=self.program,
            DOCKER_BUILDKIT=self.buildkit,
        )
        return tag


@pytest.fixture(scope="session", params=["classic", "buildkit"])
def builder(
    request: pytest.FixtureRequest,
    base: str,
    context: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[_Builder]:
    if request.param == "classic":
        yield _Builder(base, context)
        return
    program = find_buildkit(tmp_path_factory.mktemp("buildkit"))
    if program is None:
        pytest.skip("no docker on the PATH builds with BuildKit")
    yield _Builder(base, context, program, "1")


@pytest.fixture(scope="session")
def capture(base: str, context: Path) -> str:
    return _Builder(base, context).build("capture")


def _in(image: str, *command: str) -> str:
    return docker("run", "--rm", f"--entrypoint={command[0]}", image, *command[1:])


def test_every_stage_builds(builder: _Builder) -> None:
    for stage in ("base", "tool", "patched", "test", "capture"):
        builder.build(stage)


def test_the_patched_stage_is_the_target(builder: _Builder) -> None:
    verify = ("/opt/pkgtools/bin/pkgtools", "verify", "--python=python3", "--json")
    match = json.loads(_in(builder.build("patched"), *verify))
    assert (match["target"], match["state"]) == (_TARGET, "patched")
    with pytest.raises(subprocess.CalledProcessError):
        _in(builder.build("tool"), *verify)


def test_what_changed_has_bytecode_that_is_valid(capture: str) -> None:
    listing = _in(capture, "/opt/pkgtools/bin/pkgtools", "status", "--python=python3", "--json")
    modules = [f["path"].removeprefix("python/") for f in json.loads(listing)["files"]]
    check = """
import importlib.util as u, os, pathlib, struct, sys
root = pathlib.Path(u.find_spec("sglang").origin).parents[1]
for name in sys.argv[1:]:
    source = root / name
    header = pathlib.Path(u.cache_from_source(source)).read_bytes()[:16]
    stat = source.stat()
    assert header == u.MAGIC_NUMBER + struct.pack("<3I", 0, int(stat.st_mtime), stat.st_size), name
print(len(sys.argv) - 1)
"""
    assert int(_in(capture, "python3", "-c", check, *modules)) == len(modules) > 5


def test_another_revisions_target_fails_the_build(base: str, context: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        _Builder(base, context).build("patched", "v0.5.22")
    assert "v0.5.22 does not apply" in failed.value.output


def test_no_file_that_lies_about_gets_into_a_layer(builder: _Builder) -> None:
    # This stage has the whole context; the others have less.
    image = builder.build("tool")
    found = _in(image, "sh", "-c", f"cat $(find /src -type f) | grep -c '{SECRET}' || true")
    assert found == "0"
    assert "/src/wheels/hatchling" in _in(image, "find", "/src", "-type", "f")


def test_the_capture_image_keeps_nothing_of_its_build(builder: _Builder, base: str) -> None:
    image = builder.build("capture")
    (config,) = json.loads(docker("inspect", "--format=[{{json .Config}}]", image))
    (below,) = json.loads(docker("inspect", "--format=[{{json .Config}}]", base))
    assert set(config["Env"] or []) - set(below["Env"] or []) == {"HOME=/home/capture"}
    history = docker("history", "--no-trunc", image)
    assert "docker/entrypoint.py" in history or "file:" in history
    assert not re.search(r"PIP_|hf_|token|passw", history, re.IGNORECASE)
    left = _in(image, "sh", "-c", "ls -A /src /tmp /root/.cache 2>/dev/null || true")
    assert left.split() == ["/tmp:"]


def test_the_capture_image_runs_as_a_user_who_cannot_change_it(capture: str) -> None:
    assert _in(capture, "id", "-u") == "10001"
    script = "cd $(python3 -c 'import sys; print(sys.path[-1])') && test ! -w sglang && pwd"
    assert "dist-packages" in _in(capture, "sh", "-c", script)


@dataclass(frozen=True)
class _Store:
    """Where the master of the store is, as a reader wants to know it."""

    address: str
    metadata: str


class _Node:
    """The services of compose.capture.yml as it has them, but for a CPU and for free ports."""

    def __init__(self, image: str, model: Path) -> None:
        from serving.process import free_port  # noqa: PLC0415

        self._image = image
        self.port, rpc, metadata, metrics = (free_port() for _ in range(4))
        self.store = _Store(f"127.0.0.1:{rpc}", f"http://127.0.0.1:{metadata}/metadata")
        compose = read_compose(
            {
                "CAPTURE_IMAGE": image,
                "CAPTURE_ADDRESS": "127.0.0.1",
                "CAPTURE_MODEL": str(model),
                "MOONCAKE_GLOBAL_SEGMENT_SIZE": "64mb",
                "MOONCAKE_LOCAL_BUFFER_SIZE": "64mb",
            }
        )
        self._services = compose["services"]
        self._ports = {
            "CAPTURE_PORT": str(self.port),
            "CAPTURE_RPC_PORT": str(rpc),
            "CAPTURE_METADATA_PORT": str(metadata),
            "CAPTURE_METRICS_PORT": str(metrics),
        }
        self._model = model

    def master(self) -> Container:
        return Container(self._image, (), self._environment("master"), options=["--init"])

    def server(self) -> Container:
        """Start the server, with stand-ins for what it imports and a CPU does not have."""
        return Container(
            self._image,
            _ON_THE_CPU,
            {
                **self._environment("server"),
                "PYTHONPATH": "/home/capture/stubs:/home/capture/site",
                "SGLANG_USE_CPU_ENGINE": "1",
                "HF_HUB_OFFLINE": "1",
            },
            {"/home/capture": _STUBS, "/model": self._model},
            ["--init"],
        )

    def _environment(self, service: str) -> dict[str, str]:
        return {**self._services[service]["environment"], **self._ports}


@pytest.fixture
def node(capture: str, tmp_path: Path) -> _Node:
    from serving.models import write_llama  # noqa: PLC0415

    pytest.importorskip("transformers")
    model = write_llama(tmp_path / "llama")
    for path in model.iterdir():
        path.chmod(0o644)  # of the tests' user, and read by the image's
    return _Node(capture, model)


def _user(container: Container) -> str:
    return container.run("stat", "--format=%u", "/proc/1").strip()


@pytest.mark.parametrize("options", [[], ["--init"]], ids=["alone", "init"])
def test_a_master_is_healthy_and_ends_with_sigterm(capture: str, options: list[str]) -> None:
    from serving.process import free_port  # noqa: PLC0415

    names = ("CAPTURE_RPC_PORT", "CAPTURE_METADATA_PORT", "CAPTURE_METRICS_PORT")
    ports = {name: str(free_port()) for name in names}
    environment = {"CAPTURE_ROLE": "master", **ports}
    with Container(capture, (), environment, options=options) as master:
        master.wait_until_healthy()
        assert _user(master) == "10001"
        code, seconds = master.stop(30)
        assert code == 0, master.log()
        assert seconds < 15, "SIGTERM did not reach it"


def test_compose_starts_the_master_and_stops_it(capture: str) -> None:
    """The server needs GPUs."""
    compose = find_compose()
    if compose is None:
        pytest.skip("there is neither `docker compose` nor docker-compose")
    project = [*compose, "-p", f"pkgtools-test-{uuid4().hex[:8]}"]
    project += ["-f", str(DOCKER / "compose.capture.yml")]
    node = {"CAPTURE_ADDRESS": "127.0.0.1", "CAPTURE_MODEL": "/var/empty"}
    environment = clean_environment(CAPTURE_IMAGE=capture, **node)

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [*project, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    try:
        run("up", "-d", "master")
        master = Running(run("ps", "-q", "master"))
        master.wait_until_healthy()
        run("stop", "master")
        assert master.state()["ExitCode"] == 0, master.log()
    finally:
        run("down", "--volumes")


def test_a_sample_is_captured_by_the_node(node: _Node) -> None:
    pytest.importorskip("mooncake.store", exc_type=ImportError)
    from serving.mooncake import Reader  # noqa: PLC0415

    with node.master() as master:
        master.wait_until_healthy()
        with node.server() as server:
            server.wait_until_healthy()
            assert _user(server) == "10001"
            result = _ask(node.port)
            assert result["features"] == {
                "hidden": {"shape": [1, len(_PROMPT), 192], "dtype": "float32"},
                "last": {"shape": [1, len(_PROMPT), 64], "dtype": "float32"},
            }
            reader = Reader(node.store)
            for name, feature in result["features"].items():
                values = reader.read(f"run/1/g{result['gen']}/{name}", **feature)
                assert abs(values).max() > 0.01
            reader.close()
            code, seconds = server.stop(120)
            assert code == 0, server.log()[-4000:]
            assert seconds < 60, "SIGTERM did not reach it"


def _ask(port: int) -> Any:
    reply = requests.post(
        f"http://127.0.0.1:{port}/generate",
        json={
            "input_ids": _PROMPT,
            "sampling_params": {"max_new_tokens": 1, "temperature": 0},
            "spec_capture": {
                "store_id": "run",
                "sample_id": "1",
                "features": {"aux": "hidden", "last_hidden": "last"},
            },
        },
        timeout=60,
    )
    return reply.json()["meta_info"]["spec_capture"]
