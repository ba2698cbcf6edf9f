"""A package index that `build wheel --index` writes, as pip and uv read it."""

from __future__ import annotations

import functools
import http.server
import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from commands import call
from uv import find_uv_bin

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from project import Project

_JSON = "application/vnd.pypi.simple.v1+json"


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves `index.json` to whom asks for JSON, as a static server is configured to."""

    asked: tuple[list[str], list[str]] = ([], [])
    """The paths of pages that were served as HTML, and as JSON."""

    def do_GET(self) -> None:
        if self.path.endswith("/"):
            is_json = _JSON in self.headers["Accept"] and self.server.json  # type: ignore[attr-defined]
            self.server.asked[is_json].append(self.path)  # type: ignore[attr-defined]
            self.path += "index.json" if is_json else "index.html"
        super().do_GET()

    def guess_type(self, path: str | os.PathLike[str]) -> str:
        return _JSON if str(path).endswith(".json") else super().guess_type(path)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        pass


class Server(http.server.ThreadingHTTPServer):
    """Remembers which pages were asked for."""

    json: bool
    asked: tuple[list[str], list[str]]


@pytest.fixture
def index(project: Project, tmp_path: Path) -> Path:
    """Build two targets into an index."""
    folder = tmp_path / "index"
    for target, version in (("w-1.1", "1.1"), ("w-1.0", "1.0")):
        options = ("--target", target, "--wheel", project.wheel(version))
        done = call(
            "build", "wheel", *options, "--catalog", project.targets, "-o", folder, "--index"
        )
        assert done.code == 0, done.err
        assert str(folder / "widget-kit" / "index.json") in done.out
    return folder


@pytest.fixture(params=[False, True], ids=["html", "json"])
def served(request: pytest.FixtureRequest, index: Path) -> Iterator[Server]:
    handler = functools.partial(Handler, directory=str(index))
    with Server(("127.0.0.1", 0), handler) as server:
        server.json, server.asked = request.param, ([], [])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def _run(*command: str | Path) -> None:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("UV_", "PIP_", "VIRTUAL_ENV"))}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env=kept
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_installers_read_it(installer: str, served: Server, index: Path, tmp_path: Path) -> None:
    (wheel,) = (index / "widget-kit").glob("*1.0+*.whl")
    version = wheel.name.split("-")[1]
    digest = {f["filename"]: f["hashes"]["sha256"] for f in _files(index)}[wheel.name]
    pinned = tmp_path / "requirements.txt"
    pinned.write_text(f"widget-kit=={version} --hash=sha256:{digest}\n")
    words = [
        "install",
        "--require-hashes",
        "--index-url",
        f"http://127.0.0.1:{served.server_port}/",
    ]
    words += ["--target", str(tmp_path / "site"), "-r", str(pinned)]
    if installer == "pip":
        _run(sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", *words)
    else:
        _run(find_uv_bin(), "--no-cache", "pip", *words)
    assert (tmp_path / "site" / "widget" / "answer.py").is_file()
    assert served.asked[served.json] == ["/widget-kit/"]
    assert served.asked[not served.json] == []


def _files(index: Path) -> list[dict[str, Any]]:
    files: list[dict[str, Any]] = json.loads((index / "widget-kit/index.json").read_text())["files"]
    return files


def test_it_names_every_wheel_and_project_the_same_each_time(project: Project, index: Path) -> None:
    page = json.loads((index / "widget-kit" / "index.json").read_text())
    names = [path.name for path in sorted((index / "widget-kit").glob("*.whl"))]
    assert [file["filename"] for file in page["files"]] == names
    assert page["versions"] == [name.split("-")[1] for name in names]
    assert json.loads((index / "index.json").read_text())["projects"] == [{"name": "widget-kit"}]
    assert '<a href="widget-kit/">widget-kit</a>' in (index / "index.html").read_text()
    before = {p: p.read_bytes() for p in index.rglob("*") if p.is_file()}
    options = ("--target", "w-1.0", "--wheel", project.wheel("1.0"), "--catalog", project.targets)
    assert call("build", "wheel", *options, "-o", index, "--index").code == 0
    assert {p: p.read_bytes() for p in index.rglob("*") if p.is_file()} == before
