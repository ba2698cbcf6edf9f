"""Kimi K3 through a patched server: what is captured is what K3 defines.

The reference is worked out here from what the model's modules put out: the stream that
attention and MLP add to, the bank of snapshots of it, and the mixture of both that the
next layer would read. None of the captured tensors goes into it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from .server import K3_ARGUMENTS, K3_ENVIRONMENT, Server, greedy, ranks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .mooncake import Master, Reader

LAYERS: Final = [1, 3, 4, 5]
PROMPTS: Final = [[7, 3, 9, 200, 41, 5, 77], [11, 12, 13, 99]]

CAPTURE: Final = (
    "--enable-spec-capture",
    "--spec-capture-method=dspark",
    "--chunked-prefill-size=-1",
    "--spec-capture-aux-layer-ids",
    *map(str, LAYERS),
)


def check_capture(
    tree: Path,
    model: Path,
    master: Master,
    reader: Reader,
    folder: Path,
    store: str,
    tp_size: int = 1,
) -> None:
    """Capture two prompts by dspark, and hold what lies in the store against the reference.

    Args:
        tree: the folder that holds the patched package.
        model: a tiny K3 (`models.write_k3`).
        master: of the store.
        reader: reads from it.
        folder: an empty one, for the log and what the spy writes.
        store: the store id.
        tp_size: the number of ranks.

    """
    size, cores = ranks(tp_size)
    server = Server(
        tree,
        model,
        folder,
        [*K3_ARGUMENTS, *CAPTURE, size],
        {**K3_ENVIRONMENT, **cores, **master.environment(), "PKGTOOLS_E2E_SPY": str(folder)},
    )
    try:
        replies = server.generate(
            input_ids=PROMPTS,
            sampling_params=greedy(),
            spec_capture=[
                {
                    "store_id": store,
                    "sample_id": str(i),
                    "gen": 1,
                    "features": {"aux": "hidden", "last_hidden": "last"},
                }
                for i in range(2)
            ],
        )
        # The objects lie in memory that the server lends: they are read while it is there.
        aux, last = (
            [
                reader.read(
                    f"{store}/{i}/g1/{name}",
                    **reply["meta_info"]["spec_capture"]["features"][name],
                )[0]
                for i, reply in enumerate(replies)
            ]
            for name in ("hidden", "last")
        )
    finally:
        server.close()

    for rank in range(tp_size):
        assert (folder / f"hook-{rank}.txt").read_text().splitlines() == [str(LAYERS)]
    for i, (prompt, reply) in enumerate(zip(PROMPTS, replies, strict=True)):
        assert reply["meta_info"]["spec_capture"] == {
            "sample_id": str(i),
            "store_id": store,
            "gen": 1,
            "aux_layer_ids": LAYERS,
            "features": {
                "hidden": {"shape": [1, len(prompt), len(LAYERS) * 1024], "dtype": "float32"},
                "last": {"shape": [1, len(prompt), 1024], "dtype": "float32"},
            },
        }
    lengths = [len(prompt) for prompt in PROMPTS]
    expected_aux, expected_last = reference(folder, lengths)
    np.testing.assert_allclose(np.concatenate(aux), expected_aux, rtol=0, atol=5e-5)
    np.testing.assert_allclose(np.concatenate(last), expected_last, rtol=0, atol=5e-5)
    # The layers differ by far more than the tolerance: none can pass for another.
    layers = np.split(expected_aux, len(LAYERS), axis=1)
    assert min(np.abs(a - b).mean() for a, b in pairwise(layers)) > 0.01


def reference(
    folder: Path, lengths: Sequence[int], layers: Sequence[int] = LAYERS
) -> tuple[Any, Any]:
    """Return the captured layers side by side, and the last hidden state, of all tokens.

    Args:
        folder: where the spy wrote what the modules put out.
        lengths: of the prompts, in tokens.
        layers: those that are captured.

    """
    import torch  # noqa: PLC0415 - the rest of this module works without it

    weights = torch.load(folder / "weights.pt", map_location="cpu")
    forwards = [
        torch.load(path, map_location="cpu") for path in sorted(folder.glob("forward-*.pt"))
    ]
    rows = [forward["embeddings"].shape[0] for forward in forwards]
    # Both prompts in one prefill, or in two that follow each other.
    if sum(lengths) in rows:
        chosen = [forwards[rows.index(sum(lengths))]]
    else:
        chosen = [forwards[rows.index(length)] for length in lengths]
    parts = [_forward_reference(forward, weights, layers) for forward in chosen]
    aux, last = (np.concatenate(column) for column in zip(*parts, strict=True))
    return aux, last


def _forward_reference(forward: Any, weights: Any, layers: Sequence[int]) -> tuple[Any, Any]:
    stream, bank, mixtures = forward["embeddings"].double(), [], []
    steps = zip(forward["attention"], forward["mlp"], weights["mixtures"], strict=True)
    for i, (attention, mlp, consumer) in enumerate(steps):
        if i % weights["block"] == 0:  # a block begins: its stream starts anew
            bank.append(stream)
            stream = attention.double()
        else:
            stream = stream + attention.double()
        stream = stream + mlp.double()
        mixtures.append(_mixture([*bank, stream], *consumer))
    weight, epsilon = weights["norm"]
    last = _normed(mixtures[-1], weight, epsilon)
    return np.concatenate([mixtures[i].numpy() for i in layers], axis=-1), last.numpy()


def _mixture(rows: list[Any], projection: Any, weight: Any, epsilon: float) -> Any:
    import torch  # noqa: PLC0415

    stacked = torch.stack(rows)
    scores = _normed(stacked, weight, epsilon) @ projection.double().reshape(-1)
    return (scores.softmax(dim=0)[..., None] * stacked).sum(dim=0)


def _normed(rows: Any, weight: Any, epsilon: float) -> Any:
    scale = (rows.square().mean(dim=-1, keepdim=True) + epsilon).rsqrt()
    return rows * scale * weight.double()
