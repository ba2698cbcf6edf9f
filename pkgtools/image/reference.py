"""Open an image by its name.

Names are those of skopeo and podman (containers-transports(5)): ``docker://HOST/NAME`` is an image
in a registry, ``oci:DIR[:NAME]`` one in an OCI image layout, ``docker-archive:FILE[:NAME]`` one in
a file of ``docker save``. Any other name is that of an image in the Docker engine.
"""

import re
from pathlib import Path
from typing import Final, cast

from pkgtools.errors import UsageError
from pkgtools.image.manifest import own_platform
from pkgtools.image.model import Runnable
from pkgtools.image.names import REGISTRY
from pkgtools.image.stored import ImageIndex, LayeredImage

_PLATFORM: Final = re.compile(r"[a-z0-9_.-]+/[a-z0-9_.-]+(/[a-z0-9_.-]+)?")


def open_image(
    reference: str,
    tree: str | None = None,
    python: str | None = None,
    platform: str | None = None,
) -> Runnable | LayeredImage:
    """Open an image; of a multi-platform image, the given platform or this machine's.

    Args:
        reference: the image's name.
        tree: the folder in it that contains the package; default: where it is found.
        python: the interpreter in it whose package is meant, for images in an engine.
        platform: ``os/architecture[/variant]``.

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
    kind, _, rest = reference.partition(":")
    place, _, name = rest.partition(":")
    if kind == "oci":
        from pkgtools.image.layout import open_layout  # noqa: PLC0415

        return open_layout(Path(place), name or None, tree, platform)
    if kind == "docker-archive":
        from pkgtools.image.archive import ArchiveImage  # noqa: PLC0415

        return ArchiveImage(Path(place), name or None, tree)
    from pkgtools.image.engine import EngineImage  # noqa: PLC0415

    return EngineImage(reference, tree, python)


def _refuse_options(reference: str, python: str | None, platform: str | None) -> None:
    """Reject options that do not fit the kind of image."""
    kind, colon, rest = reference.partition(":")
    in_file = bool(colon) and kind in ("oci", "docker-archive")
    if in_file and not rest.partition(":")[0]:  # an unset variable is not the current folder
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
    if kind != "oci" and not reference.startswith(REGISTRY):
        raise UsageError(
            f"--platform is for multi-platform images, and {reference} has one platform",
            remedy=f"{REGISTRY} and oci: have multi-platform images",
        )
