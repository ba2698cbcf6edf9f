"""What can be said of the files below docker/ without an engine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from commands import tool
from containers import find_compose
from files import (
    DOCKER,
    DOCKERFILE,
    MASTER,
    REPOSITORY,
    SERVER,
    STORE,
    clean_environment,
    read_compose,
)

if TYPE_CHECKING:
    from pathlib import Path

_NODE: Final = {
    "CAPTURE_IMAGE": "registry.example/capture@sha256:0",
    "CAPTURE_ADDRESS": "10.0.0.1",
    "CAPTURE_MODEL": "/models/k3",
}
_SECRET: Final = re.compile(r"token|secret|passw|api_?key|credential", re.IGNORECASE)


def _instructions() -> list[tuple[str, str]]:
    text = DOCKERFILE.read_text().replace("\\\n", " ")
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines]


def _stage(name: str) -> dict[str, str]:
    """Return the last instruction of each kind in a stage."""
    stages: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    for keyword, rest in _instructions():
        if keyword == "FROM":
            current = stages.setdefault(rest.split(" AS ")[1], {})
        current[keyword] = rest
    return stages[name]


def test_shellcheck() -> None:
    scripts = [*DOCKER.glob("*.sh"), REPOSITORY / ".ci" / "run"]
    assert len(scripts) >= 3
    done = subprocess.run(
        [tool("shellcheck"), *scripts], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_an_engine_that_is_started_answers_its_user_and_ends_with_the_command(
    tmp_path: Path,
) -> None:
    """Its socket is for root and a group: by default docker, which the user may not be in."""
    programs = {
        "docker": "[ -e socket ]",
        "dockerd": 'echo "$1" >socket; echo $$ >"${2#--pidfile=}"; '
        'trap "rm socket; exit" TERM; while :; do sleep 0.1; done',
        "id": 'if [ "$1" = -u ]; then echo 1000; else /usr/bin/id "$@"; fi',
        "sudo": 'trap : TERM; "$@"',  # it passes on no signal of its own process group
    }
    for name, script in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        [DOCKER / "engine.sh", "sh", "-c", "cat socket; exit 3"],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (done.returncode, done.stdout) == (3, f"--group={os.getgid()}\n")
    assert not (tmp_path / "socket").exists()


def test_hadolint() -> None:
    done = subprocess.run(
        [tool("hadolint"), "--failure-threshold=error", *DOCKER.glob("*Dockerfile")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_dockerfile_needs_no_buildkit() -> None:
    text = DOCKERFILE.read_text()
    assert not re.search(r"^#\s*(syntax|escape|check)\s*=", text, re.MULTILINE)
    assert "<<" not in text
    for keyword, rest in _instructions():
        assert not re.match(r"--(mount|network|security|link|parents|chmod)", rest), (keyword, rest)


def test_the_stages() -> None:
    froms = [rest for keyword, rest in _instructions() if keyword == "FROM"]
    assert froms == [
        "${BASE} AS base",
        "base AS tool",
        "base AS patched",
        "patched AS test",
        "patched AS capture",
    ]
    assert _instructions()[0] == ("ARG", "BASE"), "no image is a good default"


def test_the_capture_stage_runs_as_nobody_special_and_gets_its_signals() -> None:
    capture = _stage("capture")
    # By number: so Kubernetes can tell that it is not root.
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", capture["USER"])
    command = json.loads(capture["ENTRYPOINT"])
    assert json.loads(capture["HEALTHCHECK"].split(" CMD ")[1]) == [*command, "--health"]
    assert capture["COPY"] == f"docker/entrypoint.py {command[-1]}"


def test_no_credential_is_asked_for_or_set_at_build() -> None:
    for keyword, rest in _instructions():
        if keyword in {"ARG", "ENV", "LABEL"}:
            assert not _SECRET.search(rest), (keyword, rest)
        assert keyword != "ADD", "what comes from elsewhere is not in the source"


def test_the_context_has_what_the_stages_copy_and_the_package_is_made_of() -> None:
    allowed = {
        line.removeprefix("!")
        for line in (REPOSITORY / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {
        "docker/entrypoint.py",
        "pyproject.toml",
        project["project"]["readme"],
        *project["project"]["license-files"],
        *wheel["packages"],
        *wheel["force-include"],
    }
    assert needed <= allowed
    for name in allowed:
        assert "*" in name or (REPOSITORY / name).exists(), name


def test_compose_has_the_deployments_values() -> None:
    compose = read_compose(_NODE)
    master, server = compose["services"]["master"], compose["services"]["server"]
    assert set(compose["services"]) == {"master", "server"}
    assert master["environment"] == {
        "CAPTURE_ROLE": "master",
        "CAPTURE_RPC_PORT": "35551",
        "CAPTURE_METADATA_PORT": "35880",
        "CAPTURE_METRICS_PORT": "35903",
    }
    given = server["environment"]
    assert given["CAPTURE_ROLE"] == "server"
    assert [given["CAPTURE_PORT"]] == SERVER["--port"]
    assert given["CAPTURE_RPC_PORT"] == master["environment"]["CAPTURE_RPC_PORT"]
    assert given["CAPTURE_METADATA_PORT"] == master["environment"]["CAPTURE_METADATA_PORT"]
    # The entry point makes the others from these.
    made = {"MOONCAKE_MASTER_SERVER_ADDR", "MOONCAKE_METADATA_SERVER", "MOONCAKE_LOCAL_HOSTNAME"}
    assert {name: given[name] for name in STORE if name not in made} == {
        name: value for name, value in STORE.items() if name not in made
    }
    (devices,) = server["deploy"]["resources"]["reservations"]["devices"]
    assert [str(devices["count"])] == SERVER["--tp-size"]
    (model,) = server["volumes"]
    assert [model["target"]] == SERVER["--model-path"]
    assert (model["source"], model["read_only"]) == ("/models/k3", True)


def test_the_recipe_says_the_same() -> None:
    recipe = tomllib.loads((DOCKER / "recipes" / "kimi-k3-capture.toml").read_text())
    flags = {f"--{name}": _words(value) for name, value in recipe["server"]["flags"].items()}
    named_elsewhere = {"--host", "--port", "--model-path"}
    assert flags == {name: words for name, words in SERVER.items() if name not in named_elsewhere}
    assert _words(recipe["server"]["port"]) == SERVER["--port"]
    for name, option in (
        ("rpc_port", "--rpc_port"),
        ("metadata_port", "--http_metadata_server_port"),
        ("metrics_port", "--metrics_port"),
    ):
        assert _words(recipe["master"][name]) == MASTER[option]
    assert MASTER["--default_kv_lease_ttl"] == [f"{recipe['master']['lease_seconds'] // 60}m"]
    assert STORE["MC_TRANSFER_TIMEOUT"] == str(recipe["store"]["transfer_timeout_seconds"])


def _words(value: Any) -> list[str]:
    """Return a flag's values as a command line has them; a switch that is on has none."""
    if value is True:
        return []
    return [str(item) for item in (value if isinstance(value, list) else [value])]


