"""Open an image, or the store of a new one, by its name.

Names are those of skopeo and podman (containers-transports(5)): ``docker://HOST/NAME`` is an image
in a registry, ``oci:DIR[:NAME]`` one in an OCI image layout, ``docker-archive:FILE[:NAME]`` one in
a file of ``docker save``. Any other name is that of an image in the Docker engine.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, cast

from pkgtools.errors import UsageError
from pkgtools.image.manifest import own_platform
from pkgtools.image.model import ImageStore, Runnable
from pkgtools.image.names import ARCHIVE, LAYOUT, REGISTRY
from pkgtools.image.stored import ImageIndex, LayeredImage, ManifestStore

_PLATFORM: Final = re.compile(r"[a-z0-9_.-]+/[a-z0-9_.-]+(/[a-z0-9_.-]+)?")


def open_image(
    reference: str, tree: str | None = None, python: str | None = None, platform: str | None = None
) -> Runnable | LayeredImage:
    """Open an image; of a multi-platform image, the given platform or this machine's.

    The package is in the folder `tree`, or where it is found. For images in an engine, `python` is
    the interpreter whose package is meant. A platform is ``os/architecture[/variant]``.

    Raises:
        UsageError: there is no such image, or an option does not fit it.
        MalformedError: it is damaged.
        EngineError: the engine does not answer.
        RegistryError: the registry does not answer, or refuses.
    """
    _refuse_options(reference, python, platform)
    opened = _open(reference, tree, python, platform or own_platform())
    return cast("Runnable | LayeredImage", opened)


def open_base(
    reference: str, tree: str | None, python: str | None, platform: str | None
) -> Runnable | LayeredImage | ImageIndex:
    """Open an image to build on, with all its platforms unless one is named."""
    _refuse_options(reference, python, platform)
    return _open(reference, tree, python, platform)


def _open(
    reference: str, tree: str | None, python: str | None, platform: str | None
) -> Runnable | LayeredImage | ImageIndex:
    # The libraries of the kinds are slow to import, and one of them is enough.
    if reference.startswith(REGISTRY):
        from pkgtools.image.registry.image import open_registry  # noqa: PLC0415

        return open_registry(reference, tree, platform)
    place, _, name = reference.partition(":")[2].partition(":")
    if reference.startswith(LAYOUT):
        from pkgtools.image.layout import open_layout  # noqa: PLC0415

        return open_layout(Path(place), name or None, tree, platform)
    if reference.startswith(ARCHIVE):
        from pkgtools.image.archive import ArchiveImage  # noqa: PLC0415

        return ArchiveImage(Path(place), name or None, tree)
    from pkgtools.image.engine import EngineImage  # noqa: PLC0415

    return EngineImage(reference, tree, python)


def store_of(image: Runnable | LayeredImage, name: str) -> ImageStore:
    """Return the store that a new image's name refers to; the base can be in another store."""
    is_elsewhere = name.startswith((REGISTRY, LAYOUT, ARCHIVE))
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
            remedy=f"give {REGISTRY}HOST/NAME[:TAG], oci:DIR:NAME or {ARCHIVE}FILE[:NAME] with "
            "--tag",
        )
    if store := _manifest_store([image], name):
        return store
    from pkgtools.image.archive import ArchiveStore  # noqa: PLC0415

    return ArchiveStore(image)


def index_store_of(index: ImageIndex, name: str) -> ManifestStore:
    """Return the store that a name refers to, for images of several platforms."""
    store = _manifest_store(list(index.images.values()), name)
    if store is None:
        raise UsageError(
            f"invalid image name {name!r} for the {len(index.images)} platforms of "
            f"{index.reference}",
            remedy=f"pick one with --platform: {', '.join(index.images)}; {REGISTRY} and oci: "
            "take all of them",
        )
    return store


def _manifest_store(images: Sequence[LayeredImage], name: str) -> ManifestStore | None:
    """Return the store of a name if it can hold manifests, and thereby an index."""
    if name.startswith(LAYOUT):
        from pkgtools.image.layout import LayoutStore  # noqa: PLC0415

        return LayoutStore(Path(name.removeprefix(LAYOUT).partition(":")[0]), images)
    if name.startswith(REGISTRY):
        from pkgtools.image.registry.image import RegistryStore  # noqa: PLC0415

        return RegistryStore(images)
    return None


def _refuse_options(reference: str, python: str | None, platform: str | None) -> None:
    """Reject options that do not fit the kind of image."""
    in_file = reference.startswith((LAYOUT, ARCHIVE))
    if in_file and not reference.split(":")[1]:  # an unset variable is not the current folder
        raise UsageError(
            f"invalid image name {reference!r}: the file or folder is missing",
            remedy="give oci:DIR[:NAME] or docker-archive:FILE[:NAME]",
        )
    if python and (in_file or reference.startswith(REGISTRY)):
        raise UsageError(
            f"--python is for images in an engine, and {reference} is not in one",
            remedy="give the package's folder with --tree",
        )
    if platform is None:
        return
    if not _PLATFORM.fullmatch(platform):
        raise UsageError(
            f"invalid platform {platform!r}", remedy="give one like linux/arm64 with --platform"
        )
    if not reference.startswith((REGISTRY, LAYOUT)):
        raise UsageError(
            f"--platform is for multi-platform images, and {reference} has one platform",
            remedy=f"{REGISTRY} and oci: have multi-platform images",
        )
