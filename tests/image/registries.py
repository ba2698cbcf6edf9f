"""Registries of the tests: Debian's docker-registry, and what judges an image in one."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import requests

from .images import digest

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    seen: list[str] = field(default_factory=list)

    def get(self, path: str) -> requests.Response:
        return requests.get(
            f"http://{self.address}/v2/{path}",
            headers={"Accept": TYPES},
            auth=self.login,
            timeout=10,
        )

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
        start = requests.post(
            f"http://{self.address}/v2/{repository}/blobs/uploads/", auth=self.login, timeout=10
        )
        done = requests.put(
            start.headers["Location"],
            params={"digest": digest(data)},
            data=data,
            headers={"Content-Type": "application/octet-stream"},
            auth=self.login,
            timeout=60,
        )
        assert done.status_code == 201, done.text
        return {"digest": digest(data), "size": len(data)}

    def put_manifest(self, repository: str, tag: str, facts: Any) -> dict[str, Any]:
        """Push a manifest or an index; return its descriptor."""
        raw = json.dumps(facts).encode()
        done = requests.put(
            f"http://{self.address}/v2/{repository}/manifests/{tag or digest(raw)}",
            data=raw,
            headers={"Content-Type": facts["mediaType"]},
            auth=self.login,
            timeout=10,
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
def docker_registry(where: Path, *, login: tuple[str, str] | None = None) -> Iterator[Registry]:
    """Run Debian's docker-registry on a free port of this machine."""
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
    (where / "config.yml").write_text(json.dumps(settings))  # JSON is YAML
    with (where / "log").open("wb") as log:
        server = subprocess.Popen([program, "serve", where / "config.yml"], stdout=log, stderr=log)
    try:
        _wait_for(address, server)
        yield Registry(address, where / "data", login)
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


def docker_config(folder: Path, address: str, login: tuple[str, str]) -> Path:
    """Write what ``docker login`` does; return the folder for DOCKER_CONFIG."""
    folder.mkdir(parents=True, exist_ok=True)
    word = base64.b64encode(":".join(login).encode()).decode()
    (folder / "config.json").write_text(json.dumps({"auths": {address: {"auth": word}}}))
    return folder


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
