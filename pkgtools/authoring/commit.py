"""Make a series from the commits of a workbench; unedited patches keep their bytes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from pkgtools.authoring.applied import PatchedSource
from pkgtools.authoring.checkout import has_message, patch_named_in, without_trailer
from pkgtools.authoring.gitdiff import FileChange, diff_text, patch_index, text_around, with_headers
from pkgtools.authoring.message import author_of, file_name, mail_head
from pkgtools.authoring.refresh import EditedShared, edited_shared
from pkgtools.authoring.shared import edit_shared
from pkgtools.authoring.work import SeriesWork, check_name
from pkgtools.authoring.workbench import MadeCommit, Workbench, read_state, write_state
from pkgtools.blob import Blob
from pkgtools.catalog import Series, load_catalog
from pkgtools.catalog.added import MESSAGE
from pkgtools.catalog.listing import SeriesFile
from pkgtools.catalog.named import named_series
from pkgtools.catalog.series import LISTING, reference_of
from pkgtools.errors import CheckFailedError, MalformedError, UsageError
from pkgtools.patch import Patch, parse_patch
from pkgtools.plan import plan_series
from pkgtools.util.files import read_text
from pkgtools.util.progress import Reporter

_NUMBER: Final = re.compile(r"(\d+)-")


class CommitOutcome(StrEnum):
    """The outcome for one patch."""

    UNCHANGED = "unchanged"
    EDITED = "edited"
    NEW = "new"


class CommittedPatch(msgspec.Struct, frozen=True):
    """A patch of the series as it is now."""

    patch: str
    """What the ``series`` file names it."""
    outcome: CommitOutcome
    commit: str
    was: str | None = None
    """Its earlier name, if it differs."""


class Committed(msgspec.Struct, frozen=True):
    """What `commit_series` wrote."""

    series: str
    changed: bool
    """Whether the series changed and needs `pkgtools lock`."""
    patches: list[CommittedPatch]
    dropped: list[str]
    empty: list[str]
    """The subjects of commits that change nothing; they give no patch."""
    shared: list[EditedShared]
    """The shared patches that were edited, and the other targets that this changes."""


@dataclass(frozen=True)
class _CommitEntry:
    """A commit, and the patch that it becomes."""

    commit: MadeCommit
    old: Patch | None
    patch: Patch
    files: Mapping[Path, Blob | None]
    """The files to write; empty if the patch keeps its bytes and name."""

    @property
    def reference(self) -> str:
        return reference_of(self.patch)

    @property
    def was(self) -> str | None:
        """The earlier name of the patch, if it differs."""
        return self.old.name if self.old and self.old.name != self.patch.name else None

    @property
    def outcome(self) -> CommitOutcome:
        if self.old is None:
            return CommitOutcome.NEW
        is_edited = self.files and self.old.data != self.patch.data
        return CommitOutcome.EDITED if is_edited else CommitOutcome.UNCHANGED


def commit_series(folder: Path, reporter: Reporter) -> tuple[SeriesWork, Committed]:
    """Write the commits of a workbench into the series that it was made of: all files, or none."""
    state = read_state(folder)
    bench = Workbench(folder, state.base)
    path = Path(state.catalog)
    if not path.is_file():
        raise UsageError(
            f"{folder} was made from {path}, which is gone",
            remedy="move the catalog back, or check the series out again to another folder",
        )
    catalog = load_catalog(path)
    work = SeriesWork(catalog, named_series(catalog, state.series), reporter, bench)
    with work.locked():
        series = work.named.load()
        if series.digest not in state.digests:
            raise UsageError(
                f"{series.directory} changed since it was checked out to {folder}",
                remedy="check it out again to another folder, and carry the commits over with "
                "git cherry-pick",
            )
        commits = bench.commits()
        names = _names_of(commits, state.names)
        patched = PatchedSource(bench.read)
        reader = _CommitReader(work, series, names, state.from_wheel, patched)
        entries = [reader.take(commit) for commit in commits if commit.changes]
        dropped = [patch for patch in series.patches if patch.name not in reader.taken]
        renamed = [entry.old for entry in entries if entry.old and entry.was]
        gone = [patch for patch in (*dropped, *renamed) if not patch.is_shared]
        work.refuse_absorbed(gone)
        now = replace(series, patches=tuple(entry.patch for entry in entries))
        state.names = {e.commit.id: e.patch.name for e in entries}
        # Killed between the two states, the next run finds one of the two series.
        state.digests = [series.digest, now.digest]
        write_state(folder, state)
        work.write(_writes(series, entries, gone))
        state.digests = [work.named.load().digest]
        write_state(folder, state)
    edited = [entry for entry in entries if entry.patch.is_shared and entry.files]
    return work, Committed(
        series=str(series.directory),
        changed=series.digest not in state.digests,
        patches=[CommittedPatch(e.reference, e.outcome, e.commit.id, e.was) for e in entries],
        dropped=[reference_of(patch) for patch in dropped],
        empty=[commit.subject for commit in commits if not commit.changes],
        shared=[edited_shared(work, entry.patch, entry.files) for entry in edited],
    )


def _names_of(commits: Sequence[MadeCommit], saved: Mapping[str, str]) -> dict[str, str | None]:
    """Return what each commit calls its patch.

    The parts of a commit that was split have the same `Patch-Filename`: the first one keeps it.
    """
    names: dict[str, str | None] = {}
    for commit in commits:
        if commit.changes:
            said = (patch_named_in(commit.message), saved.get(commit.id))
            names[commit.id] = next((n for n in said if n and n not in names.values()), None)
    return names


@dataclass
class _CommitReader:
    """Takes one commit after the other, each on the files of the ones before it."""

    work: SeriesWork
    series: Series
    names: Mapping[str, str | None]
    from_wheel: bool
    patched: PatchedSource
    taken: set[str] = field(default_factory=set)
    """The names of the patches that have their commit."""
    made: set[str] = field(default_factory=set)
    """The names of the patches of the commits that were read."""

    def take(self, commit: MadeCommit) -> _CommitEntry:
        self._refuse_outside(commit)
        old = self._patch_of(commit)
        entry = self._entry(commit, old, self.names[commit.id])
        self.taken |= {old.name} if old else set()
        self.made.add(entry.patch.name)
        self.patched.add(commit.file_changes)
        return entry

    def _refuse_outside(self, commit: MadeCommit) -> None:
        upstream = self.work.named.upstream
        outside = [
            path
            for path in commit.changes
            if upstream.installed_path(path) is None and path not in self.series.paths
        ]
        if self.from_wheel and outside:
            raise UsageError(
                f"{commit.subject!r} changes what no wheel of {upstream.name} has: "
                f"{', '.join(outside)}",
                remedy="take these files out of the commit, or check the series out of a "
                "repository: --git REPOSITORY --from its tag or commit",
            )

    def _patch_of(self, commit: MadeCommit) -> Patch | None:
        """Return the patch of a commit: by its name, else by its message or its changes."""
        known = {patch.name: patch for patch in self.series.patches}
        name = self.names[commit.id]
        if name in known:
            return known[name] if name not in self.taken else None
        free = known.keys() - self.taken - set(self.names.values())
        candidates = (patch for name, patch in known.items() if name in free)
        same = (p for p in candidates if has_message(p, commit.message) or self._makes(p, commit))
        return next(same, None)

    def _makes(self, patch: Patch, commit: MadeCommit) -> bool:
        plan = plan_series([patch], self.patched.read)
        if not plan.ok:
            return False
        made = {c.path: (c.before, c.after) for c in plan.changes if c.before != c.after}
        return made == commit.changes

    def _entry(self, commit: MadeCommit, old: Patch | None, name: str | None) -> _CommitEntry:
        directory = self.series.directory
        if old is None:
            name = check_name(name or self._new_name(commit))
            patch = self._checked(commit, name, _mail(commit) + _diff(commit, full_index=True))
            return _CommitEntry(commit, None, patch, {directory / name: Blob(patch.data)})
        same_text = _is_same_text(old, commit)
        same_files = self._makes(old, commit)
        name = check_name(name or old.name) if not old.is_shared else old.name
        if same_text and same_files and name == old.name:
            return _CommitEntry(commit, old, old, {})
        if old.is_shared:
            return self._shared_entry(commit, old, same_text=same_text, same_files=same_files)
        data = old.data
        if not same_text or not same_files:
            head, tail = text_around(old)
            diff = old.text[len(head) : len(old.text) - len(tail)]
            if not same_files:
                diff = _diff(commit, full_index=patch_index(old))
            data = with_headers(old, diff) if same_text else _mail(commit) + diff + tail
        level = old.level if same_files else None  # the diff is as it was
        patch = self._checked(commit, name, data, level)
        return _CommitEntry(commit, old, patch, {directory / name: Blob(data)})

    def _shared_entry(
        self, commit: MadeCommit, old: Patch, *, same_text: bool, same_files: bool
    ) -> _CommitEntry:
        path = old.path
        assert path is not None  # noqa: S101 - a shared patch is read from a file
        files: dict[Path, Blob | None] = {}
        patch = old
        if not same_files:
            self._refuse_other_files(commit, old)
            read = self.patched.read
            edited = []
            for change in plan_series([old], read).changes:
                _, after = commit.changes.get(change.path, (None, change.before))
                if after != change.after:
                    edited.append(FileChange(change.path, change.path, change.before, after))
            edit = edit_shared(old, path, edited, read)
            patch, files = edit.patch, dict(edit.files)
        if not same_text:
            if path.is_dir():
                files[path / MESSAGE] = Blob(without_trailer(commit.message).encode())
            else:
                head, _ = text_around(patch)
                data = _mail(commit) + patch.text[len(head) :]
                files[path] = Blob(data)
                patch = replace(parse_patch(old.name, data), path=path, is_shared=True)
        if not self._makes(patch, commit):
            raise CheckFailedError(
                f"{reference_of(old)}: the edited patch does not make the files of the commit",
                remedy="put the edit into a commit of its own",
            )
        return _CommitEntry(commit, old, patch, files)

    def _refuse_other_files(self, commit: MadeCommit, old: Patch) -> None:
        more = sorted(commit.changes.keys() - old.paths)
        if more:
            raise UsageError(
                f"{reference_of(old)} is shared by several series, and its commit changes other "
                f"files too: {', '.join(more)}",
                remedy="put these files into a commit of their own",
            )

    def _checked(
        self, commit: MadeCommit, name: str, data: bytes, level: int | None = None
    ) -> Patch:
        try:
            patch = parse_patch(name, data, level)
        except MalformedError as error:
            raise UsageError(
                f"the commit {commit.subject!r} cannot be a patch: {error.message}",
                remedy="reword lines of its message that look like a diff, and rename files whose "
                "names are refused: git commit --amend, or git rebase -i base",
            ) from None
        if not self._makes(patch, commit):
            raise CheckFailedError(
                f"{name}: the patch that was written does not make the commit",
                remedy="report this, with the patch: it is a bug of pkgtools",
            )
        return patch

    def _new_name(self, commit: MadeCommit) -> str:
        """Return a name that is free, with a number where every patch of the series has one."""
        own = [patch.name for patch in self.series.patches if not patch.is_shared]
        taken = {patch.name for patch in self.series.patches} | self.made
        taken |= set(filter(None, self.names.values()))
        numbers = [int(match[1]) for name in taken if (match := _NUMBER.match(name))]
        name = file_name(commit.subject)
        if own and all(map(_NUMBER.match, own)):
            return f"{max(numbers) + 1:04}-{name}"
        stem, number = name.removesuffix(".patch"), 2
        while name in taken:
            name, number = f"{stem}-{number}.patch", number + 1
        return name


def _is_same_text(patch: Patch, commit: MadeCommit) -> bool:
    """Whether message, author and date of a commit are still those of its patch."""
    author = author_of(patch)
    same = (author.mailbox, author.date) == (commit.author, commit.date)
    return same and has_message(patch, commit.message)


def _mail(commit: MadeCommit) -> bytes:
    return mail_head(commit.author, without_trailer(commit.message), commit.mail_date)


def _diff(commit: MadeCommit, *, full_index: bool) -> bytes:
    return diff_text(commit.file_changes, full_index=full_index, find_renames=True)


def _writes(
    series: Series, entries: Sequence[_CommitEntry], gone: Sequence[Patch]
) -> dict[Path, Blob | None]:
    """Return every file to write: what goes first, as another patch may take its name."""
    listing = series.directory / LISTING
    file = SeriesFile.parse(read_text(listing)).ordered(
        [(reference_of(e.old) if e.old else None, e.reference) for e in entries]
    )
    writes: dict[Path, Blob | None] = {series.directory / patch.name: None for patch in gone}
    for entry in entries:
        if entry.files and not entry.patch.is_shared:
            file = file.at_level(entry.reference, entry.patch)
        writes |= entry.files
    return writes | {listing: Blob(file.text().encode())}
