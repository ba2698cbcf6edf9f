"""Proving series on real sources, and writing their lockfiles."""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec
import tomlkit

from pkgtools.authoring.index_ids import index_notes
from pkgtools.blob import Blob
from pkgtools.catalog import (
    AbsorbedPatch,
    LockedFile,
    LockedRevision,
    LockedWheel,
    Lockfile,
    Revision,
    Target,
    load_patch,
)
from pkgtools.catalog.lock import load_lock
from pkgtools.catalog.writes import locked_catalog, write_catalog
from pkgtools.errors import (
    CheckFailedError,
    DoesNotApplyError,
    MalformedError,
    SourceUnavailableError,
)
from pkgtools.patch import Kind, Patch
from pkgtools.plan import Change, plan_series
from pkgtools.plan.explain import absorbed_at
from pkgtools.source import Source
from pkgtools.source.at_hand import AtHand
from pkgtools.source.wheel import WheelSource, all_outside_named
from pkgtools.tree.check import Refusal, refuse_broken
from pkgtools.tree.shadow import shadowed
from pkgtools.tree.state import entry_id
from pkgtools.util.files import sha256

_HEADER = """\
# Written by `pkgtools lock` from real sources; not edited by hand.
# For each revision: git's blob id of every touched file before and after.
"""


@dataclass(frozen=True)
class Proof:
    """The result for one revision of a lockfile."""

    target: str
    revision: str
    outcome: str
    """``proven``; ``unverified`` for lack of a source; ``kept``, where the old entry stands."""
    sources: tuple[str, ...]
    message: str | None = None
    notes: tuple[str, ...] = ()
    """Extension modules that hide a patched file; with the first revision of a series, where the
    ``index`` lines of patches disagree with the contents."""


def write_locks(targets: Sequence[Target], at_hand: AtHand) -> tuple[list[Proof], list[Path]]:
    """Prove every revision of `targets` and write the lockfiles that change: all, or none.

    A revision whose source is not at hand keeps its entry as long as the series
    is the one it was proven with.
    """
    proofs: list[Proof] = []
    files: dict[Path, Blob | None] = {}
    folder = targets[0].catalog_folder
    with locked_catalog(folder, at_hand.reporter):
        for sharing in _by_series(targets):
            lock, proven = prove_lock(sharing, at_hand)
            files[sharing[0].lock_path] = Blob(lock)
            proofs += proven
        return proofs, write_catalog(folder, files)


def prove_lock(targets: Sequence[Target], at_hand: AtHand) -> tuple[bytes, list[Proof]]:
    """Return the lockfile of targets that share a series, and how it was proven.

    Raises:
        SourceUnavailableError: no source has a revision that changed.
    """
    first, old = targets[0], None
    with contextlib.suppress(MalformedError):
        old = load_lock(first.lock_path, first.series.digest, first.name)
    entries, proofs = [], []
    for target, revision in _revisions(targets):
        try:
            entry, proof = _prove(target, revision, at_hand)
        except SourceUnavailableError as error:
            kept = old.find(revision.name) if old else None
            if kept is None:
                raise
            entry, proof = kept, Proof(target.name, revision.name, "kept", (), error.message)
        entries.append(entry)
        proofs.append(proof)
    lock = Lockfile(1, first.series.digest, entries)
    return render_lock(lock).encode(), _with_notes(first, entries, proofs)


def check_locks(targets: Sequence[Target], at_hand: AtHand) -> list[Proof]:
    """Prove every revision again and compare the result with the lockfiles."""
    proofs: list[Proof] = []
    for sharing in _by_series(targets):
        found, entries = [], []
        for target, revision in _revisions(sharing):
            locked = target.lock.find(revision.name)
            if locked is None:
                raise CheckFailedError(
                    f"{target.lock_path} has no entry for {revision.name} of {target.name}",
                    remedy=f"run `pkgtools lock --target {target.name}`",
                )
            entries.append(locked)
            try:
                proven, proof = _prove(target, revision, at_hand)
            except SourceUnavailableError as error:
                found.append(Proof(target.name, revision.name, "unverified", (), error.message))
                continue
            _hold_against(target, locked, proven)
            found.append(proof)
        proofs += _with_notes(sharing[0], entries, found)
    return proofs


def _with_notes(
    target: Target, entries: Sequence[LockedRevision], proofs: Sequence[Proof]
) -> list[Proof]:
    """Return the proofs of a series, the first with the contradictions of its index lines."""
    first, *others = proofs
    notes = (*index_notes(target.series.patches, entries), *first.notes)
    return [replace(first, notes=notes), *others]


