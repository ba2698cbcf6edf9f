"""Images in a registry, which are read without pulling them."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Final, Self

from pkgtools.errors import UsageError
from pkgtools.image.layer import damaged, digest_of
from pkgtools.image.manifest import (
    ACCEPT,
    INDEXES,
    LAYERS,
    MANIFEST_LIMIT,
    BaseImage,
    Index,
    Manifest,
    is_attestation,
    of_platform,
    own_platform,
    parse,
    platform_of,
)
from pkgtools.image.merged import StoredLayer
from pkgtools.image.model import Config
from pkgtools.image.names import REGISTRY, RegistryName, default_name
from pkgtools.image.registry.blobs import open_blob, read_range
from pkgtools.image.registry.client import RegistryClient
from pkgtools.image.stored import LayeredImage, StoredFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager


_CONFIG_LIMIT: Final = 16 * 1024 * 1024


class RegistryImage(LayeredImage):
    """One image in a registry."""

    def __init__(
        self, name: RegistryName, entry: Mapping[str, Any], raw: bytes, client: RegistryClient
    ) -> None:
        """Read an image's manifest and its configuration.

        Args:
            name: the user's name for it.
            entry: the descriptor of the manifest.
            raw: the manifest.
            client: the registry's client, which the caller closes.

        """
        self.reference = f"{REGISTRY}{name.name}"
        self.name: str | None = name.name
        self.client = client
        self.at = name
        self.manifest_digest: str | None = entry["digest"]
        manifest = _parsed(self.reference, raw, Manifest)
        media_type = str(entry["mediaType"])
        if media_type not in LAYERS:
            raise damaged(f"{self.reference} is not an image: its media type is {media_type!r}")
        self.config = Config(self._config(manifest["config"]))
        self.config.refuse_other_layers(len(manifest["layers"]))
        self.id = self.config.digest
        layers = [self._layer(layer) for layer in manifest["layers"]]
        self.base = BaseImage(manifest, media_type, self.config, layers, entry)
        self._files = StoredFiles(self.reference, layers, None, self.config.env)
        self.identity = (entry["digest"], "")

    def at_tree(self, tree: str | None) -> Self:
        """Set the user's choice of the package's folder; return this image."""
        self._files.tree = tree
        self.identity = (str(self.manifest_digest), tree or "")  # as the same image in a layout
        return self

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def default_name(self, suffix: str) -> str:
        """Return this image's name with a suffix on its tag."""
        return default_name(self.at, suffix)

    def _config(self, descriptor: Mapping[str, Any]) -> bytes:
        path = f"{self.at.repository}/blobs/{descriptor['digest']}"
        found = self.client.get(path, _CONFIG_LIMIT)
        if found is None or digest_of(found[0]) != descriptor["digest"]:
            raise damaged(f"{self.reference}: its configuration is not what its digest says")
        return found[0]

    def _layer(self, descriptor: Mapping[str, Any]) -> StoredLayer:
        label = f"{self.reference} layer {descriptor['digest'][:19]}"
        digest = descriptor["digest"]
        at = partial(read_range, self.client, self.at.repository, digest)
        return StoredLayer(label, self._opener(descriptor, label), descriptor, digest, at)

    def _opener(
        self, descriptor: Mapping[str, Any], label: str
    ) -> Callable[[], AbstractContextManager[IO[bytes]]]:
        return lambda: open_blob(self.client, self.at.repository, descriptor, label)


class RegistryIndex:
    """A multi-platform image in a registry."""

    def __init__(
        self, name: RegistryName, digest: str, images: Mapping[str, RegistryImage]
    ) -> None:
        self.reference = f"{REGISTRY}{name.name}"
        self.at = name
        self.digest = digest
        self.images = images
        """By platform, as ``os/architecture[/variant]``."""
        self.document: dict[str, Any] = {}
        """The index, with unknown keys."""
        self.media_type = ""
        self.dropped: tuple[str, ...] = ()
        """Digests of buildx' attestations, which describe the base only."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Close the connections."""
        for image in self.images.values():
            image.client.close()

    def default_name(self, suffix: str) -> str:
        """Return this image's name with a suffix on its tag."""
        return default_name(self.at, suffix)


