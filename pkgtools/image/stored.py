"""Images that are read layer by layer, without an engine."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import IO, Any, ClassVar, Self

from pkgtools.errors import TreeError
from pkgtools.image.layer import FileKind, Member, damaged, parents
from pkgtools.image.location import candidates, installed_last, is_evidence
from pkgtools.image.manifest import (
    INDEXES,
    LAYERS,
    BaseImage,
    Index,
    Manifest,
    described,
    is_attestation,
    of_platform,
    parse,
    platform_of,
    to_json,
)
from pkgtools.image.merged import LayerCache, Overlay, StoredLayer, read_paths
from pkgtools.image.model import Config, Image, ImageStore, KnownFacts, NewImage, Stored
from pkgtools.image.package import FoundPackage, PackageQuery, choose_folder, package_at

FoundManifest = tuple[bytes, Mapping[str, Any]]
"""A manifest and its descriptor."""


class LayeredImage(Image):
    """The common part of images in registries, layouts and archives."""

    facts: KnownFacts | None = None
    """A place whose facts are used in the place of reading the image."""
    names: frozenset[str] = frozenset()
    """The digests that names of the image lead to: of its manifest, and the index that has it."""
    layers: Sequence[StoredLayer]
    """From the lowest to the highest."""
    tree: str | None
    """The user's choice of the folder that contains the package."""
    base: BaseImage
    """Its manifest and layers, for its copy in another store."""

    def find(self, query: PackageQuery, cache: LayerCache | None = None) -> FoundPackage:
        """Return the location of the package; see `Image.find`.

        Layers are read from the highest to the lowest, each to its end, so that its digest is
        checked. Reading stops when lower layers cannot change the answer; see `installed_last`.
        """
        overlay = Overlay(
            lambda path: query.wants(path) or is_evidence(query, path),
            lambda path: query.keeps(path) or is_evidence(query, path),
            cache,
        )
        folder, env = None, self.config.env
        for layer in reversed(self.layers):
            overlay.add(layer)
            folder = installed_last(query, overlay, self.tree, env)
            if folder is not None:
                break
        if folder is None:
            folders = candidates(query, overlay.members, self.tree)
            folder = choose_folder(query, folders, self.tree, self.reference)
        package = package_at(query, folder, overlay.members, overlay.members)
        self._refuse_links(package, overlay)
        return replace(package, by_table=tuple(overlay.tables))

    def read(self, paths: Collection[str]) -> dict[str, Member]:
        """Return the member at each existing path; see `Image.read`."""
        return read_paths(self.layers, paths) if paths else {}

    def _refuse_links(self, package: FoundPackage, overlay: Overlay) -> None:
        """Reject files whose parent path is not a directory, which engines unpack differently."""
        for path in sorted({parent for name in package.names for parent in parents(name)}):
            member = overlay.members.get(path)
            is_folder = member is None or member.kind is FileKind.FOLDER
            if path in overlay.others or not is_folder:
                raise TreeError(
                    f"/{path} of {self.reference} is not a directory, and has files below it",
                    remedy="build the image again, with the package in a directory",
                )


class ManifestImage(LayeredImage):
    """An image with a manifest, in a registry or a layout."""

    def __init__(self, reference: str, found: FoundManifest, top: str, tree: str | None) -> None:
        """Read an image; `top` is the digest that its name leads to: of it, or of an index."""
        raw, entry = found
        self.reference, self.tree = reference, tree
        self.manifest_digest = str(entry["digest"])
        self.names = frozenset((top, self.manifest_digest))
        manifest = parse(raw, Manifest, reference)
        media_type = str(manifest.get("mediaType") or entry.get("mediaType"))
        if media_type not in LAYERS:
            raise damaged(f"{reference} is not an image: its media type is {media_type!r}")
        self.config = Config(self._blob(manifest["config"]["digest"]))
        self.config.refuse_other_layers(len(manifest["layers"]))
        self.id = self.config.digest
        self.layers = [self._layer(each) for each in manifest["layers"]]
        described = {**entry, "mediaType": media_type}
        self.base = BaseImage(manifest, media_type, self.config, self.layers, described)
        # The same in a registry and a layout.
        self.identity = (self.manifest_digest, tree or "")

    def _layer(self, descriptor: Mapping[str, Any]) -> StoredLayer:
        digest = descriptor["digest"]
        label = f"{self.reference} layer {digest[:19]}"
        opened = partial(self._open, descriptor, label)
        return StoredLayer(label, opened, descriptor, digest, partial(self._range, digest))

    @abstractmethod
    def _blob(self, digest: str) -> bytes:
        """Return a small blob after a check of its digest."""

    @abstractmethod
    def _open(self, descriptor: Mapping[str, Any], label: str) -> AbstractContextManager[IO[bytes]]:
        """Open a layer; see `StoredLayer.open`."""

    @abstractmethod
    def _range(self, digest: str, start: int, end: int) -> bytes | None:
        """Read a part of a layer; see `StoredLayer.read_range`."""


