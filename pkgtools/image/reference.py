"""Which image a user means.

The names are those of skopeo and podman (containers-transports(5)): ``oci:DIR[:NAME]``
is an OCI image layout, ``docker-archive:FILE[:NAME]`` what ``docker save`` wrote;
anything else is an image of the Docker engine.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pkgtools.errors import UsageError

if TYPE_CHECKING:
    from pkgtools.image.model import Image


def open_image(reference: str, tree: str | None = None, python: str | None = None) -> Image:
    """Return an image by its name.

    Args:
        reference: its name.
        tree: the folder in it that holds the package; by default it is looked for.
        python: the interpreter in it whose package is meant; only an engine can ask one.

    Raises:
        UsageError: there is none of that name.
        MalformedError: it is no image.
        EngineError: the engine does not answer.

    """
    kind, colon, rest = reference.partition(":")
    on_disk = bool(colon) and kind in ("oci", "docker-archive")
    if on_disk and not rest.partition(":")[0]:  # an unset variable is not the current folder
        raise UsageError(
            f"{reference} says no place", remedy="give oci:DIR[:NAME] or docker-archive:FILE[:NAME]"
        )
    if on_disk and python:
        raise UsageError(
            f"no interpreter is run in {reference}", remedy="give the package's folder with --tree"
        )
    place, _, name = rest.partition(":")
    if on_disk and kind == "oci":
        from pkgtools.image.layout import LayoutImage  # noqa: PLC0415 - one kind is enough

        return LayoutImage(Path(place), name or None, tree)
    if on_disk:
        from pkgtools.image.archive import ArchiveImage  # noqa: PLC0415

        return ArchiveImage(Path(place), name or None, tree)
    from pkgtools.image.engine import EngineImage  # noqa: PLC0415 - the SDK is slow to import

    return EngineImage(reference, tree, python)
