"""Copy images from other stores into OCI image layouts."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from pkgtools.errors import TreeError, UsageError
from pkgtools.image.layer import damaged
from pkgtools.image.layout import LAYOUT_NAME, REF_NAME, name_of, write_named
from pkgtools.image.manifest import OCI_INDEX, as_oci, described, to_json
from pkgtools.image.model import Stored
from pkgtools.util.files import replace_file, replacing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pkgtools.image.manifest import BaseImage
    from pkgtools.image.merged import StoredLayer
    from pkgtools.image.model import NewImage

_PART: Final = 1024 * 1024
_REMEDY: Final = "name another layout with --tag"


class LayoutStore:
    """An existing or new layout, for images whose base is in another store."""

    def __init__(self, folder: Path, bases: Sequence[BaseImage]) -> None:
        self._folder = folder
        self._bases = [as_oci(base) for base in bases]

    def refuse_name(self, name: str) -> None:
        """Reject an invalid name for the new image; see `ImageStore.refuse_name`."""
        self._tag(name)
        if self._folder.exists() and not (self._folder / "index.json").is_file():
            if self._folder.is_dir() and not any(self._folder.iterdir()):
                return
            raise UsageError(
                f"{self._folder} is not an OCI image layout, and not empty", remedy=_REMEDY
            )

    def store(self, new: NewImage, name: str) -> Stored:
        """Write an image: its blobs first, then its name."""
        (base,) = self._bases
        raw, descriptor = self._put(base, new)
        self._name(name, descriptor, [raw])
        return Stored(name, new.config.digest, descriptor["digest"])

    def store_index(
        self,
        index: Mapping[str, Any],
        media_type: str,  # noqa: ARG002 - in a layout it is always OCI's
        news: Sequence[NewImage],
        name: str,
    ) -> Stored:
        """Write an image of each platform, and their index by its name."""
        put = [self._put(base, new) for base, new in zip(self._bases, news, strict=True)]
        entries = [descriptor for _, descriptor in put]
        raw = to_json({**index, "mediaType": OCI_INDEX, "manifests": entries})
        descriptor = described(OCI_INDEX, raw)
        self._name(name, descriptor, [*(manifest for manifest, _ in put), raw])
        manifests = tuple(entry["digest"] for entry in entries)
        return Stored(name, descriptor["digest"], descriptor["digest"], manifests)

    def _put(self, base: BaseImage, new: NewImage) -> tuple[bytes, dict[str, Any]]:
        """Write the blobs of a manifest; return the manifest and its descriptor."""
        self._prepare()
        for layer in base.layers:
            self._copy(layer)
        for data in (new.layer.data, new.config.raw):
            path = self._blob(described("", data)["digest"])
            if not path.exists():
                replace_file(path, data)
        return base.extended(new)

    def _prepare(self) -> None:
        try:
            self._blob("").parent.mkdir(parents=True, exist_ok=True)
            if not (self._folder / "index.json").exists():
                replace_file(self._folder / "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
                empty = to_json({"schemaVersion": 2, "manifests": []})
                replace_file(self._folder / "index.json", empty)
        except OSError as error:
            raise TreeError(
                f"{self._folder} cannot be written: {error.strerror}", remedy=_REMEDY
            ) from None

    def _copy(self, layer: StoredLayer) -> None:
        """Copy a blob unless it exists with its size; readers check the digest."""
        digest, size = layer.descriptor["digest"], layer.descriptor["size"]
        path = self._blob(digest)
        if path.is_file() and path.stat().st_size == size:
            return
        found = hashlib.sha256()
        with replacing(path, _REMEDY) as out:
            with layer.open() as source:
                while part := source.read(_PART):
                    found.update(part)
                    out.write(part)
            if f"sha256:{found.hexdigest()}" != digest:
                raise damaged(f"{layer.label} does not have the digest {digest}")

    def _name(self, name: str, descriptor: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
        tag = self._tag(name)
        named = {**descriptor, "annotations": {REF_NAME: tag}}
        write_named(
            self._folder,
            blobs,
            named,
            lambda now: [m for m in now["manifests"] if name_of(m) != tag],
        )

    def _blob(self, digest: str) -> Path:
        return self._folder / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def _tag(self, name: str) -> str:
        tag = name.removeprefix(f"oci:{self._folder}:")
        if tag == name or not LAYOUT_NAME.fullmatch(tag):
            raise UsageError(f"invalid image name {name!r}", remedy="give --tag oci:DIR:NAME")
        return tag
