"""Writing a series folder, whole or not at all."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pkgtools.catalog.listing import SeriesFile
from pkgtools.catalog.series import (
    LISTING,
    LOCKFILE,
    is_shared_reference,
    load_series,
    reference_of,
)
from pkgtools.catalog.writes import refuse_packaged
from pkgtools.errors import UsageError
from pkgtools.patch import Patch
from pkgtools.util.files import new_folder, read_bytes, read_text, write_new

_LEFT_BEHIND: Final = {LISTING, LOCKFILE}
"""Files of a series that are written anew, or not at all."""


def write_series(folder: Path, patches: Sequence[Patch], original: Path) -> list[str]:
    """Write a series folder, whole or not at all, and return which other files came along.

    Comments and other files of `original` come along. A shared patch stays a reference where the
    folder is beside it; elsewhere it is copied.
    """
    refuse_existing(folder)
    others = {}
    for path in sorted(original.iterdir()):
        is_other = path.suffix not in (".patch", ".diff") and path.name not in _LEFT_BEHIND
        if path.is_file() and is_other:
            others[path.name] = read_bytes(path)
    references = references_from(folder, patches)
    own = {
        name: patch.data
        for name, patch in zip(references, patches, strict=True)
        if not is_shared_reference(name)
    }
    listing = _listing(patches, references, original)
    write_folder(folder, {LISTING: listing.encode(), **own, **others})
    return list(others)


def references_from(folder: Path, patches: Sequence[Patch]) -> list[str]:
    """Return what the ``series`` file in `folder` names each patch."""
    return [_reference(folder, patch) for patch in patches]


def _reference(folder: Path, patch: Patch) -> str:
    beside = folder.absolute().parent / patch.name
    if patch.is_shared and patch.path and beside.exists() and beside.samefile(patch.path):
        return reference_of(patch)
    return patch.name if patch.name.endswith((".patch", ".diff")) else f"{patch.name}.patch"


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a new folder that is there whole or not at all."""
    with new_folder(folder, "name another folder with -o") as scratch:
        for name, data in files.items():
            path = scratch / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_new(path, data, 0o644)


def refuse_existing(folder: Path) -> None:
    """Raise unless `folder` is free or empty, and outside the packaged catalog."""
    refuse_packaged(folder)
    if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise UsageError(f"{folder} exists already", remedy="give another folder, or move it away")


def _listing(patches: Sequence[Patch], references: Sequence[str], original: Path) -> str:
    """Return the ``series`` file: the original's, with new names and without what is gone."""
    old = {patch.name: reference_of(patch) for patch in load_series(original).patches}
    names = [(old[patch.name], new) for patch, new in zip(patches, references, strict=True)]
    file = SeriesFile.parse(read_text(original / LISTING)).ordered(names)
    for patch, reference in zip(patches, references, strict=True):
        file = file.at_level(reference, patch)
    return file.text()
