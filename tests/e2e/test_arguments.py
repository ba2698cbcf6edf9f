"""What a server with capture decides at start: by what is typed, on a CPU and as on CUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from pkgtools.catalog import load_catalog
from serving.server import LLAMA_CAPTURE, refusals, resolve_for_cuda

from .trees import CATALOG

if TYPE_CHECKING:
    from pathlib import Path

    from .trees import Trees

pytestmark = pytest.mark.server

_TARGETS: Final = [target.name for target in load_catalog(CATALOG).targets]
_CAPTURE: Final = ("--enable-spec-capture", "--spec-capture-aux-layer-ids", "0", "2", "4")
_WHOLE: Final = "--chunked-prefill-size=-1"


@pytest.mark.parametrize("target", _TARGETS)
def test_defaults_of_cuda_are_refused_or_made_right(target: str, trees: Trees, llama: Path) -> None:
    """Nobody types what SGLang decides by itself: a chunk size, CUDA graphs of prefills."""
    cases = [
        ("--dtype=float32",),
        ("--dtype=float32", *_CAPTURE),
        ("--dtype=float32", *_CAPTURE, _WHOLE),
        ("--dtype=float32", *_CAPTURE, _WHOLE, "--disable-cuda-graph"),
    ]
    off, default, whole, without = resolve_for_cuda(trees.patched(target), llama, cases)
    # What is refused and set right below is there without capture.
    assert isinstance(off, dict)
    assert off["device"] == "cuda"
    assert off["chunked_prefill_size"] > 0
    assert off["prefill_graphs"] != "disabled"
    assert f"chunked at {off['chunked_prefill_size']} tokens: add {_WHOLE[:22]} -1" in default
    expected: dict[str, Any] = {**off, "chunked_prefill_size": -1, "prefill_graphs": "disabled"}
    assert whole == expected
    assert without == {**expected, "decode_graphs": "disabled"}


def test_the_default_chunk_of_a_cpu_is_refused(trees: Trees, llama: Path) -> None:
    case = ("--dtype=float32", *_CAPTURE)
    (reason,) = refusals(trees.patched("v0.5.23"), llama, [case])
    assert "prefill is chunked at 4096 tokens" in (reason or "accepted")


_REFUSED: Final[dict[tuple[str, ...], str]] = {
    ("--chunked-prefill-size=64",): "add --chunked-prefill-size -1",
    (_WHOLE, "--spec-capture-method=dflash"): "dflash needs --spec-capture-aux-layer-ids",
    (_WHOLE, "--spec-capture-method=dspark"): "dspark needs --spec-capture-aux-layer-ids",
    (_WHOLE, "--speculative-algorithm=NGRAM"): "does not work with speculative decoding",
    (_WHOLE, "--pp-size=2"): "does not work with pipeline parallelism",
    (_WHOLE, "--tp-size=2", "--attn-cp-size=2"): "does not work with context parallelism",
    (_WHOLE, "--disaggregation-mode=decode"): "does not work with prefill-decode disaggregation",
    (_WHOLE, "--enable-pdmux"): "does not work with --enable-pdmux",
    (_WHOLE, "--enable-two-batch-overlap"): "does not work with --enable-two-batch-overlap",
    (_WHOLE, "--is-embedding"): "does not work with embedding models",
}


def test_what_cannot_be_captured_is_refused_before_a_model_is_loaded(
    trees: Trees, llama: Path
) -> None:
    cases = [("--dtype=float32", "--enable-spec-capture", *case) for case in _REFUSED]
    good, *reasons = refusals(trees.patched("v0.5.23"), llama, [LLAMA_CAPTURE, *cases])
    assert good is None
    for reason, expected in zip(reasons, _REFUSED.values(), strict=True):
        assert expected in (reason or "accepted")
