"""Writes down what Kimi K3's modules put out, without the code that captures it.

The tests work out from it what a capture must hold. `hook-RANK.txt` has the layers of
every call of the model's capture hook; `weights.pt` the weights of each mixture and of the last
norm; `forward-N.pt` the embeddings of the Nth prefill, and what the attention and the MLP
of each layer added to its stream.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from after_import import after_import


def install(folder: str, last: str | None) -> None:
    """Watch K3's model; `last` keeps that many of the last tokens, by default all."""
    rows = slice(-int(last), None) if last else slice(None)
    after_import({"sglang.srt.models.kimi_k3": _Spy(Path(folder), rows).watch})


class _Spy:
    def __init__(self, folder: Path, rows: slice) -> None:
        self._folder = folder
        self._rows = rows
        self._forwards = 0
        self._embeddings: Any = None
        self._attention: list[Any] = []
        self._mlp: list[Any] = []

    def watch(self, module: Any) -> None:
        outer, inner = module.KimiK3ForConditionalGeneration, module.KimiK3LinearModel
        hook, init, forward = (
            outer.set_dspark_layers_to_capture,
            inner.__init__,
            inner.forward,
        )

        def set_dspark_layers_to_capture(model: Any, layer_ids: list[int]) -> None:
            with (self._folder / f"hook-{_rank()}.txt").open("a") as file:
                file.write(f"{layer_ids}\n")
            hook(model, layer_ids)

        def __init__(model: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            init(model, *args, **kwargs)
            model.embed_tokens.register_forward_hook(self._after_embedding)
            for layer in model.layers:
                layer.self_attn.register_forward_hook(self._after_attention)
                layer.mlp.register_forward_hook(self._after_mlp, with_kwargs=True)

        def watched(model: Any, *args: Any, **kwargs: Any) -> Any:
            self._attention, self._mlp = [], []
            result = forward(model, *args, **kwargs)
            if _rank() == 0:  # every rank has all of it
                self._save(model)
            return result

        outer.set_dspark_layers_to_capture = set_dspark_layers_to_capture
        inner.__init__ = __init__
        inner.forward = watched

    def _after_embedding(self, _module: Any, _args: Any, output: Any) -> None:
        self._embeddings = output[self._rows].clone()

    def _after_attention(self, module: Any, _args: Any, output: Any) -> None:
        self._attention.append(_of_all_ranks(output[self._rows].clone(), module.o_proj))

    def _after_mlp(self, module: Any, _args: Any, kwargs: dict[str, Any], output: Any) -> None:
        added = output[self._rows].clone()
        before = kwargs.get("prefix_sum")  # where the MLP adds to the stream itself
        if before is not None:
            added -= before[self._rows]
        self._mlp.append(_of_all_ranks(added, getattr(module, "down_proj", None)))

    def _save(self, model: Any) -> None:
        if self._forwards == 0:
            self._save_weights(model)
        path = self._folder / f"forward-{self._forwards}.pt"
        self._forwards += 1
        part = path.with_suffix(".part")
        torch.save(
            {"embeddings": self._embeddings, "attention": self._attention, "mlp": self._mlp}, part
        )
        part.replace(path)

    def _save_weights(self, model: Any) -> None:
        consumers = [
            (layer.self_attention_res_proj, layer.self_attention_res_norm)
            for layer in model.layers[1:]
        ] + [(model.output_attn_res_proj, model.output_attn_res_norm)]
        torch.save(
            {
                "mixtures": [
                    (_plain(projection.weight), _plain(norm.weight), norm.variance_epsilon)
                    for projection, norm in consumers
                ],
                "norm": (_plain(model.norm.weight), model.norm.variance_epsilon),
                "block": model.config.attn_res_block_size,
            },
            self._folder / "weights.pt",
        )


def _of_all_ranks(output: torch.Tensor, last: Any) -> torch.Tensor:
    """Sum what each rank has of an output, where its last projection leaves that to others."""
    if last is not None and not last.reduce_results:
        torch.distributed.all_reduce(output)
    return output


def _rank() -> int:
    return torch.distributed.get_rank() if torch.distributed.is_initialized() else 0


def _plain(parameter: Any) -> torch.Tensor:
    """Return a parameter as a tensor that `torch.load` takes from anyone."""
    return torch.empty(parameter.shape, dtype=parameter.dtype).copy_(parameter.data)
