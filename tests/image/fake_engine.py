"""A Docker engine of a few pages: it has one image, keeps what it is given, and can break off."""

from __future__ import annotations

import base64
import io
import json
import re
import struct
import tarfile
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from pkgtools.image.inside import FIND, READ

from .images import config_of, digest, tar, write_archive

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from .images import Entry


@dataclass
class Engine:
    """What the engine has, and how it behaves."""

    scratch: Path
    entries: Sequence[Entry]
    """The files of its one image."""
    takes_thin: bool = True
    """Whether it loads an image without the layers that it has."""
    break_at: int | None = None
    """The call, counted from 0, at which it breaks off; from then on, if `lasting`."""
    lasting: bool = False
    halfway: bool = False
    """Whether it breaks off in the middle of its answer, not before."""
    python: str | None = "python3"
    """The interpreter that the image has on its PATH."""
    start_fails: str | None = None
    """Why no program can be started in it."""
    index: str | None = None
    """The id of every image, where the engine's ids are of an index of platforms."""
    answer: str | None = None
    """What its Python prints, if not the truth."""
    log_size: int | None = None
    """At how many bytes a container's log starts anew, unless it is made with another size."""
    holds: str | None = None
    """A script that its Python is not through with until `released`."""
    released: threading.Event = field(default_factory=threading.Event)
    calls: list[str] = field(default_factory=list)
    containers: dict[str, dict[str, Any]] = field(default_factory=dict)
    images: dict[str, bytes] = field(default_factory=dict)
    """Configurations by name."""
    loads: list[set[str]] = field(default_factory=list)
    """The members of each archive that was loaded."""

    def __post_init__(self) -> None:
        self.layer = tar(self.entries)
        self.images["widget:1"] = config_of([self.layer])

    def get_image(self, name: str) -> bytes | None:
        """Return an image's configuration by its name or id."""
        full = name if ":" in name else f"{name}:latest"
        by_id = {digest(raw): raw for raw in self.images.values()}
        by_id[self.index or ""] = self.images["widget:1"]
        named = self.images.get(full) or by_id.get(name)
        return named or next((by_id[i] for i in by_id if i.startswith(f"sha256:{name}")), None)


