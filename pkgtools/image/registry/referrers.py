"""Store facts of images in a registry, as artifacts that refer to the image.

https://github.com/opencontainers/distribution-spec/blob/main/spec.md#listing-referrers and, for
registries without that API, #referrers-tag-schema. The image itself need not be in the repository:
facts of a base can be stored beside the images built on it.
"""

from collections.abc import Mapping
from typing import Any, Final

from pkgtools.errors import UsageError
from pkgtools.image.facts import LIMIT, decode_facts, encode_facts
from pkgtools.image.layer import damaged
from pkgtools.image.manifest import (
    MANIFEST_LIMIT,
    OCI_INDEX,
    OCI_MANIFEST,
    Index,
    Manifest,
    described,
    parse,
    to_json,
)
from pkgtools.image.model import Image
from pkgtools.image.names import REGISTRY, RegistryName
from pkgtools.image.package import FoundPackage, PackageQuery
from pkgtools.image.registry.client import RegistryClient
from pkgtools.image.registry.upload import Uploads

ARTIFACT_TYPE: Final = "application/vnd.pkgtools.image-facts"
KEY: Final = "pkgtools.facts"
"""The annotation that holds `facts_key`."""
# An artifact has this configuration (image specification, "Guidance for an Empty Descriptor").
_EMPTY: Final = "application/vnd.oci.empty.v1+json"
_EMPTY_DATA: Final = b"{}"


class ReferrerFacts:
    """The facts in one repository."""

    def __init__(self, place: str) -> None:
        name = RegistryName.parse(place)
        if name.digest or name.tag != "latest":
            raise UsageError(
                f"{place} is an image: facts are stored in a repository",
                remedy=f"give {REGISTRY}{name.host}/{name.repository}",
            )
        self.label = place
        self._repository = name.repository
        self._client = RegistryClient(name.host, name.repository)
        self._client.allow(name.repository, "pull")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def package(self, image: Image, key: str, query: PackageQuery) -> FoundPackage | None:
        """Return the package of a key in an image; see `KnownFacts.package`."""
        for entry in self._referrers(str(image.manifest_digest)):
            if (entry.get("annotations") or {}).get(KEY) == key:
                return decode_facts(self._facts(entry["digest"]), key, query, self.label)
        return None

    def attach(self, subject: Mapping[str, Any], key: str, package: FoundPackage) -> str:
        """Push the facts of an image; return the digest of the referrer.

        The subject is the descriptor of the image's manifest; for the key, see `facts_key`.
        """
        self._client.allow(self._repository, "pull,push")
        uploads = Uploads(self._client, self._repository)
        facts = encode_facts({key: package})
        for data in (_EMPTY_DATA, facts):
            uploads.push_bytes(data)
        manifest = {
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "artifactType": ARTIFACT_TYPE,
            "config": described(_EMPTY, _EMPTY_DATA),
            "layers": [described(ARTIFACT_TYPE, facts)],
            "subject": {name: subject[name] for name in ("mediaType", "digest", "size")},
            "annotations": {KEY: key},
        }
        raw = to_json(manifest)
        entry = described(OCI_MANIFEST, raw)
        # Without the OCI-Subject header the client must maintain the tag schema itself.
        if not uploads.put_manifest(entry["digest"], OCI_MANIFEST, raw):
            extra = {"artifactType": ARTIFACT_TYPE, "annotations": {KEY: key}}
            self._list(uploads, str(subject["digest"]), {**entry, **extra})
        return str(entry["digest"])

    def _list(self, uploads: Uploads, subject: str, entry: Mapping[str, Any]) -> None:
        """Add a referrer to the index that takes the API's place."""
        tag = _tag(subject)
        index = self._index(f"manifests/{tag}") or {"schemaVersion": 2, "manifests": []}
        # The tag schema has no lock: of two concurrent pushes, one entry can be lost.
        others = [each for each in index["manifests"] if each["digest"] != entry["digest"]]
        raw = to_json({**index, "mediaType": OCI_INDEX, "manifests": [*others, entry]})
        uploads.put_manifest(tag, OCI_INDEX, raw)

    def _referrers(self, subject: str) -> list[dict[str, Any]]:
        """Return the descriptors of an image's facts, the newest first."""
        index = self._index(f"referrers/{subject}") or self._index(f"manifests/{_tag(subject)}")
        entries = (index or {}).get("manifests", [])
        return [e for e in reversed(entries) if e.get("artifactType") == ARTIFACT_TYPE]

    def _index(self, path: str) -> dict[str, Any] | None:
        found = self._client.get(f"{self._repository}/{path}", MANIFEST_LIMIT, OCI_INDEX)
        return None if found is None else parse(found[0], Index, f"{self.label} {path}")

    def _facts(self, digest: str) -> bytes:
        path = f"{self._repository}/manifests/{digest}"
        raw = self._client.verified(path, MANIFEST_LIMIT, self.label, OCI_MANIFEST)
        facts = parse(raw, Manifest, f"{self.label} {digest}")
        if len(facts["layers"]) != 1:
            raise damaged(f"{self.label}: the referrer {digest} holds no facts")
        path = f"{self._repository}/blobs/{facts['layers'][0]['digest']}"
        return self._client.verified(path, LIMIT, self.label)


def _tag(digest: str) -> str:
    """Return the tag of the index that lists the referrers of a digest."""
    return digest.replace(":", "-")
