"""What is rendered, run by a real shell and read by a real YAML reader."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from commands import call
from recipes import K3, SITE, write_variant

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_HOSTILE: Final = "a'b\"c $HOME `id` \\ $(id) ; & | * ~ é {x} # %"
_SPY: Final = """#!{python}
import json, os, sys
where = {folder!r} + "/ran-" + os.path.basename(sys.argv[0]) + ".json"
with open(where, "w") as file:
    json.dump([sys.argv[1:], dict(os.environ)], file)
"""
_SRUN: Final = """#!/bin/sh
while :; do case $1 in --*) shift;; *) break;; esac; done
exec "$@"
"""


def _run(
    folder: Path,
    script: str,
    *arguments: str,
    variables: Mapping[str, str],
    interpreter: str = "sh",
) -> subprocess.CompletedProcess[str]:
    """Run a script where the programs that it starts only write down what they were given."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    for name in ("mooncake_master", "python3", "torchrun", "curl"):
        (programs / name).write_text(_SPY.format(python=sys.executable, folder=str(folder)))
    (programs / "srun").write_text(_SRUN)
    for program in programs.iterdir():
        program.chmod(0o755)
    (folder / "script").write_text(script)
    return subprocess.run(
        [interpreter, folder / "script", *arguments],
        env={"PATH": f"{programs}:{os.environ['PATH']}", **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def _ran(folder: Path, program: str) -> tuple[list[str], dict[str, str]]:
    arguments, environment = json.loads((folder / f"ran-{program}.json").read_text())
    return arguments, environment


def _hostile(folder: Path) -> tuple[Path, Path]:
    text = json.dumps(_HOSTILE, ensure_ascii=False)
    variant = write_variant(
        folder,
        {
            "tp-size = 8": f"served-model-name = {text}\nenable-metrics = false",
            '"/srv/models/kimi-k3"': text,
            '"train.py"': text,
            '"/srv/out"': f"{text}\n[trainer.environment]\nNOTE = {text}",
        },
    )
    return variant.recipe, variant.site


def _facts(files: tuple[Path, Path]) -> Mapping[str, Any]:
    facts = call("recipe", "render", files[0], "--site", files[1], "--json").facts
    return {process["name"]: process for process in facts}


def _render(files: tuple[Path, Path], *more: str) -> str:
    done = call("recipe", "render", files[0], "--site", files[1], *more)
    assert done.code == 0, done.err
    return done.out


_LAUNCHER: Final = {"RANK": "3", "MASTER_ADDR": "elsewhere", "HF_TOKEN": "t", "WANDB_API_KEY": "w"}


@pytest.mark.parametrize(
    ("process", "program"),
    [("master", "mooncake_master"), ("server", "python3"), ("trainer", "torchrun")],
)
@pytest.mark.parametrize("alone", [False, True])
def test_a_shell_starts_each_as_meant(
    tmp_path: Path, process: str, program: str, alone: bool
) -> None:
    files = _hostile(tmp_path)
    script = _render(files, *(["--process", process] if alone else []))
    done = _run(tmp_path, script, *([] if alone else [process]), variables=_LAUNCHER)
    assert (done.returncode, done.stderr) == (0, "")
    arguments, environment = _ran(tmp_path, program)
    meant = _facts(files)[process]
    assert [program, *arguments] == meant["command"]
    assert meant["environment"].items() <= environment.items()
    assert not set(meant["unset"]) & set(environment)
    if process == "trainer":
        assert environment["HF_TOKEN"] == _LAUNCHER["HF_TOKEN"]
        assert environment["NOTE"] == _HOSTILE
    if process == "server":
        assert "--enable-metrics" not in arguments
        assert arguments[arguments.index("--model-path") + 1] == _HOSTILE


def test_a_shell_wants_a_name_and_the_credentials(tmp_path: Path) -> None:
    script = _render((K3, SITE))
    done = _run(tmp_path, script, variables={})
    assert done.returncode == 2
    assert "which one? master, server, trainer" in done.stderr
    done = _run(tmp_path, script, "trainer", variables={"HF_TOKEN": "t"})
    assert done.returncode != 0
    assert "WANDB_API_KEY: has to come from the environment" in done.stderr
    assert not (tmp_path / "ran-torchrun.json").exists()


def test_slurm_starts_all(tmp_path: Path) -> None:
    files = _hostile(tmp_path)
    script = _render(files, "--format", "slurm").replace("wait -n", "wait")
    done = _run(tmp_path, script, variables=_LAUNCHER, interpreter="bash")
    assert (done.returncode, done.stderr) == (0, "")
    for process, program in (
        ("master", "mooncake_master"),
        ("server", "python3"),
        ("trainer", "torchrun"),
    ):
        arguments, environment = _ran(tmp_path, program)
        meant = _facts(files)[process]
        assert [program, *arguments] == meant["command"]
        assert meant["environment"].items() <= environment.items()
        assert not set(meant["unset"]) & set(environment)
    assert _ran(tmp_path, "curl")[0][-1] == "http://192.0.2.10:30000/health"


def test_slurm_asks_for_what_the_recipe_says() -> None:
    whole = _render((K3, SITE), "--format", "slurm").splitlines()
    asked = [line.removeprefix("#SBATCH ") for line in whole if line.startswith("#SBATCH")]
    assert asked == [
        "--job-name=kimi-k3-capture",
        *("--nodes=1", "--ntasks=2", "--mem=1228800M", "--gpus-per-node=8"),
        "hetjob",
        *("--nodes=1", "--ntasks=1", "--gpus-per-node=4"),
    ]
    last = max(number for number, line in enumerate(whole) if line.startswith("#SBATCH"))
    assert all(line.startswith("#") for line in whole[:last]), "sbatch stops reading at a command"


def test_a_node_that_slurm_knows_by_name(tmp_path: Path) -> None:
    variant = write_variant(tmp_path, {'address = "192.0.2.10"\nb': 'address = "n7"\nb'})
    files = (variant.recipe, variant.site)
    assert "#SBATCH --nodelist=n7\n" in _render(files, "--format", "slurm", "--process", "server")


def test_compose_reads_what_is_meant(tmp_path: Path) -> None:
    files = _hostile(tmp_path)
    whole = yaml.safe_load(_render(files, "--format", "compose"))
    assert whole["name"] == "kimi-k3-capture"
    for name, meant in _facts(files).items():
        service = whole["services"][name]
        assert service["image"] == meant["image"]
        assert [_interpolated(word) for word in service["command"]] == meant["command"]
        environment = service.get("environment", {})
        assert {
            key: _interpolated(value) for key, value in environment.items() if value is not None
        } == meant["environment"]
        assert [key for key, value in environment.items() if value is None] == meant["secrets"]
        assert [
            _interpolated(volume["source"])
            for volume in service.get("volumes", [])
            if volume["read_only"]
        ] == meant["reads"]
        health = service.get("healthcheck", {"test": [""]})["test"][-1]
        assert health == meant["health"]
        unset = service["entrypoint"][2::2]
        assert unset == meant["unset"]


def _interpolated(text: str) -> str:
    """Return what compose makes of a value: a single dollar would start a variable."""
    assert "$" not in text.replace("$$", "")
    return text.replace("$$", "$")


@pytest.mark.parametrize("form", ["shell", "compose", "slurm"])
def test_the_same_bytes_each_time(form: str) -> None:
    assert _render((K3, SITE), "--format", form) == _render((K3, SITE), "--format", form)


def test_an_unknown_process() -> None:
    done = call("recipe", "render", K3, "--site", SITE, "--process", "reader")
    assert done.code == 2
    assert "one of master, server, trainer" in done.err


def test_ipv6(tmp_path: Path) -> None:
    variant = write_variant(
        tmp_path,
        {
            'address = "192.0.2.10"\nbind_address = "192.0.2.10"': 'address = "2001:db8::1"\n'
            'bind_address = "2001:db8::1"',
            '"192.0.2.10", "172': '"2001:db8::1", "172',
        },
    )
    server = _facts((variant.recipe, variant.site))["server"]
    assert server["environment"]["MOONCAKE_MASTER_SERVER_ADDR"] == "[2001:db8::1]:35551"
    assert server["environment"]["MC_TCP_BIND_ADDRESS"] == "2001:db8::1"
    assert variant.finding("bind-address").outcome == "ok"


def test_facts_have_no_format() -> None:
    done = call("recipe", "render", K3, "--site", SITE, "--format", "slurm", "--json")
    assert done.code == 2
    assert "--format" in done.facts["error"]["message"]


def test_the_gpus_of_one_host(tmp_path: Path) -> None:
    """A container counts what it is given from 0; a shell names the host's."""
    edits = {'gpu = "sm100"\n': f'gpu = "sm100"\ngpus = {[*range(8)]}\n'}
    edits["ranks = 4\n"] = "ranks = 4\ngpus = [8, 9, 10, 11]\n"
    variant = write_variant(tmp_path, edits)
    where = ("recipe", "render", variant.recipe, "--site", variant.site)
    services = yaml.safe_load(call(*where, "--format", "compose").out)["services"]
    for name, gpus in (("server", range(8)), ("trainer", range(8, 12))):
        (device,) = services[name]["deploy"]["resources"]["reservations"]["devices"]
        assert device["device_ids"] == [str(gpu) for gpu in gpus]
        assert "CUDA_VISIBLE_DEVICES" not in services[name]["environment"]
    script = call(*where, "--process", "trainer").out
    assert "CUDA_VISIBLE_DEVICES=8,9,10,11" in script
