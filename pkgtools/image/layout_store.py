"""Store images in OCI image layouts: in the base's own, or another."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pkgtools.errors import TreeError, UsageError
from pkgtools.image.layer import damaged
from pkgtools.image.layout import (
    LAYOUT_NAME,
    REF_NAME,
    LayoutImage,
    blob_path,
    name_of,
    read_index,
    write_named,
)
from pkgtools.image.manifest import OCI_INDEX, BaseImage, as_oci, described, to_json
from pkgtools.image.merged import StoredLayer
from pkgtools.image.model import NewImage, Stored
from pkgtools.image.stored import ImageIndex, LayeredImage
from pkgtools.util.files import replace_file, replacing

_PART: Final = 1024 * 1024
_REMEDY: Final = "name another layout with --tag"


class LayoutStore:
    """An existing or new layout."""

    def __init__(self, folder: Path, images: Sequence[LayeredImage]) -> None:
        """Take a layout.

        Args:
            folder: the layout.
            images: the base, or those of its platforms; their blobs are copied unless they are
                in this layout.
        """
        self._folder = folder
        first = images[0]
        self._is_own = (
            isinstance(first, LayoutImage) and folder.exists() and folder.samefile(first.folder)
        )
        # Some layouts have Docker's media types, which not every reader takes from a layout.
        self._bases = [each.base if self._is_own else as_oci(each.base) for each in images]
        self._names = {name for each in images for name in each.names if self._is_own}

    def refuse_name(self, name: str) -> None:
        """Reject an invalid name for the new image; see `ImageStore.refuse_name`."""
        tag = _tag(name)
        if self._is_own:
            self._others(read_index(self._folder), tag)
        elif self._folder.exists() and not (self._folder / "index.json").is_file():
            if self._folder.is_dir() and not any(self._folder.iterdir()):
                return
            raise UsageError(
                f"{self._folder} is not an OCI image layout, and not empty", remedy=_REMEDY
            )

    def store(self, new: NewImage, name: str) -> Stored:
        """Write an image: its blobs first, then its name."""
        (base,) = self._bases
        raw, descriptor = self._put(base, new)
        self._name(name, descriptor, [new.layer.data, new.config.raw, raw])
        return Stored(name, new.config.digest, descriptor["digest"])

    def store_index(self, index: ImageIndex, news: Sequence[NewImage], name: str) -> Stored:
        """Write an image of each platform, and their index by its name."""
        put = [self._put(base, new) for base, new in zip(self._bases, news, strict=True)]
        entries = [descriptor for _, descriptor in put]
        raw = to_json({**index.document, "mediaType": OCI_INDEX, "manifests": entries})
        descriptor = described(OCI_INDEX, raw)
        # Platforms can share a layer.
        parts = dict.fromkeys(part for new in news for part in (new.layer.data, new.config.raw))
        self._name(name, descriptor, [*parts, *(manifest for manifest, _ in put), raw])
        manifests = tuple(entry["digest"] for entry in entries)
        return Stored(name, descriptor["digest"], descriptor["digest"], manifests)

    def _put(self, base: BaseImage, new: NewImage) -> tuple[bytes, dict[str, Any]]:
        """Copy the base's layers; return the new image's manifest and its descriptor."""
        if not self._is_own:
            self._prepare()
            for layer in base.layers:
                self._copy(layer)
        return base.extended(new)

    def _prepare(self) -> None:
        try:
            blob_path(self._folder, "").parent.mkdir(parents=True, exist_ok=True)
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
        path = blob_path(self._folder, digest)
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
        tag = _tag(name)
        named = {**descriptor, "annotations": {REF_NAME: tag}}
        write_named(self._folder, blobs, named, lambda now: self._others(now, tag))

    def _others(self, index: Mapping[str, Any], tag: str) -> list[dict[str, Any]]:
        """Return the entries of an index that stay beside a new image of some name."""
        if any(m["digest"] in self._names for m in index["manifests"] if name_of(m) == tag):
            raise UsageError(
                f"{tag} is the name of the base, which is never overwritten",
                remedy="give another name with --tag",
            )
        return [m for m in index["manifests"] if name_of(m) != tag]


def _tag(name: str) -> str:
    _, _, tag = name.removeprefix("oci:").partition(":")
    if not LAYOUT_NAME.fullmatch(tag):
        raise UsageError(f"invalid image name {name!r}", remedy="give --tag oci:DIR:NAME")
    return tag
