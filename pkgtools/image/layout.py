"""Images in OCI image layouts, which are folders of blobs.

https://github.com/opencontainers/image-spec/blob/main/image-layout.md
"""

import contextlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from pkgtools.errors import TreeError, UsageError
from pkgtools.image.layer import damaged, digest_of, verified
from pkgtools.image.manifest import OCI_INDEX, BaseImage, Index, as_oci, parse, to_json
from pkgtools.image.merged import StoredLayer
from pkgtools.image.model import NewImage, base_is_kept
from pkgtools.image.stored import (
    FoundManifest,
    ImageIndex,
    LayeredImage,
    ManifestImage,
    ManifestStore,
    open_manifest,
)
from pkgtools.util.files import locked_folder, read_bytes, replace_file, replacing, sha256

_REF_NAME: Final = "org.opencontainers.image.ref.name"
# The grammar of that annotation.
_NAME: Final = re.compile(r"[A-Za-z0-9]+(?:[-._:@/+]+[A-Za-z0-9]+)*")
_REMEDY: Final = "name another layout with --tag"


def open_layout(
    folder: Path, name: str | None, tree: str | None, platform: str | None
) -> ManifestImage | ImageIndex:
    """Open an image; of a multi-platform image the given platform, or all."""
    reference = f"oci:{folder}" + (f":{name}" if name else "")
    top = _named(folder, name)

    def fetch(entry: Mapping[str, Any]) -> FoundManifest:
        return _read_blob(folder, entry["digest"]), entry

    def opened(found: FoundManifest) -> LayoutImage:
        return LayoutImage(folder, reference, top, found, tree)

    return open_manifest(reference, platform, fetch(top), fetch, opened)


class LayoutImage(ManifestImage):
    """One image in a layout."""

    def __init__(
        self,
        folder: Path,
        reference: str,
        top: Mapping[str, Any],
        found: FoundManifest,
        tree: str | None,
    ) -> None:
        """Read an image; `top` has the name, and is of its manifest or an index with that."""
        self.folder = folder
        self.name = _name_of(top)
        self._sound: set[Path] = set()
        super().__init__(reference, found, top["digest"], tree)
        for layer in self.layers:
            _existing(folder, layer.digest)

    def default_name(self, suffix: str) -> str:
        """Return this image's name with a suffix, in the same layout."""
        return f"oci:{self.folder}:{self.name or 'image'}-{suffix}"

    def _blob(self, digest: str) -> bytes:
        return _read_blob(self.folder, digest)

    @contextlib.contextmanager
    def _open(self, descriptor: Mapping[str, Any], label: str) -> Iterator[IO[bytes]]:
        """Open a blob, which is checked against its descriptor the first time."""
        path = _existing(self.folder, descriptor["digest"])
        with path.open("rb") as file:
            if path not in self._sound:
                size = path.stat().st_size
                if sha256(path) != path.name or descriptor.get("size", size) != size:
                    raise damaged(f"{label}: {path} is not what its digest says")
                self._sound.add(path)
            yield file

    def _range(self, digest: str, start: int, end: int) -> bytes:
        with _existing(self.folder, digest).open("rb") as file:
            file.seek(start)
            return file.read(end - start)


