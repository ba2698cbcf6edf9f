"""Taking edits of a patched tree back into its series, and writing hunks where they lie now."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import msgspec

from pkgtools.blob import DIRECTORY
from pkgtools.catalog.series import LISTING, without_levels
from pkgtools.errors import UsageError
from pkgtools.patch import Patch
from pkgtools.port.gitdiff import diff_text
from pkgtools.port.model import AppliedPatch, FileChange
from pkgtools.port.series import layers_on, patches_of
from pkgtools.util.files import read_bytes, read_text, replace_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pkgtools.blob import Blob
    from pkgtools.catalog import Series
    from pkgtools.source import Source, Tree

_HEAD: Final = """\
From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: {author}
Date: Thu, 1 Jan 1970 00:00:00 +0000
Subject: [PATCH] {message}

---
"""


_NAME: Final = re.compile(r"[^\s/#]+")


class Refreshed(msgspec.Struct):
    """What became of the patches of a series."""

    series: str
    rewritten: list[str]
    unchanged: list[str]


def refresh_series(
    series: Series, source: Source, tree: Tree | None = None, into: str | None = None
) -> Refreshed:
    """Write a series back: hunks where they lie in `source`, with the edits of `tree`.

    A patch that neither moved nor was edited keeps its bytes.

    Args:
        series: which applies to `source`.
        source: the upstream.
        tree: patched with the series and then edited; its touched files are taken.
        into: the patch that takes the edits; by default the last one that touches the file.

    Raises:
        DoesNotApplyError: the series does not apply.
        UsageError: there is no such patch, or a later one changes the file too.

    """
    layers = layers_on(series.patches, source)
    if into is not None and into not in {layer.patch.name for layer in layers}:
        raise UsageError(
            f"{series.directory} has no patch {into!r}",
            remedy=f"name one of: {', '.join(layer.patch.name for layer in layers)}",
        )
    for path, blob in (_edited(layers, tree) if tree is not None else {}).items():
        layers = _fold(layers, path, blob, into)
    patches = {patch.name: patch for patch in patches_of(layers, source)}
    old = {patch.name: patch.data for patch in series.patches}
    rewritten = [name for name, patch in patches.items() if patch.data != old[name]]
    for name in rewritten:
        replace_file(series.directory / name, patches[name].data)
    if any(patch.level != 1 for patch in series.patches if patch.name in rewritten):
        listing = series.directory / LISTING
        text = without_levels(read_text(listing), rewritten)
        replace_file(listing, text.encode())
    return Refreshed(str(series.directory), rewritten, [n for n in patches if n not in rewritten])


def _edited(layers: Sequence[AppliedPatch], tree: Tree) -> dict[str, Blob | None]:
    """Return the files of the series that the tree has otherwise than the series makes them."""
    made = _made(layers)
    return {path: blob for path in made if (blob := tree.read(path)) != made[path]}


def _made(layers: Sequence[AppliedPatch]) -> dict[str, Blob | None]:
    """Return what the patches leave at each path that they change."""
    return {change.path: change.after for layer in layers for change in layer.changes}


def _fold(
    layers: Sequence[AppliedPatch], path: str, blob: Blob | None, into: str | None
) -> list[AppliedPatch]:
    touching = [n for n, layer in enumerate(layers) if path in {c.path for c in layer.changes}]
    wanted = [n for n in touching if into in (None, layers[n].patch.name)]
    if not wanted or wanted[-1] != touching[-1]:
        last = layers[touching[-1]].patch.name
        raise UsageError(
            f"{last} is the last patch that changes {path}, so only it can take the edit",
            remedy=f"refresh with --patch {last}",
        )
    target = layers[touching[-1]]
    changes = tuple(replace(c, after=blob) if c.path == path else c for c in target.changes)
    folded = list(layers)
    folded[touching[-1]] = AppliedPatch(target.patch, changes)
    return folded


@dataclass(frozen=True)
class Draft:
    """A patch to be made: what to call it, and who made it."""

    name: str
    message: str
    """The subject, and below it what else is to be said."""
    author: str


def new_patch(series: Series, source: Source, tree: Tree, draft: Draft) -> Patch:
    """Make a patch of what a tree has beyond its series, at the end of the series.

    Raises:
        UsageError: the name is taken or none for a list, or the tree has nothing beyond
            the series.
        DoesNotApplyError: the series does not apply to `source`.

    """
    if not _NAME.fullmatch(draft.name):
        raise UsageError(
            f"{draft.name!r} is no name for a patch: it stands in a list of plain file names",
            remedy="name it like 0004-limit.patch: no folder, blank or #",
        )
    subject, _, body = draft.message.strip().partition("\n")
    message = subject.strip(), body.strip()
    if not subject or "\n" in draft.author or "\n---" in draft.message:
        raise UsageError(
            "a patch has a subject that is not empty, an author of one line, and no line of "
            "dashes in its message",
            remedy="see --message and --author",
        )
    if draft.name in {patch.name for patch in series.patches}:
        raise UsageError(
            f"{series.directory} has a patch {draft.name!r} already",
            remedy="name another, or take the edits into it with `pkgtools refresh --patch`",
        )
    made = _made(layers_on(series.patches, source))
    changes = []
    for path in sorted(_files(tree) | made.keys()):
        before = made[path] if path in made else _file(source, path)
        after = _file(tree, path)
        if before != after:
            changes.append(FileChange(path, path, before, after))
    if not changes:
        raise UsageError(
            f"{tree.label} is what the series makes: there is nothing to make a patch of",
            remedy="edit it first, or name the tree that is edited with --tree",
        )
    head = _HEAD.format(author=draft.author, message="\n\n".join(filter(None, message)))
    data = head.encode() + diff_text(changes)
    replace_file(series.directory / draft.name, data)
    listing = series.directory / "series"
    replace_file(listing, read_bytes(listing).rstrip(b"\n") + f"\n{draft.name}\n".encode())
    return Patch(draft.name, data, ())


def _files(tree: Tree) -> set[str]:
    """Return the files of the package in a tree, as paths of the source tree."""
    prefix = tree.upstream.prefix
    package = tree.root / (prefix if tree.is_checkout else "") / tree.upstream.package
    found = set()
    for folder, folders, names in os.walk(package):
        folders[:] = [f for f in folders if f != "__pycache__"]
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), package)  # noqa: PTH118
            found.add(f"{prefix}{tree.upstream.package}/{path}")
    return found


def _file(source: Source, path: str) -> Blob | None:
    blob = source.read(path)
    return None if blob is not None and blob.mode == DIRECTORY else blob
