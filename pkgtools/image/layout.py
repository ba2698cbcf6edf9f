"""OCI image layouts on disk (OCI image specification, "Image Layout")."""

from __future__ import annotations

import contextlib
import json
import platform
import re
import stat
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, Self

import msgspec

from pkgtools.blob import LIMIT
from pkgtools.errors import MalformedError, TreeError, UsageError, one_line
from pkgtools.image.layer import damaged, digest_of
from pkgtools.image.merged import StoredLayer
from pkgtools.image.model import Config, NewImage, Stored
from pkgtools.image.stored import StoredFiles
from pkgtools.util.files import locked_folder, read_bytes, replace_file, sha256

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path
    from types import TracebackType

    from pkgtools.image.layer import Member
    from pkgtools.image.package import FoundPackage, PackageQuery

REF_NAME: Final = "org.opencontainers.image.ref.name"
_NAME: Final = re.compile(r"[A-Za-z0-9]+(?:[-._:@/+]+[A-Za-z0-9]+)*")  # the annotation's grammar
_OCI: Final = "application/vnd.oci.image"
_DOCKER: Final = "application/vnd.docker"
_INDEXES: Final = {f"{_OCI}.index.v1+json", f"{_DOCKER}.distribution.manifest.list.v2+json"}
_LAYERS: Final = {
    f"{_OCI}.manifest.v1+json": f"{_OCI}.layer.v1.tar",
    f"{_DOCKER}.distribution.manifest.v2+json": f"{_DOCKER}.image.rootfs.diff.tar",
}
"""The media type of an uncompressed layer in each kind of manifest."""
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
"""What Go, and so OCI, calls a machine."""


class _Descriptor(msgspec.Struct):
    """What is read of a descriptor; a digest is a file's name, so it is never trusted as a path."""

    digest: Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}\Z")]
    mediaType: str = ""  # noqa: N815 - the specification's
    annotations: dict[str, str] | None = None
    platform: dict[str, Any] | None = None


class _Index(msgspec.Struct):
    manifests: list[_Descriptor]


class _Manifest(msgspec.Struct):
    config: _Descriptor
    layers: list[_Descriptor]
    mediaType: str = ""  # noqa: N815
    annotations: dict[str, str] | None = None


