"""Making a patch of what a tree has beyond its series."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pkgtools.blob import DIRECTORY, Blob
from pkgtools.catalog.series import LISTING
from pkgtools.catalog.writes import write_catalog
from pkgtools.errors import UsageError
from pkgtools.patch import parse_patch
from pkgtools.port.gitdiff import diff_text
from pkgtools.port.model import FileChange
from pkgtools.port.series import layers_on
from pkgtools.util.files import read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pkgtools.authoring.work import SeriesWork
    from pkgtools.catalog import Series
    from pkgtools.patch import Patch
    from pkgtools.source import Source, Tree

_HEAD: Final = """\
From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: {author}
Date: Thu, 1 Jan 1970 00:00:00 +0000
Subject: [PATCH] {message}

---
"""


_NAME: Final = re.compile(r"[^\s/#]+")


@dataclass(frozen=True)
class PatchDraft:
    """A patch to be made: what to call it, and who made it."""

    name: str
    message: str
    """The subject, and below it what else is to be said."""
    author: str


def new_patch(work: SeriesWork, tree: Tree, draft: PatchDraft) -> Patch:
    """Make a patch of what a tree has beyond its series, at the end of the series.

    Raises:
        UsageError: the name is taken or cannot be in a ``series`` file, or the tree has nothing
            beyond the series.
        DoesNotApplyError: the series does not apply to its source.
        TreeError: the files cannot be written; none is.

    """
    message = _message(draft)
    with work.locked() as folder:
        series = work.named.load()
        if draft.name in {patch.name for patch in series.patches}:
            raise UsageError(
                f"{series.directory} has a patch {draft.name!r} already",
                remedy="name another, or take the edits into it with `pkgtools refresh --patch`",
            )
        changes = list(_beyond(series, work.source, tree))
        if not changes:
            raise UsageError(
                f"{tree.label} is what the series makes: there is nothing to make a patch of",
                remedy="edit it first, or name the tree that is edited with --tree",
            )
        head = _HEAD.format(author=draft.author, message=message)
        patch = parse_patch(draft.name, head.encode() + diff_text(changes))
        listing = series.directory / LISTING
        names = read_bytes(listing).rstrip(b"\n") + f"\n{draft.name}\n".encode()
        write_catalog(
            folder, {series.directory / draft.name: Blob(patch.data), listing: Blob(names)}
        )
    return patch


def _message(draft: PatchDraft) -> str:
    if not _NAME.fullmatch(draft.name):
        raise UsageError(
            f"{draft.name!r} cannot be the name of a patch: a `series` file lists it",
            remedy="name it like limit.patch, without folder, blank or #",
        )
    subject, _, body = draft.message.strip().partition("\n")
    if not subject or "\n" in draft.author or "\n---" in draft.message:
        raise UsageError(
            "a patch has a subject, an author of one line, and no line of dashes in its message",
            remedy="see --message and --author",
        )
    return "\n\n".join(filter(None, (subject.strip(), body.strip())))


def _beyond(series: Series, source: Source, tree: Tree) -> Iterator[FileChange]:
    layers = layers_on(series.patches, source)
    made = {change.path: change.after for layer in layers for change in layer.changes}
    for path in sorted(_files(tree) | made.keys()):
        before = made[path] if path in made else _file(source, path)
        after = _file(tree, path)
        if before != after:
            yield FileChange(path, path, before, after)


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
