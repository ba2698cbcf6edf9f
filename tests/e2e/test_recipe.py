"""A recipe, from its plan to one captured sample, on a server and a store that it started.

Both run with exactly what `recipe render` says; each step is then seen to refuse a
deployment that is broken at it, and no earlier.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
import requests
from commands import Result, call

from pkgtools.errors import CheckFailedError
from pkgtools.recipe.live import check_sample
from pkgtools.recipe.load import load_recipe
from pkgtools.recipe.processes import store_environment
from serving.mooncake import program
from serving.process import Process, free_port
from serving.server import CPU, CPU_ENVIRONMENT

from .trees import CATALOG

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .trees import Trees

pytestmark = pytest.mark.server

_TARGET: Final = "v0.5.23"
_RECIPE: Final = Path(__file__).with_name("llama-capture.toml")
_STEPS: Final = ["plan", "patches", "artifacts", "store", "server", "sample", "update"]
_SHA: Final = "0123456789abcdef" * 4


@dataclass(frozen=True)
class Deployment:
    """Where everything lies."""

    folder: Path
    tree: Path
    text: str
    site: Path

    def recipe(self, edits: Mapping[str, str]) -> Path:
        """Write the recipe with some texts replaced."""
        text = self.text
        for old, new in edits.items():
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        path = self.folder / "recipe.toml"
        path.write_text(text)
        return path

    def validate(self, edits: Mapping[str, str], up_to: str, *more: str | Path) -> Result:
        return call(
            *("recipe", "validate", self.recipe(edits), "--site", self.site),
            *("--up-to", up_to, "--tree", self.tree, "--python", sys.executable),
            *("--catalog", CATALOG, "--json", *more),
        )


@pytest.fixture(scope="module")
def deployment(
    trees: Trees, llama: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    """Start the master and the server of the recipe."""
    pytest.importorskip("mooncake.store", exc_type=ImportError)
    tree = trees.patched(_TARGET)
    folder = tmp_path_factory.mktemp("recipe")
    text = re.sub(r"port = 2000\d", lambda _: f"port = {free_port()}", _RECIPE.read_text())
    made = Deployment(folder, tree, text, folder / "site.toml")
    _write_site(made, llama)
    rendered = call("recipe", "render", made.recipe({}), "--site", made.site, "--json").facts
    master, server, _ = rendered
    with (
        Process([program(master["command"][0]), *master["command"][1:]], folder / "master.log"),
        Process(server["command"], folder / "server.log", server["environment"]) as process,
    ):
        url = f"http://127.0.0.1:{server['command'][server['command'].index('--port') + 1]}"
        process.wait_until(lambda: _is_healthy(url), 180)
        yield made


def _is_healthy(url: str) -> bool:
    try:
        return requests.get(f"{url}/health", timeout=5).ok
    except requests.RequestException:
        return False


def _write_site(made: Deployment, llama: Path) -> None:
    model = made.folder / "snapshots" / "5f0a4a2d1c3b6e7f8091a2b3c4d5e6f708192a3b"
    shutil.copytree(llama, model)
    rows = "".join(json.dumps({"input_ids": list(range(n))}) + "\n" for n in (20, 300, 7))
    dataset, draft = made.folder / "rows.jsonl", made.folder / "draft.safetensors"
    dataset.write_text(rows)
    draft.write_bytes(b"weights")
    environment = {
        **CPU_ENVIRONMENT,
        "PYTHONPATH": os.pathsep.join(map(str, (CPU / "stubs", CPU / "site", made.tree))),
    }
    variables = "\n".join(f"{name} = {json.dumps(value)}" for name, value in environment.items())
    node = 'address = "127.0.0.1"\nbind_address = "127.0.0.1"\ninterfaces = ["127.0.0.1"]'
    made.site.write_text(
        f"""\
image = "registry.invalid/capture@sha256:{_SHA}"

[model]
path = {json.dumps(str(model))}

[draft]
path = {json.dumps(str(draft))}
sha256 = "{hashlib.sha256(b"weights").hexdigest()}"

