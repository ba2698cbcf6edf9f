"""Reading recipes: every error names the file, the key and the line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from commands import call
from recipes import K3, SITE, write_variant

from pkgtools.catalog.tomlfile import KeyPlace
from pkgtools.errors import MalformedError
from pkgtools.recipe.model import shown_bytes, size_bytes

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("edits", "key", "message", "text"),
    [
        ({"layers = 93": 'layers = "93"'}, "model.layers", "Expected `int`", "layers"),
        ({"layers = 93": "layers = 0"}, "model.layers", "`int` >= 1", "layers"),
        ({"longest_row = 65536": f"longest_row = {10**400}"}, "dataset.longest_row", "<= 10000",
         "longest_row"),
        ({'"1 TiB"': f'"{10**400} TiB"'}, "store.segment", "regex", "segment"),
        ({"tp-size = 8": f"tp-size = {10**400}"}, "server.flags", "<= 10000", "[server.flags]"),
        ({"layers = 93": "layer = 93"}, "model.layer", "unknown field", "layer"),
        ({"rpc_port = 35551": "rpc_port = 70000"}, "master.rpc_port", "<= 65535", "rpc_port"),
        ({'"1 TiB"': '"1 TB"'}, "store.segment", "regex", "segment"),
        ({'dtype = "bfloat16"': 'dtype = "int4"'}, "model.dtype", "enum value", "dtype"),
        ({"tp-size = 8": "tp-size = {}"}, "server.flags", "`object`", "[server.flags]"),
        ({"tp-size = 8": "tp-size = []"}, "server.flags.tp-size", "empty list", "tp-size"),
        ({"tp-size = 8": '"--tp-size" = 8'}, "server.flags.--tp-size", "invalid flag", '"--tp'),
        ({"tp-size = 8": "port = 8"}, "server.flags.port", "comes from server.port", "port = 8"),
        ({"[server]\n": '[server.environment]\n"A B" = ""\n[server]\n'}, "server.environment.A B",
         "invalid variable name", "[server.env"),
        ({"[server]\n": '[server.environment]\nMC_TRANSFER_TIMEOUT = "9"\n[server]\n'},
         "server.environment.MC_TRANSFER_TIMEOUT", "transfer_timeout_seconds", "MC_TRANSFER"),
        ({"[server]\n": '[server.environment]\nDISAGG_SERVER_URLS = "http://h"\n[server]\n'},
         "server.environment.DISAGG_SERVER_URLS", "server.port", "DISAGG_SERVER"),
        ({"[trainer]\nranks = 4\n": '[trainer.environment]\nCUDA_VISIBLE_DEVICES = "0"\n'
          "[trainer]\nranks = 4\ngpus = [4]\n"},
         "trainer.environment.CUDA_VISIBLE_DEVICES", "trainer.gpus", "CUDA_VISIBLE"),
        ({'gpu = "sm100"': 'gpu = "B200"'}, "server.gpu", "regex", "gpu"),
        ({"ranks = 4\n": "ranks = 4\ngpus = []\n"}, "trainer.gpus", "length >= 1", "gpus"),
        ({'name = "kimi-k3-capture"': 'name = "a b"'}, "name", "letters, digits", "name"),
        ({'"/srv/out"': '"/srv\\n/out"'}, "trainer.output", "control character", "output"),
        ({'"/srv/out"': '"/srv\\u001b[2J"'}, "trainer.output", "control character", "output"),
        ({'command = ["torchrun", ': "command = []  # "}, "trainer.command", "no program",
         "command"),
        ({'address = "192.0.2.10"\nb': 'address = "a b"\nb'}, "capture_node.address",
         "a host name", "address"),
        ({'image = "registry.invalid/sglang': 'image = ""  # '}, "image", "length >= 1", "image"),
        ({'image = "registry.invalid/train': 'image = ""  # '}, "trainer.image", "length >= 1",
         "image"),
        ({'"kimi-k3-ee560a2"': '""'}, "target", "length >= 1", "target"),
        ({'"cdd2e49a2c1cf8d4713b513955e415ed75405a72"': '""'}, "model.revision", "length >= 1",
         "revision"),
        ({'"/srv/models/kimi-k3"': '""'}, "model.path", "length >= 1", "path"),
        ({'"/srv/drafts/epoch_0_step_0"': '""'}, "draft.path", "length >= 1", "path"),
        ({'"/srv/data/rows.jsonl"': '""'}, "dataset.path", "length >= 1", "path"),
        ({'"/srv/out"': '""'}, "trainer.output", "length >= 1", "output"),
        ({'bind_address = "192.0.2.11"': 'bind_address = ""'}, "trainer_node.bind_address",
         "length >= 1", "bind_address"),
        ({'["127.0.0.1", "192.0.2.11"]': '[""]'}, "trainer_node.interfaces[0]", "length >= 1",
         "interfaces"),
        ({"memory": "memori"}, "capture_node.memori", "unknown field", "memori"),
    ],
)  # fmt: skip
def test_malformed(
    tmp_path: Path, edits: dict[str, str], key: str, message: str, text: str
) -> None:
    variant = write_variant(tmp_path, edits)
    with pytest.raises(MalformedError) as caught:
        variant.load()
    details = caught.value.details
    assert isinstance(details, KeyPlace)
    assert details.key == key
    assert message in caught.value.message
    file = variant.site if variant.site.read_text() != SITE.read_text() else variant.recipe
    assert details.file == str(file)
    assert details.line is not None
    assert file.read_text().splitlines()[details.line - 1].startswith(text)


def test_no_toml(tmp_path: Path) -> None:
    variant = write_variant(tmp_path, {"[model]\nrev": "[model\nrev"})
    with pytest.raises(MalformedError, match=rf"{variant.recipe}:12: "):
        variant.load()


def test_a_site_completes_and_changes_nothing(tmp_path: Path) -> None:
    site = tmp_path / "site.toml"
    site.write_text("[server.flags]\n\ntp-size = 4\n")
    done = call("recipe", "check", K3, "--site", site)
    assert done.code == 6
    assert f"{site}:3: server.flags.tp-size: {K3} sets it already" in done.err
    site.write_text('server = "none"\n')
    assert call("recipe", "check", K3, "--site", site).code == 6


def test_what_the_site_has_yet_to_say() -> None:
    facts = call("recipe", "check", K3, "--json").facts
    (findings,) = facts["recipes"].values()
    missing = {f["key"] for f in findings if f["rule"] == "site"}
    assert missing == {
        "image",
        "model.path",
        "draft.path",
        "draft.sha256",
        "dataset.path",
        *(f"capture_node.{name}" for name in ("address", "bind_address", "interfaces", "memory")),
        *(f"trainer_node.{name}" for name in ("address", "bind_address", "interfaces")),
        "link.gigabits_per_second",
        "trainer.image",
        "trainer.command",
        "trainer.output",
    }
    assert not [f for f in findings if f["outcome"] == "wrong"]
    done = call("recipe", "render", K3)
    assert done.code == 2
    assert all(f"  {key}: " in done.err for key in missing)
    assert call("recipe", "check", K3, "--site", SITE).code == 0


@pytest.mark.parametrize(
    ("text", "count"),
    [("0 B", 0), ("17B", 17), ("1 KiB", 1024), ("1536MiB", 1536 << 20), ("2 TiB", 2 << 40)],
)
def test_sizes(text: str, count: int) -> None:
    assert size_bytes(text) == count


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (5_637_144_576, "5.25 GiB"),
        (2**50, "1024 TiB"),
        (float("inf"), "inf B"),
    ],
)
def test_shown_sizes(count: float, text: str) -> None:
    assert shown_bytes(count) == text


def test_a_value_that_is_nested_too_deep(tmp_path: Path) -> None:
    variant = write_variant(tmp_path, {"layers = 93": f"layers = {'[' * 100_000}"})
    with pytest.raises(MalformedError, match=r"recipe\.toml: maximum recursion"):
        variant.load()