def open_registry(reference: str, tree: str | None, platform: str | None = None) -> RegistryImage:
    """Open an image; of a multi-platform image a given platform or this machine's.

    Raises:
        UsageError: there is no such image or platform.
        RegistryError: the registry does not answer, or refuses.

    """
    opened = open_platforms(reference, tree, platform or own_platform())
    if isinstance(opened, RegistryIndex):
        (image,) = opened.images.values()
        return image
    return opened


def open_platforms(
    reference: str, tree: str | None, platform: str | None
) -> RegistryImage | RegistryIndex:
    """Open an image; a multi-platform one as an index of all platforms or the given one.

    Raises:
        UsageError: there is no such image or platform.
        RegistryError: the registry does not answer, or refuses.

    """
    name = RegistryName.parse(reference)
    client = RegistryClient(name.host, name.repository)
    with contextlib.ExitStack() as stack:
        stack.callback(client.close)
        client.allow(name.repository, "pull")
        raw, entry = _manifest(client, name, name.reference)
        opened: RegistryImage | RegistryIndex
        if entry["mediaType"] in INDEXES:
            opened = _index(client, name, raw, entry, platform)
            for image in opened.images.values():
                image.at_tree(tree)
        else:
            opened = RegistryImage(name, entry, raw, client).at_tree(tree)
        stack.pop_all()
    return opened


def _index(
    client: RegistryClient,
    name: RegistryName,
    raw: bytes,
    entry: Mapping[str, Any],
    platform: str | None,
) -> RegistryIndex:
    reference = f"{REGISTRY}{name.name}"
    document = _parsed(reference, raw, Index)
    entries = document["manifests"]
    images = [e for e in entries if not is_attestation(e)]
    if platform is not None:
        images = [of_platform(entries, platform, reference)]
    found = {}
    for each in images:
        key = platform_of(each) or each["digest"]
        below, got = _manifest(client, name, each["digest"])
        if key in found:
            raise damaged(f"{reference} has two images for {key}")
        found[key] = RegistryImage(name, {**each, **got}, below, client)
    if not found:
        raise damaged(f"{reference} is an index without images")
    index = RegistryIndex(name, entry["digest"], found)
    index.document, index.media_type = document, entry["mediaType"]
    index.dropped = tuple(e["digest"] for e in entries if is_attestation(e))
    return index


def _manifest(
    client: RegistryClient, name: RegistryName, wanted: str
) -> tuple[bytes, dict[str, Any]]:
    """Return a manifest or index, and its descriptor.

    Raises:
        UsageError: there is no such tag or digest.
        MalformedError: its digest differs, or it is a manifest and an index (CVE-2021-41190).

    """
    label = f"{REGISTRY}{name.name}"
    path = f"{name.repository}/manifests/{wanted}"
    found = client.get(path, MANIFEST_LIMIT, ACCEPT)
    if found is None:
        raise UsageError(
            f"{name.host} has no image {name.repository} {wanted}",
            remedy=f"see its tags: skopeo list-tags {REGISTRY}{name.host}/{name.repository}",
        )
    raw, said = found
    digest = digest_of(raw)
    expected = wanted if ":" in wanted else said.get("Docker-Content-Digest", digest)
    if expected != digest:
        raise damaged(f"{label}: the manifest does not have the digest {expected[:71]!r}")
    media_type = said.get("Content-Type", "").partition(";")[0].strip()
    facts = _parsed(label, raw, Index if media_type in INDEXES else Manifest)
    if {"layers", "manifests"} <= facts.keys() or facts.get("mediaType", media_type) != media_type:
        raise damaged(f"{label}: the manifest is not of the type {media_type!r}")
    return raw, {"mediaType": media_type, "digest": digest, "size": len(raw)}


def _parsed(label: str, raw: bytes, kind: type[Any]) -> dict[str, Any]:
    try:
        return parse(raw, kind)
    except ValueError as error:
        raise damaged(f"{label}: the manifest cannot be read: {error}") from None
