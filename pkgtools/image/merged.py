"""Merge the layers of an image into its files.

Layers are read from the highest to the lowest, so that a reader can stop as soon as lower layers
cannot change the answer: an upper layer's files, whiteouts and opaque whiteouts hide theirs
(https://github.com/opencontainers/image-spec/blob/main/layer.md#applying-changesets).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any, Final, Protocol

from pkgtools.blob import LIMIT
from pkgtools.errors import MalformedError
from pkgtools.image.contents import table_of
from pkgtools.image.layer import (
    OPAQUE,
    WHITEOUT,
    FileKind,
    LayerEntry,
    Member,
    damaged,
    parents,
    read_layer,
    relative,
    to_member,
)

if TYPE_CHECKING:
    from pkgtools.image.contents import ReadRange, TableOfContents

    PathFilter = Callable[[str], bool]

_NAMES_LIMIT: Final = 256 * 1024 * 1024
"""Characters of all paths that one reading may hold; an image of 15 GB has a tenth of it."""


@dataclass(frozen=True)
class StoredLayer:
    """A layer in its store."""

    label: str
    open: Callable[[], AbstractContextManager[IO[bytes]]]
    """Open the blob, compressed or not, for reading forwards."""
    descriptor: Mapping[str, Any] = field(default_factory=dict)
    """The layer's entry in the image's manifest."""
    digest: str = ""
    """The digest that `open` checks; empty if there is none."""
    read_range: ReadRange | None = None
    """Read a part of the blob, from one offset to another; None if it cannot be read in parts."""

    def entries(self, table: TableOfContents | None) -> Iterator[LayerEntry]:
        """Yield each entry: by the layer's table of contents, or else as the layer is read."""
        if table is not None:
            yield from table.entries()
            return
        with self.open() as raw:
            yield from read_layer(raw, self.label)


@dataclass
class LayerChanges:
    """The changes that one layer makes."""

    label: str = ""
    hidden: set[str] = field(default_factory=set)
    """Whiteouts."""
    opaque: set[str] = field(default_factory=set)
    """Folders whose content in lower layers is hidden."""
    members: dict[str, Member] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    """Paths of no interest that are not folders; they hide what lower layers have below them."""
    folders: set[str] = field(default_factory=set)
    """Folders of no interest."""
    links: dict[str, str] = field(default_factory=dict)
    """Hard links by path, with the paths of their files."""
    names: int = 0
    data: int = 0


class LayerCache(Protocol):
    """The changes of layers that were read before with the same filters."""

    def get(self, layer: StoredLayer) -> LayerChanges | None:
        """Return a layer's changes, or None if they are unknown."""
        ...

    def put(self, layer: StoredLayer, changes: LayerChanges) -> None:
        """Keep a layer's changes; its digest was checked."""
        ...


