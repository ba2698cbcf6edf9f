"""A series: an ordered set of patches, as quilt keeps it.

The file ``series`` names one patch a line, in order, by its path::

    ../attn-residual-64-bit-token-offsets.patch   # shared by the upstream's series
    ../spec-capture/                              # a folder of added files, shared too
    spec-capture-arguments.patch                  # in the series' own folder
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from pkgtools.catalog.added import is_added_folder, read_added
from pkgtools.catalog.listing import ListedPatch, SeriesFile
from pkgtools.errors import MalformedError
from pkgtools.patch import Patch, parse_patch
from pkgtools.util.files import read_source, read_text

LISTING: Final = "series"
LOCKFILE: Final = "lock.toml"
_REMEDY: Final = "name the patches in it, one a line, in order: ls *.patch > series"
_STRIP: Final = re.compile(r"-p\d{1,2}")
_ABOVE: Final = "../"
_NAME: Final = re.compile(r"(?:\.\./)?(?!\.\.?/?$)[^/\0]+|\.\./(?!\.\.?/)[^/\0]+/")


@dataclass(frozen=True)
class Series:
    """The patches that one ``series`` file names, in its order."""

    name: str
    directory: Path
    patches: tuple[Patch, ...]

    @cached_property
    def digest(self) -> str:
        """``sha256:`` and the SHA-256 over each patch's name and digest, in order."""
        whole = hashlib.sha256()
        for patch in self.patches:
            option = "" if patch.level == 1 else f" -p{patch.level}"
            whole.update(f"{patch.digest}  {patch.name}{option}\n".encode())
        return f"sha256:{whole.hexdigest()}"

    @property
    def short_digest(self) -> str:
        """The digest's first 12 digits, for the names of what is built."""
        return self.digest.removeprefix("sha256:")[:12]

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that the series reads or writes, sorted."""
        return tuple(sorted({path for patch in self.patches for path in patch.paths}))


def load_series(directory: Path) -> Series:
    """Read the series in `directory`, and lint every patch of it.

    A patch file in the folder that the series does not name is an error. A series without patches
    is one that `pkgtools init` has just started.
    """
    listing = directory / LISTING
    try:
        listed = SeriesFile.parse(read_text(listing)).patches
    except FileNotFoundError:
        raise MalformedError(f"{listing} is missing", remedy=_REMEDY) from None
    patches: dict[str, Patch] = {}
    for each in listed:
        where = f"{listing}:{each.number}"
        patch = _load_listed(directory, each, where)
        if patch.name in patches:
            raise MalformedError(
                f"{where}: a second patch {patch.name}", remedy="name each patch once"
            )
        patches[patch.name] = patch
    _refuse_unlisted(directory, patches)
    return Series(directory.name, directory, tuple(patches.values()))


def is_empty_series(directory: Path) -> bool:
    """Whether a folder is a series without patches, as `pkgtools init` starts one."""
    if not (directory / LISTING).is_file():
        return False
    others = {path.name for path in directory.iterdir()} - {LISTING, LOCKFILE}
    return not others and not load_series(directory).patches


def load_patch(path: Path, level: int | None = None) -> Patch:
    """Read one patch file, or one folder of added files.

    `level` is how many folders to strip from the names; by default what the names show.
    """
    if path.is_dir():
        return read_added(path).patch()
    return replace(parse_patch(str(path), read_source(path), level), name=path.name, path=path)


def reference_of(patch: Patch) -> str:
    """Return what a ``series`` file names a patch."""
    if not patch.is_shared:
        return patch.name
    is_folder = patch.path is not None and patch.path.is_dir()
    return f"{_ABOVE}{patch.name}{'/' if is_folder else ''}"


def is_shared_reference(reference: str) -> bool:
    """Whether a line of a ``series`` file names a shared patch."""
    return reference.startswith(_ABOVE)


def shared_patches(folder: Path) -> Mapping[str, Patch]:
    """Return the patches and folders of added files in `folder`, as series below it name them."""
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    found = [
        replace(load_patch(path), is_shared=True)
        for path in paths
        if (path.is_file() and path.suffix in (".patch", ".diff")) or is_added_folder(path)
    ]
    return {reference_of(patch): patch for patch in found}


def _load_listed(directory: Path, listed: ListedPatch, where: str) -> Patch:
    reference, options = listed.reference, listed.options
    if len(options) > 1 or not all(map(_STRIP.fullmatch, options)):
        raise MalformedError(
            f"{where}: {' '.join(options)} cannot follow a patch",
            remedy="only -pN can: the number of folders before its names",
        )
    level = int(options[0][2:]) if options else None
    if reference == LISTING:
        raise MalformedError(f"{where}: {reference} is this list, not a patch", remedy=_REMEDY)
    if not _NAME.fullmatch(reference):
        raise MalformedError(
            f"{where}: {reference} is not the name of a patch",
            remedy="name a file in this folder (NAME.patch), or one that the upstream's series "
            "share: ../NAME.patch, ../NAME/",
        )
    # A shared patch is in the parent of the series, even where the series is a link.
    is_shared = is_shared_reference(reference)
    path = (directory.parent if is_shared else directory) / reference.removeprefix(_ABOVE)
    if path.is_dir() != reference.endswith("/"):
        kind = "a folder" if path.is_dir() else "not a folder"
        raise MalformedError(
            f"{where}: {path} is {kind}", remedy="a folder of added files is named ../NAME/"
        )
    if not path.exists():
        raise MalformedError(
            f"{where}: {path} cannot be read: no such file",
            remedy="correct the name, or take the line out",
        )
    return replace(load_patch(path, level), is_shared=is_shared)


def _refuse_unlisted(directory: Path, patches: Mapping[str, Patch]) -> None:
    own = {patch.name for patch in patches.values() if not patch.is_shared}
    for path in sorted(directory.iterdir()):
        if path.suffix in (".patch", ".diff") and path.name not in own:
            raise MalformedError(
                f"{path} is not named in {directory / LISTING}",
                remedy="add it to the series file, or move it away",
            )
