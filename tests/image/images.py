"""Images on disk, made and unpacked by other means than pkgtools'.

A layer is a list of entries, an image a list of layers; GNU tar unpacks what comes out.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import stat
import subprocess
import tarfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import zstandard

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from project import Project

    Compression = Literal["", "gzip", "zstd"]

SITE: Final = "usr/lib/python3/site-packages"
OWNER: Final = (1000, 1001)
CREATED: Final = "2021-02-03T04:05:06Z"
CREATED_SECONDS: Final = 1_612_325_106
_OCI: Final = "application/vnd.oci.image"
OCI_TYPES: Final = (
    f"{_OCI}.manifest.v1+json",
    f"{_OCI}.config.v1+json",
    f"{_OCI}.layer.v1.tar",
)
_DOCKER: Final = "application/vnd.docker"
DOCKER_TYPES: Final = (
    f"{_DOCKER}.distribution.manifest.v2+json",
    f"{_DOCKER}.container.image.v1+json",
    f"{_DOCKER}.image.rootfs.diff.tar",
)
_RELEASED: Final = 1_577_934_245


@dataclass(frozen=True)
class Entry:
    """One entry of a layer, as tar has it."""

    path: str
    data: bytes = b""
    mode: int = 0o644
    kind: bytes = tarfile.REGTYPE
    link: str = ""
    owner: tuple[int, int] = (0, 0)
    mtime: int = _RELEASED
    pax: Mapping[str, str] = field(default_factory=dict)


def folder(path: str, mode: int = 0o755) -> Entry:
    """Return a folder's entry."""
    return Entry(path, mode=mode, kind=tarfile.DIRTYPE)


def symlink(path: str, target: str) -> Entry:
    """Return a symbolic link's entry."""
    return Entry(path, mode=0o777, kind=tarfile.SYMTYPE, link=target)


def hard_link(path: str, target: str) -> Entry:
    """Return the entry of another name of a file in the same layer."""
    return Entry(path, kind=tarfile.LNKTYPE, link=target)


def device(path: str) -> Entry:
    """Return a character device's entry."""
    return Entry(path, kind=tarfile.CHRTYPE)


def whiteout(path: str) -> Entry:
    """Return the entry that removes a path of the layers below."""
    above, slash, name = path.rpartition("/")
    return Entry(f"{above}{slash}.wh.{name}")


def opaque(path: str) -> Entry:
    """Return the entry that empties a folder of the layers below."""
    return Entry(f"{path}/.wh..wh..opq")


def entries_of(root: Path, below: str = SITE, owner: tuple[int, int] = OWNER) -> list[Entry]:
    """Return everything below a folder of this machine, for a place in an image."""
    found = []
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        name = f"{below}/{path.relative_to(root).as_posix()}"
        entry = Entry(
            name, mode=stat.S_IMODE(status.st_mode), owner=owner, mtime=int(status.st_mtime)
        )
        if path.is_symlink():
            entry = replace(entry, kind=tarfile.SYMTYPE, link=str(path.readlink()))
        elif path.is_dir():
            entry = replace(entry, kind=tarfile.DIRTYPE)
        else:
            entry = replace(entry, data=path.read_bytes())
        found.append(entry)
    return found


def moved(entries: Iterable[Entry], site: str) -> list[Entry]:
    """Return what lies in `SITE`, for another place in an image."""
    return [replace(entry, path=entry.path.replace(SITE, site)) for entry in entries]


def installed_entries(
    project: Project, scratch: Path, version: str = "1.0", *, compiled: bool = True
) -> list[Entry]:
    """Return widget as pip installed it, in `SITE`, with bytecode where it lies in the image."""
    site = scratch / f"installed-{version}-{compiled}"
    project.install(site, version, compiled=compiled)
    return entries_of(site)


def tar(entries: Iterable[Entry], prefix: str = "", tar_format: int = tarfile.PAX_FORMAT) -> bytes:
    """Return a layer, not compressed.

    Args:
        entries: in their order.
        prefix: before each name and hard link: ``./`` and ``/`` are in use.
        tar_format: tarfile's.

    """
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tar_format) as archive:
        for entry in entries:
            info = tarfile.TarInfo(prefix + entry.path)
            info.type, info.mode, info.mtime = entry.kind, entry.mode, entry.mtime
            info.uid, info.gid = entry.owner
            info.pax_headers = dict(entry.pax)
            info.linkname = (prefix if entry.kind == tarfile.LNKTYPE else "") + entry.link
            info.size = len(entry.data)
            archive.addfile(info, io.BytesIO(entry.data))
    return out.getvalue()


