"""A registry of a few pages that can break off, lie, forget and be busy at any request."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

from .images import digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

USER: Final = ("tester", "hunter2-of-the-tests")


@dataclass
class Asked:
    """One request."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]


@dataclass
class FakeRegistry:
    """What it has, what it was asked, and how it misbehaves."""

    address: str = ""
    blobs: dict[tuple[str, str], bytes] = field(default_factory=dict)
    """By repository and digest."""
    manifests: dict[tuple[str, str], tuple[str, bytes]] = field(default_factory=dict)
    """By repository and tag or digest: the media type, and the bytes."""
    uploads: dict[str, bytearray] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    fault: Callable[[int, Asked], object] = lambda _number, _asked: None
    """Returns, for each request, a status to answer with, ``drop`` (no answer), ``half`` (half of
    it), ``lost`` (none, but it was done), or None."""
    retry_after: str = "0"
    tokens: bool = False
    """Whether it wants bearer tokens."""
    token_uses: int = 1000
    """How many requests a token is good for."""
    issued: dict[str, int] = field(default_factory=dict)
    scopes: list[list[str]] = field(default_factory=list)
    """What each token was asked for."""
    elsewhere: str = ""
    """The address that has the blobs, where this one leads to."""
    upload_address: str = ""
    """The address that takes uploads."""
    ranges: bool = True
    referrers: bool = False
    """Whether it has the referrers API (OCI distribution specification 1.1)."""
    body: Callable[[Asked, bytes], bytes] = lambda _asked, body: body
    """Changes the body of an answer, not its length as announced, nor its digest."""
    endless: Callable[[Asked], bool] = lambda _asked: False
    slow: Callable[[Asked], bool] = lambda _asked: False
    """Whether an answer comes byte by byte, fifty in a second."""

    def push_layout(self, reference: str, name: str) -> str:
        """Take an image out of a layout; return its reference."""
        where, _, _ = reference.removeprefix("oci:").rpartition(":")
        (entry,) = json.loads(Path(where, "index.json").read_bytes())["manifests"]
        repository, _, tag = name.partition(":")
        for path in Path(where, "blobs", "sha256").iterdir():
            self.blobs[repository, f"sha256:{path.name}"] = path.read_bytes()
        raw = self.blobs[repository, entry["digest"]]
        self.manifests[repository, tag] = (entry["mediaType"], raw)
        self.manifests[repository, entry["digest"]] = (entry["mediaType"], raw)
        return f"docker://{self.address}/{name}"

    def layers_read(self) -> list[str]:
        """Return the digests of what was asked for, besides configurations."""
        facts = [json.loads(raw) for _, raw in self.manifests.values()]
        configs = {each["config"]["digest"] for each in facts if "config" in each}
        for each in facts:  # an artifact's blobs are no image's layers
            if "artifactType" in each:
                configs |= {entry["digest"] for entry in each["layers"]}
        return [
            found
            for asked in self.asked
            if asked.method == "GET" and "/blobs/sha256:" in asked.path
            if (found := asked.path.rpartition("/")[2]) not in configs
        ]

    def tags(self) -> set[tuple[str, str]]:
        """Return what has a name."""
        return {(name, tag) for name, tag in self.manifests if ":" not in tag}

    def whole(self, repository: str, tag: str) -> bool:
        """Whether everything that an image names is there, as its digest says."""
        _, raw = self.manifests[repository, tag]
        facts = json.loads(raw)
        named = [facts["config"], *facts["layers"]]
        found = [self.blobs.get((repository, entry["digest"]), b"") for entry in named]
        return all(digest(b) == e["digest"] for b, e in zip(found, named, strict=True))


@contextmanager
def fake_registry(host: str = "127.0.0.1") -> Iterator[FakeRegistry]:
    """Run a registry on a free port."""
    state = FakeRegistry()

    class Handler(_Handler):
        registry = state

    with ThreadingHTTPServer((host, 0), Handler) as server:
        server.daemon_threads = True
        state.address = f"{host}:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()