[dataset]
path = {json.dumps(str(dataset))}
sha256 = "{hashlib.sha256(rows.encode()).hexdigest()}"

[capture_node]
{node}
memory = "1 GiB"

[trainer_node]
{node}

[link]
gigabits_per_second = 1.0

[server]
command = {json.dumps([sys.executable, "-m", "sglang.launch_server"])}

[server.environment]
{variables}
[trainer]
image = "registry.invalid/trainer@sha256:{_SHA}"
command = ["train"]
output = {json.dumps(str(made.folder / "out"))}
"""
    )


def test_up_to_one_captured_sample(deployment: Deployment, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = deployment.validate({}, "sample", "--report", report)
    assert done.code == 0, done.out
    facts = done.facts
    assert json.loads(report.read_text()) == facts
    assert facts["passed"] is True
    assert [(s["step"], s["passed"]) for s in facts["steps"]] == [(s, True) for s in _STEPS[:-1]]
    evidence = {step["step"]: step["evidence"] for step in facts["steps"]}
    assert evidence["patches"]["target"] == _TARGET
    assert evidence["patches"]["state"] == "patched"
    assert evidence["artifacts"]["dataset"]["rows"] == 3
    assert evidence["artifacts"]["dataset"]["longest_row"] == 300
    assert evidence["server"]["flags"]["spec_capture_aux_layer_ids"] == [0, 2, 4]
    tensors = evidence["sample"]["tensors"]
    assert [(t["shape"], t["dtype"], t["bytes"]) for t in tensors] == [
        ([1, 300, 192], "float32", 300 * 192 * 4),
        ([1, 300, 64], "float32", 300 * 64 * 4),
    ]
    assert all(t["finite"] and 0 < t["largest"] < 1e3 for t in tensors)
    assert evidence["sample"]["capacity"] == 64 << 20
    # What was captured for it is gone again: the next one finds no taken key.
    recipe = load_recipe(deployment.recipe({}), deployment.site).recipe
    assert check_sample(recipe, sys.executable)["tokens"] == 300


_BROKEN: Final = [
    ("plan", {"size = -1": "size = 256"}, "chunked-prefill-size 256: it has to be -1"),
    ("patches", {'target = "v0.5.23"': 'target = "v0.5.22"'}, "v0.5.22 does not apply"),
    ("artifacts", {"rows = 3": "rows = 4"}, "has 3 rows, the recipe says 4"),
    ("artifacts", {'"5f0a4a2d': '"6f0a4a2d'}, "its revision should be 6f0a4a2d"),
    ("artifacts", {"hidden_size = 64": "hidden_size = 128"}, "hidden_size is 64"),
    ("server", {"static = 0.05": "static = 0.06"}, "mem_fraction_static is 0.05, not 0.06"),
    ("sample", {'dtype = "float32"\nhooks': 'dtype = "bfloat16"\nhooks'}, "features are"),
    ("sample", {'segment = "64 MiB"': 'segment = "65 MiB"'}, "64 MiB are lent to the store"),
    ("update", {}, "no RUN-stepN/training_state.pt and no metrics.jsonl"),
]


@pytest.mark.parametrize(("step", "edits", "message"), _BROKEN)
def test_stopped_at_the_step_that_is_broken(
    deployment: Deployment, step: str, edits: dict[str, str], message: str
) -> None:
    done = deployment.validate(edits, "update")
    assert done.code == 8
    steps = done.facts["steps"]
    place = _STEPS.index(step)
    assert [(s["step"], s["passed"]) for s in steps] == [
        *((name, True) for name in _STEPS[:place]),
        (step, False),
    ]
    assert message in steps[-1]["message"]
    assert done.facts["left"] == _STEPS[place:]
    assert done.facts["passed"] is False


@pytest.mark.parametrize("name", ["rpc_port", "metadata_port", "metrics_port"])
def test_a_store_that_does_not_answer(deployment: Deployment, name: str) -> None:
    port = re.search(rf"{name} = \d+", deployment.text)
    assert port is not None
    done = deployment.validate({port[0]: f"{name} = {free_port()}"}, "server")
    assert done.code == 8
    last = done.facts["steps"][-1]
    assert (last["step"], last["passed"]) == ("store", False)
    assert re.search("answer|refused", last["message"]), last["message"]


def test_the_first_update(deployment: Deployment) -> None:
    output = deployment.folder / "out"
    (output / "step_1").mkdir(parents=True)
    (output / "step_1" / "model.safetensors").write_bytes(b"weights")
    row = {"step": 1, "loss": 2.5, "checkpoint": "step_1"}
    (output / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    done = deployment.validate({}, "update")
    shutil.rmtree(output)
    assert done.code == 0, done.out
    evidence = done.facts["steps"][-1]["evidence"]
    assert (evidence["step"], evidence["loss"]) == (1, 2.5)
    listed = f"{hashlib.sha256(b'weights').hexdigest()}  model.safetensors\n"
    assert evidence["sha256"] == hashlib.sha256(listed.encode()).hexdigest()


class _Liar(BaseHTTPRequestHandler):
    """A server that says it captured, whatever the store holds."""

    result: Any

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"meta_info": {"spec_capture": self.result}}).encode())

    def log_message(self, *_arguments: Any) -> None:
        pass


@pytest.fixture
def liar(deployment: Deployment) -> Iterator[dict[str, str]]:
    """Return a server in place of the real one, and the edit that leads to it."""
    port = re.search(r"\[server\]\nport = (\d+)", deployment.text)
    assert port is not None
    with ThreadingHTTPServer(("127.0.0.1", free_port()), _Liar) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield {port[0]: f"[server]\nport = {server.server_port}"}
        server.shutdown()


_RESULT: Final = {
    "aux_layer_ids": [0, 2, 4],
    "features": {
        "aux": {"shape": [1, 300, 192], "dtype": "float32"},
        "last_hidden": {"shape": [1, 300, 64], "dtype": "float32"},
    },
}


@pytest.mark.parametrize(
    ("result", "last", "message"),
    [
        (None, None, "without the patches"),
        ({"error": "the store has no room for it"}, None, "the store has no room for it"),
        ({**_RESULT, "aux_layer_ids": [0, 2, 3]}, None, "layers are [0, 2, 3]"),
        (_RESULT, None, "last_hidden is not in the store"),
        (_RESULT, np.ones(100), "has 400 bytes"),
        (_RESULT, np.zeros(300 * 64), "is all zeros"),
        (_RESULT, np.array([1.0] * (300 * 64 - 1) + [np.nan]), "not finite everywhere"),
        (_RESULT, np.array([np.inf] + [1.0] * (300 * 64 - 1)), "not finite everywhere"),
    ],
)
def test_a_reply_is_not_taken_at_its_word(
    deployment: Deployment,
    liar: dict[str, str],
    result: Any,
    last: Any,
    message: str,
) -> None:
    _Liar.result = result
    recipe = load_recipe(deployment.recipe(liar), deployment.site).recipe
    _put(store_environment(recipe, recipe.capture_node, 0), last)
    with pytest.raises(CheckFailedError) as caught:
        check_sample(recipe, sys.executable)
    assert message in caught.value.message


def _put(environment: Mapping[str, str], last: Any) -> None:
    """Put what the server would have written; without `last`, that object is missing."""
    from mooncake.store import MooncakeDistributedStore  # noqa: PLC0415

    store = MooncakeDistributedStore()
    address = environment["MOONCAKE_MASTER_SERVER_ADDR"]
    metadata = environment["MOONCAKE_METADATA_SERVER"]
    assert store.setup("127.0.0.1", metadata, 0, 16 << 20, "tcp", "", address) == 0
    objects = {"aux": np.ones(300 * 192), "last_hidden": last}
    for name, values in objects.items():
        key = f"pkgtools-recipe/sample/g0/{name}"
        store.remove(key, True)
        if values is not None:
            assert store.put(key, values.astype("<f4").tobytes()) == 0
    store.close()