def with_size(archive: bytes, size: int) -> bytes:
    """Return an archive whose first header says another size, in GNU tar's form of it."""
    field = (size % 2**88 | (0xFF if size < 0 else 0x80) << 88).to_bytes(12, "big")
    head = archive[:124] + field + archive[136:148] + b" " * 8 + archive[156:512]
    return head[:148] + b"%06o\0 " % sum(head) + head[156:] + archive[512:]


def compress(layer: bytes, how: Compression) -> bytes:
    """Return a layer as registries have it; zstd in frames, as ``zstd:chunked`` has them."""
    if how == "gzip":
        return gzip.compress(layer, mtime=0)
    if how == "zstd":
        frames = [layer[at : at + 4096] for at in range(0, len(layer), 4096)]
        return b"".join(map(zstandard.compress, frames))
    return layer


def config_of(layers: Sequence[bytes], labels: Mapping[str, str] | None = None) -> bytes:
    """Return an image's configuration."""
    facts = {
        "architecture": "amd64",
        "os": "linux",
        "created": CREATED,
        "config": {"Env": ["PATH=/usr/bin"], "Labels": dict(labels or {})},
        "rootfs": {"type": "layers", "diff_ids": [digest(layer) for layer in layers]},
        "history": [{"created": CREATED, "created_by": "COPY rootfs /"} for _ in layers],
    }
    return json.dumps(facts).encode()


def write_layout(
    where: Path,
    layers: Sequence[bytes],
    labels: Mapping[str, str] | None = None,
    *,
    name: str = "base",
    how: Compression = "gzip",
    types: tuple[str, str, str] = OCI_TYPES,
) -> str:
    """Write an OCI image layout, or add an image to one; return the image's reference."""
    media_type, config_type, layer_type = types
    suffix = f"+{how}" if how else ""
    if types == DOCKER_TYPES:
        suffix = suffix.replace("+", ".")
    manifest = {
        "schemaVersion": 2,
        "mediaType": media_type,
        "config": put_blob(where, config_of(layers, labels), config_type),
        "layers": [
            put_blob(where, compress(layer, how), f"{layer_type}{suffix}") for layer in layers
        ],
    }
    descriptor = put_blob(where, json.dumps(manifest).encode(), media_type)
    add_to_index(where, descriptor, name)
    return f"oci:{where}:{name}"


def put_blob(where: Path, data: bytes, media_type: str) -> dict[str, Any]:
    """Write a blob of a layout and return its descriptor."""
    blobs = where / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    (blobs / digest(data).removeprefix("sha256:")).write_bytes(data)
    return {"mediaType": media_type, "digest": digest(data), "size": len(data)}