class _BrokenOffError(Exception):
    """The connection ends here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    registry: FakeRegistry
    fault: object = None

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def handle_one_request(self) -> None:
        with contextlib.suppress(_BrokenOffError, ConnectionError):
            super().handle_one_request()
            return
        self.close_connection = True

    def _answered(self) -> None:
        parts = urlsplit(self.path)
        asked = Asked(self.command, parts.path, parse_qs(parts.query), dict(self.headers))
        state = self.registry
        number = len(state.asked)
        state.asked.append(asked)
        length = int(self.headers.get("Content-Length", 0))
        self.fault = state.fault(number, asked)
        if self.fault == "half" and length:
            sent = self.rfile.read(length // 2)
            if self.command == "PATCH" and parts.path in state.uploads:
                state.uploads[parts.path] += sent
            raise _BrokenOffError
        data = self.rfile.read(length)
        if self.fault == "drop":
            raise _BrokenOffError
        if isinstance(self.fault, int):
            body = state.body(asked, b'{"errors": []}')
            self._send(self.fault, body, {"Retry-After": state.retry_after})
        elif parts.path == "/token":
            self._token(asked)
        elif state.tokens and not self._is_allowed():
            realm = f'Bearer realm="http://{state.address}/token",service="tests"'
            self._send(401, b"{}", {"WWW-Authenticate": realm})
        else:
            self._route(asked, data)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _answered  # noqa: N815

    def _token(self, asked: Asked) -> None:
        state = self.registry
        word = base64.b64encode(":".join(USER).encode()).decode()
        if asked.headers.get("Authorization") != f"Basic {word}":
            self._send(401, b"{}", {})
            return
        token = f"token-{len(state.issued)}-of-the-tests"
        state.issued[token] = state.token_uses
        state.scopes.append(asked.query.get("scope", []))
        self._send(200, json.dumps({"token": token}).encode(), {})

    def _is_allowed(self) -> bool:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        left = self.registry.issued.get(token, 0)
        self.registry.issued[token] = left - 1
        return left > 0

    def _route(self, asked: Asked, data: bytes) -> None:
        state = self.registry
        match = re.fullmatch(r"/v2/(.+)/(blobs|manifests)/(uploads/)?([^/]*)", asked.path)
        listed = re.fullmatch(r"/v2/(.+)/referrers/(sha256:[0-9a-f]{64})", asked.path)
        if listed and state.referrers:
            self._list(listed[1], listed[2])
        elif match is None:
            self._send(200 if asked.path == "/v2/" else 404, b"{}", {})
        elif match[3]:
            self._upload(asked, match[1], data)
        elif match[2] == "manifests":
            self._manifest(asked, match[1], match[4], data)
        elif state.elsewhere:
            self._send(307, b"moved", {"Location": f"http://{state.elsewhere}{self.path}"})
        else:
            self._blob(state.blobs.get((match[1], match[4])), {})

    def _manifest(self, asked: Asked, repository: str, name: str, data: bytes) -> None:
        state = self.registry
        if asked.method == "PUT":
            kind = asked.headers["Content-Type"]
            state.manifests[repository, name] = (kind, data)
            state.manifests[repository, digest(data)] = (kind, data)
            said = {"Docker-Content-Digest": digest(data)}
            subject = json.loads(data).get("subject")
            if state.referrers and subject:
                said["OCI-Subject"] = subject["digest"]
            self._send(201, b"", said)
            return
        kind, raw = state.manifests.get((repository, name), ("", b""))
        said = {"Content-Type": kind, "Docker-Content-Digest": digest(raw)}
        self._send(200 if raw else 404, raw, said)

    def _list(self, repository: str, subject: str) -> None:
        """Send the index of what refers to a manifest."""
        entries = []
        for (name, which), (kind, raw) in self.registry.manifests.items():
            facts = json.loads(raw)
            if (name, which) == (repository, digest(raw)) and "subject" in facts:
                entry = {"mediaType": kind, "digest": which, "size": len(raw)}
                entry |= {key: facts[key] for key in ("artifactType", "annotations")}
                entries += [entry] if facts["subject"]["digest"] == subject else []
        index = {"schemaVersion": 2, "manifests": entries}
        said = {"Content-Type": "application/vnd.oci.image.index.v1+json"}
        self._send(200, json.dumps(index).encode(), said)

    def _blob(self, blob: bytes | None, headers: dict[str, str]) -> None:
        start = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if blob is None:
            self._send(404, b"{}", {})
        elif start and self.registry.ranges:
            at, end = int(start[1]), min(int(start[2] or len(blob)), len(blob) - 1)
            said = {"Content-Range": f"bytes {at}-{end}/{len(blob)}"}
            self._send(206, blob[at : end + 1], headers | said)
        else:
            self._send(200, blob, headers)

    def _upload(self, asked: Asked, repository: str, data: bytes) -> None:
        state = self.registry
        path = asked.path
        if asked.method == "POST":
            source = asked.query.get("from", [""])[0], asked.query.get("mount", [""])[0]
            if source in state.blobs:
                state.blobs[repository, source[1]] = state.blobs[source]
                self._send(201, b"", {"Location": f"/v2/{repository}/blobs/{source[1]}"})
                return
            path = f"/v2/{repository}/blobs/uploads/{len(state.asked)}"
            state.uploads[path] = bytearray()
        if path not in state.uploads:
            self._send(404, b"{}", {})
            return
        state.uploads[path] += data
        whole = bytes(state.uploads[path])
        address = f"http://{state.upload_address}" if state.upload_address else ""
        said = {"Location": address + path, "Range": f"0-{max(len(whole) - 1, 0)}"}
        if asked.method in {"PUT", "DELETE"}:
            del state.uploads[path]
        if asked.method == "PUT":
            (expected,) = asked.query["digest"]
            if digest(whole) != expected:
                self._send(400, b'{"errors": [{"code": "DIGEST_INVALID"}]}', {})
                return
            state.blobs[repository, expected] = whole
        status = {"POST": 202, "PATCH": 202, "PUT": 201, "GET": 204, "DELETE": 204}[asked.method]
        self._send(status, b"", said)

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        if self.fault == "lost":
            raise _BrokenOffError
        asked = self.registry.asked[-1]
        endless = self.registry.endless(asked)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if endless:
            self.send_header("Transfer-Encoding", "chunked")
        elif status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        body = self.registry.body(asked, body)
        if self.registry.slow(asked):
            with contextlib.suppress(OSError):  # the client gives up
                for at in range(len(body)):
                    threading.Event().wait(0.02)
                    self.wfile.write(body[at : at + 1])
            return
        self.wfile.write(
            body[: len(body) // 2] if self.fault == "half" else body if not endless else b""
        )
        if self.fault == "half":
            self.wfile.flush()
            raise _BrokenOffError
        while endless:
            self.wfile.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
