"""Facts of images: what was found in them, for the cache, exported files and referrers.

A base is read once: the cache has packages by image, and changes by layer, which images share.

Facts cannot be proved without reading the image, so their author must be trusted. This module
checks that they describe a package that an image can contain; patching then checks that its files
are those of a known revision.
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import zstandard

from pkgtools.errors import MalformedError, PkgtoolsError
from pkgtools.image.layer import FileKind, parents, relative
from pkgtools.image.merged import LayerChanges, StoredLayer
from pkgtools.image.model import Image
from pkgtools.image.package import FoundPackage, PackageQuery, package_at
from pkgtools.image.stored import LayeredImage
from pkgtools.util.cache import cache_folder
from pkgtools.util.files import replace_file

FORMAT: Final = 5
"""Increment with each change of the format or of the results of `Image.find`."""
LIMIT: Final = 64 * 1024 * 1024
"""Uncompressed bytes of facts; SGLang's, with all files that series touch, have 10 MB."""
_MOST: Final = 32
"""Images in the cache; an entry has the size of the files that series touch."""
_MOST_LAYERS: Final = 128
"""Layers in the cache; an entry has the size of the paths and of the files that series touch."""
_OWN: Final = re.compile(r"[0-9a-f]{64}|\.[0-9a-f]{64}\.pkgtools-new")
"""The names of entries, and of those that are being written."""
_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")


_Facts = TypeVar("_Facts")


class _KnownFacts(msgspec.Struct):
    format: int
    packages: dict[str, FoundPackage]
    """Packages by `facts_key`."""


def facts_key(identity: tuple[str, ...], query: PackageQuery) -> str:
    """Return the key of a package: a digest of the image, the query and the format."""
    upstream = query.upstream
    named = (upstream.distribution, upstream.package, upstream.prefix, upstream.layout)
    asked = (FORMAT, identity, (*named, sorted(query.files)))
    # Not msgspec: a folder that the user typed need not be UTF-8.
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def encode_facts(found: Mapping[str, FoundPackage]) -> bytes:
    """Serialize packages by key; the same packages give the same bytes.

    Raises:
        UnicodeEncodeError: a path is not UTF-8.
    """
    return _encoded(_KnownFacts(FORMAT, dict(found)))


def decode_facts(raw: bytes, key: str, query: PackageQuery, label: str) -> FoundPackage | None:
    """Return the package of a key, or None if the facts have no such key.

    Raises:
        MalformedError: they are damaged, or describe an impossible package.
    """
    try:
        facts = _decoded(raw, _KnownFacts)
        found = facts.packages.get(key) if facts.format == FORMAT else None
        return None if found is None else _checked(found, query, label)
    except ValueError as error:
        raise MalformedError(
            f"{label}: facts of images cannot be read: {error}",
            remedy="export them again: pkgtools image facts IMAGE --output PLACE",
        ) from None


def encode_layer(changes: LayerChanges) -> bytes:
    """Serialize a layer's changes.

    Raises:
        UnicodeEncodeError: a path is not UTF-8.
    """
    return _encoded(replace(changes, label="", links={}, names=0, data=0))


def decode_layer(raw: bytes) -> LayerChanges:
    """Return a layer's changes.

    Raises:
        ValueError: the bytes are damaged.
    """
    return _decoded(raw, LayerChanges)


def _encoded(facts: object) -> bytes:
    compressor = zstandard.ZstdCompressor(level=3, write_checksum=True)
    return compressor.compress(_ENCODER.encode(facts))


def _decoded(raw: bytes, kind: type[_Facts]) -> _Facts:
    try:
        # zstandard would allocate any size that the header has.
        if not 0 <= zstandard.frame_content_size(raw) <= LIMIT:
            raise ValueError(f"the frame has no size, or one of over {LIMIT} bytes")
        return msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(raw), type=kind)
    except (zstandard.ZstdError, msgspec.DecodeError) as error:
        raise ValueError(str(error)) from None


def _checked(found: FoundPackage, query: PackageQuery, label: str) -> FoundPackage:
    """Return a package if `Image.find` can return it."""
    members = found.members
    paths = [found.folder, *found.names, *members]
    if any(relative(path, label) != path or "\0" in path for path in paths):
        raise ValueError("a path is not relative to the image's root, or not normalized")
    if any(path != member.path for path, member in members.items()):
        raise ValueError("a file has two paths")
    files = {path for path, member in members.items() if member.kind is not FileKind.FOLDER}
    if any(not files.isdisjoint(parents(path)) for path in [*members, *found.names]):
        raise ValueError("a file has files below it")
    if replace(found, by_table=()) != package_at(query, found.folder, members, found.names):
        raise ValueError("it has files of something other than the package")
    return found


@dataclass(frozen=True)
class _KnownLayers:
    """The cached changes of layers to the files of a query."""

    folder: Path
    query: PackageQuery

    def get(self, layer: StoredLayer) -> LayerChanges | None:
        """Return a layer's changes; see `LayerCache.get`."""
        if layer.digest:
            with contextlib.suppress(OSError, ValueError):
                return decode_layer(_read_own(self._path(layer)))
        return None

    def put(self, layer: StoredLayer, changes: LayerChanges) -> None:
        """Keep a layer's changes; see `LayerCache.put`."""
        if layer.digest:
            with contextlib.suppress(UnicodeEncodeError):
                _keep(self._path(layer), encode_layer(changes), _MOST_LAYERS)

    def _path(self, layer: StoredLayer) -> Path:
        return self.folder / facts_key(("layer", layer.digest), self.query)


def known_package(image: Image, query: PackageQuery) -> FoundPackage:
    """Return the location of the package in an image, as `Image.find` does.

    A damaged or read-only cache only costs time. Facts from elsewhere are not cached: the next
    build need not trust them.
    """
    folder = cache_folder("images")
    key = facts_key(image.identity, query) if image.identity else None
    path = folder / key if folder and key else None
    if path is not None:
        with contextlib.suppress(OSError, ValueError, PkgtoolsError):
            if cached := decode_facts(_read_own(path), path.name, query, str(path)):
                return cached
    if isinstance(image, LayeredImage):
        if image.facts and key and (given := image.facts.package(image, key, query)):
            return given
        layers = cache_folder("layers")
        package = image.find(query, _KnownLayers(layers, query) if layers else None)
    else:
        package = image.find(query)
    if path is not None:
        with contextlib.suppress(UnicodeEncodeError):  # a name may not be UTF-8
            _keep(path, encode_facts({path.name: package}), _MOST)
    return package


def _keep(path: Path, raw: bytes, most: int) -> None:
    """Write an entry and forget the oldest, with leftovers of killed runs, if that is allowed."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, raw)
        made = (each for each in path.parent.iterdir() if _OWN.fullmatch(each.name))
        for each in sorted(made, key=lambda each: each.stat().st_mtime_ns)[:-most]:
            each.unlink()


def _read_own(path: Path) -> bytes:
    """Read a file of this user; files of other users are not trusted.

    Several users can share a cache, by XDG_CACHE_HOME.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:  # noqa: PTH123
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise ValueError(f"{path} is another user's")
        return file.read()