@contextmanager
def serving(engine: Engine) -> Iterator[str]:
    """Serve an engine on a port of its own; yield what DOCKER_HOST should be."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(engine))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"tcp://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(engine: Engine) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        pass

    Handler.engine = engine
    return Handler


class _Handler(BaseHTTPRequestHandler):
    engine: Engine
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_DELETE(self) -> None:
        self._serve("DELETE")

    def _serve(self, verb: str) -> None:
        self.close_connection = True
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        path = unquote(re.sub(r"^/v[\d.]+", "", url.path))
        number = len(self.engine.calls)
        self.engine.calls.append(f"{verb} {path}")
        at = self.engine.break_at
        breaks = at is not None and (number == at or (self.engine.lasting and number > at))
        if breaks and not self.engine.halfway:
            return
        status, data, headers = _answer(self.engine, verb, path, parse_qs(url.query), body)
        if breaks and not data:  # it did what it was asked, and nobody hears of it
            return
        self.send_response(status)
        self.send_header("Connection", "close")
        self.send_header("Content-Type", headers.pop("Content-Type", "application/json"))
        self.send_header("Content-Length", str(len(data) + breaks))
        for key, value in headers.items():
            self.send_header(key, value)
        self.end_headers()
        with suppress(BrokenPipeError):  # who asked may be gone
            self.wfile.write(data[: len(data) // 2] if breaks else data)


def _answer(
    engine: Engine, verb: str, path: str, query: dict[str, list[str]], body: bytes
) -> tuple[int, bytes, dict[str, str]]:
    if path == "/version":
        return 200, b'{"ApiVersion": "1.41", "MinAPIVersion": "1.12"}', {}
    if path == "/_ping":
        return 200, b"OK", {"Content-Type": "text/plain"}
    if path == "/images/load":
        return _load(engine, body)
    if match := re.fullmatch(r"/images/(.+)/(json|history|get|push)", path):
        return _image(engine, match[1], match[2], query)
    if path == "/containers/create":
        name = query["name"][0]
        engine.containers[name] = json.loads(body)
        return 201, json.dumps({"Id": name}).encode(), {}
    if match := re.fullmatch(r"/containers/([\w-]+)(?:/(\w+))?", path):
        if match[1] not in engine.containers:
            return _error(404, "No such container")
        return _container(engine, verb, match[1], match[2], query)
    return _error(404, f"page not found: {path}")


def _error(status: int, message: str) -> tuple[int, bytes, dict[str, str]]:
    return status, json.dumps({"message": message}).encode(), {}


def _image(
    engine: Engine, name: str, what: str, query: dict[str, list[str]]
) -> tuple[int, bytes, dict[str, str]]:
    if what == "push":
        name = f"{name}:{query['tag'][0]}" if "tag" in query else name
    raw = engine.get_image(name)
    if raw is None:
        return _error(404, f"No such image: {name}")
    config = json.loads(raw)
    if what == "json":
        facts = {
            "Id": engine.index or digest(raw),
            "RepoTags": [tag for tag, config in engine.images.items() if config == raw],
            "Architecture": "amd64",
            "Os": "linux",
            "Created": config["created"],
            "Config": config["config"],
            "RootFS": {"Type": "layers", "Layers": config["rootfs"]["diff_ids"]},
        }
        return 200, json.dumps(facts).encode(), {}
    if what == "history":
        steps = [{"Created": 1, "CreatedBy": "COPY", "Comment": "", "Size": 1}]
        return 200, json.dumps(steps).encode(), {}
    if what == "push":
        return 200, json.dumps({"aux": {"Digest": digest(raw)}}).encode() + b"\n", {}
    saved = engine.scratch / "saved.tar"
    write_archive(saved, [engine.layer])
    return 200, saved.read_bytes(), {"Content-Type": "application/x-tar"}


def _load(engine: Engine, body: bytes) -> tuple[int, bytes, dict[str, str]]:
    with tarfile.open(fileobj=io.BytesIO(body)) as archive:
        members = {i.name: f.read() for i in archive if (f := archive.extractfile(i))}
    (entry,) = json.loads(members["manifest.json"])
    engine.loads.append(set(members))
    raw = members[entry["Config"]]
    for name, diff_id in zip(entry["Layers"], json.loads(raw)["rootfs"]["diff_ids"], strict=True):
        if name in members and digest(members[name]) != diff_id:
            return _error(500, "invalid diffID")
        if name not in members and not (engine.takes_thin and diff_id == digest(engine.layer)):
            return _error(500, f"open {name}: no such file or directory")
    for tag in entry["RepoTags"]:
        engine.images[tag] = raw
    loaded = [{"stream": f"Loaded image: {tag}\n"} for tag in entry["RepoTags"]]
    return 200, b"".join(json.dumps(line).encode() + b"\r\n" for line in loaded), {}


def _container(
    engine: Engine, verb: str, name: str, what: str | None, query: dict[str, list[str]]
) -> tuple[int, bytes, dict[str, str]]:
    made = engine.containers[name]
    if verb == "DELETE":
        del engine.containers[name]
        return 204, b"", {}
    if what == "start" and engine.start_fails:
        return _error(500, engine.start_fails)
    if what == "start":
        if made["Entrypoint"] != [engine.python]:
            return _error(400, f'exec: "{made["Entrypoint"][0]}": executable file not found')
        return 204, b"", {}
    if what == "wait":
        return 200, b'{"StatusCode": 0}', {}
    if what == "logs":
        said = _found(engine, made["Cmd"]).encode() if query["stdout"] == ["1"] else b""
        if engine.log_size and "max-size" not in made["HostConfig"]["LogConfig"]["Config"]:
            said = said[-engine.log_size :]
        frame = struct.pack(">BxxxL", 1, len(said)) + said if said else b""
        return 200, frame, {"Content-Type": "application/octet-stream"}
    return 200, json.dumps({"Id": name, "Config": {"Tty": False}}).encode(), {}


def _found(engine: Engine, arguments: Sequence[str]) -> str:
    """Return what the image's Python prints, run with a script of `inside`."""
    if engine.answer is not None:
        return engine.answer
    script, *rest = arguments[1:]
    if script == engine.holds:
        engine.released.wait()
        return ""
    if script == READ:
        return f"\n{sent([e for e in engine.entries if f'/{e.path}' in rest])}\n"
    assert script == FIND
    paths = [f"/{entry.path}" for entry in engine.entries]
    marker = f"/{rest[0]}/__init__.py"
    own = [path.removesuffix(marker) for path in paths if path.endswith(marker)]
    return "\n".join(
        ["a line of its own", json.dumps(own), json.dumps(paths), sent(engine.entries), ""]
    )


def sent(entries: Sequence[Entry]) -> str:
    """Return files as the image's Python hands them over."""
    return base64.b64encode(tar(entries)).decode()
