"""Porting a series from one source to the next, patch after patch."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from pkgtools.authoring.applied import AppliedPatch
from pkgtools.authoring.gitdiff import FileChange
from pkgtools.blob import Blob
from pkgtools.catalog import Upstream
from pkgtools.merge import Merge, merge_removed
from pkgtools.merge.checks.faults import misuse_of_file
from pkgtools.merge.markers import Markers
from pkgtools.merge.proposals import likely_content
from pkgtools.merge.syntax.blocks import is_sound, parse
from pkgtools.merge.syntax.modules import Module
from pkgtools.port.ahead import Ahead
from pkgtools.port.memory import CheckedFile, StepMemory
from pkgtools.port.model import (
    ConflictedFile,
    Decision,
    HunkOutcome,
    HunkReport,
    PatchReport,
    StepReport,
)
from pkgtools.port.outcomes import (
    combined,
    compile_all,
    decided,
    describe,
    digest_of,
    is_text,
    marked_file,
    markers_in,
    mode_of,
    whole_file,
    worst,
)
from pkgtools.port.patched import FileMerge, FileUpdate, PatchedFiles
from pkgtools.port.upstream import Movement
from pkgtools.source import Source

Decide = Callable[[ConflictedFile], Decision | None]
_Ported = tuple[list[FileChange], list[HunkReport]]
_DEFINITION: Final = re.compile(
    rb"^(?:@|async |class |def )[^\n]*\n(?:(?:[ \t)\]}][^\n]*)?\n)*", re.MULTILINE
)
"""A function or class of a module: most of the text, and its imports do not count.

