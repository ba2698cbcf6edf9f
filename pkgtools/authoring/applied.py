"""Apply the patches of a series to a source one by one, and make patches from the result."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pkgtools.authoring.gitdiff import FileChange, patch_text
from pkgtools.blob import Blob
from pkgtools.errors import CheckFailedError, DoesNotApplyError
from pkgtools.patch import Kind, Patch, parse_patch
from pkgtools.plan import Plan, plan_series
from pkgtools.source import Source
from pkgtools.source.wheel import all_outside_named
from pkgtools.tree.check import Refusal


@dataclass(frozen=True)
class AppliedPatch:
    """One patch on one source."""

    patch: Patch
    """The patch before a port or an edit."""
    changes: tuple[FileChange, ...]


class PatchedSource:
    """A source with the changes of some patches on top."""

    def __init__(self, read: Callable[[str], Blob | None]) -> None:
        self._read = read
        self._changed: dict[str, Blob | None] = {}

    def read(self, path: str) -> Blob | None:
        """Return the content of `path` after the changes."""
        return self._changed[path] if path in self._changed else self._read(path)

    def add(self, changes: Iterable[FileChange]) -> None:
        """Add the changes of one patch."""
        changes = list(changes)
        # The old names go first: two renames can swap two names.
        self._changed |= {change.old_path: None for change in changes}
        self._changed |= {change.path: change.after for change in changes}


def refuse_misfit(patches: Sequence[Patch], source: Source) -> Plan:
    """Return the plan of patches on a source; raise if one does not apply."""
    with all_outside_named(source, {path for patch in patches for path in patch.paths}):
        plan = plan_series(patches, source.read)
    if not plan.ok:
        hunks = sum(len(file.hunks) or 1 for patch in patches for file in patch.files)
        absorbed = [rejection for rejection in plan.rejections if rejection.absorbed]
        if len(absorbed) == hunks:
            raise DoesNotApplyError(
                f"{source.label} has every change of the series already",
                remedy="give the source without it with --from, such as the release",
            )
        raise DoesNotApplyError(
            f"the series does not apply to {source.label}",
            remedy="give the source that it is for with --from, or port the series to this one",
            details=Refusal("", source.label, None, plan.rejections),
        )
    return plan


def applied_on(patches: Sequence[Patch], source: Source) -> list[AppliedPatch]:
    """Return what each patch does to a source; a `DoesNotApplyError` where one does not apply."""
    refuse_misfit(patches, source)
    patched = PatchedSource(source.read)
    applied = []
    for patch in patches:
        done = {c.path: c for c in plan_series([patch], patched.read).changes}
        renamed = {f.new_path: f.old_path for f in patch.files if f.kind is Kind.RENAME}
        taken = {old for new, old in renamed.items() if new in done and old in done}
        changes = []
        for path, change in done.items():
            old = renamed.get(path)
            if path in taken and change.after is None:
                continue  # the change at the new path has both halves of the rename
            before = done[old].before if old in done and old is not None else change.before
            changes.append(FileChange(old or path, path, before, change.after))
        applied.append(AppliedPatch(patch, tuple(changes)))
        patched.add(changes)
    return applied


def patches_of(applied: Sequence[AppliedPatch], source: Source) -> list[Patch]:
    """Return the patches that make `applied`; a patch that still fits stays as it is.

    A patch of the series itself fits where its headers name the right lines. A shared patch
    serves several revisions, so its hunks may be at other lines.
    """
    patched = PatchedSource(source.read)
    written = []
    for each in applied:
        if not each.changes:
            continue
        patch = each.patch
        if not _fits(each, patch, patched.read, moved=patch.is_shared):
            patch = parse_patch(patch.name, patch_text(patch, each.changes))
            if not _fits(each, patch, patched.read):
                raise CheckFailedError(
                    f"{each.patch.name}: the patch that was written does not make the ported files",
                    remedy="report this, with the patch: it is a bug of pkgtools",
                )
        written.append(patch)
        patched.add(each.changes)
    return written


def _fits(
    applied: AppliedPatch, patch: Patch, read: Callable[[str], Blob | None], *, moved: bool = False
) -> bool:
    """Whether a patch makes the files of `applied`, with each hunk in place unless `moved`."""
    plan = plan_series([patch], read)
    offsets = [p.offset for step in plan.steps for p in step.placements]
    if not plan.ok or (any(offsets) and not moved):
        return False
    made = {change.path: change.after for change in plan.changes}
    wanted: dict[str, Blob | None] = {c.path: c.after for c in applied.changes}
    wanted |= {c.old_path: None for c in applied.changes if c.old_path not in wanted}
    return made == wanted