def _by_series(targets: Sequence[Target]) -> list[list[Target]]:
    groups: dict[Path, list[Target]] = {}
    for target in targets:
        groups.setdefault(target.directory, []).append(target)
    return list(groups.values())


def _revisions(targets: Iterable[Target]) -> list[tuple[Target, Revision]]:
    return [(target, revision) for target in targets for revision in target.revisions]


def _prove(target: Target, revision: Revision, at_hand: AtHand) -> tuple[LockedRevision, Proof]:
    """Plan the series on every source of a revision; all must agree."""
    sources = at_hand.find(target, revision)
    entries = [_entry(target, revision, source) for source in sources]
    for source, entry in zip(sources, entries, strict=True):
        if entry.file != entries[0].file:
            raise CheckFailedError(
                f"{source.label} and {sources[0].label} are one release with different sources",
                remedy="give the wheels of one release of the upstream's own",
            )
    entries[0].wheel = sorted((w for e in entries for w in e.wheel), key=lambda w: w.name)
    notes = [
        f"{path} is compiled into {module} of {source.label}: patching it changes nothing there"
        for source in sources
        for path, module in shadowed(source, [f.path for f in entries[0].file if f.after]).items()
    ]
    labels = tuple(source.label for source in sources)
    return entries[0], Proof(target.name, revision.name, "proven", labels, notes=tuple(notes))


def _entry(target: Target, revision: Revision, source: Source) -> LockedRevision:
    with all_outside_named(source, target.series.paths):
        plan = plan_series(target.series.patches, source.read)
    if not plan.ok:
        raise DoesNotApplyError(
            f"{target.name}: its series does not apply to {source.label}",
            remedy="port the patches to this revision, then lock again",
            details=Refusal(target.name, source.label, None, plan.rejections),
        )
    refuse_broken(target, source, plan)
    return LockedRevision(
        file=[_file(change) for change in plan.changes],
        commit=revision.commit,
        release=revision.version,
        wheel=[LockedWheel(source.path.name, sha256(source.path))]
        if isinstance(source, WheelSource)
        else [],
        absorbed=[
            AbsorbedPatch(target.absorbed_name(path), prove_absorbed(load_patch(path), source))
            for path in target.absorbed
        ],
        requires=list(target.requires),
    )


def _file(change: Change) -> LockedFile:
    identify = partial(entry_id, with_mode=change.sets_mode)
    return LockedFile(
        path=change.path,
        before=identify(change.before),
        after=identify(change.after),
        patches=list(change.patches),
        between=[identify(blob) for blob in change.between],
    )


def prove_absorbed(patch: Patch, source: Source) -> list[str]:
    """Return ``path:line`` of each hunk's post-image in a source that holds all of a patch.

    Only hunks can be shown: a mode or a binary change is refused.
    """
    places = []
    path = patch.path or patch.name
    for file in patch.files:
        blob = source.read(file.new_path)
        makes_empty = file.kind is Kind.CREATE and file.binary is None
        if not file.hunks and not (makes_empty and blob is not None and not blob.data):
            raise CheckFailedError(
                f"targets.toml calls {path} absorbed, but it cannot be shown that {source.label} "
                f"carries it: its part for {file.new_path} has no hunk",
                remedy="put the patch into the series",
            )
        for number, hunk in enumerate(file.hunks, 1):
            line = absorbed_at(file.new_path, blob.data, hunk.old, hunk.new) if blob else None
            if line is None:
                raise CheckFailedError(
                    f"{source.label} does not carry hunk {number} of {path} ({file.new_path}), "
                    "which targets.toml calls absorbed",
                    remedy="put the patch into the series",
                )
            places.append(f"{file.new_path}:{line}")
    return places


def _hold_against(target: Target, locked: LockedRevision, proven: LockedRevision) -> None:
    known = {wheel.name: wheel.sha256 for wheel in locked.wheel}
    for wheel in proven.wheel:
        if known.get(wheel.name, wheel.sha256) != wheel.sha256:
            raise CheckFailedError(
                f"{wheel.name} is not the wheel that the lockfile was computed from: its sha256 is "
                f"{wheel.sha256}, not {known[wheel.name]}",
                remedy="find out where this one comes from",
            )
    facts = [(each.file, each.absorbed, each.requires) for each in (locked, proven)]
    if facts[0] == facts[1]:
        return
    raise CheckFailedError(
        f"{target.lock_path}: {locked.name} differs from its sources",
        remedy=f"see what differs after `pkgtools lock --target {target.name}`",
    )


def render_lock(lock: Lockfile) -> str:
    """Return the file: tables of tables, so that a change is a change of few lines."""
    return _HEADER + tomlkit.dumps(msgspec.to_builtins(lock))
