"""The files of an image: its layers, one over the other."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING

from pkgtools.image.layer import (
    OPAQUE,
    WHITEOUT,
    Kind,
    Member,
    content,
    damaged,
    folders_above,
    parents,
    read_layer,
    relative,
    to_member,
)

if TYPE_CHECKING:
    import tarfile
    from collections.abc import Callable, Collection, Iterable, Sequence
    from contextlib import AbstractContextManager


@dataclass(frozen=True)
class StoredLayer:
    """A layer as a tar archive."""

    label: str
    open: Callable[[], AbstractContextManager[IO[bytes]]]
    """Opens its blob, compressed or not."""


@dataclass
class _Changes:
    """What one layer does."""

    label: str
    hidden: set[str] = field(default_factory=set)
    """Whiteouts."""
    opaque: set[str] = field(default_factory=set)
    """Folders of which it hides all that is below."""
    members: dict[str, Member] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    """Further names of files in it, by path."""


def merge(layers: Sequence[StoredLayer], wanted: Callable[[str], bool]) -> dict[str, Member]:
    """Return what an image has at each path, as its layers leave it.

    Every layer is read from the lowest to the highest. Only of paths that are
    `wanted` is the content kept; the others' is empty.

    Raises:
        MalformedError: a layer cannot be read, or a path leads out of the image.

    """
    merged: dict[str, Member] = {}
    folders: set[str] = set()
    for layer in layers:
        changes = _read(layer, wanted)
        # Whiteouts hide what is below their layer, never what is in it.
        _hide(merged, changes.hidden, changes.opaque)
        others = {p for p, m in changes.members.items() if m.kind is not Kind.FOLDER}
        _hide(merged, others & folders, ())
        merged.update(changes.members)
        folders |= folders_above(changes.members)
    return merged


def _read(layer: StoredLayer, wanted: Callable[[str], bool]) -> _Changes:
    changes = _Changes(layer.label)
    with layer.open() as raw:
        for info, path, archive in read_layer(raw, layer.label):
            keep = info.isreg() and wanted(path)
            data = content(archive, info, layer.label) if keep else b""
            _take(changes, info, path, data)
    sources = {changes.links[path] for path in changes.links if wanted(path)}
    unread = {path for path in sources if not wanted(path)}
    if unread:  # a stream is not read backwards
        with layer.open() as raw:
            for info, path, archive in read_layer(raw, layer.label):
                if path in unread and info.isreg():
                    changes.members[path] = to_member(
                        info, path, content(archive, info, layer.label)
                    )
    for path, source in changes.links.items():
        _link(changes, path, source, is_wanted=wanted(path))
    return changes


def _take(changes: _Changes, info: tarfile.TarInfo, path: str, data: bytes) -> None:
    """Sort in one entry."""
    folder, slash, name = path.rpartition("/")
    if name == OPAQUE:
        changes.opaque.add(folder)
        return
    if name.startswith(WHITEOUT):
        changes.hidden.add(f"{folder}{slash}{name.removeprefix(WHITEOUT)}")
        return
    changes.links.pop(path, None)
    if info.islnk():
        source = relative(info.linkname, changes.label)
        changes.links[path] = changes.links.get(source, source)
    changes.members[path] = to_member(info, path, data)


def _link(changes: _Changes, path: str, source: str, *, is_wanted: bool) -> None:
    """Give another name of a file the file's content."""
    file = changes.members.get(source)
    if file is not None and file.kind is Kind.FILE and source not in changes.links:
        changes.members[path] = replace(file, path=path)
    elif is_wanted:
        raise damaged(
            f"{changes.label}: {path} is a hard link to {source!r}, which is no file of the layer"
        )


def _hide(merged: dict[str, Member], hidden: Iterable[str], opaque: Collection[str]) -> None:
    """Take out every path that is `hidden`, below one, or below an `opaque` folder."""
    hidden = set(hidden)
    if not hidden and not opaque:
        return
    gone = [
        path
        for path in merged
        if path in hidden or any(p in hidden or p in opaque for p in parents(path))
    ]
    for path in gone:
        del merged[path]
