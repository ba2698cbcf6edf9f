"""Registries of the tests: Debian's docker-registry, and what judges an image in one."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import shutil
import socket
import subprocess
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from .images import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TYPES: Final = (
    "application/vnd.oci.image.manifest.v1+json,application/vnd.oci.image.index.v1+json,"
    "application/vnd.docker.distribution.manifest.v2+json,"
    "application/vnd.docker.distribution.manifest.list.v2+json"
)
LOGIN: Final = ("tester", "secret")
HTPASSWD: Final = "tester:$2b$05$YfTBSWBqoXDMpX0NCIWfnuFnZXwsytvOYKrf6eF5W8rW2xDBrTQqW\n"


@dataclass
class Registry:
    """A running docker-registry."""

    address: str
    root: Path
    login: tuple[str, str] | None = None
    authority: Path | None = None
    """The certificate that its own is signed with, if it speaks TLS."""
    bearer: str | None = None
    """A token that it takes for anything."""
    client: tuple[Path, Path] | None = None
    """The certificate, and its key, that it asks its clients for."""

    def ask(self, method: str, url: str, **more: Any) -> requests.Response:
        """Send a request, by no code of pkgtools'."""
        headers = more.pop("headers", {})
        if self.bearer:
            headers = {**headers, "Authorization": f"Bearer {self.bearer}"}
        if "://" not in url:
            url = f"http{'s' if self.authority else ''}://{self.address}/v2/{url}"
        return requests.request(
            method,
            url,
            headers=headers,
            auth=self.login,
            verify=str(self.authority) if self.authority else True,
            cert=(str(self.client[0]), str(self.client[1])) if self.client else None,
            timeout=60,
            **more,
        )

    def get(self, path: str) -> requests.Response:
        return self.ask("GET", path, headers={"Accept": TYPES})

    def manifest(self, repository: str, tag: str) -> Any:
        """Return a manifest; None where nothing has that name."""
        answer = self.get(f"{repository}/manifests/{tag}")
        return answer.json() if answer.status_code == 200 else None

    def tags(self, repository: str) -> list[str]:
        return list(self.get(f"{repository}/tags/list").json().get("tags") or [])

    def blob(self, repository: str, which: str) -> bytes:
        """Return a blob, held against its digest."""
        answer = self.get(f"{repository}/blobs/{which}")
        assert answer.status_code == 200, answer.text
        assert digest(answer.content) == which
        return answer.content

    def put_blob(self, repository: str, data: bytes) -> dict[str, Any]:
        """Push a blob, by no code of pkgtools'; return its digest and size."""
        start = self.ask("POST", f"{repository}/blobs/uploads/")
        done = self.ask(
            "PUT",
            start.headers["Location"],
            params={"digest": digest(data)},
            data=data,
            headers={"Content-Type": "application/octet-stream"},
        )
        assert done.status_code == 201, done.text
        return {"digest": digest(data), "size": len(data)}

    def put_manifest(self, repository: str, tag: str, facts: Any) -> dict[str, Any]:
        """Push a manifest or an index; return its descriptor."""
        raw = json.dumps(facts).encode()
        done = self.ask(
            "PUT",
            f"{repository}/manifests/{tag or digest(raw)}",
            data=raw,
            headers={"Content-Type": facts["mediaType"]},
        )
        assert done.status_code == 201, done.text
        return {"mediaType": facts["mediaType"], "digest": digest(raw), "size": len(raw)}

    def push_layout(self, reference: str, name: str) -> str:
        """Push an image out of a layout; return its reference in the registry."""
        where, _, image = reference.removeprefix("oci:").rpartition(":")
        index = json.loads(Path(where, "index.json").read_bytes())
        (entry,) = (
            e
            for e in index["manifests"]
            if e["annotations"]["org.opencontainers.image.ref.name"] == image
        )
        repository, _, tag = name.partition(":")
        blobs = Path(where, "blobs", "sha256")
        manifest = json.loads((blobs / entry["digest"][7:]).read_bytes())
        for each in [manifest["config"], *manifest["layers"]]:
            self.put_blob(repository, (blobs / each["digest"][7:]).read_bytes())
        self.put_manifest(repository, tag, manifest)
        return f"docker://{self.address}/{name}"


