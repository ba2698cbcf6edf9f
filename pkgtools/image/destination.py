"""Choose the store of a new image: the base's, or one of another kind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from pkgtools.errors import UsageError
from pkgtools.image.archive import PREFIX, ArchiveImage, ArchiveStore
from pkgtools.image.layout import LayoutImage
from pkgtools.image.layout_store import LayoutStore
from pkgtools.image.model import Pushable
from pkgtools.image.names import REGISTRY

if TYPE_CHECKING:
    from pkgtools.image.layout_index import LayoutIndex
    from pkgtools.image.model import Image, ImageStore, Portable
    from pkgtools.image.registry.image import RegistryIndex
    from pkgtools.image.registry.store import RegistryStore


def store_of(image: Image, name: str) -> ImageStore:
    """Return the store that a name refers to, for images built on a base.

    Args:
        image: the base, which need not be in that store.
        name: that of the new image.

    Raises:
        UsageError: the name refers to no store, or the base cannot be copied there.

    """
    is_elsewhere = name.startswith((REGISTRY, "oci:", PREFIX))
    if isinstance(image, Pushable):  # in an engine, which does not export layers to other stores
        if is_elsewhere:
            raise UsageError(
                f"invalid image name {name!r}: the base {image.reference} is in the Docker engine",
                remedy="give one like registry.example.com/sglang:v0.5.23-k3 with --tag, and "
                f"--push; or give its registry's name as the base: --base {REGISTRY}HOST/NAME",
            )
        return cast("ImageStore", image)
    if not is_elsewhere:
        raise UsageError(
            f"invalid image name {name!r}: the base {image.reference} is not in an engine",
            remedy=f"give {REGISTRY}HOST/NAME[:TAG], oci:DIR:NAME or {PREFIX}FILE[:NAME] with "
            "--tag",
        )
    portable = cast("Portable", image)
    if name.startswith("oci:"):
        folder = _folder(name)
        if isinstance(image, LayoutImage) and folder.exists() and image.is_at(folder):
            return image
        return LayoutStore(folder, [portable.base])
    if name.startswith(PREFIX):
        return image if isinstance(image, ArchiveImage) else ArchiveStore(portable.base)
    from pkgtools.image.registry.image import RegistryImage  # noqa: PLC0415 - requests is slow
    from pkgtools.image.registry.store import RegistryStore  # noqa: PLC0415

    source = image if isinstance(image, RegistryImage) else None
    return RegistryStore(source, [portable.base])


def index_store_of(index: LayoutIndex | RegistryIndex, name: str) -> LayoutStore | RegistryStore:
    """Return the store that a name refers to, for images of several platforms.

    Raises:
        UsageError: the name refers to no store, or to one that cannot hold an index.

    """
    images = list(index.images.values())
    bases = [cast("Portable", image).base for image in images]
    if name.startswith("oci:"):
        folder, first = _folder(name), images[0]
        if isinstance(first, LayoutImage) and folder.exists() and first.is_at(folder):
            first.refuse_name(name)
        return LayoutStore(folder, bases)
    if name.startswith(REGISTRY):
        from pkgtools.image.registry.image import RegistryIndex  # noqa: PLC0415 - requests is slow
        from pkgtools.image.registry.store import RegistryStore  # noqa: PLC0415

        return RegistryStore(index if isinstance(index, RegistryIndex) else None, bases)
    raise UsageError(
        f"invalid image name {name!r} for the {len(bases)} platforms of {index.reference}",
        remedy=f"pick one with --platform: {', '.join(index.images)}; {REGISTRY} and oci: take "
        "all of them",
    )


def _folder(name: str) -> Path:
    return Path(name.removeprefix("oci:").partition(":")[0])
