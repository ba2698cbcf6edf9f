"""The rules of the config plan about GPUs: their model, their memory and who uses them."""

from typing import Final

from pkgtools.recipe.model import Recipe, Server, shown_bytes, size_bytes
from pkgtools.recipe.rule import RuleResult, rule

_BACKENDS: Final = {
    "trtllm_mla": ("sm100", "sm103", "sm120", "sm121"),
    "tokenspeed_mla": ("sm100", "sm103", "sm120", "sm121"),
    "trtllm_mha": ("sm100", "sm103"),
    "cutlass_mla": ("sm100", "sm103"),
    "cutedsl_mla": ("sm100", "sm103"),
    "fa3": ("sm80", "sm86", "sm87", "sm89", "sm90"),
}
"""The GPUs that SGLang takes an attention backend on, where it refuses others."""
_FUSION: Final = ("sm100", "sm103")
"""Where Kimi K3's all-reduce fusion is on by itself (k3_ar_fusion.py)."""
_FUSION_SWITCH: Final = "SGLANG_K3_AR_FUSION"
_DEFAULT_PREFILL_TOKENS: Final = 16_384
_UNGUARDED: Final = ("megamoe", "deepep")
"""Their sequence-parallel collectives take the fusion's buffers, without another path."""
_SLOTS: Final = 3
"""State slots that a running request takes with the radix cache (kv_cache_configurator.py)."""


@rule("server.gpu", "SGLang refuses an attention backend that the GPU does not have, at start")
def _hardware(recipe: Recipe) -> RuleResult:
    server = recipe.server
    flags = [f"{part}attention-backend" for part in ("", "prefill-", "decode-")]
    used = {str(server.flags[flag]) for flag in flags if flag in server.flags} & _BACKENDS.keys()
    found = f"gpu {server.gpu or 'not given'}, {', '.join(sorted(used)) or 'any attention backend'}"
    if not used:
        return RuleResult(True, found, "no attention backend that needs a certain GPU")
    wanted = [gpu for gpu in _BACKENDS[min(used)] if all(gpu in _BACKENDS[b] for b in used)]
    computed = f"it needs {' or '.join(wanted)}" if wanted else "no GPU has all of them"
    if server.gpu is None:
        return RuleResult(None if wanted else False, found, computed)
    return RuleResult(server.gpu in wanted, found, computed)


@rule(
    "server.flags.max-prefill-tokens",
    "the fused all-reduce has buffers of that many rows, outside the server's share of memory",
)
def _fusion(recipe: Recipe) -> RuleResult:
    server, tokens = recipe.server, recipe.dataset.longest_row
    rows = server.number("max-prefill-tokens") or _DEFAULT_PREFILL_TOKENS
    found = f"max-prefill-tokens {rows}, gpu {server.gpu or 'not given'}"
    is_on = server.gpu in _FUSION and server.environment.get(_FUSION_SWITCH) != "0"
    if not recipe.model.fused_widths or not is_on or (server.number("tp-size") or 1) == 1:
        return RuleResult(True, found, "no fused all-reduce")
    # Two bytes an element, whatever the model's dtype.
    size = 2 * rows * sum(recipe.model.fused_widths)
    computed = f"buffers of {rows} rows take {shown_bytes(size)} a GPU"
    if tokens > rows and server.flags.get("moe-a2a-backend") in _UNGUARDED:
        return RuleResult(False, found, f"{computed}, and a row of {tokens} tokens does not fit")
    if tokens > rows:
        computed += f"; {tokens} tokens take the group's own all-reduce"
    if server.gpu_memory is not None:
        share = server.flags.get("mem-fraction-static", 0.9)
        left = size_bytes(server.gpu_memory) * (1 - share if isinstance(share, float) else 0)
        # The captured layers of a batch are joined on the device.
        size += recipe.sample_bytes
        computed += f", with a captured sample {shown_bytes(size)} of {shown_bytes(left)}"
        return RuleResult(size <= left, found, computed)
    return RuleResult(True, found, computed)


@rule(
    "server.flags.max-mamba-cache-size",
    "with too few state slots SGLang runs fewer requests, or refuses to start",
)
def _mamba(recipe: Recipe) -> RuleResult:
    server = recipe.server
    slots, running = server.number("max-mamba-cache-size"), server.number("max-running-requests")
    found = f"{slots or 'no'} Mamba slots, {running or 'no'} running requests"
    if slots is None:
        return RuleResult(True, found, "SGLang computes the slots")
    each = 1 if server.has("disable-radix-cache") else _SLOTS + _extra_slots(server)
    most = slots // each
    computed = f"{each} slots a request: at most {most} run"
    return RuleResult(most >= (running or 1), found, computed)


def _extra_slots(server: Server) -> int:
    strategy = str(server.flags.get("mamba-radix-cache-strategy", ""))
    if not strategy.startswith("extra_buffer"):
        return 0
    return 1 if strategy.endswith("lazy") or server.has("disable-overlap-schedule") else 2


@rule("server.gpus", "two programs that each count from GPU 0 take each other's memory")
def _gpus(recipe: Recipe) -> RuleResult:
    server, trainer = recipe.server, recipe.trainer
    taken = {"server": server.gpus, "trainer": trainer.gpus}
    needed = {"server": recipe.server_gpus, "trainer": trainer.ranks}
    found = ", ".join(f"{name} {gpus or 'not given'}" for name, gpus in taken.items())
    for name, gpus in taken.items():
        if gpus is not None and len(set(gpus)) != needed[name]:
            return RuleResult(False, found, f"the {name} takes {needed[name]} different ones")
    if recipe.capture_node.address != recipe.trainer_node.address or not needed["server"]:
        return RuleResult(True, found, "each on its own node")
    both = set(server.gpus or []) & set(trainer.gpus or [])
    if both:
        return RuleResult(False, found, f"both take {sorted(both)}")
    if recipe.capture_node.address is None:
        return RuleResult(True, found, "each on its own node, unless the site gives one address")
    said = server.gpus is not None and trainer.gpus is not None
    computed = "no GPU twice" if said else "on one host both have to list their GPUs"
    return RuleResult(True if said else None, found, computed)


GPU_RULES: Final = (_hardware, _fusion, _mamba, _gpus)