class Overlay:
    """The files that are visible in some layers, read from the highest to the lowest."""

    def __init__(
        self, wanted: PathFilter, kept: PathFilter | None = None, cache: LayerCache | None = None
    ) -> None:
        """Read the content of `wanted` paths; `kept` ones are of interest, by default all."""
        self.members: dict[str, Member] = {}
        """The visible files that are of interest, by path."""
        self.depths: dict[str, int] = {}
        """The number of layers above the one that has the member, by path."""
        self.others: set[str] = set()
        """Other visible paths that are not folders."""
        self.tables: list[str] = []
        """The digests of layers that were read by their table of contents."""
        self.count = 0
        self._wanted = wanted
        self._kept = kept
        self._cache = cache
        self._decided: set[str] = set()
        self._closed: set[str] = set()
        self._names = 0
        self._data = 0

    def add(self, layer: StoredLayer) -> None:
        """Read the next lower layer."""
        changes = (self._cache.get(layer) if self._cache else None) or self._by_table(layer)
        if changes is None:
            changes = self._read(layer, None)
            if self._cache is not None:
                self._cache.put(layer, changes)
        for path, member in changes.members.items():
            if not self.settles(path):
                self.members[path] = member
                self.depths[path] = self.count
        self.others.update(path for path in changes.others if not self.settles(path))
        files = {p for p, m in changes.members.items() if m.kind is not FileKind.FOLDER}
        self._decided |= changes.members.keys() | changes.others | changes.hidden
        self._decided |= changes.folders
        self._closed |= files | changes.others | changes.hidden | changes.opaque
        self.count += 1

    def settles(self, path: str) -> bool:
        """Return whether lower layers cannot change what is at a path."""
        return path in self._decided or not self._closed.isdisjoint(parents(path))

    def _by_table(self, layer: StoredLayer) -> LayerChanges | None:
        """Return a layer's changes by its table of contents; None without a table that holds."""
        table = table_of(layer.descriptor, layer.read_range, layer.label)
        if table is None:
            return None
        try:
            changes = self._read(layer, table)
        except MalformedError:  # the archive decides, and its digest is checked
            return None
        self.tables.append(layer.digest)
        return changes

    def _read(self, layer: StoredLayer, table: TableOfContents | None) -> LayerChanges:
        changes = LayerChanges(layer.label, names=self._names, data=self._data)
        for entry in layer.entries(table):
            self._take(changes, entry)
        unread = {
            source
            for path, source in changes.links.items()
            if self._wanted(path) and not self._wanted(source)
        }
        if unread:  # a stream cannot be rewound: read it once more
            for entry in layer.entries(table):
                if entry.path in unread and entry.info.isreg():
                    data = _content(changes, entry)
                    changes.members[entry.path] = to_member(entry.info, entry.path, data)
        for path in changes.links.keys() & changes.members.keys():
            _link(changes, path, changes.links[path], is_wanted=self._wanted(path))
        self._names, self._data = changes.names, changes.data
        return changes

    def _take(self, changes: LayerChanges, entry: LayerEntry) -> None:
        info, path = entry.info, entry.path
        changes.names += len(path)
        if changes.names > _NAMES_LIMIT:
            raise damaged(f"{changes.label}: its paths are larger than {_NAMES_LIMIT} bytes")
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
        if self._kept is not None and not self._kept(path):
            (changes.folders if info.isdir() else changes.others).add(path)
            (changes.others if info.isdir() else changes.folders).discard(path)
            return
        keep = info.isreg() and self._wanted(path)
        data = _content(changes, entry) if keep else b""
        changes.members[path] = to_member(info, path, data)


def merge(layers: Sequence[StoredLayer], wanted: PathFilter) -> dict[str, Member]:
    """Return all files of an image by path; files that are not `wanted` have empty content."""
    overlay = Overlay(wanted)
    for layer in reversed(layers):
        overlay.add(layer)
    return overlay.members


def read_paths(layers: Sequence[StoredLayer], paths: Iterable[str]) -> dict[str, Member]:
    """Return the members at some paths; only the layers that can have them are read."""
    wanted = set(paths)
    overlay = Overlay(wanted.__contains__, wanted.__contains__)
    for layer in reversed(layers):
        if all(map(overlay.settles, wanted)):
            break
        overlay.add(layer)
    return overlay.members


def _content(changes: LayerChanges, entry: LayerEntry) -> bytes:
    data = entry.read()
    changes.data += len(data)
    if changes.data > LIMIT:
        raise damaged(f"{changes.label}: the files to read are larger than {LIMIT} bytes")
    return data


def _link(changes: LayerChanges, path: str, source: str, *, is_wanted: bool) -> None:
    """Give a hard link its file's content."""
    file = changes.members.get(source)
    if file is not None and file.kind is FileKind.FILE and source not in changes.links:
        changes.members[path] = replace(file, path=path)
    elif is_wanted:
        raise damaged(
            f"{changes.label}: {path} is a hard link to {source!r}, which is not a file of the "
            "layer"
        )
