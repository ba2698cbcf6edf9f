"""Build on a large image in a registry: bytes read and sent, memory and time.

    python benchmarks/registry.py [--gigabytes 15]

The base is synthetic: layers of random bytes that do not compress, in the order of a real image
(system, torch, dependencies, the package on top), and in the hard order, with the package in one
layer of all of site-packages; the hard order once more with that layer as eStargz, whose single
files are read by range requests. docker-registry holds it on this machine's own address; a proxy
counts. Each build is a process of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from image.images import Entry, installed_entries, moved, tar
from image.registries import Registry, docker_registry
from image.stargz import descriptor_of, end_of, estargz
from image.test_early_stop import LOCAL, engine_layer
from project import build_project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_GB: Final = 1000**3
_SHARES: Final = {"system": 0.06, "torch": 0.54, "dependencies": 0.395}
"""How large each layer is of the whole; the package is the rest, or lies in the last of them."""


@dataclass
class Counts:
    """What went over the wire."""

    down: int = 0
    up: int = 0


@contextlib.contextmanager
def counting(address: str, counts: Counts) -> Iterator[str]:
    """Run a proxy to a registry that counts bytes; yield its address."""
    host, _, port = address.partition(":")
    server = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, target: socket.socket, name: str) -> None:
        with contextlib.suppress(OSError):
            while part := source.recv(1 << 16):
                setattr(counts, name, getattr(counts, name) + len(part))
                target.sendall(part)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        source.close()

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                behind = socket.create_connection((host, int(port)))
                for pair in ((client, behind, "up"), (behind, client, "down")):
                    threading.Thread(target=pump, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.getsockname()[1]}"
    finally:
        server.close()


def put_layer(
    registry: Registry, name: str, size: int, entries: list[Entry], *, chunked: bool = False
) -> tuple[dict[str, object], str]:
    """Write a layer of some entries and large files into a registry's storage."""
    blobs = registry.root / "docker/registry/v2/blobs/sha256"
    scratch = registry.root / name
    scratch.parent.mkdir(parents=True, exist_ok=True)
    small = tar(engine_layer(entries)).rstrip(b"\0")  # without the end of the archive
    small += bytes(-len(small) % 512)
    digest, part = hashlib.sha256(), os.urandom(1 << 20)
    annotations: dict[str, str] = {}
    with scratch.open("wb") as file:

        def write(data: bytes) -> None:
            digest.update(data)
            file.write(data)

        if chunked:
            annotations = write_chunked(small, name, size, part, write)
        else:
            write(small)
            for number in range(size >> 20):  # files of a megabyte, as libraries are
                write(tar([Entry(f"opt/{name}/{number}.bin", part)])[:512])
                write(part)
            write(bytes(1024))
    found = digest.hexdigest()
    place = blobs / found[:2] / found
    place.mkdir(parents=True)
    scratch.rename(place / "data")
    link = registry.root / f"docker/registry/v2/repositories/base/_layers/sha256/{found}/link"
    link.parent.mkdir(parents=True)
    link.write_text(f"sha256:{found}")
    total = (place / "data").stat().st_size
    kind = "application/vnd.oci.image.layer.v1.tar" + ("+gzip" if chunked else "")
    entry = {"mediaType": kind, "digest": f"sha256:{found}", "size": total}
    return entry | ({"annotations": annotations} if annotations else {}), f"sha256:{found}"


