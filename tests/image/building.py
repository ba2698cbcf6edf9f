"""Building images in tests: widget's catalog, and a base that has widget in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commands import Result, call
from silent import Silent

from pkgtools.build.image import BuiltImage, build_image
from pkgtools.image.reference import open_image

from .images import Entry, folder, tar, write_archive, write_layout

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from project import Project

    from pkgtools.catalog import Catalog

    from .images import Compression

SYSTEM = [folder("etc"), Entry("etc/os-release", b"ID=widget\n"), folder("usr", 0o711)]


def write_base(where: Path, layers: Sequence[Sequence[Entry]], kind: str = "gzip") -> str:
    """Write an image of some layers; return its reference.

    Args:
        where: the folder for it.
        layers: the entries of each.
        kind: ``archive``, else how the layers of a layout are compressed.

    """
    plain = [tar(entries) for entries in layers]
    if kind == "archive":
        where.mkdir(parents=True, exist_ok=True)
        return write_archive(where / "base.tar", plain)
    how: Compression = "gzip" if kind == "gzip" else "zstd" if kind == "zstd" else ""
    return write_layout(where, plain, how=how)


def build(
    catalog: Catalog,
    reference: str,
    name: str | None = None,
    *,
    target: str = "w-1.0",
    tree: str | None = None,
) -> BuiltImage:
    """Build a target's image on a base."""
    with open_image(reference, tree) as image:
        return build_image(catalog, [catalog.target(target)], image, Silent(), name)


def call_build(project: Project, base: str, *more: str) -> Result:
    """Build w-1.0's image with the command, which prints JSON."""
    return call(
        *("build", "image", "--target", "w-1.0", "--base", base, "--json", *more),
        *("--catalog", project.targets),
    )


def bytes_of(root: Path) -> dict[str, bytes]:
    """Return the content of every file below a folder."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }
