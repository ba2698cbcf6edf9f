"""Cache what was found in images and layers, so that a base is read once."""

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from pkgtools.errors import PkgtoolsError
from pkgtools.image.facts import (
    decode_facts,
    decode_layer,
    encode_facts,
    encode_layer,
    facts_key,
    layer_key,
)
from pkgtools.image.merged import LayerChanges, StoredLayer
from pkgtools.image.model import Image
from pkgtools.image.package import FoundPackage, PackageQuery
from pkgtools.image.stored import LayeredImage
from pkgtools.util.cache import cache_folder
from pkgtools.util.files import replace_file

_MOST: Final = 32
"""Images in the cache; an entry has the size of the files that series touch."""
_MOST_LAYERS: Final = 128
"""Layers in the cache; an entry has the size of the paths and of the files that series touch."""
_OWN: Final = re.compile(r"[0-9a-f]{64}|\.[0-9a-f]{64}\.pkgtools-new")
"""The names of entries, and of those that are being written."""


class KnownFacts(Protocol):
    """A place whose facts the user trusts."""

    def package(self, image: Image, query: PackageQuery) -> FoundPackage | None:
        """Return the package in an image; None if the place has no facts of it.

        Raises:
            PkgtoolsError: the place cannot be read, or its facts are damaged.
        """
        ...


@dataclass(frozen=True)
class _KnownLayers:
    """The cached changes of layers to the files of a query."""

    folder: Path
    query: PackageQuery

    def get(self, layer: StoredLayer) -> LayerChanges | None:
        """Return a layer's changes; see `LayerCache.get`."""
        if not layer.digest:
            return None
        with contextlib.suppress(OSError, ValueError):
            return decode_layer(_read_own(self.folder / layer_key(layer.digest, self.query)))
        return None

    def put(self, layer: StoredLayer, changes: LayerChanges) -> None:
        """Keep a layer's changes; see `LayerCache.put`."""
        if layer.digest:
            with contextlib.suppress(UnicodeEncodeError):
                key = layer_key(layer.digest, self.query)
                _keep(self.folder, key, encode_layer(changes), _MOST_LAYERS)


def known_package(image: Image, query: PackageQuery) -> FoundPackage:
    """Return the location of the package in an image, as `Image.find` does.

    The cache has packages by image, and changes by layer, which images share. A damaged or
    read-only cache only costs time. Facts from elsewhere are not cached: the next build need not
    trust them.
    """
    folder = cache_folder("images")
    key = facts_key(image.identity, query) if image.identity else None
    if folder is not None and key is not None:
        with contextlib.suppress(OSError, ValueError, PkgtoolsError):
            cached = decode_facts(_read_own(folder / key), key, query, str(folder / key))
            if cached is not None:
                return cached
    if isinstance(image, LayeredImage):
        given = image.facts.package(image, query) if image.facts else None
        if given is not None:
            return given
        layers = cache_folder("layers")
        package = image.find(query, _KnownLayers(layers, query) if layers else None)
    else:
        package = image.find(query)
    if folder is not None and key is not None:
        with contextlib.suppress(UnicodeEncodeError):  # a name may not be UTF-8
            _keep(folder, key, encode_facts({key: package}), _MOST)
    return package


def _keep(folder: Path, key: str, raw: bytes, most: int) -> None:
    """Write an entry and forget the oldest, with leftovers of killed runs, if that is allowed."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / key, raw)
        made = (path for path in folder.iterdir() if _OWN.fullmatch(path.name))
        for path in sorted(made, key=lambda path: path.stat().st_mtime_ns)[:-most]:
            path.unlink()


def _read_own(path: Path) -> bytes:
    """Read a file of this user; files of other users are not trusted.

    Several users can share a cache, by XDG_CACHE_HOME.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:  # noqa: PTH123
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise ValueError(f"{path} is another user's")
        return file.read()
