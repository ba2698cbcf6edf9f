"""OCI image layouts on disk (OCI image specification, "Image Layout")."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from typing import IO, TYPE_CHECKING, Any, Final, Self

from pkgtools.errors import MalformedError, TreeError, UsageError
from pkgtools.files import locked_folder, replace_file
from pkgtools.image.merged import StoredLayer
from pkgtools.image.model import Config, NewImage, Stored
from pkgtools.image.stored import StoredFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path
    from types import TracebackType

    from pkgtools.image.layer import Member
    from pkgtools.image.place import Place, Wanted

REF_NAME: Final = "org.opencontainers.image.ref.name"
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
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


class LayoutImage:
    """One image in a layout."""

    def __init__(self, folder: Path, name: str | None, tree: str | None) -> None:
        self._folder = folder
        self.reference = f"oci:{folder}" + (f":{name}" if name else "")
        self._index = self._parse(folder / "index.json", self._file(folder / "index.json"))
        self._top = self._named(name)
        self._descriptor = self._resolve(self._top)
        self.manifest_digest: str | None = self._descriptor["digest"]
        self._manifest = self._blob_json(self._descriptor)
        try:
            self._layer_type = _LAYERS[self._manifest_type()]
            self.config = Config(self._blob(self._manifest["config"]))
            self.id = self.config.digest
            layers = [self._layer(entry) for entry in self._manifest["layers"]]
        except (KeyError, TypeError) as error:
            raise MalformedError(f"{self.reference} is no image manifest: {error}") from None
        self._files = StoredFiles(self.reference, layers, tree)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing: no file stays open."""

    def find(self, wanted: Wanted) -> Place:
        """Return where the package lies; see `Image.find`."""
        return self._files.find(wanted)

    def read(self, paths: Collection[str]) -> dict[str, Member]:
        """Return what is at each path that there is; see `Image.read`."""
        return self._files.read(paths)

    def default_name(self, suffix: str) -> str:
        """Return the name of this image with a suffix, in the same layout."""
        own = self._top.get("annotations", {}).get(REF_NAME, "image")
        return f"oci:{self._folder}:{own}-{suffix}"

    def store(self, new: NewImage, name: str) -> Stored:
        """Add an image to the layout; the blobs of its base are there already."""
        own = f"oci:{self._folder}:"
        tag = name.removeprefix(own)
        if not name.startswith(own) or not _NAME.fullmatch(tag):
            raise UsageError(
                f"{name} is no name for an image on {self.reference}",
                remedy=f"the new image shares the layout of its base: --tag {own}NAME",
            )
        manifest = {
            **self._manifest,
            "config": self._described(self._manifest["config"]["mediaType"], new.config.raw),
            "layers": [
                *self._manifest["layers"],
                self._described(self._layer_type, new.layer.data),
            ],
            "annotations": {**self._manifest.get("annotations", {}), **new.annotations},
        }
        raw = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
        descriptor = {
            **self._described(self._manifest_type(), raw),
            "annotations": {REF_NAME: tag},
        }
        if "platform" in self._descriptor:
            descriptor["platform"] = self._descriptor["platform"]
        try:
            with locked_folder(self._folder):
                index = self._index_with(descriptor, tag)
                for data in (new.layer.data, new.config.raw, raw):
                    replace_file(self._path(f"sha256:{hashlib.sha256(data).hexdigest()}"), data)
                replace_file(self._folder / "index.json", index)
        except OSError as error:
            raise TreeError(f"{self._folder} cannot be written: {error.strerror}") from None
        return Stored(name, descriptor["digest"])

    def _index_with(self, descriptor: dict[str, Any], tag: str) -> bytes:
        """Return index.json, as it is now, with a new image instead of any of the same name."""
        now = self._parse(self._folder / "index.json", self._file(self._folder / "index.json"))
        others = [m for m in now["manifests"] if _name(m) != tag]
        replaced = [m for m in now["manifests"] if _name(m) == tag]
        if any(m["digest"] in (self._top["digest"], self.manifest_digest) for m in replaced):
            raise UsageError(
                f"{tag} is the name of the base, which is never overwritten",
                remedy="give another name with --tag",
            )
        return json.dumps({**now, "manifests": [*others, descriptor]}).encode()

    def _named(self, name: str | None) -> dict[str, Any]:
        """Return the descriptor that a name, or the lack of one, means."""
        try:
            every = list(self._index["manifests"])
            found = [m for m in every if name in (None, _name(m), m["digest"])]
        except (KeyError, TypeError, AttributeError) as error:
            raise MalformedError(f"{self._folder}/index.json cannot be read: {error}") from None
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
        entries = self._blob_json(descriptor).get("manifests", [])
        found = [
            entry
            for entry in entries
            if (p := entry.get("platform", {})) and (p.get("os"), p.get("architecture")) == wanted
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
        path = self._path(descriptor["digest"])
        return StoredLayer(f"{self.reference} layer {descriptor['digest'][:19]}", _opener(path))

    def _blob_json(self, descriptor: dict[str, Any]) -> dict[str, Any]:
        path = self._path(descriptor.get("digest"))
        return self._parse(path, self._blob(descriptor))

    def _blob(self, descriptor: dict[str, Any]) -> bytes:
        """Return a small blob, held against its digest."""
        path = self._path(descriptor.get("digest"))
        raw = self._file(path)
        if hashlib.sha256(raw).hexdigest() != path.name:
            raise MalformedError(f"{path} is not what its digest says")
        return raw

    def _path(self, digest: object) -> Path:
        """Return where a blob lies; a digest is never trusted as a path."""
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise MalformedError(f"{self.reference} names a blob {digest!r}, which is no sha256")
        return self._folder / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def _described(self, media_type: str, data: bytes) -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        return {"mediaType": media_type, "digest": digest, "size": len(data)}

    def _file(self, path: Path) -> bytes:
        try:
            return path.read_bytes()
        except OSError as error:
            raise UsageError(
                f"{path} cannot be read: {error.strerror}",
                remedy="oci: takes the folder of an OCI image layout",
            ) from None

    def _parse(self, path: Path, raw: bytes) -> dict[str, Any]:
        try:
            facts = json.loads(raw)
        except ValueError as error:
            raise MalformedError(f"{path} is no JSON: {error}") from None
        if not isinstance(facts, dict):
            raise MalformedError(f"{path} is no JSON object")
        return facts


def _name(descriptor: dict[str, Any]) -> str | None:
    name: str | None = descriptor.get("annotations", {}).get(REF_NAME)
    return name


def _opener(path: Path) -> Callable[[], IO[bytes]]:
    def open_blob() -> IO[bytes]:
        try:
            return path.open("rb")
        except OSError as error:
            raise MalformedError(f"{path} cannot be read: {error.strerror}") from None

    return open_blob
