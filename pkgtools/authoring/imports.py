"""Making a series of patches that others made."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pkgtools.authoring.applied import refuse_misfit
from pkgtools.authoring.folder import refuse_existing, write_folder
from pkgtools.authoring.levels import LevelFinder, Mail
from pkgtools.authoring.shared import references_to
from pkgtools.blob import Blob
from pkgtools.catalog.listing import line_of
from pkgtools.catalog.series import LISTING, is_empty_series, load_series
from pkgtools.catalog.writes import locked_catalog, write_catalog
from pkgtools.errors import UsageError
from pkgtools.patch import Patch, in_order, split_mails, subject_of
from pkgtools.transaction import reading
from pkgtools.util.files import read_bytes
from pkgtools.util.progress import Reporter

_NUMBERED: Final = re.compile(r"\d+-")
_SUFFIX: Final = re.compile(r"\.(?:patch|diff)$")
_DIGITS: Final = re.compile(r"(\d+)")
_UNFIT: Final = re.compile(r"[^A-Za-z0-9._+-]+")
_OUTSIDE: Final = "outside"


@dataclass(frozen=True)
class Imported:
    """The result of `import_patches`."""

    patches: tuple[str, ...]
    levels: dict[str, int]
    """The number of folders before a patch's names, unless they are ``a/`` and ``b/``."""
    outside: dict[str, tuple[str, ...]]
    """For each patch that was cut, the files outside the package."""


def import_patches(
    paths: Sequence[Path],
    output: Path,
    reader: LevelFinder,
    shelf: Path | None,
    reporter: Reporter,
) -> Imported:
    """Make a series of patch files or of folders of them, byte by byte as they are.

    A folder's own ``series`` file gives the order, else the numbers in the names do. A mailbox
    becomes a patch for each of its mails. Files without a number get one. The parts of patches
    for files outside the reader's package are written to the folder ``outside`` below the series.
    A patch that makes the same change as a shared patch of `shelf` becomes a reference to it.
    """
    if not is_empty_series(output):
        refuse_existing(output)
    mails = _named_mails(paths)
    with reading([reader.source], reporter):
        cut = {mail.name: reader.read(mail) for mail in mails}
        outside = {name: outer for name, outer in cut.items() if outer is not None}
        patches = {patch.name: patch for patch in reader.patches}
        if not patches:
            raise UsageError("no patch changes a file of the package", remedy="see --upstream")
        if reader.source is not None:
            refuse_misfit(reader.patches, reader.source)
        shared = references_to(shelf, reader.patches, reader.source) if shelf else {}
    files = {LISTING: _listing(patches, shared)}
    files |= {name: p.data for name, p in patches.items() if name not in shared}
    if outside:
        files[f"{_OUTSIDE}/{LISTING}"] = _listing(outside)
        files |= {f"{_OUTSIDE}/{name}": patch.data for name, patch in outside.items()}
    _write(output, files, shelf)
    levels = {p.name: p.level for p in reader.patches if p.level != 1 and p.name not in shared}
    return Imported(
        tuple(shared.get(name, name) for name in patches),
        levels,
        {name: tuple(sorted(patch.paths)) for name, patch in outside.items()},
    )


def _named_mails(paths: Sequence[Path]) -> list[Mail]:
    """Return the patches in some files or folders, whose names differ."""
    mails = list(_mails(paths))
    if not mails:
        raise UsageError(
            f"there is no .patch or .diff in {', '.join(map(str, paths))}",
            remedy="name the patch files, or the folder that they lie in",
        )
    name, count = Counter(mail.name for mail in mails).most_common(1)[0]
    if count > 1:
        raise UsageError(f"{name}: two patches would have this name", remedy="rename one of them")
    return mails


def _write(output: Path, files: Mapping[str, bytes], shelf: Path | None) -> None:
    """Write a new series, or fill one that `pkgtools init` started."""
    if not is_empty_series(output):
        write_folder(output, files)
        return
    output = output.resolve()
    folder = shelf.parent.parent if shelf else output.parent
    with locked_catalog(folder):
        write_catalog(folder, {output / name: Blob(data) for name, data in files.items()})


def _listing(patches: Mapping[str, Patch], shared: Mapping[str, str] | None = None) -> bytes:
    known = shared or {}
    lines = (known.get(name) or line_of(patch, name) for name, patch in patches.items())
    return "".join(f"{line}\n" for line in lines).encode()


def _mails(paths: Sequence[Path]) -> Iterator[Mail]:
    files = [found for path in paths for found in _patch_files(path)]
    _refuse_order(paths)
    number = 0
    for file in files:
        mails = in_order(file.origin, split_mails(file.data))
        for place, data in enumerate(mails, 1):
            number += 1
            if len(mails) == 1:
                stem = _UNFIT.sub("-", file.name)
                name = stem if _NUMBERED.match(stem) else f"{number:04}-{stem}"
                origin = file.origin
            else:
                origin = f"{file.origin} (patch {place} of {len(mails)})"
                subject = subject_of(data) or file.name
                name = f"{number:04}-{_UNFIT.sub('-', subject).strip('-.')[:52]}"
            yield Mail(origin, f"{name}.patch", data, file.level)


def _patch_files(path: Path) -> list[Mail]:
    if path.is_dir():
        if (path / LISTING).is_file():
            return [
                Mail(str(patch.path), _SUFFIX.sub("", patch.name), patch.data, patch.level)
                for patch in load_series(path).patches
            ]
        found = [f for f in path.iterdir() if f.suffix in (".patch", ".diff")]
        return [_file(file) for file in sorted(found, key=_by_number)]
    if not path.is_file():
        what = "is not a file or a folder" if path.exists() else "does not exist"
        is_url = path.parts[:1] in (("http:",), ("https:",))
        raise UsageError(
            f"{path} {what}",
            remedy="download it first, for example with `curl -LO URL`, and name the file"
            if is_url
            else "name the patch files, or the folder that they lie in",
        )
    return [_file(path)]


def _file(path: Path) -> Mail:
    return Mail(str(path), path.stem, read_bytes(path), None)


def _by_number(path: Path) -> list[tuple[int, str]]:
    """Sort 2 before 10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in _DIGITS.split(path.name)]


def _refuse_order(paths: Sequence[Path]) -> None:
    """Refuse files in alphabetical order, as of ``*.patch``, whose numbers give another order.

    The user may mean either, and patches that merge in both orders would hide it.
    """
    names = [str(path) for path in paths]
    numbered = all(_NUMBERED.match(path.name) for path in paths)
    by_number = sorted(paths, key=_by_number)
    if numbered and names == sorted(names) and list(paths) != by_number:
        first = next(a for a, b in zip(paths, by_number, strict=True) if a != b)
        raise UsageError(
            f"{first.name} is named before a patch with a lower number",
            remedy="name the folder alone, which is read in the order of the numbers, or rename "
            "the files to 0001-..., 0002-...",
        )
