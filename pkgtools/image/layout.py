"""Images in OCI image layouts, which are folders of blobs.

https://github.com/opencontainers/image-spec/blob/main/image-layout.md
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

from pkgtools.errors import TreeError, UsageError
from pkgtools.image.layer import damaged, digest_of
from pkgtools.image.manifest import INDEXES, OCI_INDEX, Index, of_platform, parse
from pkgtools.image.stored import ImageIndex, ManifestImage, open_platforms
from pkgtools.util.files import locked_folder, read_bytes, replace_file, sha256

REF_NAME: Final = "org.opencontainers.image.ref.name"
LAYOUT_NAME: Final = re.compile(
    r"[A-Za-z0-9]+(?:[-._:@/+]+[A-Za-z0-9]+)*"
)  # the annotation's grammar


def open_layout(
    folder: Path, name: str | None, tree: str | None, platform: str | None
) -> LayoutImage | ImageIndex:
    """Open an image; of a multi-platform image the given platform, or all."""
    reference = f"oci:{folder}" + (f":{name}" if name else "")
    top = _named(folder, name)

    def opened(entry: Mapping[str, Any]) -> LayoutImage:
        return LayoutImage(folder, reference, top, entry, tree)

    if top.get("mediaType") not in INDEXES:
        return opened(top)
    document = parse(_read_blob(folder, top["digest"]), Index, reference)
    if platform is not None:
        return opened(of_platform(document["manifests"], platform, reference))
    return open_platforms(reference, document, OCI_INDEX, opened)


class LayoutImage(ManifestImage):
    """One image in a layout."""

    def __init__(
        self,
        folder: Path,
        reference: str,
        top: Mapping[str, Any],
        entry: Mapping[str, Any],
        tree: str | None,
    ) -> None:
        """Read an image; `top` has the name, and is `entry` or an index with it."""
        self.folder = folder
        self.name = name_of(top)
        self._sound: set[Path] = set()
        super().__init__(reference, (self._blob(entry["digest"]), entry), top["digest"], tree)
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


def _named(folder: Path, name: str | None) -> dict[str, Any]:
    """Return the descriptor of a name in a layout, or the only one if no name is given."""
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


def _read_blob(folder: Path, digest: str) -> bytes:
    """Return a small blob after a check of its digest."""
    path = _existing(folder, digest)
    try:
        raw = read_bytes(path)
    except OSError as error:
        raise damaged(f"{path} cannot be read: {error.strerror}") from None
    if digest_of(raw) != digest:
        raise damaged(f"{path} is not what its digest says")
    return raw


def _existing(folder: Path, digest: str) -> Path:
    path = blob_path(folder, digest)
    if not path.is_file():
        raise damaged(f"{path} is not there")
    return path


def blob_path(folder: Path, digest: str) -> Path:
    """Return the file of a blob."""
    return folder / "blobs" / "sha256" / digest.removeprefix("sha256:")


def read_index(folder: Path) -> dict[str, Any]:
    """Return a layout's index.json."""
    path = folder / "index.json"
    try:
        raw = read_bytes(path)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}",
            remedy="oci: takes the folder of an OCI image layout",
        ) from None
    return parse(raw, Index, str(path))


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
    """
    try:
        with locked_folder(folder, contextlib.nullcontext):
            now = read_index(folder)
            manifests = [*others(now), dict(descriptor)]
            for data in blobs:
                replace_file(blob_path(folder, digest_of(data)), data)
            replace_file(
                folder / "index.json", json.dumps({**now, "manifests": manifests}).encode()
            )
    except OSError as error:
        raise TreeError(
            f"{folder} cannot be written: {error.strerror}",
            remedy="copy the base into a layout of your own",
        ) from None


def name_of(descriptor: Mapping[str, Any]) -> str | None:
    """Return an image's name in the index of a layout."""
    name: str | None = (descriptor.get("annotations") or {}).get(REF_NAME)
    return name