def add_to_index(where: Path, descriptor: Mapping[str, Any], name: str | None) -> None:
    """Name a blob in a layout's index.json."""
    index = where / "index.json"
    empty: dict[str, Any] = {"schemaVersion": 2}
    facts = json.loads(index.read_bytes()) if index.exists() else empty
    annotations = {"annotations": {"org.opencontainers.image.ref.name": name}} if name else {}
    facts.setdefault("manifests", []).append({**descriptor, **annotations})
    index.write_text(json.dumps(facts))
    (where / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')


def write_archive(
    path: Path,
    layers: Sequence[bytes],
    labels: Mapping[str, str] | None = None,
    how: Compression = "",
) -> str:
    """Write what ``docker save`` of an engine of today does; return the image's reference.

    With containerd's store of images, the engine saves layers as they were pulled: compressed.
    """
    config = config_of(layers, labels)
    layers = [compress(layer, how) for layer in layers]
    names = [f"blobs/sha256/{digest(layer).removeprefix('sha256:')}" for layer in layers]
    config_name = f"{digest(config).removeprefix('sha256:')}.json"
    entry = {
        "Config": config_name,
        "RepoTags": ["registry.example:5000/widget:1"],
        "Layers": names,
    }
    members = dict(zip(names, layers, strict=True))
    members |= {config_name: config, "manifest.json": json.dumps([entry]).encode()}
    members |= {"index.json": b"{}", "repositories": b"{}"}
    path.write_bytes(tar([Entry(name, data) for name, data in members.items()]))
    return f"docker-archive:{path}"


def digest(data: bytes) -> str:
    """Return a digest as OCI writes it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass(frozen=True)
class Opened:
    """An image as anybody would read it: by the specification, and nothing else."""

    manifest: dict[str, Any]
    """Empty in an archive."""
    config: dict[str, Any]
    layers: list[bytes]
    """Not compressed."""
    blobs: list[bytes]
    """As they lie there."""

    @property
    def labels(self) -> dict[str, str]:
        """Those of the configuration."""
        labels: dict[str, str] = self.config["config"]["Labels"]
        return labels

    @property
    def top(self) -> dict[str, tarfile.TarInfo]:
        """The entries of the highest layer by path."""
        with tarfile.open(fileobj=io.BytesIO(self.layers[-1])) as archive:
            return {info.name: info for info in archive}


def read(reference: str) -> Opened:
    """Read an image that was written, and hold every digest in it against its bytes."""
    kind, _, rest = reference.partition(":")
    return _read_layout(rest) if kind == "oci" else _read_archive(Path(rest.partition(":")[0]))


def _read_layout(rest: str) -> Opened:
    where, _, name = rest.rpartition(":")
    index = json.loads(Path(where, "index.json").read_bytes())
    (descriptor,) = (
        entry
        for entry in index["manifests"]
        if entry.get("annotations", {}).get("org.opencontainers.image.ref.name") == name
    )
    manifest = json.loads(_blob(Path(where), descriptor))
    config = json.loads(_blob(Path(where), manifest["config"]))
    blobs = [_blob(Path(where), entry) for entry in manifest["layers"]]
    layers = [_plain(blob) for blob in blobs]
    assert [digest(layer) for layer in layers] == config["rootfs"]["diff_ids"]
    return Opened(manifest, config, layers, blobs)


def _blob(where: Path, descriptor: Mapping[str, Any]) -> bytes:
    algorithm, _, value = descriptor["digest"].partition(":")
    raw: bytes = (where / "blobs" / algorithm / value).read_bytes()
    assert (digest(raw), len(raw)) == (descriptor["digest"], descriptor["size"])
    return raw


def _read_archive(path: Path) -> Opened:
    with tarfile.open(path) as archive:
        members = {
            info.name: file.read() for info in archive if (file := archive.extractfile(info))
        }
    (entry,) = json.loads(members["manifest.json"])
    config = json.loads(members[entry["Config"]])
    blobs = [members[name] for name in entry["Layers"]]
    layers = [_plain(blob) for blob in blobs]
    assert [digest(layer) for layer in layers] == config["rootfs"]["diff_ids"]
    assert digest(members[entry["Config"]]).endswith(entry["Config"].removesuffix(".json"))
    return Opened({}, config, layers, blobs)


def _plain(blob: bytes) -> bytes:
    if blob.startswith(b"\x1f\x8b"):
        return gzip.decompress(blob)
    if blob.startswith(b"\x28\xb5\x2f\xfd"):
        reader = zstandard.ZstdDecompressor().stream_reader(blob, read_across_frames=True)
        plain: bytes = reader.read()
        return plain
    return blob


def unpack(reference: str, into: Path) -> Path:
    """Unpack an image with GNU tar and the specification's rules for whiteouts; return its site."""
    into.mkdir()
    for layer in read(reference).layers:
        _make_way(layer, into)
        subprocess.run(
            ["tar", "--extract", "--preserve-permissions", "--no-same-owner", "--exclude=.wh.*"],
            input=layer,
            cwd=into,
            check=True,
        )
    return into / SITE


def _make_way(layer: bytes, into: Path) -> None:
    """Remove what a layer's whiteouts name, and folders that it has something else for."""
    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        for info in archive:
            path = into / info.name.lstrip("/")
            name = path.name
            if name == ".wh..wh..opq":
                for below in path.parent.glob("*"):
                    _delete(below)
            elif name.startswith(".wh."):
                _delete(path.with_name(name.removeprefix(".wh.")))
            elif path.is_dir() and not path.is_symlink() and not info.isdir():
                _delete(path)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.is_symlink() or path.exists():
        path.unlink()
