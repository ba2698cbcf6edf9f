"""The K3 recipe, rendered, against the values of the deployment that it is for.

The values stand here once more, on purpose: none is taken from the recipe.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from commands import call
from recipes import K3, SITE, SMOKE

from pkgtools.recipe.load import load_recipe
from pkgtools.recipe.model import size_bytes

_SERVER: Final = (
    "--tp-size 8 --mem-fraction-static 0.76 --context-length 66048 --max-running-requests 1 "
    "--max-total-tokens 66048 --attention-backend trtllm_mla --moe-runner-backend marlin "
    "--mamba-radix-cache-strategy extra_buffer --max-mamba-cache-size 5 --disable-cuda-graph "
    "--chunked-prefill-size -1 --enable-spec-capture --spec-capture-method dspark "
    "--spec-capture-aux-layer-ids 7 23 51 67 83 --trust-remote-code --skip-tokenizer-init"
)
_STORE: Final = {
    "MOONCAKE_MASTER_SERVER_ADDR": "192.0.2.10:35551",
    "MOONCAKE_METADATA_SERVER": "http://192.0.2.10:35880/metadata",
    "MOONCAKE_PROTOCOL": "tcp",
    "MOONCAKE_LOCAL_BUFFER_SIZE": str(1 << 30),
    "MC_TRANSFER_TIMEOUT": "300",
}
_UNSET: Final = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK"}


@pytest.fixture(scope="module")
def rendered() -> dict[str, Any]:
    facts = call("recipe", "render", K3, "--site", SITE, "--json").facts
    return {process["name"]: process for process in facts}


def test_the_master(rendered: dict[str, Any]) -> None:
    assert rendered["master"]["command"] == [
        "mooncake_master",
        "--rpc_address=192.0.2.10",
        "--rpc_port=35551",
        "--enable_http_metadata_server=true",
        "--http_metadata_server_host=192.0.2.10",
        "--http_metadata_server_port=35880",
        "--undefok=metrics_host",
        "--metrics_host=192.0.2.10",
        "--metrics_port=35903",
        f"--default_kv_lease_ttl={5 * 60 * 1000}",
    ]


def test_the_server(rendered: dict[str, Any]) -> None:
    server = rendered["server"]
    assert server["command"] == [
        *("python3", "-m", "sglang.launch_server"),
        *("--model-path", "/srv/models/kimi-k3"),
        *("--host", "192.0.2.10", "--port", "30000"),
        *_SERVER.split(),
    ]
    environment = dict(server["environment"])
    assert int(environment.pop("MOONCAKE_GLOBAL_SEGMENT_SIZE")) >= 1 << 40
    assert environment == {
        **_STORE,
        "MOONCAKE_LOCAL_HOSTNAME": "192.0.2.10",
        "MC_TCP_BIND_ADDRESS": "192.0.2.10",
        "GLIBC_TUNABLES": "glibc.cpu.x86_non_temporal_threshold=1048576",
    }
    assert server["gpus"] == 8


def test_the_trainer(rendered: dict[str, Any]) -> None:
    trainer = rendered["trainer"]
    assert trainer["environment"] == {
        **_STORE,
        "MOONCAKE_LOCAL_HOSTNAME": "192.0.2.11",
        "MC_TCP_BIND_ADDRESS": "192.0.2.11",
        "MOONCAKE_GLOBAL_SEGMENT_SIZE": "0",
        "DISAGG_SERVER_URLS": "http://192.0.2.10:30000",
    }
    assert set(trainer["unset"]) == _UNSET
    assert trainer["secrets"] == ["HF_TOKEN", "WANDB_API_KEY"]
    assert trainer["gpus"] == 4


def test_the_plan() -> None:
    facts = call("recipe", "check", K3, "--site", SITE, "--json").facts
    (findings,) = facts["recipes"].values()
    by_rule = {finding["rule"]: finding for finding in findings}
    assert "= 5.25 GiB a sample" in by_rule["object-size"]["computed"]
    assert "cdd2e49a2c1c" in by_rule["artifacts"]["found"]
    assert "6d50e6bb9ee5" in by_rule["artifacts"]["found"]
    assert "low watermark 128, high 128, optimizer step 128" in by_rule["watermark"]["found"]
    assert by_rule["resident"]["found"] == "low 650 GiB, high 800 GiB"
    assert "128 x 5.25 GiB = 672 GiB a step" in by_rule["resident"]["computed"]
    assert {finding["outcome"] for finding in findings} == {"ok"}


def test_the_watermarks_are_those_of_the_full_run() -> None:
    trainer = load_recipe(K3, SITE).recipe.trainer
    marks = (trainer.resident_high_watermark, trainer.resident_low_watermark)
    assert [size_bytes(str(mark)) for mark in marks] == [858_993_459_200, 697_932_185_600]
    assert trainer.optimizer_step == 4 * 1 * 32


def test_the_smoke_run_differs_in_its_rows_and_its_trainer_alone() -> None:
    full, smoke = (msgspec.to_builtins(load_recipe(path).recipe) for path in (K3, SMOKE))
    assert {key for key in full if full[key] != smoke[key]} == {"name", "dataset", "trainer"}
    assert (smoke["dataset"]["rows"], smoke["trainer"]["optimizer_step"]) == (4, 4)
    assert (smoke["trainer"]["low_watermark"], smoke["trainer"]["high_watermark"]) == (4, 4)
    (found,) = call("recipe", "check", SMOKE, "--site", SITE, "--json").facts["recipes"].values()
    still_open = {finding["key"] for finding in found if finding["outcome"] != "ok"}
    assert still_open == {"dataset.sha256", "model.revision"}  # of the site's fixture


def test_the_images_entry_point_starts_the_same(rendered: dict[str, Any]) -> None:
    """docker/entrypoint.py has the deployment's values for who starts the image by hand."""
    found = runpy.run_path(str(Path(__file__).parents[2] / "docker/entrypoint.py"))
    env = found["settings"]({"MC_TCP_BIND_ADDRESS": "192.0.2.10"})
    where = {"host", "model-path", "logtostderr", "rpc_address", "metrics_host"}
    where |= {"http_metadata_server_host", "undefok"}
    for name in ("master", "server"):
        theirs, ours = _options(found[name](env)), _options(rendered[name]["command"])
        ttl = "default_kv_lease_ttl"
        assert (theirs.pop(ttl, None), ours.pop(ttl, None)) in (("5m", "300000"), (None, None))
        differing = {key for key in {*theirs, *ours} if theirs.get(key) != ours.get(key)}
        assert differing <= where


def _options(command: list[str]) -> dict[str, str]:
    """Return a command's options, whether written with = or with spaces."""
    words = " ".join(command).replace("=", " ").split(" --")[1:]
    return {word.partition(" ")[0]: word.partition(" ")[2] for word in words}


def test_the_artifacts() -> None:
    """Pinned in the recipe itself: a site cannot say another."""
    text = K3.read_text()
    assert 'revision = "cdd2e49a2c1cf8d4713b513955e415ed75405a72"' in text
    assert 'sha256 = "6d50e6bb9ee59095eed91bfba035081efef9fea43bece9ad5dd01c6648a8ef24"' in text
    assert "rows = 462" in text
    assert "epoch_0_step_0" in text


def test_the_site_file_of_the_docs(tmp_path: Path) -> None:
    docs = (Path(__file__).parents[2] / "docs/recipe.md").read_text()
    (example,) = re.findall(r"```toml\n(.*?)```", docs, re.DOTALL)
    site = tmp_path / "site.toml"
    site.write_text(example.replace("<64 digits>", "0123456789abcdef" * 4))
    done = call("recipe", "check", K3, "--site", site)
    assert done.code == 0, done.out
