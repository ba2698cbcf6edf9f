"""What a source is, decided from blob ids.

A tree is held against every locked revision of every target. Nothing else counts: not a label,
not whether a patch happens to apply. A version only tells apart what the files leave open.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final

from pkgtools.blob import EXECUTABLE, REGULAR, Blob
from pkgtools.catalog import Catalog, LockedFile, Target
from pkgtools.errors import DoesNotApplyError, ForeignError, MalformedError, UsageError
from pkgtools.source import Source
from pkgtools.tree.release import is_release, said

_FAR: Final = 2**31


class State(StrEnum):
    """What a tree is to one revision of one target."""

    PRISTINE = "pristine"
    PATCHED = "patched"
    PARTIAL = "partial"
    FOREIGN = "foreign"
    MISSING = "missing"


@dataclass(frozen=True)
class FileState:
    """One touched file of a tree."""

    path: str
    state: State
    """PARTIAL where it is a step in the middle of the series, MISSING where it is not there."""
    found: str
    """The id that is there; empty where there is no file."""
    before: str
    after: str
    patches: tuple[str, ...]
    """Which patches of the series it holds; empty unless PATCHED or PARTIAL, and where that
    series is an older one."""
    crlf: bool = False
    """Whether only the line ends differ from a known state."""


@dataclass(frozen=True)
class Identity:
    """What a source is: the answer of one locked revision of one target."""

    target: str
    revision: str
    """A commit or a version."""
    state: State
    files: tuple[FileState, ...]
    by_version: bool | None = None
    """Whether the package's version is that of the revision; None where it says nothing."""

    @property
    def differing(self) -> tuple[FileState, ...]:
        """The files that are in no state which the lock knows."""
        return tuple(f for f in self.files if f.state in (State.FOREIGN, State.MISSING))

    @property
    def is_known(self) -> bool:
        """Whether the source is this revision: pristine, patched or partial."""
        return self.state not in (State.FOREIGN, State.MISSING)

    @property
    def left_behind(self) -> tuple[FileState, ...]:
        """The files that the series adds, where these alone are in the tree, exactly.

        `git checkout --force`, `git reset --hard` and `git stash` leave them, as untracked.
        """
        added = tuple(f for f in self.files if f.state is State.PATCHED and not f.before)
        others = (file for file in self.files if file not in added)
        is_left = self.state is State.PARTIAL and all(f.found == f.before for f in others)
        return added if is_left else ()

    @property
    def is_patched(self) -> bool:
        """Whether every patch is in it; a series without patches has nothing to be in."""
        return self.state is State.PATCHED or (self.state is State.PRISTINE and not self.files)

    @property
    def distance(self) -> tuple[int, int]:
        """How far the tree is from the revision, to find the nearest.

        The number of files that differ, those that differ by line ends only last.
        """
        if not self.files:  # only the version differs: a target with files says more
            return _FAR, _FAR
        return sum(not file.crlf for file in self.differing), len(self.differing)


def entry_id(blob: Blob | None, *, with_mode: bool) -> str:
    """Return what a lock writes for a path's content.

    A symbolic link or a folder always has its mode: its id alone is that of a file too.
    """
    if blob is None:
        return ""
    is_file = blob.mode in (REGULAR, EXECUTABLE)
    return f"{blob.mode:o}:{blob.id}" if with_mode or not is_file else blob.id


def match_all(targets: Iterable[Target], source: Source) -> list[Identity]:
    """Hold a source against every locked revision of `targets`, the best match first.

    Targets of another upstream than the source's are passed over. Reads each
    touched path once. The order: patched, pristine, partial, then by distance.
    """
    read = cache(source.read)
    matches: list[Identity] = []
    for target in targets:
        if source.upstream in (None, target.upstream):
            with contextlib.suppress(DoesNotApplyError):  # its series fits a checkout only
                matches += list(_matches(target, source, read))
    return sorted(matches, key=_rank)


