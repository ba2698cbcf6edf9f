"""Tiny models of the real ones' shape, which a CPU serves within seconds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LLAMA: Final[dict[str, Any]] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 256,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "torch_dtype": "float32",
    "attention_bias": False,
    "mlp_bias": False,
}

_K3_TEXT: Final[dict[str, Any]] = {
    "model_type": "kimi_linear",
    "vocab_size": 256,
    "hidden_size": 1024,
    "head_dim": 32,
    "intermediate_size": 256,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-5,
    "moe_intermediate_size": 64,
    "moe_renormalize": True,
    "moe_router_activation_func": "sigmoid",
    "num_experts_per_token": 2,
    "num_shared_experts": 1,
    "routed_scaling_factor": 1.0,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "use_grouped_topk": True,
    "num_expert_group": 1,
    "topk_group": 1,
    "q_lora_rank": None,
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
    "mla_use_nope": True,
    "mla_use_output_gate": True,
    "linear_attn_config": {
        "kda_layers": [1, 2, 3, 5],
        "full_attn_layers": [4, 6],
        "head_dim": 32,
        "num_heads": 4,
        "short_conv_kernel_size": 4,
        "use_full_rank_gate": True,
        "gate_lower_bound": -5.0,
    },
    "max_position_embeddings": 2048,
    "torch_dtype": "float32",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "tie_word_embeddings": False,
    "activation_situ_beta": 4.0,
    "activation_situ_linear_beta": 25.0,
    "attn_res_block_size": 2,
}

# SiTU and MoE together do not run on the CPU: one has the one, one the other.
_K3_DENSE: Final[dict[str, Any]] = {
    "hidden_act": "situ",
    "num_experts": None,
    "routed_expert_hidden_size": None,
    "latent_moe_use_norm": False,
}
_K3_MOE: Final[dict[str, Any]] = {
    "hidden_act": "silu",
    "num_experts": 8,
    "routed_expert_hidden_size": 256,
    "latent_moe_use_norm": True,
}


def write_llama(folder: Path, **changes: Any) -> Path:
    """Write a Llama with random weights, in float32, as Hugging Face would.

    Args:
        folder: a new one.
        changes: values of its configuration other than `LLAMA`'s.

    """
    import torch  # noqa: PLC0415
    from safetensors.torch import save_file  # noqa: PLC0415
    from transformers import LlamaConfig, LlamaForCausalLM  # noqa: PLC0415

    config = {**LLAMA, **changes}
    _write_config(folder, config)
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**config)).float()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
    weights = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def hugging_face(folder: Path, tokens: list[int]) -> tuple[list[Any], Any]:
    """Return what Hugging Face's Llama computes: the states before each layer, and the logits.

    The last state is the one after the norm.
    """
    import torch  # noqa: PLC0415
    from safetensors.torch import load_file  # noqa: PLC0415
    from transformers import LlamaConfig, LlamaForCausalLM  # noqa: PLC0415

    config = json.loads((folder / "config.json").read_text("utf-8"))
    model = LlamaForCausalLM(LlamaConfig(**config)).float()
    model.load_state_dict(load_file(folder / "model.safetensors"))
    with torch.no_grad():
        out = model(torch.tensor([tokens]), output_hidden_states=True)
    return [state[0].numpy() for state in out.hidden_states], out.logits[0].numpy()


def write_k3(
    folder: Path,
    *,
    moe: bool,
    text: Mapping[str, Any] | None = None,
    linear_attention: Mapping[str, Any] | None = None,
) -> Path:
    """Write the configuration of a Kimi K3; the server makes its weights up.

    Args:
        folder: a new one.
        moe: whether it has experts.
        text: other values of its text model.
        linear_attention: other values of its KDA layers.

    """
    text = {**_K3_TEXT, **(_K3_MOE if moe else _K3_DENSE), **(text or {})}
    text["linear_attn_config"] = {**text["linear_attn_config"], **(linear_attention or {})}
    return _write_config(
        folder,
        {
            "model_type": "kimi_k3",
            "architectures": ["KimiK3ForConditionalGeneration"],
            "text_config": text,
            "vision_config": {
                "model_type": "kimi_k3_vision",
                "vt_num_attention_heads": 2,
                "vt_num_hidden_layers": 1,
                "vt_hidden_size": 64,
                "vt_intermediate_size": 64,
                "qkv_hidden_size": 64,
                "mm_hidden_size": 64,
                "text_hidden_size": text["hidden_size"],
            },
            "media_placeholder_token_id": 250,
            "torch_dtype": "float32",
            "pad_token_id": 0,
            "eos_token_id": 2,
            "bos_token_id": 1,
        },
    )


def _write_config(folder: Path, config: dict[str, Any]) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1), "utf-8")
    return folder
