"""Images in a registry, which are read without pulling them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import IO, Any, Final

from pkgtools.errors import UsageError
from pkgtools.image.layer import damaged, digest_of
from pkgtools.image.manifest import (
    ACCEPT,
    INDEXES,
    MANIFEST_LIMIT,
    Index,
    Manifest,
    parse,
)
from pkgtools.image.names import REGISTRY, RegistryName
from pkgtools.image.registry.blobs import open_blob, read_range
from pkgtools.image.registry.client import RegistryClient
from pkgtools.image.stored import FoundManifest, ImageIndex, ManifestImage, open_manifest

_CONFIG_LIMIT: Final = 16 * 1024 * 1024


def open_registry(
    reference: str, tree: str | None, platform: str | None
) -> ManifestImage | ImageIndex:
    """Open an image; of a multi-platform image the given platform, or all."""
    name = RegistryName.parse(reference)
    client = RegistryClient(name.host, name.repository)
    with contextlib.ExitStack() as stack:
        stack.callback(client.close)
        client.allow(name.repository, "pull")
        top = _manifest(client, name, name.reference)

        def fetch(entry: Mapping[str, Any]) -> FoundManifest:
            raw, found = _manifest(client, name, entry["digest"])
            return raw, {**entry, **found}

        def opened(found: FoundManifest) -> RegistryImage:
            return RegistryImage(name, client, tree, found, top[1]["digest"])

        image = open_manifest(f"{REGISTRY}{name.name}", platform, top, fetch, opened)
        stack.pop_all()
    return image


class RegistryImage(ManifestImage):
    """One image in a registry."""

    def __init__(
        self,
        name: RegistryName,
        client: RegistryClient,
        tree: str | None,
        found: FoundManifest,
        top: str,
    ) -> None:
        """Read an image, whose manifest was `found`; it closes the client."""
        self.name = name.name
        self.client = client
        self.at = name
        super().__init__(f"{REGISTRY}{name.name}", found, top, tree)

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def default_name(self, suffix: str) -> str:
        """Return this image's name with a suffix on its tag."""
        if self.at.digest:
            raise UsageError(
                f"{self.reference} has no tag to add a suffix to",
                remedy="name the new image with --tag",
            )
        return f"{self.reference}-{suffix}"

    def _blob(self, digest: str) -> bytes:
        path = f"{self.at.repository}/blobs/{digest}"
        return self.client.verified(path, _CONFIG_LIMIT, self.reference)

    def _open(self, descriptor: Mapping[str, Any], label: str) -> AbstractContextManager[IO[bytes]]:
        return open_blob(self.client, self.at.repository, descriptor, label)

    def _range(self, digest: str, start: int, end: int) -> bytes | None:
        return read_range(self.client, f"{self.at.repository}/blobs/{digest}", start, end)


def _manifest(client: RegistryClient, name: RegistryName, wanted: str) -> FoundManifest:
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
    # CVE-2021-41190: a document that is a manifest to one reader and an index to another.
    if {"layers", "manifests"} <= facts.keys() or facts.get("mediaType", media_type) != media_type:
        raise damaged(f"{label}: the manifest is not of the type {media_type!r}")
    return raw, {"mediaType": media_type, "digest": digest, "size": len(raw)}
