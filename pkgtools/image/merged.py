"""The files of an image: its layers, one over the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from pkgtools.image.layer import OPAQUE, WHITEOUT, Kind, Member, content, read_layer, to_member

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager


@dataclass(frozen=True)
class StoredLayer:
    """A layer in an image on disk."""

    label: str
    open: Callable[[], AbstractContextManager[IO[bytes]]]
    """Opens its blob, compressed or not."""


def merge(layers: Sequence[StoredLayer], wanted: Callable[[str], bool]) -> dict[str, Member]:
    """Return what an image has at each path, as its layers leave it.

    Every layer is read once, from the lowest to the highest. Only of paths that are
    `wanted` is the content kept; the others' is empty.

    Raises:
        MalformedError: a layer cannot be read, or a path leads out of the image.

    """
    merged: dict[str, Member] = {}
    for layer in layers:
        with layer.open() as raw:
            hidden, opaque, members = _read(raw, layer.label, wanted)
        # Whiteouts hide what is below their layer, never what is in it.
        _hide(merged, hidden, opaque)
        _hide(merged, _no_longer_folders(merged, members), ())
        merged.update(members)
    return merged


def _read(
    raw: IO[bytes], label: str, wanted: Callable[[str], bool]
) -> tuple[set[str], set[str], dict[str, Member]]:
    """Return a layer's whiteouts, its opaque folders, and its own members."""
    hidden: set[str] = set()
    opaque: set[str] = set()
    members: dict[str, Member] = {}
    for info, path, archive in read_layer(raw, label):
        folder, slash, name = path.rpartition("/")
        if name == OPAQUE:
            opaque.add(folder)
        elif name.startswith(WHITEOUT):
            hidden.add(f"{folder}{slash}{name.removeprefix(WHITEOUT)}")
        else:
            keep = (info.isreg() or info.islnk()) and wanted(path)
            data = content(archive, info, label) if keep else b""
            members[path] = to_member(info, path, data)
    return hidden, opaque, members


def _no_longer_folders(merged: dict[str, Member], members: dict[str, Member]) -> Iterator[str]:
    """Yield the folders of the layers below that a layer has something else for."""
    for path, member in members.items():
        below = merged.get(path)
        if below is not None and below.kind is Kind.FOLDER and member.kind is not Kind.FOLDER:
            yield path


def _hide(merged: dict[str, Member], hidden: Iterable[str], opaque: Collection[str]) -> None:
    """Take out every path that is `hidden`, below one, or below an `opaque` folder."""
    hidden = set(hidden)
    if not hidden and not opaque:
        return
    gone = [
        path
        for path in merged
        if path in hidden or any(p in hidden or p in opaque for p in _parents(path))
    ]
    for path in gone:
        del merged[path]


def _parents(path: str) -> Iterator[str]:
    """Yield the folders above a path, the image's root last."""
    while path:
        path = path.rpartition("/")[0]
        yield path