@contextlib.contextmanager
def docker_registry(
    where: Path,
    *,
    login: tuple[str, str] | None = None,
    certificate: tuple[Path, Path] | None = None,
    client: tuple[Path, Path] | None = None,
    tokens: dict[str, str] | None = None,
) -> Iterator[Registry]:
    """Run Debian's docker-registry on a free port of this machine.

    Args:
        where: a folder for it.
        login: the user and password that it asks for.
        certificate: for TLS, signed by itself, and its key.
        client: the certificate that clients must have, signed by itself, and its key.
        tokens: what it asks for tokens by, as its configuration has it.

    """
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("docker-registry is not installed: apt-get install docker-registry")
    where.mkdir(parents=True, exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    settings: dict[str, Any] = {
        "version": 0.1,
        "log": {"level": "error", "accesslog": {"disabled": False}},
        "storage": {
            "filesystem": {"rootdirectory": str(where / "data")},
            "delete": {"enabled": True},
        },
        "http": {"addr": address},
    }
    if login is not None:
        (where / "htpasswd").write_text(HTPASSWD)
        settings["auth"] = {"htpasswd": {"realm": "tests", "path": str(where / "htpasswd")}}
    if tokens is not None:
        settings["auth"] = {"token": tokens}
    if certificate is not None:
        settings["http"]["tls"] = dict(
            zip(("certificate", "key"), map(str, certificate), strict=True)
        )
        settings["http"]["tls"]["clientcas"] = [str(client[0])] if client else []
    (where / "config.yml").write_text(json.dumps(settings))  # JSON is YAML
    with (where / "log").open("wb") as log:
        server = subprocess.Popen([program, "serve", where / "config.yml"], stdout=log, stderr=log)
    try:
        _wait_for(address, server)
        authority = certificate[0] if certificate else None
        yield Registry(address, where / "data", login, authority, client=client)
    finally:
        server.terminate()
        server.wait()


def _wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(200):
        assert server.poll() is None
        with contextlib.suppress(requests.RequestException):
            requests.get(f"http://{address}/v2/", timeout=1)
            return
        time.sleep(0.05)
    pytest.fail("docker-registry does not answer")


_CURVE: Final = ("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


def self_signed(folder: Path, key_type: Sequence[str] = _CURVE) -> tuple[Path, Path]:
    """Make a certificate for this machine's own address, and its key.

    A key of an elliptic curve is made at once; openssl looks for RSA's primes for 0.3 s.
    """
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed: apt-get install openssl")
    folder.mkdir(parents=True, exist_ok=True)
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-nodes", "-days", "2", "-newkey", *key_type),
            *("-subj", "/CN=tests", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


class TokenServer:
    """Gives tokens that docker-registry takes (distribution's "Token Authentication")."""

    def __init__(self, folder: Path) -> None:
        self.certificate, self._key = self_signed(folder, ["rsa:2048"])  # RS256
        self.scopes: list[list[str]] = []
        self.lifetime = 300
        """Seconds that a token is good for."""
        self.address = ""

    @property
    def settings(self) -> dict[str, str]:
        """What the registry is told."""
        return {
            "realm": f"http://{self.address}/token",
            "service": "tests",
            "issuer": "tests",
            "rootcertbundle": str(self.certificate),
        }

    def token(self, scopes: list[str]) -> str:
        """Return a token for some scopes: a JWT (RFC 7519)."""
        access = [
            {"type": kind, "name": name, "actions": actions.split(",")}
            for kind, name, actions in (scope.split(":") for scope in scopes)
        ]
        now = int(time.time())
        times = {"iat": now - 5, "nbf": now - 5, "exp": now + self.lifetime}
        claims = {"iss": "tests", "sub": "tester", "aud": "tests", "jti": "1", "access": access}
        lines = self.certificate.read_text().splitlines()
        header = {"typ": "JWT", "alg": "RS256", "x5c": ["".join(lines[1:-1])]}
        signed = f"{_base64(json.dumps(header).encode())}."
        signed += _base64(json.dumps({**claims, **times}).encode())
        made = subprocess.run(
            ["openssl", "dgst", "-sha256", "-sign", self._key],
            input=signed.encode(),
            capture_output=True,
            check=True,
        )
        return f"{signed}.{_base64(made.stdout)}"

    @contextlib.contextmanager
    def running(self) -> Iterator[TokenServer]:
        """Serve on a free port; ``tester`` may do all that is asked for."""
        state = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                word = base64.b64encode(":".join(LOGIN).encode()).decode()
                is_known = self.headers.get("Authorization") == f"Basic {word}"
                scopes = parse_qs(urlsplit(self.path).query).get("scope", [])
                state.scopes.append(scopes)
                body = json.dumps({"token": state.token(scopes)}).encode()
                self.send_response(200 if is_known else 401)
                self.end_headers()
                self.wfile.write(body if is_known else b"{}")

            def log_message(self, *_: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            self.address = f"127.0.0.1:{server.server_port}"
            thread = threading.Thread(target=server.serve_forever, args=[0.01])
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def docker_config(folder: Path, address: str, login: tuple[str, str]) -> Path:
    """Write what ``docker login`` does; return the folder for DOCKER_CONFIG."""
    folder.mkdir(parents=True, exist_ok=True)
    word = base64.b64encode(":".join(login).encode()).decode()
    (folder / "config.json").write_text(json.dumps({"auths": {address: {"auth": word}}}))
    return folder


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