class LayoutImage:
    """One image in a layout."""

    def __init__(self, folder: Path, name: str | None, tree: str | None) -> None:
        self._folder = folder
        self._blobs = folder / "blobs" / "sha256"
        self._sound: set[Path] = set()
        self.reference = f"oci:{folder}" + (f":{name}" if name else "")
        self._top = self._named(name)
        self.name = _name(self._top)
        self._descriptor = self._resolve(self._top)
        self.manifest_digest: str | None = self._descriptor["digest"]
        self._manifest = self._blob_json(self._descriptor, _Manifest)
        if self._manifest_type() not in _LAYERS:
            raise damaged(f"{self.reference} is no image: its type is {self._manifest_type()!r}")
        self.config = Config(self._blob(self._manifest["config"]))
        self.config.refuse_other_layers(len(self._manifest["layers"]))
        self.id = self.config.digest
        layers = [self._layer(entry) for entry in self._manifest["layers"]]
        self._files = StoredFiles(self.reference, layers, tree, self.config.env)
        self.identity: tuple[str, ...] | None = (self._descriptor["digest"], tree or "")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing: no file stays open."""

    def find(self, query: PackageQuery) -> FoundPackage:
        """Return where the package lies; see `Image.find`."""
        return self._files.find(query)

    def read(self, paths: Collection[str]) -> dict[str, Member]:
        """Return what is at each path that there is; see `Image.read`."""
        return self._files.read(paths)

    def default_name(self, suffix: str) -> str:
        """Return the name of this image with a suffix, in the same layout."""
        return f"oci:{self._folder}:{self.name or 'image'}-{suffix}"

    def refuse_name(self, name: str) -> None:
        """Raise where a name cannot be the new image's; see `Image.refuse_name`."""
        self._others(self._index(), self._tag(name))

    def store(self, new: NewImage, name: str) -> Stored:
        """Add an image to the layout; the blobs of its base are there already."""
        tag = self._tag(name)
        config = self._manifest["config"]
        manifest = {
            **self._manifest,
            "config": self._described(config.get("mediaType", ""), new.config.raw),
            "layers": [
                *self._manifest["layers"],
                self._described(_LAYERS[self._manifest_type()], new.layer.data),
            ],
            "annotations": {**(self._manifest.get("annotations") or {}), **new.annotations},
        }
        raw = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
        descriptor = {
            **self._described(self._manifest_type(), raw),
            "annotations": {REF_NAME: tag},
        }
        if "platform" in self._descriptor:
            descriptor["platform"] = self._descriptor["platform"]
        try:
            with locked_folder(self._folder, contextlib.nullcontext):
                now = self._index()
                manifests = [*self._others(now, tag), descriptor]
                for data in (new.layer.data, new.config.raw, raw):
                    replace_file(self._blobs / _hex(digest_of(data)), data)
                index = json.dumps({**now, "manifests": manifests}).encode()
                replace_file(self._folder / "index.json", index)
        except OSError as error:
            raise TreeError(
                f"{self._folder} cannot be written: {error.strerror}",
                remedy="copy the base into a layout of your own",
            ) from None
        return Stored(name, new.config.digest, descriptor["digest"])

    def _tag(self, name: str) -> str:
        """Return what a name's image is called in this layout."""
        own = f"oci:{self._folder}:"
        tag = name.removeprefix(own)
        if not name.startswith(own) or not _NAME.fullmatch(tag):
            raise UsageError(
                f"{one_line(name)} is no name for an image on {self.reference}",
                remedy=f"the new image shares the layout of its base: --tag {own}NAME",
            )
        return tag

    def _others(self, index: dict[str, Any], tag: str) -> list[dict[str, Any]]:
        """Return the images of an index that keep their places beside a new one."""
        replaced = [m for m in index["manifests"] if _name(m) == tag]
        if any(m["digest"] in (self._top["digest"], self.manifest_digest) for m in replaced):
            raise UsageError(
                f"{tag} is the name of the base, which is never overwritten",
                remedy="give another name with --tag",
            )
        return [m for m in index["manifests"] if _name(m) != tag]

    def _index(self) -> dict[str, Any]:
        path = self._folder / "index.json"
        try:
            raw = _read(path)
        except OSError as error:
            raise UsageError(
                f"{path} cannot be read: {error.strerror}",
                remedy="oci: takes the folder of an OCI image layout",
            ) from None
        return self._parse(path, raw, _Index)

    def _named(self, name: str | None) -> dict[str, Any]:
        """Return the descriptor that a name, or the lack of one, means."""
        every = self._index()["manifests"]
        found = [m for m in every if name in (None, _name(m), m["digest"])]
        if len(found) != 1:
            names = ", ".join(sorted(_name(m) or m["digest"] for m in every))
            what = f"no image {name!r}" if not found else f"{len(found)} images"
            raise UsageError(
                f"{self._folder} has {what}", remedy=f"name one of: {names}" if names else None
            )
        only: dict[str, Any] = found[0]
        return only

    def _resolve(self, descriptor: dict[str, Any]) -> dict[str, Any]:
        """Return the manifest's descriptor, out of an index of platforms where there is one."""
        if descriptor.get("mediaType") not in _INDEXES:
            return descriptor
        machine = platform.machine()
        wanted = ("linux", _ARCHITECTURES.get(machine, machine))
        entries = self._blob_json(descriptor, _Index)["manifests"]
        found = [
            entry
            for entry in entries
            if (p := entry.get("platform")) and (p.get("os"), p.get("architecture")) == wanted
        ]
        if len(found) != 1:
            raise UsageError(
                f"{self.reference} has {len(found)} images for {'/'.join(wanted)}",
                remedy="copy the one that is meant into a layout of its own",
            )
        only: dict[str, Any] = found[0]
        return only

    def _manifest_type(self) -> str:
        kind = self._manifest.get("mediaType") or self._descriptor.get("mediaType")
        return str(kind)

    def _layer(self, descriptor: dict[str, Any]) -> StoredLayer:
        path = self._path(descriptor)
        label = f"{self.reference} layer {descriptor['digest'][:19]}"
        return StoredLayer(label, lambda: self._opened(path))

    def _opened(self, path: Path) -> BinaryIO:
        """Open a blob, held against its digest the first time."""
        if path not in self._sound:
            if sha256(path) != path.name:
                raise _damaged(path, "is not what its digest says")
            self._sound.add(path)
        return path.open("rb")

    def _blob_json(self, descriptor: dict[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
        return self._parse(self._path(descriptor), self._blob(descriptor), kind)

    def _blob(self, descriptor: dict[str, Any]) -> bytes:
        """Return a small blob, held against its digest."""
        path = self._path(descriptor)
        raw = _read(path)
        if digest_of(raw) != descriptor["digest"]:
            raise _damaged(path, "is not what its digest says")
        return raw

    def _path(self, descriptor: dict[str, Any]) -> Path:
        """Return where a blob lies."""
        path = self._blobs / _hex(descriptor["digest"])
        if not path.is_file():
            raise _damaged(path, "is not there")
        return path

    def _described(self, media_type: str, data: bytes) -> dict[str, Any]:
        return {"mediaType": media_type, "digest": digest_of(data), "size": len(data)}

    def _parse(self, path: Path, raw: bytes, kind: type[msgspec.Struct]) -> dict[str, Any]:
        """Return a file with all its keys, known or not, once the known ones are sound."""
        try:
            msgspec.json.decode(raw, type=kind)
            facts: dict[str, Any] = json.loads(raw)
        except (ValueError, RecursionError, msgspec.DecodeError) as error:
            raise _damaged(path, f"cannot be read: {error}") from None
        return facts


def _read(path: Path) -> bytes:
    """Return a small file.

    Raises:
        OSError: it cannot be read.
        MalformedError: it is a FIFO or the like, or larger than `LIMIT`.

    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > LIMIT:
        raise _damaged(path, f"is no file of at most {LIMIT} bytes")
    return read_bytes(path)


def _damaged(path: Path, what: str) -> MalformedError:
    return MalformedError(
        f"{path} {what}", remedy="copy the image into the layout again, as with skopeo copy"
    )


def _hex(digest: str) -> str:
    """Return what a blob is called in its folder."""
    return digest.removeprefix("sha256:")


def _name(descriptor: dict[str, Any]) -> str | None:
    name: str | None = (descriptor.get("annotations") or {}).get(REF_NAME)
    return name