def test_compose_services_are_reached_from_other_machines_and_stopped_in_time() -> None:
    services = read_compose(_NODE)["services"]
    for service in services.values():
        assert service["network_mode"] == "host"
        assert service["image"] == _NODE["CAPTURE_IMAGE"]
        assert service["stop_grace_period"] in {"30s", "5m"}
        assert "user" not in service, "the image's, which is not root"
        assert "privileged" not in service
    assert services["server"]["depends_on"] == {"master": {"condition": "service_healthy"}}


@pytest.mark.parametrize("name", _NODE)
def test_compose_demands_what_has_no_default(name: str) -> None:
    with pytest.raises(KeyError, match=name):
        read_compose({**_NODE, name: ""})


def test_compose_takes_secrets_from_files_alone() -> None:
    compose = read_compose({**_NODE, "HF_TOKEN_FILE": "/run/keys/hf", "HF_TOKEN": "hf_leak"})
    assert compose["secrets"] == {"hf_token": {"file": "/run/keys/hf"}}
    assert "hf_leak" not in json.dumps(compose)
    for service in compose["services"].values():
        for name, value in service["environment"].items():
            assert not _SECRET.search(name) or value.startswith("/run/secrets/"), name


def test_compose_is_valid_to_docker_compose() -> None:
    compose = find_compose()
    if compose is None:
        pytest.skip("there is neither `docker compose` nor docker-compose")
    done = subprocess.run(
        [*compose, "-f", DOCKER / "compose.capture.yml", "config"],
        env=clean_environment(**_NODE),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ours = read_compose(_NODE)["services"]
    for name, service in yaml.safe_load(done.stdout)["services"].items():
        assert service["environment"] == ours[name]["environment"]
