"""Push images to a registry: blobs first, then manifests, and the tag last."""

from collections.abc import Sequence
from typing import Final

from pkgtools.errors import UsageError
from pkgtools.image.manifest import ACCEPT, BaseImage
from pkgtools.image.merged import StoredLayer
from pkgtools.image.model import NewImage
from pkgtools.image.names import REGISTRY, RegistryName
from pkgtools.image.registry.client import RegistryClient
from pkgtools.image.registry.image import RegistryImage
from pkgtools.image.registry.upload import Uploads
from pkgtools.image.stored import FoundManifest, LayeredImage, ManifestStore

_ELSEWHERE: Final = ("foreign", "nondistributable")
"""Parts of the media types of layers that registries do not store, as in Windows images."""


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
        if at == self._source or taken in self._names:
            raise UsageError(
                f"{name} is a name of the base, which is never overwritten",
                remedy="give another name with --tag",
            )

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
        """Return whether a repository is the base's."""
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