def identify(catalog: Catalog, source: Source) -> tuple[Identity, ...]:
    """Return every revision that `source` is; for a foreign one the nearest.

    Several have the same touched files: then those that the source says it is, if it does.
    """
    found = match_all(catalog.sound_targets, source)
    if not found:
        problems = list(catalog.problems.values())
        raise ForeignError(
            f"no target of {catalog.path} can be compared with {source.label}"
            + "".join(f"\n  {problem.message}" for problem in problems),
            remedy=problems[0].remedy
            if len(problems) == 1
            else "see what each needs: `pkgtools targets`",
        )
    same = [each for each in found if each.state is found[0].state]
    return tuple(said(catalog, same, source)) if found[0].is_known else (found[0],)


def _matches(
    target: Target, source: Source, read: Callable[[str], Blob | None]
) -> Iterator[Identity]:
    names = {revision.name for revision in target.revisions}
    for revision in target.lock.revision:
        if revision.name in names:  # two targets may share one series and its lock
            files = tuple(_file_state(file, read(file.path)) for file in revision.file)
            by_version = is_release(getattr(source, "version", None), revision.release)
            # A series without patches has no file that could tell.
            state = State.FOREIGN if by_version is False else State.PRISTINE
            state = _whole(files) if files else state
            yield Identity(target.name, revision.name, state, files, by_version)


def _rank(match: Identity) -> tuple[int, tuple[int, int], bool]:
    ranks = {State.PATCHED: 0, State.PRISTINE: 1, State.PARTIAL: 2}
    return ranks.get(match.state, len(ranks)), match.distance, match.by_version is False


def match_target(target: Target, source: Source) -> list[Identity]:
    """Hold a source against every locked revision of one target, the best match first.

    Raises:
        MalformedError: the target was never proven.
        UsageError: the source is another upstream's.
        DoesNotApplyError: the series touches what only a source checkout has.
    """
    if source.upstream not in (None, target.upstream):
        raise UsageError(
            f"{source.label} is not {target.upstream.name}, whose target {target.name} is"
        )
    matches = sorted(_matches(target, source, cache(source.read)), key=_rank)
    if not matches:
        raise MalformedError(
            f"{target.lock_path} has no revision of {target.name}: it was never proven",
            remedy=f"prove it with `pkgtools lock --target {target.name}`",
        )
    return matches


def revisions_of(matches: Iterable[Identity], state: State) -> tuple[str, ...]:
    """Return the revisions whose state a source has, without those that it says it is not."""
    found = [match for match in matches if match.state is state]
    said = [match for match in found if match.by_version is not False]
    return tuple(match.revision for match in said or found)


def _file_state(file: LockedFile, blob: Blob | None) -> FileState:
    found = entry_id(blob, with_mode=file.has_mode)
    chain = file.chain
    state, crlf = State.FOREIGN, False
    patches: tuple[str, ...] = ()
    if found == file.after:
        state, patches = State.PATCHED, tuple(file.patches)
    elif found == file.before:
        state = State.PRISTINE
    elif found in chain:
        state, patches = State.PARTIAL, tuple(file.patches[: chain.index(found)])
    elif blob is None:
        state = State.MISSING
    elif b"\r\n" in blob.data:
        # core.autocrlf, or a copy through Windows: worth its own remedy.
        unix = Blob(blob.data.replace(b"\r\n", b"\n"), blob.mode)
        crlf = entry_id(unix, with_mode=file.has_mode) in chain
    return FileState(
        path=file.path,
        state=state,
        found=found,
        before=file.before,
        after=file.after,
        patches=patches,
        crlf=crlf,
    )


def _whole(files: tuple[FileState, ...]) -> State:
    # A file that the series leaves unchanged cannot tell whether the series is applied.
    telling = [file for file in files if not file.found == file.before == file.after]
    states = {file.state for file in telling or files}
    if len(states) == 1:
        return states.pop()
    if State.FOREIGN in states or State.MISSING in states:
        return State.FOREIGN
    return State.PARTIAL