def write_chunked(
    small: bytes, name: str, size: int, part: bytes, write: Callable[[bytes], None]
) -> dict[str, str]:
    """Write a layer as eStargz; return the annotations of its descriptor."""
    blob, table = estargz(small + bytes(1024), 1 << 20)
    frames = blob[: int(blob[-35:-19], 16)]
    write(frames)
    at, packed = len(frames), gzip.compress(part, 0)
    which = f"sha256:{hashlib.sha256(part).hexdigest()}"
    for number in range(size >> 20):
        path = f"opt/{name}/{number}.bin"
        header = gzip.compress(tar([Entry(path, part)])[:512])
        write(header)
        write(packed)
        entry = {"name": path, "type": "reg", "mode": 0o644, "uid": 0, "gid": 0, "size": 1 << 20}
        entry |= {
            "modtime": "2020-01-02T03:04:05Z",
            "offset": at + len(header),
            "digest": which,
            "chunkDigest": which,
        }
        table["entries"].append(entry)
        at += len(header) + len(packed)
    write(end_of(at, table))
    annotations: dict[str, str] = descriptor_of(b"", table)["annotations"]
    return annotations


def put_base(registry: Registry, tag: str, size: int, package: list[Entry]) -> int:
    """Push a base of some size; return how many bytes its layers have."""
    shares = dict(_SHARES)
    layers, digests = [], []
    for name, share in shares.items():
        is_hard = tag != "usual" and name == "dependencies"
        entry, digest = put_layer(
            registry,
            f"{tag}-{name}",
            int(size * share),
            package if is_hard else [],
            chunked=is_hard and tag == "chunked",
        )
        layers.append(entry)
        digests.append(digest)
    if tag == "usual":
        entry, digest = put_layer(registry, f"{tag}-package", int(size * 0.005), package)
        layers.append(entry)
        digests.append(digest)
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]},
        "rootfs": {"type": "layers", "diff_ids": digests},
    }
    kind = "application/vnd.oci.image.manifest.v1+json"
    described = registry.put_blob("base", json.dumps(config).encode())
    described["mediaType"] = "application/vnd.oci.image.config.v1+json"
    manifest = {"schemaVersion": 2, "mediaType": kind, "config": described, "layers": layers}
    registry.put_manifest("base", tag, manifest)
    return sum(int(str(layer["size"])) for layer in layers)


_MEASURED: Final = """
import atexit, re, runpy
status = lambda: open("/proc/self/status").read()
atexit.register(lambda: print(re.search(r"VmHWM:\\s+(\\d+) kB", status())[1]))
runpy.run_module("pkgtools", run_name="__main__", alter_sys=True)
"""
"""Print the largest memory at the end: wait4(2) would count this process's, from before exec."""


def measure(targets: Path, base: str, tag: str, cache: Path) -> tuple[float, int]:
    """Build an image; return the seconds and the largest memory of the process, in bytes."""
    command = [sys.executable, "-c", _MEASURED, "build", "image", "--catalog", str(targets)]
    command += ["--target", "w-1.0", "--base", base, "--tag", tag]
    start = time.monotonic()
    done = subprocess.run(
        command,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return time.monotonic() - start, int(done.stdout.splitlines()[-1]) * 1024


def main() -> None:
    """Print a row for each order of layers, first without known facts and then with them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=15)
    size = int(parser.parse_args().gigabytes * _GB)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        project = build_project(scratch / "project")
        package = moved(installed_entries(project, scratch), LOCAL)
        print("| base | build | bytes read | of the base | bytes sent | memory | seconds |")
        print("|---|---|---|---|---|---|---|")
        with docker_registry(scratch / "registry") as registry:
            for tag in ("usual", "hard", "chunked"):
                total = put_base(registry, tag, size, package)
                counts = Counts()
                with counting(registry.address, counts) as address:
                    for build in ("first", "second"):
                        counts.down = counts.up = 0
                        base = f"docker://{address}/base:{tag}"
                        new = f"{base}-{build}"
                        seconds, memory = measure(project.targets, base, new, scratch / tag)
                        print(
                            f"| {tag}, {total / _GB:.1f} GB | {build} | {counts.down / 1e6:.2f} MB "
                            f"| {counts.down / total:.2%} | {counts.up / 1e6:.3f} MB "
                            f"| {memory / 1e6:.0f} MB | {seconds:.1f} |"
                        )


if __name__ == "__main__":
    main()
