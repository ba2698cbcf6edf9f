"""The store and the server, where they do not answer as they should; tests/e2e has the rest."""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
import venv
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from recipes import write_variant

from pkgtools.errors import CheckFailedError, Evidence
from pkgtools.recipe.live import check_server, check_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pkgtools.recipe.model import Recipe


class _Handler(BaseHTTPRequestHandler):
    """Answers with what a test put under a method and a path."""

    answers: dict[str, tuple[int, bytes]]

    def _answer(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        status, body = self.answers.get(f"{self.command} {self.path}", (404, b"nothing here"))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_DELETE = _answer  # noqa: N815 - the names that the base class calls

    def log_message(self, *_arguments: Any) -> None:
        pass


@pytest.fixture
def local(tmp_path: Path) -> Iterator[tuple[Callable[..., Recipe], dict[str, tuple[int, bytes]]]]:
    """Return a maker of a recipe whose ports are all one local server's, and its answers."""
    answers: dict[str, tuple[int, bytes]] = {}
    handler = type("Handler", (_Handler,), {"answers": answers})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def recipe() -> Recipe:
            path = write_variant(tmp_path, {'192.0.2.10"\nb': '127.0.0.1"\nb'})
            text = path.recipe.read_text()
            path.recipe.write_text(re.sub(r"port = \d+", f"port = {server.server_port}", text))
            return path.load().recipe

        yield recipe, answers
        server.shutdown()


_URL = "/metadata?key=pkgtools-recipe"


def _healthy(answers: dict[str, tuple[int, bytes]]) -> None:
    answers["GET /health"] = (200, b"{}")
    answers[f"PUT {_URL}"] = answers[f"DELETE {_URL}"] = (200, b"done")
    answers[f"GET {_URL}"] = (200, b'"pkgtools-recipe"')


def test_a_store_that_answers_wrongly(local: Any) -> None:
    make, answers = local
    recipe = make()
    with pytest.raises(CheckFailedError, match=r"GET .*/health failed with status 404: nothing"):
        check_store(recipe, sys.executable)
    _healthy(answers)
    answers[f"GET {_URL}"] = (200, b'"another"')
    with pytest.raises(CheckFailedError, match="another value than was stored"):
        check_store(recipe, sys.executable)
    del answers[f"PUT {_URL}"]
    with pytest.raises(CheckFailedError, match=r"PUT .* failed with status 404"):
        check_store(recipe, sys.executable)


def test_an_interpreter_without_mooncake(local: Any, tmp_path: Path) -> None:
    make, answers = local
    _healthy(answers)
    venv.create(tmp_path / "bare", symlinks=True, with_pip=False)
    with pytest.raises(CheckFailedError, match="Mooncake cannot be imported") as caught:
        check_store(make(), str(tmp_path / "bare/bin/python"))
    assert "mooncake-transfer-engine" in str(caught.value.remedy)
    with pytest.raises(CheckFailedError, match="cannot talk to the store"):
        check_store(make(), str(tmp_path / "no-such-python"))


def test_modules_of_this_package_hide_none_that_mooncake_imports(
    local: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program's folder comes first in sys.path, and this one has a secrets.py."""
    make, answers = local
    _healthy(answers)
    (tmp_path / "mooncake").mkdir()
    (tmp_path / "mooncake/__init__.py").touch()
    (tmp_path / "mooncake/store.py").write_text(
        "from secrets import randbits\n"
        "class MooncakeDistributedStore:\n"
        "    def setup(self, *_): return randbits(1) + 1\n"
        "    def close(self): pass\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(CheckFailedError, match="no connection to the store"):
        check_store(make(), sys.executable)


def test_the_capacity_that_a_master_tells(local: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prometheus' text format has floats, infinities and NaN."""
    make, answers = local
    _healthy(answers)
    monkeypatch.setattr("pkgtools.recipe.live._probe", lambda *_: {"bytes": 1})
    for text, capacity in ((b"0", 0), (b"1099511627776", 2**40), (b"1.5e+03", 1500)):
        answers["GET /metrics"] = (200, b"x 1\nmaster_total_capacity_bytes %s\nz 2\n" % text)
        assert check_store(make(), sys.executable)["capacity"] == capacity
    for text in (b"NaN", b"+Inf", b"1e999", b"much"):
        answers["GET /metrics"] = (200, b"master_total_capacity_bytes %s\n" % text)
        with pytest.raises(CheckFailedError, match="does not list master_total_capacity_bytes"):
            check_store(make(), sys.executable)


def test_a_store_that_dies_or_hangs(
    local: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client is a process of its own, which is stopped after a time."""
    make, answers = local
    _healthy(answers)
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho the client crashed >&2\nkill -SEGV $$\n")
    program.chmod(0o755)
    with pytest.raises(CheckFailedError, match="the client crashed"):
        check_store(make(), str(program))
    for answer in ("7", "[]", "null"):
        program.write_text(f"#!/bin/sh\necho '{answer}'\n")
        with pytest.raises(CheckFailedError, match="cannot talk to the store"):
            check_store(make(), str(program))
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr("pkgtools.recipe.live._GRACE", 1 - 300)  # the recipe's timeout is 300
    with pytest.raises(CheckFailedError, match="was stopped"):
        check_store(make(), str(program))


def test_a_server_with_other_flags(local: Any) -> None:
    make, answers = local
    recipe = make()
    info = {
        **{name.replace("-", "_"): value for name, value in recipe.server.flags.items()},
        "model_path": recipe.model.path,
        "port": recipe.server.port,
        "api_key": "never shown",
    }
    answers["GET /health"] = (200, b"")
    answers["GET /get_server_info"] = (200, json.dumps(info).encode())
    evidence = check_server(recipe)
    assert "never shown" not in json.dumps(evidence)
    for name, value in (
        ("chunked_prefill_size", 8192),
        ("enable_spec_capture", False),
        ("spec_capture_aux_layer_ids", [7, 23, 51, 67]),
        ("trust_remote_code", None),
        ("model_path", "/elsewhere"),
    ):
        answers["GET /get_server_info"] = (200, json.dumps({**info, name: value}).encode())
        with pytest.raises(CheckFailedError, match=f"{name} is ") as caught:
            check_server(recipe)
        assert isinstance(caught.value.details, Evidence)
        assert list(caught.value.details["differing"]) == [name]


def test_a_server_that_does_not_know_a_flag(local: Any) -> None:
    make, answers = local
    answers["GET /health"] = (200, b"")
    answers["GET /get_server_info"] = (200, b"{}")
    with pytest.raises(CheckFailedError, match="enable_spec_capture is None, not True"):
        check_server(make())


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[]", "did not return a JSON object"),
        (b"<html>", "did not return a JSON object"),
        (b'{"x":' + b"[" * 100_000, "did not return a JSON object"),
        (b"x" * (17 << 20), "more than"),
    ],
)
def test_a_server_that_is_something_else(local: Any, body: bytes, message: str) -> None:
    make, answers = local
    answers["GET /health"] = (200, b"")
    answers["GET /get_server_info"] = (200, body)
    with pytest.raises(CheckFailedError, match=message):
        check_server(make())


def test_no_server(local: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make, _ = local
    recipe = make()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        recipe.server.port = free.getsockname()[1]
    with pytest.raises(CheckFailedError, match=r"GET .* failed") as caught:
        check_server(recipe)
    assert "pkgtools recipe render" in str(caught.value.remedy)
    # A proxy of the environment is not asked.
    monkeypatch.setenv("http_proxy", "http://192.0.2.1:1")
    with pytest.raises(CheckFailedError, match="refused"):
        check_server(recipe)
