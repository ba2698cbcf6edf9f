"""Dropping, reordering and renaming the patches of a series, with the lockfiles that this changes.

Each is one transaction of the catalog: the new series is proven on the sources of all its
revisions before a file is written.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import tomlkit

from pkgtools.authoring.lock import prove_lock, render_lock
from pkgtools.authoring.names import check_name, refuse_absorbed
from pkgtools.authoring.shared import targets_of
from pkgtools.authoring.work import CatalogWork
from pkgtools.blob import Blob
from pkgtools.catalog import Catalog, Series, Target
from pkgtools.catalog.listing import SeriesFile
from pkgtools.catalog.lock import Lockfile, read_lock
from pkgtools.catalog.series import LISTING, LOCKFILE, load_series, reference_of
from pkgtools.catalog.writes import write_catalog
from pkgtools.errors import DoesNotApplyError, UsageError
from pkgtools.patch import Patch
from pkgtools.source.at_hand import AtHand
from pkgtools.util.files import read_bytes, read_file, read_text


class Arranged(msgspec.Struct, frozen=True):
    """A series after a change of its list."""

    series: str
    patches: list[str]
    """What the ``series`` file names now, in order."""
    changed: list[str]
    """The patches that were dropped, moved or renamed, by their old names."""
    targets: list[str]
    """The targets whose lockfiles were written."""
    kept: list[str]
    """Shared patches that the series does not name any more; their files stay."""


@dataclass(frozen=True)
class Place:
    """Where patches are moved to: before or behind another one."""

    patch: str
    behind: bool


def drop_patches(work: CatalogWork, names: Sequence[str], at_hand: AtHand) -> Arranged:
    """Take patches out of a series that no later patch needs and no target calls absorbed."""
    with work.locked() as folder:
        series = work.named.load()
        gone = _find_all(series, names)
        refuse_absorbed(work.catalog, [patch for patch in gone if not patch.is_shared])
        left = [patch for patch in series.patches if patch not in gone]
        files, targets = _arranged(work, series, left, gone, at_hand)
        files |= {series.directory / p.name: None for p in gone if not p.is_shared}
        write_catalog(folder, files)
    kept = [reference_of(patch) for patch in gone if patch.is_shared]
    return _report(series, left, gone, targets, kept)


def reorder_patches(
    work: CatalogWork, names: Sequence[str], place: Place | None, at_hand: AtHand
) -> Arranged:
    """Move patches within a series, in the order of `names`, to a place.

    Without a `place`, `names` has all patches of the series. Nothing is written where a patch does
    not apply in its new place.
    """
    with work.locked() as folder:
        series = work.named.load()
        moved = _find_all(series, names)
        left = [patch for patch in series.patches if patch not in moved]
        if place is None:
            if left:
                raise UsageError(
                    f"{series.directory} has more patches than are named: "
                    f"{', '.join(patch.name for patch in left)}",
                    remedy="name all in their new order, or say where to with --before or --after",
                )
            order = moved
        else:
            (other,) = _find_all(series, [place.patch])
            if other in moved:
                raise UsageError(
                    f"{other.name} cannot be moved to itself", remedy="name another patch"
                )
            at = left.index(other) + place.behind
            order = [*left[:at], *moved, *left[at:]]
        files, targets = _arranged(work, series, order, moved, at_hand)
        write_catalog(folder, files)
    return _report(series, order, moved, targets, [])


def rename_patch(work: CatalogWork, name: str, new: str) -> Arranged:
    """Give a patch another file name, in every series and lockfile that names it.

    Nothing is proven again: no content changes.
    """
    with work.locked() as folder:
        series = work.named.load()
        (patch,) = _find_all(series, [name])
        path = patch.path
        assert path is not None  # noqa: S101 - it was read from a file
        check_name(f"{new}.patch" if path.is_dir() else new)
        renamed = path.with_name(new)
        if renamed.exists() or new in {each.name for each in series.patches}:
            raise UsageError(f"{renamed} exists already", remedy="give another name")
        files, locks = _moved(path, renamed), _Lockfiles()
        users = _directories_with(work.catalog, series, patch)
        for each in map(load_series, users):
            files |= _renamed_list(each, patch, new)
            locks.rename(each, patch, new)
        files |= _renamed_absorbed(work.catalog, path, new, locks)
        write_catalog(folder, files | locks.files())
    now = load_series(series.directory)
    targets = [t.name for t in work.catalog.targets if t.directory in users]
    return _report(now, now.patches, [patch], targets, [])


def _find_all(series: Series, names: Sequence[str]) -> list[Patch]:
    """Return patches by name, or by what the ``series`` file names them."""
    known = {p.name: p for p in series.patches} | {reference_of(p): p for p in series.patches}
    found = []
    for name in names:
        bare = name.rstrip("/").rpartition("/")[2]
        patch = known.get(name) or known.get(bare) or known.get(f"{bare}.patch")
        if patch in found:
            raise UsageError(f"{name!r} is named twice", remedy="name each patch once")
        if patch is None:
            raise UsageError(
                f"{series.directory} has no patch {name!r}",
                remedy=f"name one of: {', '.join(each.name for each in series.patches)}",
            )
        found.append(patch)
    return found


def _arranged(
    work: CatalogWork,
    series: Series,
    patches: Sequence[Patch],
    changed: Sequence[Patch],
    at_hand: AtHand,
) -> tuple[dict[Path, Blob | None], list[Target]]:
    """Return the ``series`` file and the lockfile for other patches, proven."""
    now = replace(series, patches=tuple(patches))
    targets = [
        target.with_series(now)
        for target in work.catalog.targets
        if target.directory.resolve() == series.directory.resolve()
    ]
    if not targets:
        raise UsageError(
            f"{series.directory} belongs to no target, so that the change cannot be proven",
            remedy=f"add a target for it to {work.catalog.path}, or edit its `series` file",
        )
    try:
        lock, _ = prove_lock(targets, at_hand)
    except DoesNotApplyError as error:
        if error.refusal is None or not error.refusal.rejections:
            raise
        rejected = error.refusal.rejections[0].patch
        verb, done = (
            ("move", "moved") if len(patches) == len(series.patches) else ("drop", "dropped")
        )
        names = " and ".join(patch.name for patch in changed)
        raise DoesNotApplyError(
            f"{names} cannot be {done}: {rejected} would not apply to {error.refusal.source}",
            remedy=f"{verb} {rejected} as well, or edit both: pkgtools checkout DIR --series "
            f"{targets[0].name}",
            refusal=error.refusal,
        ) from None
    listing = series.directory / LISTING
    text = _list_with(listing, [(reference_of(patch),) * 2 for patch in patches])
    return {listing: text, series.directory / LOCKFILE: Blob(lock)}, targets


def _list_with(listing: Path, references: Sequence[tuple[str, str]]) -> Blob:
    """Return a ``series`` file with these patches, of each its old and its new reference."""
    return Blob(SeriesFile.parse(read_text(listing)).ordered(references).text().encode())


def _moved(path: Path, renamed: Path) -> dict[Path, Blob | None]:
    """Return the writes that give a file, or all files of a folder, another name."""
    files = sorted(f for f in path.rglob("*") if f.is_file()) if path.is_dir() else [path]
    made: dict[Path, Blob | None] = dict.fromkeys(files)
    for file in files:
        made[renamed / file.relative_to(path) if path.is_dir() else renamed] = read_file(file)
    return made


def _directories_with(catalog: Catalog, series: Series, patch: Patch) -> list[Path]:
    """Return the folders of the series that name a patch."""
    names = targets_of(catalog, patch) if patch.is_shared else []
    users = {t.directory for t in catalog.targets if t.name in names}
    own = {t.directory for t in catalog.targets if t.directory.resolve() == series.directory}
    return sorted(users | (own or {series.directory}))


def _renamed_list(series: Series, patch: Patch, new: str) -> dict[Path, Blob | None]:
    listing = series.directory / LISTING
    named = replace(patch, name=new)
    pairs = [
        (reference_of(each), reference_of(named if each.name == patch.name else each))
        for each in series.patches
    ]
    return {listing: _list_with(listing, pairs)}


class _Lockfiles:
    """Lockfiles that change with the name of a patch."""

    def __init__(self) -> None:
        self._read: dict[Path, Lockfile] = {}

    def files(self) -> dict[Path, Blob | None]:
        return {path: Blob(render_lock(lock).encode()) for path, lock in self._read.items()}

    def rename(self, series: Series, patch: Patch, new: str) -> None:
        """Change the name of a patch of a series; a lockfile of another series is written anew."""
        lock = self._of(series.directory)
        if lock is None or lock.series != series.digest:
            return
        patches = [replace(p, name=new) if p.name == patch.name else p for p in series.patches]
        lock.series = replace(series, patches=tuple(patches)).digest
        for file in (file for revision in lock.revision for file in revision.file):
            file.patches = [new if name == patch.name else name for name in file.patches]

    def rename_absorbed(self, target: Target, old: str, new: str) -> None:
        """Change the name of a patch that a target calls absorbed."""
        lock = self._of(target.directory)
        for revision in lock.revision if lock else ():
            for entry in revision.absorbed:
                entry.patch = new if entry.patch == old else entry.patch

    def _of(self, directory: Path) -> Lockfile | None:
        path = directory / LOCKFILE
        if path not in self._read and path.exists():
            self._read[path] = read_lock(path)
        return self._read.get(path)


def _renamed_absorbed(
    catalog: Catalog, path: Path, new: str, locks: _Lockfiles
) -> dict[Path, Blob | None]:
    names = {
        (target.name, target.absorbed_name(each)): each.with_name(new)
        for target in catalog.targets
        for each in target.absorbed
        if each.samefile(path)
    }
    if not names:
        return {}
    document = tomlkit.parse(read_bytes(catalog.path).decode())
    tables = {str(table["name"]): table for table in document["target"]}
    for (name, old), renamed in names.items():
        target = catalog.target(name)
        absorbed = tables[name]["absorbed"]
        absorbed[list(absorbed).index(old)] = target.absorbed_name(renamed)
        locks.rename_absorbed(target, old, target.absorbed_name(renamed))
    return {catalog.path.resolve(): Blob(tomlkit.dumps(document).encode())}


def _report(
    series: Series,
    patches: Sequence[Patch],
    changed: Sequence[Patch],
    targets: Sequence[Target] | Sequence[str],
    kept: list[str],
) -> Arranged:
    return Arranged(
        series=str(series.directory),
        patches=[reference_of(patch) for patch in patches],
        changed=[reference_of(patch) for patch in changed],
        targets=[target if isinstance(target, str) else target.name for target in targets],
        kept=kept,
    )
