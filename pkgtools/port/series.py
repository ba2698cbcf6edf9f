"""Porting a whole series: step by step, with what a person decided on the way, and writing it."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pkgtools.authoring.lock import prove_absorbed
from pkgtools.catalog.listing import line_of
from pkgtools.catalog.series import (
    LISTING,
    is_shared_reference,
    load_series,
    reference_of,
)
from pkgtools.errors import CheckFailedError, DoesNotApplyError, TreeError, UsageError
from pkgtools.patch import Kind, parse_patch
from pkgtools.plan import plan_series
from pkgtools.port.finished import Finished
from pkgtools.port.gitdiff import patch_text
from pkgtools.port.model import AppliedPatch, Conflict, FileChange, StepReport
from pkgtools.port.step import PortStep
from pkgtools.source.wheel import all_outside_named
from pkgtools.tree.check import Refusal
from pkgtools.util.files import read_bytes, read_text, sync_folder, write_new

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pkgtools.blob import Blob
    from pkgtools.catalog import Upstream
    from pkgtools.patch import Patch
    from pkgtools.plan import Plan
    from pkgtools.port.step import Decide
    from pkgtools.source import Source
    from pkgtools.util.progress import Reporter

_LEFT_BEHIND: Final = {LISTING, "lock.toml"}
"""Files of a series that are written anew, or not at all."""


@dataclass(frozen=True)
class Ported:
    """A series as far as it was ported."""

    layers: tuple[AppliedPatch, ...]
    steps: tuple[StepReport, ...]
    conflicts: tuple[Conflict, ...]
    """Of the last step; with any, the port waits for a person."""
    finished: Finished
    """The steps before the one with conflicts, and the series behind them."""


def port_series(
    finished: Finished,
    upstream: Upstream,
    sources: Sequence[Source],
    decide: Decide,
    reporter: Reporter,
) -> Ported:
    """Port a series along `sources`.

    It stops behind the first step that leaves something to a person.

    Args:
        finished: the steps that were made before, and the series behind them.
        upstream: whose it is.
        sources: from the one that the series was made for to the one that it shall be for.
        decide: returns what a person made of a conflict; None where nobody has looked yet.
        reporter: hears of each step.

    """
    for number, (old, new) in enumerate(pairwise(sources), 1):
        if number <= len(finished.steps):
            continue
        step = PortStep(number, old, new, upstream, decide)
        with reporter.task(f"porting to {new.label}, step {number} of {len(sources) - 1}"):
            layers, report = step.run(finished.layers)
        steps = (*finished.steps, report)
        if step.conflicts:
            return Ported(tuple(layers), steps, tuple(step.conflicts), finished)
        finished = Finished(tuple(layers), steps)
    return Ported(finished.layers, finished.steps, (), finished)


def layers_on(patches: Sequence[Patch], source: Source) -> list[AppliedPatch]:
    """Return what each patch does to a source.

    Raises:
        DoesNotApplyError: the patches do not apply to it.

    """
    with all_outside_named(source, {path for patch in patches for path in patch.paths}):
        plan = plan_series(patches, source.read)
    if not plan.ok:
        raise DoesNotApplyError(
            f"the series does not apply to {source.label}, from which it shall be ported",
            remedy="give the source that it was made for with --from",
            refusal=refusal(source, plan),
        )
    overlay: dict[str, Blob | None] = {}

    def read(path: str) -> Blob | None:
        return overlay[path] if path in overlay else source.read(path)

    layers = []
    for patch in patches:
        done = {c.path: c for c in plan_series([patch], read).changes}
        renamed = {f.new_path: f.old_path for f in patch.files if f.kind is Kind.RENAME}
        taken = {old for new, old in renamed.items() if new in done and old in done}
        changes = []
        for path, change in done.items():
            old = renamed.get(path)
            if path in taken and change.after is None:
                continue  # its half of the rename is told at the new path
            before = done[old].before if old in done and old is not None else change.before
            changes.append(FileChange(old or path, path, before, change.after))
        layers.append(AppliedPatch(patch, tuple(changes)))
        overlay.update({path: change.after for path, change in done.items()})
    return layers


def refusal(source: Source, plan: Plan) -> Refusal:
    """Return why patches that belong to no target do not apply."""
    return Refusal("", source.label, None, plan.rejections)


def patches_of(layers: Sequence[AppliedPatch], source: Source) -> list[Patch]:
    """Return the patches that make the layers; one that still fits stays as it is.

    A patch of the series itself fits where its headers name the right lines. A shared patch
    serves several revisions, so its hunks may be at other lines.

    Raises:
        CheckFailedError: what was written does not make what was planned.

    """
    overlay: dict[str, Blob | None] = {}

    def read(path: str) -> Blob | None:
        return overlay[path] if path in overlay else source.read(path)

    written = []
    for layer in layers:
        if not layer.changes:
            continue
        patch = layer.patch
        if not _fits(layer, patch, read, moved=patch.is_shared):
            patch = parse_patch(patch.name, patch_text(patch, layer.changes))
            if not _fits(layer, patch, read):
                raise CheckFailedError(
                    f"{layer.patch.name}: the patch that was written does not make the ported files"
                )
        written.append(patch)
        for change in layer.changes:
            if change.old_path != change.path:
                overlay[change.old_path] = None
            overlay[change.path] = change.after
    return written


def _fits(
    layer: AppliedPatch, patch: Patch, read: Callable[[str], Blob | None], *, moved: bool = False
) -> bool:
    """Whether a patch makes exactly the layer's files; with every hunk in place unless `moved`."""
    plan = plan_series([patch], read)
    offsets = [p.offset for step in plan.steps for p in step.placements]
    if not plan.ok or (any(offsets) and not moved):
        return False
    made = {change.path: change.after for change in plan.changes}
    wanted: dict[str, Blob | None] = {c.path: c.after for c in layer.changes}
    wanted |= {c.old_path: None for c in layer.changes if c.old_path not in wanted}
    return made == wanted


