"""Images in OCI image layouts, which are folders of blobs.

https://github.com/opencontainers/image-spec/blob/main/image-layout.md
"""

from __future__ import annotations

import contextlib
import json
import re
import stat
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from pkgtools.blob import LIMIT
from pkgtools.errors import MalformedError, TreeError, UsageError
from pkgtools.image.layer import damaged, digest_of
from pkgtools.image.manifest import (
    INDEXES,
    LAYERS,
    BaseImage,
    Index,
    Manifest,
    of_platform,
    own_platform,
    parse,
)
from pkgtools.image.merged import StoredLayer
from pkgtools.image.model import Config, NewImage, Stored
from pkgtools.image.stored import LayeredImage, StoredFiles
from pkgtools.util.files import locked_folder, read_bytes, replace_file, sha256

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    import msgspec


REF_NAME: Final = "org.opencontainers.image.ref.name"
LAYOUT_NAME: Final = re.compile(
    r"[A-Za-z0-9]+(?:[-._:@/+]+[A-Za-z0-9]+)*"
)  # the annotation's grammar


class LayoutImage(LayeredImage):
    """One image in a layout, and a store for images built on it."""

    def __init__(
        self, folder: Path, name: str | None, tree: str | None, platform: str | None = None
    ) -> None:
        self._folder = folder
        self._sound: set[Path] = set()
        self.reference = f"oci:{folder}" + (f":{name}" if name else "")
        self._top = named_descriptor(folder, name)
        self.name = name_of(self._top)
        descriptor = self._resolve(self._top, platform)
        self.manifest_digest: str | None = descriptor["digest"]
        manifest = read_document(folder, descriptor, Manifest)
        media_type = str(manifest.get("mediaType") or descriptor.get("mediaType"))
        if media_type not in LAYERS:
            raise damaged(f"{self.reference} is not an image: its media type is {media_type!r}")
        self.config = Config(_read_blob(folder, manifest["config"]))
        self.config.refuse_other_layers(len(manifest["layers"]))
        self.id = self.config.digest
        layers = [self._layer(entry) for entry in manifest["layers"]]
        described = {**descriptor, "mediaType": media_type}
        self.base = BaseImage(manifest, media_type, self.config, layers, described)
        self._files = StoredFiles(self.reference, layers, tree, self.config.env)
        self.identity: tuple[str, ...] | None = (descriptor["digest"], tree or "")

    def default_name(self, suffix: str) -> str:
        """Return this image's name with a suffix, in the same layout."""
        return f"oci:{self._folder}:{self.name or 'image'}-{suffix}"

    def refuse_name(self, name: str) -> None:
        """Reject an invalid name for the new image; see `ImageStore.refuse_name`."""
        self._others(self._index(), self._tag(name))

    def is_at(self, folder: Path) -> bool:
        """Return whether a folder is this layout, in any spelling."""
        return self._folder.samefile(folder)

    def store(self, new: NewImage, name: str) -> Stored:
        """Add an image to the layout, which has the blobs of its base."""
        tag = self._tag(name)
        raw, descriptor = self.base.extended(new)
        descriptor = {**descriptor, "annotations": {REF_NAME: tag}}
        blobs = (new.layer.data, new.config.raw, raw)
        write_named(self._folder, blobs, descriptor, lambda now: self._others(now, tag))
        return Stored(name, new.config.digest, descriptor["digest"])

    def _tag(self, name: str) -> str:
        """Return the part of an image's name that names it in this layout."""
        own = f"oci:{self._folder}:"
        tag = name.removeprefix(own)
        if not name.startswith(own) or not LAYOUT_NAME.fullmatch(tag):
            raise UsageError(
                f"invalid image name {name!r} for an image on {self.reference}",
                remedy=f"the new image shares the layout of its base: --tag {own}NAME",
            )
        return tag

    def _others(self, index: dict[str, Any], tag: str) -> list[dict[str, Any]]:
        """Return the entries of an index that stay beside a new image of some name."""
        replaced = [m for m in index["manifests"] if name_of(m) == tag]
        if any(m["digest"] in (self._top["digest"], self.manifest_digest) for m in replaced):
            raise UsageError(
                f"{tag} is the name of the base, which is never overwritten",
                remedy="give another name with --tag",
            )
        return [m for m in index["manifests"] if name_of(m) != tag]

    def _index(self) -> dict[str, Any]:
        return read_index(self._folder)

    def _resolve(self, descriptor: dict[str, Any], platform: str | None) -> dict[str, Any]:
        """Return the descriptor of a manifest; from an index, that of a platform."""
        if descriptor.get("mediaType") not in INDEXES:
            return descriptor
        entries = read_document(self._folder, descriptor, Index)["manifests"]
        return of_platform(entries, platform or own_platform(), self.reference)

    def _layer(self, descriptor: dict[str, Any]) -> StoredLayer:
        path = _blob_path(self._folder, descriptor)
        label = f"{self.reference} layer {descriptor['digest'][:19]}"
        return StoredLayer(
            label,
            lambda: self._opened(path, descriptor),
            descriptor,
            descriptor["digest"],
            partial(_read_range, path),
        )

    def _opened(self, path: Path, descriptor: Mapping[str, Any]) -> BinaryIO:
        """Open a blob, which is checked against its descriptor the first time."""
        if path not in self._sound:
            size = path.stat().st_size
            if sha256(path) != path.name or descriptor.get("size", size) != size:
                raise _damaged(path, "is not what its digest says")
            self._sound.add(path)
        return path.open("rb")