@dataclass(frozen=True)
class ImageIndex:
    """A multi-platform image."""

    reference: str
    """The user's name for it."""
    images: Mapping[str, LayeredImage]
    """By platform, as ``os/architecture[/variant]``."""
    document: Mapping[str, Any] = field(repr=False)
    """The index, with unknown keys."""
    media_type: str
    dropped: tuple[str, ...]
    """Digests of buildx' attestations, which describe the base only."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Close the connections."""
        for image in self.images.values():
            image.close()

    def default_name(self, suffix: str) -> str:
        """Return this image's name with a suffix."""
        return next(iter(self.images.values())).default_name(suffix)


def open_manifest(
    reference: str,
    platform: str | None,
    found: FoundManifest,
    fetch: Callable[[Mapping[str, Any]], FoundManifest],
    opened: Callable[[FoundManifest], ManifestImage],
) -> ManifestImage | ImageIndex:
    """Open the image of a manifest; of an index, the image of the given platform, or all.

    `fetch` returns the manifest of an index's entry, and `opened` the image of a manifest.
    """
    raw, top = found
    if top.get("mediaType") not in INDEXES:
        return opened(found)
    document = parse(raw, Index, reference)
    if platform is not None:
        return opened(fetch(of_platform(document["manifests"], platform, reference)))
    images: dict[str, LayeredImage] = {}
    dropped = []
    for entry in document["manifests"]:
        name = platform_of(entry) or entry["digest"]
        if is_attestation(entry):
            dropped.append(entry["digest"])
        elif name in images:
            raise damaged(f"{reference} has two images for {name}")
        else:
            images[name] = opened(fetch(entry))
    if not images:
        raise damaged(f"{reference} is an index without images")
    return ImageIndex(reference, images, document, top["mediaType"], tuple(dropped))


class ManifestStore(ImageStore):
    """A store of images with manifests, for images whose base is in any store."""

    index_type: ClassVar[str | None] = None
    """The media type of an index; None: that of the base's."""

    def __init__(self, images: Sequence[LayeredImage]) -> None:
        """Take the base, or the images of its platforms."""
        self._bases = [each.base for each in images]
        self._names = {name for each in images for name in each.names}

    def store(self, new: NewImage, name: str) -> Stored:
        """Store an image; see `ImageStore.store`."""
        (base,) = self._bases
        found = self._put_blobs(base, new, name)
        self._put_manifest(name, found, is_named=True)
        return Stored(new.config.digest, found[1]["digest"])

    def store_index(self, index: ImageIndex, news: Sequence[NewImage], name: str) -> Stored:
        """Store the images of all platforms, and their index by its name."""
        entries = []
        for base, new in zip(self._bases, news, strict=True):
            found = self._put_blobs(base, new, name)
            self._put_manifest(name, found, is_named=False)
            entries.append(found[1])
        media_type = self.index_type or index.media_type
        raw = to_json({**index.document, "mediaType": media_type, "manifests": entries})
        top = described(media_type, raw)
        self._put_manifest(name, (raw, top), is_named=True)
        return Stored(top["digest"], top["digest"], tuple(entry["digest"] for entry in entries))

    @abstractmethod
    def _put_blobs(self, base: BaseImage, new: NewImage, name: str) -> FoundManifest:
        """Store an image's layers and configuration; return its manifest."""

    @abstractmethod
    def _put_manifest(self, name: str, found: FoundManifest, *, is_named: bool) -> None:
        """Store a manifest or index, under the name itself or only by its digest."""
