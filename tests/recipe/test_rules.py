"""Each rule's wrong and right cases, as edits of the K3 recipe and a site's file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from recipes import write_variant

from pkgtools.recipe.plan import RuleOutcome
from pkgtools.recipe.rules import RULES

if TYPE_CHECKING:
    from pathlib import Path

_IMAGE: Final = (
    "sglang-capture@sha256:1f0c7d3a5b2e4968a7c6d5e4f3021b0a9c8d7e6f5a4b3c2d1e0f9a8b7c6d5e4f"
)
_FLAGS: Final = {"[server]\n": "[server.environment]\n{}\n\n[server]\n"}


def _server_environment(line: str) -> dict[str, str]:
    return {old: new.format(line) for old, new in _FLAGS.items()}


_STEP: Final = {
    "optimizer_step = 128": "optimizer_step = 4",
    "\nlow_watermark = 128\nhigh_watermark = 128\n": "\nlow_watermark = 4\n",
    'resident_high_watermark = "800 GiB"\nresident_low_watermark = "650 GiB"\n': "",
}
"""Four samples a step, as the smoke run has."""


def _flag(line: str) -> dict[str, str]:
    return {"tp-size = 8\n": f"tp-size = 8\n{line}\n"}


def _on_one_host(server: str, trainer: str) -> dict[str, str]:
    return {
        'address = "192.0.2.11"\nbind_address = "192.0.2.11"\ninterfaces = ["127.0.0.1", "192': (
            'address = "192.0.2.10"\nbind_address = "192.0.2.10"\ninterfaces = ["192.0.2.10", "192'
        ),
        'gpu = "sm100"\n': f'gpu = "sm100"\n{server}\n',
        "ranks = 4\n": f"ranks = 4\n{trainer}\n",
    }


_WRONG: Final[list[tuple[str, dict[str, str], str, str]]] = [
    ("image", {_IMAGE: "sglang-capture:latest"}, "sglang-capture:latest", "a tag, not a digest"),
    ("image", {_IMAGE: "x@sha256:1f0c"}, "x@sha256:1f0c", "image: a tag, not a digest"),
    (
        "image",
        {"trainer@sha256:2f0c7d3a5b2e4968a7c6d5e4f3021b0a9c8d7e6f5a4b3c2d1e0f9a8b7c6d5e4f": "t:1"},
        "registry.invalid/t:1",
        "trainer.image: a tag",
    ),
    (
        "artifacts",
        {'revision = "cdd2e49a2c1cf8d4713b513955e415ed75405a72"': 'revision = "main"'},
        "model main",
        "'main' is not a 40-digit commit",
    ),
    ("object-size", {'segment = "1 TiB"': 'segment = "31 GiB"'}, "31 GiB", "more than the segment"),
    ("object-size", {"zero_copy = true": "zero_copy = false"}, "buffer 1 GiB", "of 4.375 GiB"),
    ("object-size", {"\nlow_watermark = 128": "\nlow_watermark = 200"}, "1 TiB", "200 waiting"),
    ("object-size", {"\nhigh_watermark = 128": "\nhigh_watermark = 300"}, "1 TiB", "300 waiting"),
    (
        "object-size",
        {**_server_environment('SGLANG_SPEC_CAPTURE_MAX_INFLIGHT = "300"')},
        "1 TiB",
        "300 being written",
    ),
    ("lease", {"lease_seconds = 300": "lease_seconds = 10"}, "lease 10 s", "after its lease"),
    (
        "lease",
        {
            "lease_seconds = 300": "lease_seconds = 10",
            "timeout_seconds = 300": "timeout_seconds = 10",
        },
        "lease 10 s",
        "21 GiB take 18 s",
    ),
    ("lease", {"second = 10.0": "second = 0.5"}, "link 0.5 Gbit/s", "take 361 s"),
    # InferenceX#2639: 96 GB a rank on four ranks, and a share for one.
    (
        "memory",
        {
            'segment = "1 TiB"': 'segment = "96 GiB"',
            "lenders_per_node = 1": "lenders_per_node = 4",
            'memory = "1200 GiB"': 'memory = "113 GiB"',
        },
        "4 x (segment 96 GiB",
        "388 GiB and 16 GiB to copy to = 404 GiB",
    ),
    ("memory", {'memory = "1200 GiB"': 'memory = "1040 GiB"'}, "1040 GiB", "1.017 TiB"),
    (
        "bind-address",
        {'bind_address = "192.0.2.10"\n': ""},
        "binds nothing of 3 interfaces",
        "several interfaces and no bind_address",
    ),
    (
        "bind-address",
        {'bind_address = "192.0.2.10"': 'bind_address = "172.17.0.1"'},
        "172.17.0.1",
        "172.17.0.1 is not routable",
    ),
    (
        "bind-address",
        {'bind_address = "192.0.2.11"': 'bind_address = "127.0.0.1"'},
        "127.0.0.1",
        "trainer_node: 127.0.0.1 is loopback",
    ),
    (
        "bind-address",
        {'bind_address = "192.0.2.10"': 'bind_address = "192.0.2.99"'},
        "192.0.2.99",
        "is not an address of this node",
    ),
    ("bind-address", {'bind_address = "192.0.2.10"': 'bind_address = "eth0"'}, "eth0", "not an IP"),
    (
        "bind-address",
        {'address = "192.0.2.11"\nbind': 'address = "192.0.2.12"\nbind'},
        "192.0.2.11",
        "binds 192.0.2.11 and publishes 192.0.2.12",
    ),
    ("ports", {"port = 30000": "port = 35903"}, "35903", "master.metrics_port and server.port"),
    ("ports", {"metadata_port = 35880": "metadata_port = 35551"}, "35551", "rpc_port and master"),
    ("ports", {"metadata_port = 35880": "metadata_port = 40000"}, "40000", "gRPC"),
    ("ports", {"port = 30000": "port = 60000"}, "60000", "70000 too, which is above 65535"),
    ("prefill", {"size = -1": "size = 4096"}, "4096", "it has to be -1"),
    ("prefill", {"chunked-prefill-size = -1\n": ""}, "is not given", "it has to be -1"),
    ("prefill", {"enable-spec-capture = true\n": ""}, "is not given", "captures nothing"),
    ("limits", {"context-length = 66048": "context-length = 65542"}, "65542", "at least 65543"),
    ("limits", {"total-tokens = 66048": "total-tokens = 32768"}, "32768", "at least 65543"),
    ("limits", {"max-total-tokens = 66048\n": ""}, "not given", "both have to be given"),
    ("limits", {"longest_row = 65536": "longest_row = 70000"}, "66048", "70000 tokens"),
    ("method", {'method = "dspark"': 'method = "dflash"'}, "method dflash", "no hook for dflash"),
    (
        "method",
        {'method = "dspark"': 'method = "dflash"', '["dspark"]': '["dflash", "dspark"]'},
        "method dflash",
        "does not capture what the dspark hook does",
    ),
    ("method", {'spec-capture-method = "dspark"\n': ""}, "method eagle3", "no hook for eagle3"),
    ("layers", {"67, 83]": "67, 93]"}, "of 93", "[93] are not in 0 to 92"),
    (
        "layers",
        {
            'method = "dspark"': 'method = "eagle3"',
            '["dspark"]': '["eagle3"]',
            "67, 83]": "67, 92]",
        },
        "of 93",
        "[92] are not in 0 to 91",
    ),
    ("layers", {"[7, 23": "[-1, 23"}, "-1", "[-1] are not in 0 to 92"),
    ("layers", {"[7, 23": "[23, 23"}, "23 23", "none twice"),
    ("layers", {"[7, 23": "[51, 23"}, "51 23", "ascending"),
    ("layers", {"ids = [7, 23, 51, 67, 83]": 'ids = ["7", "23"]'}, "not given", "object size"),
    ("watermark", {"\nlow_watermark = 128": "\nlow_watermark = 127"}, "mark 127", "never fills"),
    ("watermark", {"\nhigh_watermark = 128": "\nhigh_watermark = 127"}, "high 127", "would pause"),
    ("resident", {'"800 GiB"': '"671 GiB"'}, "high 671 GiB", "before a step is whole"),
    ("resident", {'"800 GiB"': '"1020 GiB"'}, "high 1020 GiB", "the store is full before"),
    ("resident", {'"650 GiB"': '"801 GiB"'}, "low 801 GiB", "above the high one"),
    ("resident", {'"650 GiB"': '"133 GiB"'}, "low 133 GiB", "133.2 GiB stay, so it never goes on"),
    ("resident", {'resident_high_watermark = "800 GiB"\n': ""}, "high not given", "needs a high"),
    (
        "resident",
        {"optimizer_step = 128": "optimizer_step = 196"},
        "high 800 GiB",
        "= 1.005 TiB a step, more than the segment",
    ),
    ("hardware", {'gpu = "sm100"': 'gpu = "sm90"'}, "gpu sm90, trtllm_mla", "needs sm100 or sm103"),
    (
        "hardware",
        _flag('decode-attention-backend = "fa3"'),
        "fa3, trtllm_mla",
        "no GPU has all of them",
    ),
    (
        "fusion",
        {
            'gpu = "sm100"': 'gpu = "sm100"\ngpu_memory = "30 GiB"',
            **_flag("max-prefill-tokens = 66048"),
        },
        "max-prefill-tokens 66048",
        "2.205 GiB a GPU, with a captured sample 7.455 GiB of 7.2 GiB",
    ),
    (
        "fusion",
        _flag('moe-a2a-backend = "megamoe"'),
        "max-prefill-tokens 16384",
        "a row of 65536 tokens does not fit",
    ),
    ("mamba", {"cache-size = 5": "cache-size = 4"}, "4 Mamba slots", "at most 0 run"),
    ("mamba", {"running-requests = 1": "running-requests = 2"}, "2 running", "5 slots a request"),
    (
        "gpus",
        _on_one_host("gpus = [0, 1, 2, 3, 4, 5, 6, 7]", "gpus = [7, 8, 9, 10]"),
        "trainer [7, 8, 9, 10]",
        "both take [7]",
    ),
    ("gpus", {"ranks = 4\n": "ranks = 4\ngpus = [0, 0, 1, 2]\n"}, "[0, 0, 1, 2]", "takes 4 diff"),
    (
        "gpus",
        {'gpu = "sm100"\n': 'gpu = "sm100"\ngpus = [0]\n'},
        "server [0]",
        "the server takes 8 different ones",
    ),
    (
        "rendezvous",
        {"[trainer]\nranks": '[trainer.environment]\nMASTER_ADDR = "h"\n\n[trainer]\nranks'},
        "MASTER_ADDR",
        "are unset",
    ),
    ("rendezvous", {'"HF_TOKEN", ': '"HF_TOKEN", "RANK", '}, "RANK", "are unset"),
]


@pytest.mark.parametrize(("rule", "edits", "found", "computed"), _WRONG)
def test_wrong(tmp_path: Path, rule: str, edits: dict[str, str], found: str, computed: str) -> None:
    finding = write_variant(tmp_path, edits).finding(rule)
    assert finding.outcome is RuleOutcome.WRONG, finding
    assert found in finding.found
    assert computed in finding.computed
    assert finding.why


def test_each_rule_has_a_wrong_case() -> None:
    assert {rule for rule, *_ in _WRONG} == {rule.name for rule in RULES}


@pytest.mark.parametrize("rule", [rule.name for rule in RULES])
def test_right(tmp_path: Path, rule: str) -> None:
    assert write_variant(tmp_path, {}).finding(rule).outcome is RuleOutcome.OK


_RIGHT: Final[list[tuple[str, dict[str, str]]]] = [
    ("object-size", {**_STEP, 'segment = "1 TiB"': 'segment = "32 GiB"'}),
    ("object-size", {"zero_copy = true": "zero_copy = false", '"1 GiB"': '"5 GiB"'}),
    (
        "object-size",
        {
            **_STEP,
            'segment = "1 TiB"': 'segment = "8 GiB"',
            "lenders_per_node = 1": "lenders_per_node = 4",
        },
    ),
    ("object-size", _server_environment(f'SGLANG_SPEC_CAPTURE_MAX_INFLIGHT = "{"9" * 5000}"')),
    ("lease", {"second = 10.0": "second = 0.61"}),
    ("memory", {'memory = "1200 GiB"': 'memory = "1041 GiB"'}),
    ("bind-address", {'"127.0.0.1", "192.0.2.10", "172.17.0.1"': '"192.0.2.10"'}),
    ("bind-address", {'address = "192.0.2.10"\nbind': 'address = "node-7"\nbind'}),
    ("ports", {"port = 30000": "port = 55535"}),
    ("limits", {"context-length = 66048": "context-length = 65543"}),
    ("layers", {"67, 83]": "67, 92]"}),
    ("layers", {"[7, 23": "[0, 23"}),
    ("watermark", {"\nhigh_watermark = 128": "\nhigh_watermark = 129"}),
    ("watermark", {"\nhigh_watermark = 128\n": "\n"}),
    ("resident", {'"800 GiB"': '"672 GiB"'}),
    ("resident", {'"800 GiB"': '"1013 GiB"'}),
    ("resident", {'"650 GiB"': '"134 GiB"'}),
    ("resident", _STEP),
    ("hardware", {'gpu = "sm100"': 'gpu = "sm120"'}),
    ("hardware", {'attention-backend = "trtllm_mla"': 'attention-backend = "triton"'}),
    ("fusion", {'gpu = "sm100"': 'gpu = "sm90"', **_flag('moe-a2a-backend = "megamoe"')}),
    (
        "fusion",
        {
            'gpu = "sm100"': 'gpu = "sm100"\ngpu_memory = "32 GiB"',
            **_flag("max-prefill-tokens = 66048"),
        },
    ),
    (
        "fusion",
        {
            **_server_environment('SGLANG_K3_AR_FUSION = "0"'),
            **_flag('moe-a2a-backend = "megamoe"'),
        },
    ),
    ("mamba", {'"extra_buffer"': '"extra_buffer_lazy"', "cache-size = 5": "cache-size = 4"}),
    ("mamba", {"cache-size = 5": "cache-size = 1\ndisable-radix-cache = true"}),
    ("mamba", {"cache-size = 5": "cache-size = 4\ndisable-overlap-schedule = true"}),
    ("mamba", {"max-mamba-cache-size = 5\n": ""}),
    ("gpus", _on_one_host("gpus = [0, 1, 2, 3, 4, 5, 6, 7]", "gpus = [8, 9, 10, 11]")),
]


@pytest.mark.parametrize(("rule", "edits"), _RIGHT)
def test_just_right(tmp_path: Path, rule: str, edits: dict[str, str]) -> None:
    finding = write_variant(tmp_path, edits).finding(rule)
    assert finding.outcome is RuleOutcome.OK, finding


_OPEN: Final[list[tuple[str, dict[str, str], str]]] = [
    ("lease", {"[link]\ngigabits_per_second = 10.0\n": ""}, "21 GiB need 0.601 Gbit/s"),
    ("memory", {'memory = "1200 GiB"\n': ""}, "1.017 TiB"),
    (
        "artifacts",
        {'sha256 = "9b74c9897bac770ffc029102a200c5de11d0e4c5f6a7b8c9d0e1f2a3b4c5d6e7"\n': ""},
        "draft",
    ),
    ("hardware", {'gpu = "sm100"\n': ""}, "needs sm100"),
    ("gpus", _on_one_host("", ""), "on one host both have to list"),
]


@pytest.mark.parametrize(("rule", "edits", "computed"), _OPEN)
def test_open(tmp_path: Path, rule: str, edits: dict[str, str], computed: str) -> None:
    """A rule is open where the site file lacks the value."""
    finding = write_variant(tmp_path, edits).finding(rule)
    assert finding.outcome is RuleOutcome.OPEN
    assert computed in finding.computed


def test_the_place_of_a_finding(tmp_path: Path) -> None:
    variant = write_variant(tmp_path, {"size = -1": "size = 4096", '"1200 GiB"': '"1 GiB"'})
    for rule, path, text in (
        ("prefill", variant.recipe, "chunked-prefill-size"),
        ("memory", variant.site, "memory"),
    ):
        where, _, line = variant.finding(rule).where.rpartition(":")
        assert where == str(path)
        assert path.read_text().splitlines()[int(line) - 1].startswith(text)


def test_the_size_of_a_k3_sample(tmp_path: Path) -> None:
    """Worked out here by hand."""
    recipe: Any = write_variant(tmp_path, {}).load().recipe
    assert recipe.sample_bytes == 5_637_144_576 == int(5.25 * 1024**3)
