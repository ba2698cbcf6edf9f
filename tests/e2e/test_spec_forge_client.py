"""SpecForge's own client and feature store against patched servers.

`PKGTOOLS_SPECFORGE` names a checkout of SpecForge, whose code runs in the tests' process: its
requests, its checks of the answers, and how it reads a sample.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import numpy as np
import pytest

from serving.llama import PROMPT
from serving.models import LLAMA, hugging_face, write_llama
from serving.server import LLAMA_ARGUMENTS, Server, refusals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from serving.mooncake import Master

    from .trees import Trees

pytestmark = pytest.mark.server

_TARGETS: Final = {"v0.5.17": "eagle3", "v0.5.23": "dflash", "kimi-k3-ee560a2": "dspark"}
"""Each with the method that is tried on it; a Llama has DFlash's hook for DSpark's."""
_LAYERS: Final = (4, 0, 2)
_LONG: Final = 4300
"""Tokens: more than the chunk that SGLang makes of a prefill by default."""
_CAPTURE: Final = ("--enable-spec-capture", "--spec-capture-aux-layer-ids", *map(str, _LAYERS))


@pytest.fixture(scope="module")
def spec_forge() -> Iterator[None]:
    """Put SpecForge on the module path."""
    root = os.environ.get("PKGTOOLS_SPECFORGE")
    if not root:
        pytest.skip("PKGTOOLS_SPECFORGE names no checkout of SpecForge")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(root))
        yield


@pytest.fixture(scope="module")
def long_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "long"
    return write_llama(folder, max_position_embeddings=8192)


@pytest.fixture(scope="module", params=_TARGETS)
def server(
    request: pytest.FixtureRequest,
    trees: Trees,
    long_llama: Path,
    master: Master,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Server, str]]:
    """Start a server with the arguments that SpecForge's launcher gives it."""
    request.getfixturevalue("spec_forge")
    method = _TARGETS[request.param]
    running = Server(
        trees.patched(request.param),
        long_llama,
        tmp_path_factory.mktemp(request.param),
        (*LLAMA_ARGUMENTS, *_CAPTURE, f"--spec-capture-method={method}", "--max-total-tokens=9000"),
        master.environment(),
    )
    yield running, method
    running.close()


def test_its_client_and_its_store(
    server: tuple[Server, str], master: Master, long_llama: Path
) -> None:
    running, method = server
    module: Any = importlib.import_module("specforge.inference.adapters.server_capture")
    capture: Any = importlib.import_module("specforge.inference.capture")
    contracts: Any = importlib.import_module("specforge.runtime.contracts")
    algorithm: Any = importlib.import_module(f"specforge.algorithms.{method}.providers")
    layout = algorithm.create_registration().providers.server_streaming[0].layout
    store = _store(master)
    schema = module.ServerCaptureSchema(
        aux_feature=layout.aux_feature,
        last_hidden_feature=layout.last_hidden_feature,
        passthrough=layout.passthrough,
        attention_mask_feature=layout.attention_mask_feature,
    )
    client = module.SGLangServerCaptureAdapter(
        running.url, store, run_id="run", algorithm=method, schema=schema
    )
    wanted = capture.CaptureConfig.from_strategy(
        [layout.aux_feature, "input_ids", "loss_mask"],
        _LAYERS,
        target_repr="hidden_state" if layout.last_hidden_feature else None,
        target_hidden_size=LLAMA["hidden_size"],
    )
    prompts = [PROMPT, [n % 250 for n in range(_LONG)]]
    tasks = [
        contracts.PromptTask(
            task_id=str(number),
            run_id="run",
            source_id="tests",
            payload={"input_ids": prompt, "loss_mask": [1] * len(prompt)},
            max_length=8192,
        )
        for number, prompt in enumerate(prompts)
    ]
    for prompt, ref in zip(prompts, client.produce_refs(tasks, capture=wanted), strict=True):
        assert isinstance(ref, contracts.SampleRef), ref
        found, _ = store.get(ref)
        states = hugging_face(long_llama, prompt)[0]
        expected = np.concatenate([states[layer + 1] for layer in sorted(_LAYERS)], axis=-1)
        np.testing.assert_allclose(found[layout.aux_feature][0], expected, rtol=0, atol=2e-5)
        if layout.last_hidden_feature is not None:
            last = found[layout.last_hidden_feature][0]
            np.testing.assert_allclose(last, states[-1], rtol=0, atol=2e-5)
        assert found["input_ids"].tolist() == [prompt]


def _store(master: Master) -> Any:
    module: Any = importlib.import_module("specforge.runtime.data_plane.mooncake_store")
    return module.MooncakeFeatureStore(
        store_id=uuid4().hex,
        setup_kwargs={
            "local_hostname": "127.0.0.1",
            "metadata_server": master.metadata,
            "global_segment_size": 0,
            "local_buffer_size": 64 << 20,
            "master_server_addr": master.address,
        },
    )


@pytest.mark.parametrize("target", _TARGETS)
def test_a_server_with_default_arguments_says_at_once_what_it_needs(
    target: str, trees: Trees, long_llama: Path
) -> None:
    """Without `--chunked-prefill-size -1`, its prompts of more than 4,096 tokens were cut."""
    (refused,) = refusals(trees.patched(target), long_llama, [["--dtype=float32", *_CAPTURE]])
    assert refused is not None
    assert "--chunked-prefill-size -1" in refused