The trees of what is outside of them take 0.04 s for 55 files of SGLang, of whole files 0.35 s, and
the process that merges ahead waits for the order of the files.
"""


@dataclass(eq=False)
class PortStep:
    """The state of one step."""

    number: int
    old: Source
    new: Source
    upstream: Upstream
    decide: Decide
    """Returns what a person made of a conflict; None for an open conflict."""
    files: PatchedFiles = field(init=False)
    moved: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)
    """Paths with a conflict, and the patch that has it."""
    conflicts: list[ConflictedFile] = field(default_factory=list)
    memory: StepMemory = field(default_factory=StepMemory)
    ahead: Ahead = field(default_factory=Ahead)
    _changed: set[str] = field(default_factory=set)
    """Patched files that are not what they were in the old source."""
    _imports: dict[str, list[str]] = field(default_factory=dict)
    """The files that each patched file imports."""
    _coming: dict[str, list[int]] = field(default_factory=dict)
    """The numbers of each file's changes that are not ported yet."""

    def __post_init__(self) -> None:
        old = self.memory.listing(self.old, self.upstream)
        new = self.memory.listing(self.new, self.upstream)
        self.files = PatchedFiles(Movement(old, new, self.upstream), self.upstream)
        self.ahead.follow(self.files)

    def run(
        self, patches: Sequence[AppliedPatch], before: StepReport | None = None
    ) -> tuple[list[AppliedPatch], StepReport]:
        """Return the patches on the new source, and what became of each.

        Args:
            patches: those on the old source.
            before: the step before this one; a patch of which it left nothing stays what it was.

        """
        known = {p.patch: p.outcome for p in before.patches} if before else {}
        ported, reports = [], []
        orders = [[*self._users_last(applied.changes)] for applied in patches]
        self.files.changes = [*chain.from_iterable(orders)]
        for number, change in enumerate(self.files.changes):
            self._coming.setdefault(change.old_path, []).append(number)
        for path in self._coming:
            self._ask_ahead(path)
        for applied, order in zip(patches, orders, strict=True):
            done: dict[str, _Ported] = {}
            self.files.start_patch(applied.changes)
            for change in order:
                made, found = self._unchanged(applied, change) or self._port_file(applied, change)
                if made != [change]:
                    self._changed |= {p for c in (*made, change) for p in (c.old_path, c.path)}
                done[change.path] = made, found
                self.files.go_on()
                self._coming[change.old_path].pop(0)
                self._ask_ahead(change.old_path)
            changes = combined([c for change in applied.changes for c in done[change.path][0]])
            hunks = [h for change in applied.changes for h in done[change.path][1]]
            ported.append(AppliedPatch(applied.patch, tuple(changes)))
            outcome = known.get(applied.patch.name) if not applied.changes else None
            outcome = outcome or worst(hunks, changes)
            reports.append(PatchReport(applied.patch.name, outcome, tuple(hunks)))
        return ported, StepReport(self.old.label, self.new.label, tuple(reports))

    def _ask_ahead(self, path: str) -> None:
        """Have the next merge of a file made ahead, or tell what upstream left as it was."""
        number, theirs = next(iter(self._coming[path]), None), self.files.read(path)
        if number is None or path in self.waiting:
            return
        change = self.files.changes[number]
        before, after = change.before, change.after
        if before == theirs:
            self.files.made[number] = [FileUpdate(change.path, after)]
        elif before and after and theirs and path.endswith(".py") and before.data != theirs.data:
            sides = before.data, after.data, theirs.data
            self.ahead.ask(FileMerge(number, self._needs(number), change, path, change.path, sides))

    def _needs(self, number: int) -> frozenset[int]:
        """Return the changes before one of the files that its file imports."""
        imported = {*self._imports.get(self.files.changes[number].path, ())}
        earlier = enumerate(self.files.changes[:number])
        return frozenset(n for n, change in earlier if change.path in imported)

    def _users_last(self, changes: Sequence[FileChange]) -> Iterator[FileChange]:
        """Yield the files of a patch, each behind those that it imports.

        The check of a file then sees what the patch adds to the modules that the file uses.
        """
        if any(change.old_path != change.path for change in changes):
            yield from changes  # names can be exchanged: the order of the patch is right
            return
        left = {change.path: change for change in changes}

        def visit(change: FileChange) -> Iterator[FileChange]:
            del left[change.path]
            self._imports[change.path] = self._imported(change)
            for path in self._imports[change.path]:
                if path in left:
                    yield from visit(left[path])
            yield change

        for change in changes:
            if change.path in left:
                yield from visit(change)

    def _imported(self, change: FileChange) -> list[str]:
        """Return where the modules can be that a file imports."""
        if change.after is None or not change.path.endswith(".py"):
            return []
        outside = parse(_DEFINITION.sub(b"", change.after.data))
        root = (outside if is_sound(outside) else parse(change.after.data)).raw[0]
        module = Module(root, self.files.package_of(change.path), self.files.old_module)
        names = module.imports.values()
        dotted = [d for name, inner in names for d in (name, f"{name}.{inner.decode()}")]
        return [path for name in dotted for path in self.files.paths_of(name)]

    def _unchanged(self, applied: AppliedPatch, change: FileChange) -> _Ported | None:
        """Return a file as it was, if upstream changed neither it nor what its check looks at."""
        if self.waiting or change.old_path in self.moved or change.path != change.old_path:
            return None
        if self.files.read(change.path) != change.before:
            return None
        key = applied.patch.name, change
        checked = self.memory.checked.get(key)
        if checked is None:
            self.files.looked = CheckedFile()
            made, reports = self._port_file(applied, change)
            self.files.looked.reports = tuple(reports)
            if made == [change] and self._is_quiet(change, self.files.looked):
                self.memory.checked[key] = self.files.looked
            return made, reports
        if not self._is_quiet(change, checked):
            return None
        self.files.write(change.path, change.path, change.after)
        return [change], [*checked.reports]

    def _is_quiet(self, change: FileChange, checked: CheckedFile) -> bool:
        """Whether nothing has changed of what a check looked at."""
        changed = self.files.movement.changed | self._changed
        is_same = changed.isdisjoint(checked.paths | checked.listed)
        outcomes = {report.outcome for report in checked.reports}
        return (
            is_same
            and outcomes <= {HunkOutcome.UNCHANGED}
            and self.files.movement.defined(change.path).isdisjoint(checked.names)
        )

    def _port_file(self, applied: AppliedPatch, change: FileChange) -> _Ported:
        old_path = self._place(change)
        path = old_path if change.path == change.old_path else change.path
        if change.path != change.old_path:
            to = f"the patch renames the file to {change.path}, and upstream"
            reason = f"{to} to {old_path}" if old_path not in (change.old_path, path) else None
            reason = reason or self._used(change.old_path)
            if reason:
                return self._leave(applied, change, path, whole_file(change, reason))
        waits = self.waiting.get(path) or self.waiting.get(old_path)
        if waits:
            reason = f"{waits} has a conflict in this file"
            return [change], [HunkReport(change.path, HunkOutcome.BLOCKED, reason=reason)]
        theirs = self.files.read_theirs(old_path)
        if change.before is None or change.after is None:
            return self._port_whole(applied, change, path, theirs)
        if theirs is None:
            return self._follow(applied, change, path)
        if not is_text(change.before, change.after, theirs):
            if theirs == change.before:
                return self._take(change, old_path, path, change.after, HunkOutcome.UNCHANGED)
            reason = "upstream changed a binary file"
            return self._leave(applied, change, path, whole_file(change, reason))
        return self._merge(applied, change, (old_path, path), theirs)

    def _place(self, change: FileChange) -> str:
        path = self.moved.get(change.old_path, change.old_path)
        if (
            change.before is None
            or self.files.is_patched(path)
            or self.files.read(path) is not None
        ):
            return path
        found = self.files.movement.file(path, change.before)
        if found is not None:
            self.moved[change.old_path] = found
        return found or path

    def _port_whole(
        self, applied: AppliedPatch, change: FileChange, path: str, theirs: Blob | None
    ) -> _Ported:
        if theirs == change.after:
            where = (f"{path}:1",) if theirs else ()
            return [], [HunkReport(change.path, HunkOutcome.ABSORBED, 1, absorbed_by=where)]
        if theirs == change.before:
            fault = self._hidden_by(path) if change.before is None else self._used(path)
            if fault is None and change.after is not None and path.endswith(".py"):
                fault = misuse_of_file(change.after.data, self.files.others(path, lambda _: None))
            if fault is None:
                return self._take(change, path, path, change.after, HunkOutcome.UNCHANGED)
            return self._leave(applied, change, path, whole_file(change, fault))
        made = "adds" if change.before is None else "removes"
        upstream = "has a file of that name" if change.before is None else "changed it"
        reason = f"the patch {made} the file, and upstream {upstream}"
        if change.after is None:
            reason += "; remove it from conflicts/ to remove it in the new source, too"
        return self._leave(applied, change, path, whole_file(change, reason))

    def _hidden_by(self, path: str) -> str | None:
        """Return that Python would import another file for a module: a package comes first."""
        stem = path.removesuffix("/__init__.py")
        other = f"{stem}.py" if stem != path else f"{path.removesuffix('.py')}/__init__.py"
        is_new = self.files.read(other) is not None and self.files.read_old(other) is None
        reason = f"upstream has {other}, which is a module of that name as well"
        return reason if is_new and path.endswith(".py") else None

    def _take(
        self, change: FileChange, old_path: str, path: str, after: Blob | None, outcome: HunkOutcome
    ) -> _Ported:
        before = self.files.read_theirs(old_path)
        self.files.write(old_path, path, after)
        return [FileChange(old_path, path, before, after)], [HunkReport(change.path, outcome, 1)]

    def _follow(self, applied: AppliedPatch, change: FileChange, path: str) -> _Ported:
        """Port a file that upstream removed to where its definitions went, or ask."""
        reason = "upstream removed the file that the patch changes"
        before, after = change.before, change.after
        if before is not None and after is not None and path.endswith(".py"):
            others = self.files.others(path, self.files.finder(path))
            merged = merge_removed(before.data, after.data, others)
            if merged is not None and not merged.conflicts:
                reports = describe(change, merged, path, renamed=False)
                return self._write_others(merged, before.mode), reports
            if merged is not None:
                reason += f"; a part of it is in {', '.join(sorted(merged.others))} now"
        return self._leave(applied, change, path, whole_file(change, reason))

    def _write_others(self, merged: Merge, mode: int) -> list[FileChange]:
        """Write the other files into which definitions moved."""
        changes = []
        for path, data in merged.others.items():
            before = self.files.read(path)
            self.files.write(path, path, Blob(data, before.mode if before else mode))
            changes.append(FileChange(path, path, before, self.files.read(path)))
        return changes

    def _merge(
        self, applied: AppliedPatch, change: FileChange, paths: tuple[str, str], theirs: Blob
    ) -> _Ported:
        assert change.before is not None  # noqa: S101 - the caller looked
        assert change.after is not None  # noqa: S101
        old_path, path = paths

        sides = change.before.data, change.after.data, theirs.data
        number = self.files.number
        file = FileMerge(number, self._needs(number), change, old_path, path, sides)
        merged = self.ahead.take(file) or self.files.merge(file)
        reports = describe(change, merged, path, renamed=old_path != change.old_path)
        beside = self._write_others(merged, theirs.mode)
        if merged.conflicts:
            made, told = self._leave(applied, change, path, reports, merged)
            return [*made, *beside], told
        is_kept = change.before.mode == change.after.mode
        after = Blob(merged.data, theirs.mode if is_kept else change.after.mode)
        self.files.write(old_path, path, after)
        return [FileChange(old_path, path, theirs, after), *beside], reports

    def _leave(
        self,
        applied: AppliedPatch,
        change: FileChange,
        path: str,
        reports: list[HunkReport],
        merged: Merge | None = None,
    ) -> _Ported:
        """Leave a file to a person, or take what a person made of it."""
        old_path = self.moved.get(change.old_path, change.old_path)
        theirs = self.files.read_theirs(old_path)
        sides = change.before, change.after, theirs
        markers = Markers(applied.patch.name, self.old.label, self.new.label)
        conflict = ConflictedFile(
            self.number,
            applied.patch.name,
            path,
            digest_of(*sides),
            marked_file(change, theirs, merged, markers),
            hunks=tuple(r for r in reports if r.outcome is HunkOutcome.CONFLICT),
            compiles=path.endswith(".py") and compile_all(change.after, theirs),
            markers=markers_in(change.after, theirs),
            is_removed=change.after is None or theirs is None,
            is_emptied=any(side is not None and not side.data for side in sides[1:]),
        )
        decision = self.decide(conflict)
        if decision is None:
            self.conflicts.append(conflict)
            likely = None
            if merged is not None and change.before and change.after:
                texts = change.before.data, change.after.data
                likely = replace(change.after, data=likely_content(*texts, merged))
            self.files.expect(path, likely)
            self.waiting[path] = applied.patch.name
            return [change], reports
        after = decision.file and replace(decision.file, mode=mode_of(decision.file, *sides))
        self.files.write(old_path, path, after)
        told = [decided(r, decision) if r.outcome is HunkOutcome.CONFLICT else r for r in reports]
        if theirs == after:
            return [], [replace(r, outcome=HunkOutcome.EMPTY) for r in told]
        return [FileChange(old_path, path, theirs, after)], told

    def _used(self, path: str) -> str | None:
        """Return that upstream begins to import a file that a patch takes away."""
        users = self.files.users(path, b"") if path.endswith(".py") else []
        return f"upstream begins to import it in {users[0]}" if users else None
