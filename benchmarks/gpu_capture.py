"""What is captured on a GPU, held against references that no captured tensor goes into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from gpu_server import Setup, distance, serve

from serving import k3
from serving.entries import ask, captured, keys
from serving.llama import LAYERS
from serving.models import hugging_face, write_k3, write_llama
from serving.server import greedy

if TYPE_CHECKING:
    from pathlib import Path

    from serving.mooncake import Reader

SMALL: Final = {"PKGTOOLS_E2E_SHIM": "k3-weights"}
"""Weights of a realistic scale, and no images; everything else is SGLang's own."""
K3_ON_GPU: Final[dict[str, Any]] = {
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "hidden_act": "situ",
    "torch_dtype": "bfloat16",
}
"""The head sizes that the GPU's kernels are made for. SiTU is K3's own activation."""
K3_HEADS: Final = {"head_dim": 128, "num_heads": 8}
K3_ARGUMENTS: Final = ("--load-format=dummy",)
_NEAR: Final = 2e-2
"""The largest relative error of bfloat16 against a float32 or float64 reference."""
_FAR: Final = 0.3
"""How far the next captured layer is at the least: none can pass for another."""


def read(reader: Reader, entry: dict[str, Any], reply: Any) -> list[Any]:
    """Return the captured layers and the last hidden state of a reply."""
    features = captured(reply)["features"]
    return [reader.read(key, **features[key.rpartition("/")[2]])[0] for key in keys(entry)]


def layers_of(aux: Any, count: int) -> list[Any]:
    """Take the captured layers apart."""
    return np.split(aux, count, axis=-1)


def judge(found: list[Any], expected: list[Any]) -> dict[str, float]:
    """Hold captured states against references, and against each other's.

    Raises:
        AssertionError: one is too far from its own, or too near to another's.

    """
    own = [distance(a, b) for a, b in zip(found, expected, strict=True)]
    other = [distance(a, b) for i, a in enumerate(found) for j, b in enumerate(expected) if i != j]
    assert max(own) < _NEAR, own
    assert min(other) > _FAR, other
    return {"worst": max(own), "nearest_other": min(other)}


def llama_model(folder: Path) -> Path:
    """Write the tiny Llama of the tests, with heads that a GPU's kernels take."""
    return write_llama(folder, head_dim=64, torch_dtype="bfloat16")


LLAMA_LAYERS: Final = ("--spec-capture-aux-layer-ids", *map(str, LAYERS))


def llama(setup: Setup) -> dict[str, Any]:
    """Capture prompts of several lengths in one batch; Hugging Face in float32 is the reference."""
    model = llama_model(setup.folder / "model")
    prompts = [list(range(3, 12)), [1, 2], [i % 250 for i in range(1000)]]
    entries = [ask(str(i)) for i in range(len(prompts))]
    with serve(setup, setup.release, model, LLAMA_LAYERS) as (server, reader):
        replies = server.generate(input_ids=prompts, sampling_params=greedy(), spec_capture=entries)
        states = [
            judge(*_llama_states(reader, model, prompt, entry, reply))
            for prompt, entry, reply in zip(prompts, entries, replies, strict=True)
        ]
    return {
        "worst": max(s["worst"] for s in states),
        "nearest_other": min(s["nearest_other"] for s in states),
    }


def _llama_states(
    reader: Reader, model: Path, prompt: list[int], entry: dict[str, Any], reply: Any
) -> tuple[list[Any], list[Any]]:
    aux, last = read(reader, entry, reply)
    expected = hugging_face(model, prompt)[0]
    layers = [expected[layer + 1] for layer in LAYERS]
    return [*layers_of(aux, len(LAYERS)), last], [*layers, expected[-1]]


def k3_dense(setup: Setup) -> dict[str, Any]:
    """Capture from a K3 whose layers are dense."""
    return _k3(setup, moe=False)


def k3_experts(setup: Setup) -> dict[str, Any]:
    """Capture from a K3 with experts."""
    return _k3(setup, moe=True)


def _k3(setup: Setup, *, moe: bool) -> dict[str, Any]:
    text = {**K3_ON_GPU, "moe_intermediate_size": 64 * setup.tp}  # 64 a rank
    model = write_k3(setup.folder / "model", moe=moe, text=text, linear_attention=K3_HEADS)
    entries = [ask(str(i)) for i in range(len(k3.PROMPTS))]
    environment = {**SMALL, "PKGTOOLS_E2E_SPY": str(setup.folder)}
    arguments = [*k3.CAPTURE[1:], *K3_ARGUMENTS, "--disable-cuda-graph"]  # the spy is in Python
    with serve(setup, setup.k3, model, arguments, environment=environment) as (server, reader):
        replies = server.generate(
            input_ids=k3.PROMPTS, sampling_params=greedy(), spec_capture=entries
        )
        parts = [read(reader, e, r) for e, r in zip(entries, replies, strict=True)]
    aux, last = (np.concatenate(column) for column in zip(*parts, strict=True))
    expected, expected_last = k3.reference(setup.folder, [len(p) for p in k3.PROMPTS])
    count = len(k3.LAYERS)
    return judge([*layers_of(aux, count), last], [*layers_of(expected, count), expected_last])