def named_descriptor(folder: Path, name: str | None) -> dict[str, Any]:
    """Return the descriptor of a name in a layout, or the only one if no name is given.

    Raises:
        UsageError: none or several match.

    """
    every = read_index(folder)["manifests"]
    found = [m for m in every if name in (None, name_of(m), m["digest"])]
    if len(found) != 1:
        names = ", ".join(sorted(name_of(m) or m["digest"] for m in every))
        wanted = f"no image {name!r}" if name else "no image"
        raise UsageError(
            f"{folder} has {f'{len(found)} images' if found else wanted}",
            remedy=f"name one of: {names}"
            if names
            else "copy one into it, as with skopeo copy docker://HOST/NAME oci:DIR:NAME",
        )
    only: dict[str, Any] = found[0]
    return only


def read_document(
    folder: Path, descriptor: Mapping[str, Any], kind: type[msgspec.Struct]
) -> dict[str, Any]:
    """Return a manifest or index of a layout; see `parse`."""
    return _parsed(_blob_path(folder, descriptor), _read_blob(folder, descriptor), kind)


def _read_blob(folder: Path, descriptor: Mapping[str, Any]) -> bytes:
    """Return a small blob after a check of its digest."""
    path = _blob_path(folder, descriptor)
    raw = _read(path)
    if digest_of(raw) != descriptor["digest"]:
        raise _damaged(path, "is not what its digest says")
    return raw


def _blob_path(folder: Path, descriptor: Mapping[str, Any]) -> Path:
    """Return the file of a blob."""
    path = folder / "blobs" / "sha256" / _hex(descriptor["digest"])
    if not path.is_file():
        raise _damaged(path, "is not there")
    return path


def read_index(folder: Path) -> dict[str, Any]:
    """Return a layout's index.json.

    Raises:
        UsageError: the folder has none.
        MalformedError: it is damaged.

    """
    path = folder / "index.json"
    try:
        raw = _read(path)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}",
            remedy="oci: takes the folder of an OCI image layout",
        ) from None
    return _parsed(path, raw, Index)


def write_named(
    folder: Path,
    blobs: Iterable[bytes],
    descriptor: Mapping[str, Any],
    others: Callable[[dict[str, Any]], list[dict[str, Any]]],
) -> None:
    """Write blobs into a layout, then add the descriptor of an image to its index.

    Args:
        folder: the layout, which has an index.json.
        blobs: the new blobs.
        descriptor: that of the image's manifest or index, with the image's name.
        others: returns the entries of the index that stay.

    Raises:
        TreeError: the layout cannot be written.

    """
    try:
        with locked_folder(folder, contextlib.nullcontext):
            now = read_index(folder)
            manifests = [*others(now), dict(descriptor)]
            for data in blobs:
                replace_file(folder / "blobs" / "sha256" / _hex(digest_of(data)), data)
            replace_file(
                folder / "index.json", json.dumps({**now, "manifests": manifests}).encode()
            )
    except OSError as error:
        raise TreeError(
            f"{folder} cannot be written: {error.strerror}",
            remedy="copy the base into a layout of your own",
        ) from None


def _parsed(path: Path, raw: bytes, kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Parse a JSON file; see `parse`."""
    try:
        return parse(raw, kind)
    except ValueError as error:
        raise _damaged(path, f"cannot be read: {error}") from None


def _read(path: Path) -> bytes:
    """Return a small file.

    Raises:
        OSError: it cannot be read.
        MalformedError: it is not a regular file, or larger than `LIMIT`.

    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > LIMIT:
        raise _damaged(path, f"is not a file of at most {LIMIT} bytes")
    return read_bytes(path)


def _read_range(path: Path, start: int, end: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read(end - start)


def _damaged(path: Path, what: str) -> MalformedError:
    return MalformedError(
        f"{path} {what}", remedy="copy the image into the layout again, as with skopeo copy"
    )


def _hex(digest: str) -> str:
    """Return the name of a blob's file."""
    return digest.removeprefix("sha256:")


def name_of(descriptor: Mapping[str, Any]) -> str | None:
    """Return an image's name in the index of a layout."""
    name: str | None = (descriptor.get("annotations") or {}).get(REF_NAME)
    return name