class LayoutStore(ManifestStore):
    """An existing or new layout; the base's blobs are copied unless they are in it."""

    index_type = OCI_INDEX

    def __init__(self, folder: Path, images: Sequence[LayeredImage]) -> None:
        super().__init__(images)
        self._folder = folder
        first = images[0]
        self._is_own = (
            isinstance(first, LayoutImage) and folder.exists() and folder.samefile(first.folder)
        )
        if not self._is_own:
            # Some layouts have Docker's media types, which not every reader takes from a layout.
            self._bases = list(map(as_oci, self._bases))
            self._names = set()

    def refuse_name(self, name: str) -> None:
        """Reject an invalid name for the new image; see `ImageStore.refuse_name`."""
        tag = _tag(name)
        if self._is_own:
            self._others(_read_index(self._folder), tag)
        elif self._folder.exists() and not (self._folder / "index.json").is_file():
            if self._folder.is_dir() and not any(self._folder.iterdir()):
                return
            raise UsageError(
                f"{self._folder} is not an OCI image layout, and not empty", remedy=_REMEDY
            )

    def _put_blobs(
        self,
        base: BaseImage,
        new: NewImage,
        name: str,  # noqa: ARG002 - the folder is known
    ) -> FoundManifest:
        with self._writing():
            if not self._is_own:
                self._prepare()
                for layer in base.layers:
                    self._copy(layer)
            for data in (new.layer.data, new.config.raw):
                replace_file(_blob_path(self._folder, digest_of(data)), data)
        return base.extended(new)

    def _put_manifest(self, name: str, found: FoundManifest, *, is_named: bool) -> None:
        raw, descriptor = found
        with self._writing(), locked_folder(self._folder, contextlib.nullcontext):
            replace_file(_blob_path(self._folder, descriptor["digest"]), raw)
            if is_named:
                tag, now = _tag(name), _read_index(self._folder)
                entry = {**descriptor, "annotations": {_REF_NAME: tag}}
                index = {**now, "manifests": [*self._others(now, tag), entry]}
                replace_file(self._folder / "index.json", json.dumps(index).encode())

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Convert the exceptions of a layout that cannot be written into a `TreeError`."""
        try:
            yield
        except OSError as error:
            raise TreeError(
                f"{self._folder} cannot be written: {error.strerror}", remedy=_REMEDY
            ) from None

    def _prepare(self) -> None:
        """Make the folder a layout if it is not one."""
        _blob_path(self._folder, "").parent.mkdir(parents=True, exist_ok=True)
        if not (self._folder / "index.json").exists():
            replace_file(self._folder / "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
            empty = to_json({"schemaVersion": 2, "manifests": []})
            replace_file(self._folder / "index.json", empty)

    def _copy(self, layer: StoredLayer) -> None:
        """Copy a blob unless it exists with its size; readers check the digest."""
        digest, size = layer.descriptor["digest"], layer.descriptor["size"]
        path = _blob_path(self._folder, digest)
        if path.is_file() and path.stat().st_size == size:
            return
        with (
            replacing(path, _REMEDY) as out,
            layer.open() as source,
            verified(source, digest, layer.label) as stream,
        ):
            shutil.copyfileobj(stream, out)

    def _others(self, index: Mapping[str, Any], tag: str) -> list[dict[str, Any]]:
        """Return the entries of an index that stay beside a new image of some name."""
        if any(m["digest"] in self._names for m in index["manifests"] if _name_of(m) == tag):
            raise base_is_kept(tag)
        return [m for m in index["manifests"] if _name_of(m) != tag]


def _tag(name: str) -> str:
    _, _, tag = name.removeprefix("oci:").partition(":")
    if not _NAME.fullmatch(tag):
        raise UsageError(f"invalid image name {name!r}", remedy="give --tag oci:DIR:NAME")
    return tag


def _named(folder: Path, name: str | None) -> dict[str, Any]:
    """Return the descriptor of a name in a layout, or the only one if no name is given."""
    every = _read_index(folder)["manifests"]
    found = [m for m in every if name in (None, _name_of(m), m["digest"])]
    if len(found) != 1:
        names = ", ".join(sorted(_name_of(m) or m["digest"] for m in every))
        wanted = f"no image {name!r}" if name else "no image"
        raise UsageError(
            f"{folder} has {f'{len(found)} images' if found else wanted}",
            remedy=f"name one of: {names}"
            if names
            else "copy one into it, as with skopeo copy docker://HOST/NAME oci:DIR:NAME",
        )
    only: dict[str, Any] = found[0]
    return only


def _read_blob(folder: Path, digest: str) -> bytes:
    path = _existing(folder, digest)
    try:
        raw = read_bytes(path)
    except OSError as error:
        raise damaged(f"{path} cannot be read: {error.strerror}") from None
    if digest_of(raw) != digest:
        raise damaged(f"{path} is not what its digest says")
    return raw


def _existing(folder: Path, digest: str) -> Path:
    path = _blob_path(folder, digest)
    if not path.is_file():
        raise damaged(f"{path} is not there")
    return path


def _blob_path(folder: Path, digest: str) -> Path:
    return folder / "blobs" / "sha256" / digest.removeprefix("sha256:")


def _read_index(folder: Path) -> dict[str, Any]:
    path = folder / "index.json"
    try:
        raw = read_bytes(path)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}",
            remedy="oci: takes the folder of an OCI image layout",
        ) from None
    return parse(raw, Index, str(path))


def _name_of(descriptor: Mapping[str, Any]) -> str | None:
    """Return an image's name in the index of a layout."""
    name: str | None = (descriptor.get("annotations") or {}).get(_REF_NAME)
    return name
