"""Which image a user means.

The names are those of skopeo and podman (containers-transports(5)): ``oci:DIR[:NAME]``
is an OCI image layout, ``docker-archive:FILE[:NAME]`` what ``docker save`` wrote;
anything else is an image of the Docker engine.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pkgtools.errors import UsageError

if TYPE_CHECKING:
    from pkgtools.image.model import Image


# The grammar of https://pkg.go.dev/github.com/distribution/reference. The kinds that lie on
# disk would be taken for repositories: docker-archive:x.tar. An id is a repository by it, too.
_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST: Final = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(?::[0-9]+)?"
NAME: Final = re.compile(
    rf"(?!oci:|docker-archive:)(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::\w[\w.-]{{0,127}})?", re.ASCII
)
"""A name that an image can be given."""
REFERENCE: Final = re.compile(rf"{NAME.pattern}(?:@[A-Za-z][\w+.-]*:[0-9A-Fa-f]{{32,}})?", re.ASCII)
"""What an engine can be asked for."""


def split_tag(name: str) -> tuple[str, str]:
    """Return a name's repository and its tag, which is ``latest`` where none is given."""
    name = name.partition("@")[0]
    repository, colon, tag = name.rpartition(":")
    return (repository, tag) if colon and "/" not in tag else (name, "latest")


def with_tag(name: str) -> str:
    """Return a name with its tag: archives have no other."""
    return ":".join(split_tag(name))


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
