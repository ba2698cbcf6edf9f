"""Images in a registry, which are read without pulling them."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final

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
    of_platform,
    parse,
)
from pkgtools.image.merged import StoredLayer
from pkgtools.image.model import Config
from pkgtools.image.names import REGISTRY, RegistryName, default_name
from pkgtools.image.registry.blobs import open_blob, read_range
from pkgtools.image.registry.client import RegistryClient
from pkgtools.image.stored import ImageIndex, LayeredImage, StoredFiles, open_platforms

if TYPE_CHECKING:
    from collections.abc import Mapping


_CONFIG_LIMIT: Final = 16 * 1024 * 1024


def open_registry(
    reference: str, tree: str | None, platform: str | None
) -> RegistryImage | ImageIndex:
    """Open an image; of a multi-platform image the given platform, or all.

    Raises:
        UsageError: there is no such image or platform.
        RegistryError: the registry does not answer, or refuses.

    """
    name = RegistryName.parse(reference)
    reference = f"{REGISTRY}{name.name}"
    client = RegistryClient(name.host, name.repository)
    with contextlib.ExitStack() as stack:
        stack.callback(client.close)
        client.allow(name.repository, "pull")
        raw, top = _manifest(client, name, name.reference)

        def opened(entry: Mapping[str, Any]) -> RegistryImage:
            below, found = _manifest(client, name, entry["digest"])
            return RegistryImage(name, client, tree, (below, {**entry, **found}), top["digest"])

        image: RegistryImage | ImageIndex
        if top["mediaType"] not in INDEXES:
            image = RegistryImage(name, client, tree, (raw, top), top["digest"])
        else:
            document = parse(raw, Index, reference)
            if platform is None:
                image = open_platforms(reference, document, top["mediaType"], opened)
            else:
                image = opened(of_platform(document["manifests"], platform, reference))
        stack.pop_all()
    return image


class RegistryImage(LayeredImage):
    """One image in a registry."""

    def __init__(
        self,
        name: RegistryName,
        client: RegistryClient,
        tree: str | None,
        found: tuple[bytes, Mapping[str, Any]],
        top: str,
    ) -> None:
        """Read an image's manifest and its configuration.

        Args:
            name: the user's name for it.
            client: the registry's client, which the image closes.
            tree: the user's choice of the folder that contains the package.
            found: the manifest and its descriptor.
            top: the digest that the name leads to.

        """
        raw, entry = found
        self.reference = f"{REGISTRY}{name.name}"
        self.name = name.name
        self.client = client
        self.at = name
        self.manifest_digest = str(entry["digest"])
        self.names = frozenset((top, self.manifest_digest))
        manifest = parse(raw, Manifest, self.reference)
        media_type = str(entry["mediaType"])
        if media_type not in LAYERS:
            raise damaged(f"{self.reference} is not an image: its media type is {media_type!r}")
        path = f"{name.repository}/blobs/{manifest['config']['digest']}"
        self.config = Config(client.verified(path, _CONFIG_LIMIT, self.reference))
        self.config.refuse_other_layers(len(manifest["layers"]))
        self.id = self.config.digest
        layers = [self._layer(layer) for layer in manifest["layers"]]
        self._base = BaseImage(manifest, media_type, self.config, layers, entry)
        self._files = StoredFiles(self.reference, layers, tree, self.config.env)
        self.identity = (self.manifest_digest, tree or "")  # as the same image in a layout

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def default_name(self, suffix: str) -> str:
        """Return this image's name with a suffix on its tag."""
        return default_name(self.at, suffix)

    def _layer(self, descriptor: Mapping[str, Any]) -> StoredLayer:
        digest, repository = descriptor["digest"], self.at.repository
        label = f"{self.reference} layer {digest[:19]}"
        return StoredLayer(
            label,
            partial(open_blob, self.client, repository, descriptor, label),
            descriptor,
            digest,
            partial(read_range, self.client, repository, digest),
        )


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
    facts = parse(raw, Index if media_type in INDEXES else Manifest, label)
    if {"layers", "manifests"} <= facts.keys() or facts.get("mediaType", media_type) != media_type:
        raise damaged(f"{label}: the manifest is not of the type {media_type!r}")
    return raw, {"mediaType": media_type, "digest": digest, "size": len(raw)}
