"""A Llama through a patched server: what is captured is what Hugging Face computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from .entries import ask, captured, keys
from .models import LLAMA
from .server import greedy

if TYPE_CHECKING:
    from pathlib import Path

    from .mooncake import Reader
    from .server import Server

LAYERS: Final = [0, 2, 4]
"""Those of `server.LLAMA_CAPTURE`."""
PROMPT: Final = [5, 17, 200, 31, 8, 99, 64, 3, 250]


def check_values(server: Server, reader: Reader, model: Path) -> None:
    """Capture three prompts, beside one that is not captured, and read them back.

    Args:
        server: serves `model`, with `server.LLAMA_CAPTURE`.
        reader: of its store.
        model: a tiny Llama (`models.write_llama`).

    """
    prompts = [PROMPT, [1, 2], list(range(40, 90)), PROMPT]
    entries = [ask("first"), ask("second"), None, ask("again")]
    replies = server.generate(input_ids=prompts, sampling_params=greedy(3), spec_capture=entries)
    for prompt, entry, reply in zip(prompts, entries, replies, strict=True):
        if entry is None:
            assert "spec_capture" not in reply["meta_info"]
            continue
        result = captured(reply)
        size = LLAMA["hidden_size"]
        assert result == {
            "sample_id": entry["sample_id"],
            "store_id": entry["store_id"],
            "gen": 0,
            "aux_layer_ids": LAYERS,
            "features": {
                "hidden": {"shape": [1, len(prompt), 3 * size], "dtype": "float32"},
                "last": {"shape": [1, len(prompt), size], "dtype": "float32"},
            },
        }
        aux, last = (
            reader.read(key, **result["features"][key.rpartition("/")[2]]) for key in keys(entry)
        )
        states = _hugging_face(model, prompt)
        expected = np.concatenate([states[layer + 1] for layer in LAYERS], axis=-1)
        np.testing.assert_allclose(aux, expected, rtol=0, atol=1e-5)
        np.testing.assert_allclose(last, states[-1], rtol=0, atol=1e-5)


def _hugging_face(folder: Path, prompt: list[int]) -> list[Any]:
    import torch  # noqa: PLC0415
    from safetensors.torch import load_file  # noqa: PLC0415
    from transformers import LlamaConfig, LlamaForCausalLM  # noqa: PLC0415

    reference = LlamaForCausalLM(LlamaConfig(**LLAMA)).float()
    reference.load_state_dict(load_file(folder / "model.safetensors"))
    with torch.no_grad():
        out = reference(torch.tensor([prompt]), output_hidden_states=True)
    return [state.numpy() for state in out.hidden_states]
