"""A Llama through a patched server: what is captured is what Hugging Face computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from .entries import ask, captured, keys
from .models import LLAMA, hugging_face
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
        holds_hugging_faces(reader, entry, result, hugging_face(model, prompt)[0])


def holds_hugging_faces(reader: Reader, entry: Any, result: Any, states: list[Any]) -> None:
    """Hold what the store has of a capture against Hugging Face's states of its prompt."""
    aux, last = (
        reader.read(key, **result["features"][key.rpartition("/")[2]]) for key in keys(entry)
    )
    expected = np.concatenate([states[layer + 1] for layer in LAYERS], axis=-1)
    np.testing.assert_allclose(aux[0], expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(last[0], states[-1], rtol=0, atol=1e-5)
