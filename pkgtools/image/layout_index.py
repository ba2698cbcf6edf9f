"""Multi-platform images in OCI image layouts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from pkgtools.image.layer import damaged
from pkgtools.image.layout import LayoutImage, named_descriptor, read_document
from pkgtools.image.manifest import INDEXES, OCI_INDEX, Index, is_attestation, platform_of

if TYPE_CHECKING:
    from pathlib import Path


class LayoutIndex:
    """A multi-platform image in a layout."""

    def __init__(self, folder: Path, name: str | None, tree: str | None) -> None:
        top = named_descriptor(folder, name)
        self.reference = f"oci:{folder}" + (f":{name}" if name else "")
        self.media_type = OCI_INDEX
        self.document = read_document(folder, top, Index)
        """The index, with unknown keys."""
        entries = self.document["manifests"]
        self.dropped = tuple(e["digest"] for e in entries if is_attestation(e))
        """Digests of buildx' attestations, which describe the base only."""
        platforms = [platform_of(e) for e in entries if not is_attestation(e)]
        if not platforms or len(set(platforms)) != len(platforms):
            raise damaged(f"{self.reference} is an index without images, or has a platform twice")
        self.images = {each: LayoutImage(folder, name, tree, each) for each in platforms}
        """By platform, as ``os/architecture[/variant]``."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing: no file stays open."""

    def default_name(self, suffix: str) -> str:
        """Return this image's name with a suffix, in the same layout."""
        return next(iter(self.images.values())).default_name(suffix)


def open_layout(folder: Path, name: str | None, tree: str | None) -> LayoutImage | LayoutIndex:
    """Open an image of a layout with all its platforms.

    Raises:
        UsageError: there is no such image.
        MalformedError: it is damaged.

    """
    if named_descriptor(folder, name).get("mediaType") in INDEXES:
        return LayoutIndex(folder, name, tree)
    return LayoutImage(folder, name, tree)
