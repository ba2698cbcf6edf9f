"""The labels and manifest annotations of a patched image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pkgtools import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pkgtools.catalog import Target
    from pkgtools.image.model import Image

UPSTREAM: Final = "pkgtools.upstream"
TARGET: Final = "pkgtools.target"
REVISION: Final = "pkgtools.revision"
SERIES: Final = "pkgtools.series"
PATCHES: Final = "pkgtools.patches"
TREE: Final = "pkgtools.tree"
# https://github.com/opencontainers/image-spec/blob/main/annotations.md#pre-defined-annotation-keys
OCI: Final = "org.opencontainers.image."
OCI_REVISION: Final = f"{OCI}revision"
OCI_BASE_NAME: Final = f"{OCI}base.name"
OCI_BASE_DIGEST: Final = f"{OCI}base.digest"


def labels_of(
    target: Target, revisions: Sequence[str], image: Image, folder: str
) -> dict[str, str]:
    """Return what an image says that has the series of `target` on top of `image`.

    The base's digest is the manifest's, by which a registry has it, where that is
    known; its id, by which its own store has it, always is.
    """
    labels = {
        "pkgtools.version": __version__,
        UPSTREAM: target.upstream.name,
        TARGET: target.name,
        REVISION: " ".join(revisions),
        SERIES: target.series.digest,
        PATCHES: " ".join(patch.name for patch in target.series.patches),
        TREE: f"/{folder}",
        "pkgtools.base.id": image.id,
    }
    if image.name:
        labels[OCI_BASE_NAME] = image.name
    if image.manifest_digest:
        labels[OCI_BASE_DIGEST] = image.manifest_digest
    commits = {revision.commit for revision in target.revisions}
    if len(revisions) == 1 and revisions[0] in commits:
        labels[OCI_REVISION] = revisions[0]
    return labels
