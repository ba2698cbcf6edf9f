"""Dropping, reordering and renaming the patches of a series, with the lockfiles that this changes.

Each is one transaction of the catalog: the new series is proven on the sources of all its
revisions before a file is written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import tomlkit

from pkgtools.authoring.lock import prove_lock, render_lock
from pkgtools.authoring.shared import targets_of
from pkgtools.authoring.work import CatalogWork, check_name
from pkgtools.blob import Blob
from pkgtools.catalog import Catalog, Series, Target
from pkgtools.catalog.listing import SeriesFile
from pkgtools.catalog.lock import Lockfile, read_lock
from pkgtools.catalog.series import LISTING, LOCKFILE, load_series, reference_of
from pkgtools.errors import DoesNotApplyError, UsageError
from pkgtools.patch import Patch
from pkgtools.source.at_hand import AtHand
from pkgtools.tree.check import Refusal
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


def drop_patches(work: CatalogWork, names: Sequence[str], at_hand: AtHand) -> Arranged:
    """Take patches out of a series that no later patch needs and no target calls absorbed."""
    with work.locked():
        series = work.named.load_patched()
        gone = _find_all(series, names)
        work.refuse_absorbed([patch for patch in gone if not patch.is_shared])
        left = [patch for patch in series.patches if patch not in gone]
        return _arrange(work, series, left, gone, at_hand)


def reorder_patches(
    work: CatalogWork,
    names: Sequence[str],
    at_hand: AtHand,
    *,
    before: str | None = None,
    after: str | None = None,
) -> Arranged:
    """Move patches within a series, in the order of `names`, before or after another patch.

    Without another one, `names` has all patches of the series. Nothing is written if a patch does
    not apply in its new place.
    """
    with work.locked():
        series = work.named.load_patched()
        moved = _find_all(series, names)
        left = [patch for patch in series.patches if patch not in moved]
        anchor = before or after
        if anchor is None:
            if left:
                raise UsageError(
                    f"{series.directory} has more patches than are named: "
                    f"{', '.join(patch.name for patch in left)}",
                    remedy="name all in their new order, or say where to with --before or --after",
                )
            order = moved
        else:
            (other,) = _find_all(series, [anchor])
            if other in moved:
                raise UsageError(
                    f"{other.name} cannot be moved to itself", remedy="name another patch"
                )
            at = left.index(other) + (not before)
            order = [*left[:at], *moved, *left[at:]]
        return _arrange(work, series, order, moved, at_hand)


def rename_patch(work: CatalogWork, name: str, new: str) -> Arranged:
    """Give a patch another file name, in every series and lockfile that names it.

    Nothing is proven again: no content changes.
    """
    with work.locked():
        series = work.named.load_patched()
        (patch,) = _find_all(series, [name])
        path = patch.path
        assert path is not None  # noqa: S101 - it was read from a file
        check_name(f"{new}.patch" if path.is_dir() else new)
        renamed = path.with_name(new)
        if renamed.exists() or new in {each.name for each in series.patches}:
            raise UsageError(f"{renamed} exists already", remedy="give another name")
        users = _directories_with(work.catalog, series, patch)
        absorbing = [(t, p) for t in work.catalog.targets for p in t.absorbed if p.samefile(path)]
        paths = {d / LOCKFILE for d in (*users, *(target.directory for target, _ in absorbing))}
        locks = {path.parent: read_lock(path) for path in paths if path.exists()}
        files = _moved(path, renamed)
        for each in map(load_series, users):
            named = (replace(p, name=new) if p.name == patch.name else p for p in each.patches)
            now = replace(each, patches=tuple(named))
            files |= _list_with(now, _references(each))
            _rename_in_lock(locks.get(each.directory), each, now)
        files |= _renamed_absorbed(work.catalog, absorbing, new, locks)
        files |= {d / LOCKFILE: Blob(render_lock(lock).encode()) for d, lock in locks.items()}
        work.write(files)
    return Arranged(
        series=str(series.directory),
        patches=_references(load_series(series.directory)),
        changed=[reference_of(patch)],
        targets=[t.name for t in work.catalog.targets if t.directory in users],
        kept=[],
    )


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


def _arrange(
    work: CatalogWork,
    series: Series,
    patches: Sequence[Patch],
    changed: Sequence[Patch],
    at_hand: AtHand,
) -> Arranged:
    """Prove a series with other patches, and write its ``series`` file and its lockfile."""
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
    gone = [patch for patch in changed if patch not in patches]
    try:
        lock, _ = prove_lock(targets, at_hand)
    except DoesNotApplyError as error:
        refusal = error.details
        if not isinstance(refusal, Refusal) or not refusal.rejections:
            raise
        raise _dependent(refusal, changed, targets[0], is_drop=bool(gone)) from None
    files: dict[Path, Blob | None] = {
        series.directory / patch.name: None for patch in gone if not patch.is_shared
    }
    files |= _list_with(now, _references(now)) | {series.directory / LOCKFILE: Blob(lock)}
    work.write(files)
    return Arranged(
        series=str(series.directory),
        patches=_references(now),
        changed=[reference_of(patch) for patch in changed],
        targets=[target.name for target in targets],
        kept=[reference_of(patch) for patch in gone if patch.is_shared],
    )


def _dependent(
    refusal: Refusal, changed: Sequence[Patch], target: Target, *, is_drop: bool
) -> DoesNotApplyError:
    """Return the refusal to drop or move patches on which another patch depends."""
    rejected = refusal.rejections[0].patch
    verb, done = ("drop", "dropped") if is_drop else ("move", "moved")
    names = " and ".join(patch.name for patch in changed)
    return DoesNotApplyError(
        f"{names} cannot be {done}: {rejected} would not apply to {refusal.source}",
        remedy=f"{verb} {rejected} as well, or edit both: pkgtools checkout DIR --series "
        f"{target.name}",
        details=refusal,
    )


def _references(series: Series) -> list[str]:
    return [reference_of(patch) for patch in series.patches]


def _list_with(series: Series, old: Sequence[str]) -> dict[Path, Blob]:
    """Return the ``series`` file for the patches of a series, which it calls `old`."""
    listing = series.directory / LISTING
    pairs = list(zip(old, _references(series), strict=True))
    return {listing: Blob(SeriesFile.parse(read_text(listing)).ordered(pairs).text().encode())}


def _moved(path: Path, renamed: Path) -> dict[Path, Blob | None]:
    """Return the writes that give a file, or all files of a folder, another name."""
    files = sorted(f for f in path.rglob("*") if f.is_file()) if path.is_dir() else [path]
    made: dict[Path, Blob | None] = dict.fromkeys(files)
    for file in files:
        made[renamed / file.relative_to(path) if path.is_dir() else renamed] = read_file(file)
    return made


def _directories_with(catalog: Catalog, series: Series, patch: Patch) -> list[Path]:
    names = targets_of(catalog, patch) if patch.is_shared else []
    users = {t.directory for t in catalog.targets if t.name in names}
    own = {t.directory for t in catalog.targets if t.directory.resolve() == series.directory}
    return sorted(users | (own or {series.directory}))


def _rename_in_lock(lock: Lockfile | None, series: Series, now: Series) -> None:
    """Change the names of patches in a lockfile, unless it is of another series."""
    if lock is None or lock.series != series.digest:
        return
    lock.series = now.digest
    names = {old.name: new.name for old, new in zip(series.patches, now.patches, strict=True)}
    for file in (file for revision in lock.revision for file in revision.file):
        file.patches = [names[name] for name in file.patches]


def _renamed_absorbed(
    catalog: Catalog,
    absorbing: Sequence[tuple[Target, Path]],
    new: str,
    locks: Mapping[Path, Lockfile],
) -> dict[Path, Blob]:
    """Return targets.toml where targets call a renamed patch absorbed, and change their locks."""
    if not absorbing:
        return {}
    document = tomlkit.parse(read_bytes(catalog.path).decode())
    tables = {str(table["name"]): table for table in document["target"]}
    for target, path in absorbing:
        old, name = (target.absorbed_name(each) for each in (path, path.with_name(new)))
        absorbed = tables[target.name]["absorbed"]
        absorbed[list(absorbed).index(old)] = name
        lock = locks.get(target.directory)
        for entry in (a for revision in (lock.revision if lock else ()) for a in revision.absorbed):
            entry.patch = name if entry.patch == old else entry.patch
    return {catalog.path.resolve(): Blob(tomlkit.dumps(document).encode())}
