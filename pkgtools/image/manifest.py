"""Manifests and indexes in OCI's and Docker's forms.

https://github.com/opencontainers/image-spec/blob/main/manifest.md
https://github.com/opencontainers/image-spec/blob/main/image-index.md
https://distribution.github.io/distribution/spec/manifest-v2-2/
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from pkgtools.errors import UsageError
from pkgtools.image.layer import damaged, digest_of
from pkgtools.image.merged import StoredLayer

if TYPE_CHECKING:
    from pkgtools.image.model import Config, NewImage

_OCI: Final = "application/vnd.oci.image"
_DOCKER: Final = "application/vnd.docker"
OCI_MANIFEST: Final = f"{_OCI}.manifest.v1+json"
OCI_INDEX: Final = f"{_OCI}.index.v1+json"
INDEXES: Final = {OCI_INDEX, f"{_DOCKER}.distribution.manifest.list.v2+json"}
LAYERS: Final = {
    OCI_MANIFEST: f"{_OCI}.layer.v1.tar",
    f"{_DOCKER}.distribution.manifest.v2+json": f"{_DOCKER}.image.rootfs.diff.tar",
}
"""The media type of an uncompressed layer in each kind of manifest."""
ACCEPT: Final = ", ".join(sorted({*INDEXES, *LAYERS}))
"""The Accept header: without it, some registries convert manifests to an older form."""
_CONFIGS: Final = {OCI_MANIFEST: f"{_OCI}.config.v1+json"}
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
"""Go's names of machines, which OCI uses."""
_ATTESTATION: Final = "vnd.docker.reference.type"
"""The annotation of buildx' attestations (provenance, SBOM) in an index."""
_SIZE: Final = 2**48
MANIFEST_LIMIT: Final = 4 * 1024 * 1024
"""Bytes of a manifest: what the OCI distribution specification has every registry take."""


class Descriptor(msgspec.Struct):
    """The parts of a descriptor that are read; the pattern keeps digests safe as file names."""

    digest: Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}\Z")]
    mediaType: str = ""  # noqa: N815 - the specification's
    size: Annotated[int, msgspec.Meta(ge=0, le=_SIZE)] = 0
    annotations: dict[str, str] | None = None
    platform: dict[str, Any] | None = None


class Index(msgspec.Struct):
    """The parts of an index that are read."""

    manifests: list[Descriptor]


class Manifest(msgspec.Struct):
    """The parts of a manifest that are read."""

    config: Descriptor
    layers: list[Descriptor]
    mediaType: str = ""  # noqa: N815
    annotations: dict[str, str] | None = None


def parse(raw: bytes, kind: type[msgspec.Struct], label: str) -> dict[str, Any]:
    """Parse a document, with unknown keys, after a check of the known ones."""
    try:
        msgspec.json.decode(raw, type=kind)
        facts: dict[str, Any] = json.loads(raw)
    except (ValueError, RecursionError, msgspec.DecodeError) as error:
        raise damaged(f"{label} cannot be read: {error}") from None
    return facts


def described(media_type: str, data: bytes) -> dict[str, Any]:
    """Return the descriptor of a blob."""
    return {"mediaType": media_type, "digest": digest_of(data), "size": len(data)}


@dataclass(frozen=True)
class BaseImage:
    """An image as the base of one in another store."""

    manifest: Mapping[str, Any]
    media_type: str
    config: Config
    layers: Sequence[StoredLayer] = field(repr=False)
    """From the lowest to the highest, with their descriptors."""
    descriptor: Mapping[str, Any] = field(default_factory=dict)
    """That of the manifest; empty if the store has no manifest."""

    def extended(self, new: NewImage) -> tuple[bytes, dict[str, Any]]:
        """Return the manifest of an image built on this one, and its descriptor."""
        media_type = self.manifest["config"].get("mediaType", "")
        manifest = {
            **self.manifest,
            "config": described(media_type, new.config.raw),
            "layers": [
                *self.manifest["layers"],
                described(LAYERS[self.media_type], new.layer.data),
            ],
            "annotations": {**(self.manifest.get("annotations") or {}), **new.annotations},
        }
        raw = to_json(manifest)
        platform = self.descriptor.get("platform")
        return raw, described(self.media_type, raw) | ({"platform": platform} if platform else {})


def as_oci(base: BaseImage) -> BaseImage:
    """Return an image with OCI's media types, which are the only ones in a layout."""
    if base.media_type == OCI_MANIFEST:
        return base

    def converted(entry: Mapping[str, Any]) -> dict[str, Any]:
        return {**entry, "mediaType": _to_oci(str(entry.get("mediaType", "")))}

    manifest = {
        **base.manifest,
        "mediaType": OCI_MANIFEST,
        "config": converted(base.manifest["config"]),
        "layers": [converted(layer) for layer in base.manifest["layers"]],
    }
    return replace(base, manifest=manifest, media_type=OCI_MANIFEST)


def _to_oci(media_type: str) -> str:
    """Return OCI's media type for one of Docker's.

    https://github.com/opencontainers/image-spec/blob/main/media-types.md
    """
    name = media_type.removeprefix(f"{_DOCKER}.")
    if name.startswith("container.image."):
        return _CONFIGS[OCI_MANIFEST]
    if not name.startswith("image.rootfs."):
        return media_type
    _, _, compression = name.partition(".tar")
    kind = "layer.nondistributable" if ".foreign." in name else "layer"
    return f"{_OCI}.{kind}.v1.tar{compression.replace('.', '+')}"


def oci_base(config: Config, layers: Sequence[StoredLayer]) -> BaseImage:
    """Return an image without a manifest as one with an OCI manifest."""
    manifest = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": described(_CONFIGS[OCI_MANIFEST], config.raw),
        "layers": [dict(layer.descriptor) for layer in layers],
    }
    return BaseImage(manifest, OCI_MANIFEST, config, layers)


def to_json(facts: object) -> bytes:
    """Serialize a document in a canonical form."""
    return json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()


def own_platform() -> str:
    """Return this machine's platform."""
    machine = platform.machine()
    return f"linux/{_ARCHITECTURES.get(machine, machine)}"


def platform_of(entry: Mapping[str, Any]) -> str:
    """Return the platform of an entry of an index: ``os/architecture[/variant]``."""
    facts = entry.get("platform") or {}
    parts = (facts.get("os"), facts.get("architecture"), facts.get("variant"))
    return "/".join(str(part) for part in parts if part)


def is_attestation(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry of an index is an attestation that buildx added."""
    is_marked = bool((entry.get("annotations") or {}).get(_ATTESTATION))
    return is_marked or platform_of(entry) == "unknown/unknown"


def of_platform(entries: Iterable[dict[str, Any]], wanted: str, label: str) -> dict[str, Any]:
    """Return the only entry of an index for a platform, with any variant if none is given."""
    images = [entry for entry in entries if not is_attestation(entry)]
    found = [e for e in images if platform_of(e) == wanted] or [
        e for e in images if platform_of(e).startswith(f"{wanted}/")
    ]
    if len(found) != 1:
        has = ", ".join(sorted({platform_of(entry) or "an image without one" for entry in images}))
        raise UsageError(
            f"{label} has {len(found)} images for {wanted}",
            remedy=f"give one of its platforms with --platform: {has}" if has else None,
        )
    return found[0]
