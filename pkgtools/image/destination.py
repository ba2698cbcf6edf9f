"""Choose the store of a new image: the base's, or one of another kind."""

from collections.abc import Sequence
from pathlib import Path

from pkgtools.errors import UsageError
from pkgtools.image.archive import PREFIX, ArchiveStore
from pkgtools.image.layout import LayoutStore
from pkgtools.image.model import ImageStore, Runnable
from pkgtools.image.names import REGISTRY
from pkgtools.image.registry.store import RegistryStore
from pkgtools.image.stored import ImageIndex, LayeredImage


def store_of(image: Runnable | LayeredImage, name: str) -> ImageStore:
    """Return the store that a new image's name refers to; the base can be in another store."""
    is_elsewhere = name.startswith((REGISTRY, "oci:", PREFIX))
    if isinstance(image, Runnable):  # an engine, which does not export layers to other stores
        if is_elsewhere:
            raise UsageError(
                f"invalid image name {name!r}: the base {image.reference} is in the Docker engine",
                remedy="give one like registry.example.com/sglang:v0.5.23-k3 with --tag, and "
                f"--push; or give its registry's name as the base: --base {REGISTRY}HOST/NAME",
            )
        return image
    if not is_elsewhere:
        raise UsageError(
            f"invalid image name {name!r}: the base {image.reference} is not in an engine",
            remedy=f"give {REGISTRY}HOST/NAME[:TAG], oci:DIR:NAME or {PREFIX}FILE[:NAME] with "
            "--tag",
        )
    return _index_store([image], name) or ArchiveStore(image)


def index_store_of(index: ImageIndex, name: str) -> LayoutStore | RegistryStore:
    """Return the store that a name refers to, for images of several platforms."""
    store = _index_store(list(index.images.values()), name)
    if store is None:
        raise UsageError(
            f"invalid image name {name!r} for the {len(index.images)} platforms of "
            f"{index.reference}",
            remedy=f"pick one with --platform: {', '.join(index.images)}; {REGISTRY} and oci: "
            "take all of them",
        )
    return store


def _index_store(images: Sequence[LayeredImage], name: str) -> LayoutStore | RegistryStore | None:
    """Return the store of a name if it can hold an index."""
    if name.startswith("oci:"):
        return LayoutStore(Path(name.removeprefix("oci:").partition(":")[0]), images)
    if name.startswith(REGISTRY):
        from pkgtools.image.registry.store import RegistryStore  # noqa: PLC0415 - requests is slow

        return RegistryStore(images)
    return None
