"""Makes the weights of a tiny Kimi K3 realistic, and leaves its images out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Callable


def _realistic_weights(module: Any) -> None:
    """SGLang's own dummy weights are so small that all layers do nothing."""

    def initialize_dummy_weights(model: Any, *_: object, **__: object) -> None:
        for name, parameter in model.state_dict().items():
            if not torch.is_floating_point(parameter):
                continue
            generator = torch.Generator().manual_seed(sum(map(ord, name)))
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() <= 1 or any(part in name for part in ("norm", "A_log", "dt_bias")):
                scale = 1.0 if "norm" in name and "weight" in name else 0.0
                value = 0.1 * noise + scale
            else:
                value = noise / parameter.shape[-1] ** 0.5
            parameter.data.copy_(value.to(parameter.dtype))

    module.initialize_dummy_weights = initialize_dummy_weights


def _text_only(module: Any) -> None:
    """Leave images out: a tiny model's folder has no processor for them."""
    init = module.ModelConfig.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        init(self, *args, **{**kwargs, "enable_multimodal": False})

    module.ModelConfig.__init__ = __init__


CHANGES: Final[dict[str, Callable[[Any], None]]] = {
    "sglang.srt.model_loader.weight_utils": _realistic_weights,
    "sglang.srt.configs.model_config": _text_only,
}
"""What each module becomes as it is imported."""
