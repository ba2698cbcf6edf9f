"""Which layers are captured, and which hook of the model is called for it."""

import logging
from typing import TYPE_CHECKING, Any

from sglang.srt.utils import get_bool_env_var

if TYPE_CHECKING:
    from sglang.srt.server_args import ServerArgs

logger = logging.getLogger(__name__)

_HOOKS = {
    "eagle3": "set_eagle3_layers_to_capture",
    "dflash": "set_dflash_layers_to_capture",
    "dspark": "set_dspark_layers_to_capture",
}


def check_arguments(server_args: "ServerArgs") -> None:
    """Refuse what capture cannot work with, before a model is loaded."""
    a = _resolved(server_args)
    if a.spec_capture_method not in _HOOKS:
        raise ValueError(f"--spec-capture-method takes {', '.join(_HOOKS)}")
    if a.chunked_prefill_size is not None and a.chunked_prefill_size > 0:
        raise ValueError(
            "--enable-spec-capture needs the whole sequence in one prefill, but prefill "
            f"is chunked at {a.chunked_prefill_size} tokens: add "
            "--chunked-prefill-size -1"
        )
    for broken, what in (
        (a.speculative_algorithm is not None, "speculative decoding"),
        (a.pp_size > 1, "pipeline parallelism"),
        (getattr(a, "attn_cp_size", 1) > 1, "context parallelism"),
        (a.disaggregation_mode != "null", "prefill-decode disaggregation"),
        (a.enable_pdmux, "--enable-pdmux"),
        (a.enable_two_batch_overlap, "--enable-two-batch-overlap"),
        (a.is_embedding, "embedding models"),
        (getattr(a, "dllm_algorithm", None) is not None, "diffusion models"),
        (get_bool_env_var("SGLANG_RUST_SERVER"), "the embedded Rust server"),
    ):
        if broken:
            raise ValueError(f"--enable-spec-capture does not work with {what}")
    if a.spec_capture_method != "eagle3" and not a.spec_capture_aux_layer_ids:
        raise ValueError(
            f"--spec-capture-method {a.spec_capture_method} needs --spec-capture-aux-layer-ids"
        )
    graphs = a.cuda_graph_config
    if graphs is not None and graphs.prefill.backend != "disabled":
        logger.info("spec capture: no prefill CUDA graphs, they hide what is captured")
        _disable_prefill_graphs(server_args, graphs)


def _resolved(server_args: "ServerArgs") -> Any:
    """Return the arguments with what the server decides itself.

    From 0.5.19 on `server_args` holds what the operator typed, and a view of it holds the
    decisions; before, they are written into `server_args`.
    """
    try:
        from sglang.srt.arg_groups.model_override_base import resolving_view
    except ImportError:
        return server_args
    return resolving_view(server_args)


def _disable_prefill_graphs(server_args: "ServerArgs", graphs: Any) -> None:
    try:
        from sglang.srt.arg_groups.overrides import declare_resolution
        from sglang.srt.model_executor.cuda_graph_config import with_phase
    except ImportError:  # before 0.5.19
        graphs.prefill.backend = "disabled"
        return
    declare_resolution(
        server_args,
        "spec_capture",
        cuda_graph_config=with_phase(graphs, "prefill", backend="disabled"),
    )


def resolve_layer_ids(layer_ids: list[int] | None, num_layers: int) -> list[int]:
    """Return the layers to capture, in the order in which the model gives them."""
    if not layer_ids:
        # EAGLE3's own choice: behind the second layer, in the middle, before the end.
        layer_ids = [1, num_layers // 2 - 1, num_layers - 4]
    wrong = [i for i in layer_ids if not 0 <= i < num_layers]
    if wrong:
        raise ValueError(
            f"--spec-capture-aux-layer-ids: the model has the layers 0 to "
            f"{num_layers - 1}, not {', '.join(map(str, wrong))}"
        )
    if len(set(layer_ids)) != len(layer_ids):
        raise ValueError("--spec-capture-aux-layer-ids names a layer twice")
    if sorted(layer_ids) != list(layer_ids):
        logger.warning(
            "spec capture: captured layers lie in the order %s, not in that of "
            "--spec-capture-aux-layer-ids",
            sorted(layer_ids),
        )
    return sorted(layer_ids)


def set_layers_to_capture(model: Any, method: str, layer_ids: list[int]) -> None:
    """Tell the model, through the hook of the method; it may refuse layers of its own accord."""
    hook = getattr(model, _HOOKS[method], None)
    if hook is None and method == "dspark":
        hook = getattr(model, _HOOKS["dflash"], None)  # as for a DSpark draft
    if hook is None:
        has = [name for name, attribute in _HOOKS.items() if hasattr(model, attribute)]
        raise ValueError(
            f"--spec-capture-method {method}: {type(model).__name__} has no "
            f"{_HOOKS[method]}; it can do {', '.join(has) or 'no capture at all'}"
        )
    try:
        hook(list(layer_ids))
    except (IndexError, ValueError, RuntimeError, NotImplementedError) as e:
        raise ValueError(
            f"--spec-capture-aux-layer-ids: {type(model).__name__} does not capture "
            f"the layers {', '.join(map(str, layer_ids))}: {e}"
        ) from e