def is_absorbed(patch: Patch, source: Source) -> bool:
    """Whether a source holds all that a patch makes, as `pkgtools lock` proves it."""
    try:
        prove_absorbed(patch, source)
    except CheckFailedError:
        return False
    return True


def write_series(folder: Path, patches: Sequence[Patch], original: Path | None) -> list[str]:
    """Write a series folder, whole or not at all, and return which other files came along.

    A shared patch stays a reference where the folder is beside it; elsewhere it is copied.

    Args:
        folder: must not exist, or be empty.
        patches: in order.
        original: a series whose comments and other files come along.

    Raises:
        UsageError: there is something at `folder`.

    """
    refuse_existing(folder)
    others = {}
    if original is not None:
        for path in sorted(original.iterdir()):
            is_other = path.suffix not in (".patch", ".diff") and path.name not in _LEFT_BEHIND
            if path.is_file() and is_other:
                others[path.name] = read_bytes(path)
    references = references_from(folder, patches)
    own = {
        name: patch.data
        for name, patch in zip(references, patches, strict=True)
        if not is_shared_reference(name)
    }
    listing = _listing(patches, references, original)
    write_folder(folder, {LISTING: listing.encode(), **own, **others})
    return list(others)


def references_from(folder: Path, patches: Sequence[Patch]) -> list[str]:
    """Return what the ``series`` file in `folder` names each patch."""
    return [_reference(folder, patch) for patch in patches]


def _reference(folder: Path, patch: Patch) -> str:
    beside = folder.absolute().parent / patch.name
    if patch.is_shared and patch.path and beside.exists() and beside.samefile(patch.path):
        return reference_of(patch)
    return patch.name if patch.name.endswith((".patch", ".diff")) else f"{patch.name}.patch"


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a new folder that is there whole or not at all.

    Raises:
        TreeError: it cannot be written.

    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise TreeError(
            f"{folder} cannot be written: {error.strerror}", remedy="name another folder with -o"
        ) from None
    try:
        scratch.chmod(0o755)
        for name, data in files.items():
            path = scratch / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_new(path, data, 0o644)
        sync_folder(scratch)
        if folder.is_dir():
            folder.rmdir()
        os.rename(scratch, folder)  # noqa: PTH104 - fails where a folder with files appeared
        sync_folder(folder.parent)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def refuse_existing(folder: Path) -> None:
    """Raise unless `folder` can be made.

    Raises:
        UsageError: there is something.

    """
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UsageError(
            f"{folder} exists already", remedy="give another folder with -o, or move it away"
        )


def _listing(patches: Sequence[Patch], references: Sequence[str], original: Path | None) -> str:
    """Return the ``series`` file: the original's, without what is gone.

    Args:
        patches: what the series has.
        references: what the file names each patch.
        original: the series whose lines and comments stay.

    """
    named = list(zip(patches, references, strict=True))
    if original is None:
        return "".join(f"{line_of(patch, reference)}\n" for patch, reference in named)
    names = {reference_of(patch): patch.name for patch in load_series(original).patches}
    lines = {patch.name: line_of(patch, reference) for patch, reference in named}
    out = []
    for line in read_text(original / LISTING).splitlines():
        entry, hash_, comment = line.partition("#")
        words = entry.split()
        if not words:
            out.append(line)
        elif new := lines.get(names[words[0]]):
            out.append(f"{new}{entry[len(entry.rstrip()) :]}{hash_}{comment}")
    return "".join(f"{line}\n" for line in out)
