"""Images in a registry, which are read without pulling them and stored without an engine."""

import contextlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import IO, Any, Final

from pkgtools.errors import UsageError
from pkgtools.image.layer import damaged, digest_of
from pkgtools.image.manifest import (
    ACCEPT,
    INDEXES,
    MANIFEST_LIMIT,
    BaseImage,
    Index,
    Manifest,
    parse,
)
from pkgtools.image.merged import StoredLayer
from pkgtools.image.model import NewImage, base_is_kept
from pkgtools.image.names import REGISTRY, RegistryName
from pkgtools.image.registry.blobs import open_blob, read_range
from pkgtools.image.registry.client import RegistryClient
from pkgtools.image.registry.upload import Uploads
from pkgtools.image.stored import (
    FoundManifest,
    ImageIndex,
    LayeredImage,
    ManifestImage,
    ManifestStore,
    open_manifest,
)

_CONFIG_LIMIT: Final = 16 * 1024 * 1024
_ELSEWHERE: Final = ("foreign", "nondistributable")
"""Parts of the media types of layers that registries do not store, as in Windows images."""


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
        # The image closes the client from here on.
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


class RegistryStore(ManifestStore):
    """A repository of a registry.

    The base's blobs are mounted within a registry and streamed between two. The manifest is
    pushed last, so that a build that is interrupted leaves no tag.
    """

    def __init__(self, images: Sequence[LayeredImage]) -> None:
        super().__init__(images)
        first = images[0]
        self._source = first.at if isinstance(first, RegistryImage) else None
        self._clients: dict[str, RegistryClient] = {}
        if isinstance(first, RegistryImage):
            self._clients[first.at.host] = first.client

    def refuse_name(self, name: str) -> None:
        """Reject an invalid name for the new image; see `ImageStore.refuse_name`."""
        at = self._named(name)
        if not self._is_own(at):
            return
        path, headers = f"{at.repository}/manifests/{at.tag}", {"Accept": ACCEPT}
        with self._client(at).request("HEAD", path, ok={200, 404}, headers=headers) as response:
            taken = response.headers.get("Docker-Content-Digest", "")
        # A tag is a pointer: pushing under the base's name would take the base away from others.
        if at == self._source or taken in self._names:
            raise base_is_kept(name)

    def _put_blobs(self, base: BaseImage, new: NewImage, name: str) -> FoundManifest:
        at = self._named(name)
        uploads = Uploads(self._client(at), at.repository)
        for layer in base.layers:
            self._copy(layer, uploads, at)
        uploads.push_bytes(new.layer.data)
        uploads.push_bytes(new.config.raw)
        return base.extended(new)

    def _put_manifest(self, name: str, found: FoundManifest, *, is_named: bool) -> None:
        raw, descriptor = found
        at = self._named(name)
        reference = at.tag if is_named else descriptor["digest"]
        Uploads(self._client(at), at.repository).put_manifest(
            reference, descriptor["mediaType"], raw
        )

    def _copy(self, layer: StoredLayer, uploads: Uploads, at: RegistryName) -> None:
        digest = layer.descriptor["digest"]
        if any(word in layer.descriptor.get("mediaType", "") for word in _ELSEWHERE):
            return
        if self._is_own(at) or uploads.has(digest):
            return
        source = self._source
        if source and source.host == at.host and uploads.mount(digest, source.repository):
            return
        uploads.push(digest, layer.open)

    def _is_own(self, at: RegistryName) -> bool:
        own = self._source
        return own is not None and (own.host, own.repository) == (at.host, at.repository)

    def _client(self, at: RegistryName) -> RegistryClient:
        """Return a client for a registry; one registry has one client, and one token."""
        client = self._clients.get(at.host)
        if client is None:
            client = self._clients[at.host] = RegistryClient(at.host, at.repository)
        client.allow(at.repository, "pull,push")
        return client

    def _named(self, name: str) -> RegistryName:
        at = RegistryName.parse(name)
        if at.digest:
            raise UsageError(
                f"{name} has a digest, which only follows from the pushed image",
                remedy=f"give a tag: {REGISTRY}{at.host}/{at.repository}:TAG",
            )
        return at


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
