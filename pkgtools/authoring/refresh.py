"""Taking edits of a patched tree back into its series, and hunks back to their lines."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from pkgtools.authoring.applied import AppliedPatch, PatchedSource, applied_on, patches_of
from pkgtools.authoring.edits import Edits, edits_of
from pkgtools.authoring.gitdiff import FileChange
from pkgtools.authoring.shared import SharedEdit, edit_shared, targets_of
from pkgtools.authoring.work import SeriesWork
from pkgtools.blob import Blob
from pkgtools.catalog.listing import SeriesFile
from pkgtools.catalog.series import LISTING, reference_of
from pkgtools.errors import CheckFailedError, UsageError
from pkgtools.patch import Patch
from pkgtools.source import Tree
from pkgtools.util.files import read_text


class EditedShared(msgspec.Struct, frozen=True):
    """A shared patch that took an edit."""

    patch: str
    """What a ``series`` file names it."""
    files: list[str]
    """The files that were written."""
    targets: list[str]
    """The other targets that it changes."""


class Refreshed(msgspec.Struct):
    """The patches that were written, and those that were not."""

    series: str
    rewritten: list[str]
    unchanged: list[str]
    shared: list[EditedShared]
    """The shared patches among `rewritten`."""
    beyond: list[str]
    """Files that the tree has otherwise and no patch of the series changes."""


def refresh_series(
    work: SeriesWork, tree: Tree | None = None, into: str | None = None
) -> Refreshed:
    """Write the edits of a tree into its series, and correct the lines of hunks.

    A patch that neither moved nor was edited keeps its bytes. A shared patch serves other
    revisions too: only an edit changes it, and only the hunks that it touches.

    Args:
        work: a series that applies to its source.
        tree: patched with the series and then edited; its touched files are taken.
        into: the patch that takes the edits; by default the last one that touches the file.
    """
    named, source = work.named, work.source
    with work.locked(tree):
        series = named.load()
        before = applied_on(series.patches, source)
        if into is not None and into not in {each.patch.name for each in before}:
            raise UsageError(
                f"{series.directory} has no patch {into!r}",
                remedy=f"name one of: {', '.join(each.patch.name for each in before)}",
            )
        found = edits_of(series, work, tree, beyond=False) if tree else Edits((), (), ())
        after, beyond = _with_edits(before, found, into)
        kept = [_real(each) for each in after]
        edits = _shared_edits(before, after, source.read)
        after = [
            AppliedPatch(
                edits[each.patch.name].patch if each.patch.name in edits else each.patch, changes
            )
            for each, changes in zip(after, kept, strict=True)
        ]
        was = {each.patch.name: each.patch for each in before}
        patches = patches_of(after, source)
        rewritten = [patch for patch in patches if patch.data != was[patch.name].data]
        writes = _writes(named.directory, rewritten, was)
        for edit in edits.values():
            writes |= edit.files
        work.write(writes)
    return Refreshed(
        str(series.directory),
        [patch.name for patch in rewritten],
        [patch.name for patch in patches if patch not in rewritten],
        [edited_shared(work, e.patch, e.files) for e in edits.values()],
        sorted(beyond),
    )


def _with_edits(
    before: Sequence[AppliedPatch], found: Edits, into: str | None
) -> tuple[Sequence[AppliedPatch], set[str]]:
    """Return the patches with the edits of their files, and the other edited files."""
    made = {change.path for each in before for change in each.changes}
    beyond = {*(change.path for change in found.changes), *found.uncertain} - made
    after = before
    for change in found.changes:
        if change.path in made:
            after = _fold(after, change, into)
    return after, beyond


def _shared_edits(
    before: Sequence[AppliedPatch],
    after: Sequence[AppliedPatch],
    source: Callable[[str], Blob | None],
) -> dict[str, SharedEdit]:
    patched = PatchedSource(source)
    edits = {}
    for old, new in zip(before, after, strict=True):
        changes = zip(old.changes, new.changes, strict=True)
        edited = [after for before, after in changes if before != after]
        patch = old.patch
        if edited and patch.is_shared and patch.path is not None:
            edits[patch.name] = edit_shared(patch, patch.path, edited, patched.read)
        patched.add(new.changes)
    return edits


def _writes(
    directory: Path, rewritten: Sequence[Patch], was: Mapping[str, Patch]
) -> dict[Path, Blob | None]:
    """Return the series' own files to write: `edit_shared` has those of shared patches."""
    file = listed = SeriesFile.parse(read_text(directory / LISTING))
    writes: dict[Path, Blob | None] = {}
    for patch in rewritten:
        file = file.at_level(patch.name, patch)
        if not was[patch.name].is_shared:
            writes[directory / patch.name] = Blob(patch.data)
        elif not patch.is_shared:
            raise CheckFailedError(
                f"{reference_of(was[patch.name])}: the edited patch does not make the edited files",
                remedy="report this, with the patch: it is a bug of pkgtools",
            )
    if file != listed:
        writes[directory / LISTING] = Blob(file.text().encode())
    return writes


def edited_shared(work: SeriesWork, patch: Patch, files: Iterable[Path]) -> EditedShared:
    """Return what to report of a shared patch that took an edit."""
    others = [name for name in targets_of(work.catalog, patch) if name != work.named.source]
    return EditedShared(reference_of(patch), [str(path) for path in files], others)


def _real(applied: AppliedPatch) -> tuple[FileChange, ...]:
    """Return the changes without those that an edit undid."""
    kept = tuple(c for c in applied.changes if c.before != c.after or c.old_path != c.path)
    if applied.changes and not kept:
        name = applied.patch.name
        raise UsageError(
            f"{name}: the edits undo all of it",
            remedy=f"`pkgtools drop {name}`; if the tree is not patched, apply the series first",
        )
    return kept


def _fold(
    applied: Sequence[AppliedPatch], edit: FileChange, into: str | None
) -> list[AppliedPatch]:
    *_, last = (each for each in applied if edit.path in {c.path for c in each.changes})
    if into not in (None, last.patch.name):
        name = last.patch.name
        raise UsageError(
            f"{name} is the last patch that changes {edit.path}, so only it can take the edit",
            remedy=f"refresh with --patch {name}",
        )
    changes = (replace(c, after=edit.after) if c.path == edit.path else c for c in last.changes)
    folded = replace(last, changes=tuple(changes))
    return [folded if each is last else each for each in applied]
