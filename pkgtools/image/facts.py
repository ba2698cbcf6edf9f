"""Serialize what was found in images, for the cache, exported files and referrers.

Facts cannot be proved without reading the image, so their author must be trusted. This module
checks that they describe a package that an image can contain; patching then checks that its files
are those of a known revision.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgspec
import zstandard

from pkgtools.errors import MalformedError
from pkgtools.image.layer import FileKind, parents, relative
from pkgtools.image.merged import LayerChanges
from pkgtools.image.package import FoundPackage, PackageQuery, package_at

FORMAT: Final = 5
"""Increment with each change of the format or of the results of `Image.find`."""
LIMIT: Final = 64 * 1024 * 1024
"""Uncompressed bytes of facts; SGLang's, with all files that series touch, have 10 MB."""
_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")


class _KnownFacts(msgspec.Struct):
    format: int
    packages: dict[str, FoundPackage]
    """Packages by `facts_key`."""


def facts_key(identity: tuple[str, ...], query: PackageQuery) -> str:
    """Return the key of a package: a digest of the image, the query and the format."""
    upstream = query.upstream
    asked = (
        upstream.distribution,
        upstream.package,
        upstream.prefix,
        upstream.layout,
        sorted(query.files),
    )
    # Not msgspec: a folder that the user typed need not be UTF-8.
    return hashlib.sha256(json.dumps((FORMAT, identity, asked)).encode()).hexdigest()


def layer_key(digest: str, query: PackageQuery) -> str:
    """Return the key of a layer's changes to the files of a query."""
    return facts_key(("layer", digest), query)


def encode_facts(found: Mapping[str, FoundPackage]) -> bytes:
    """Serialize packages by key; the same packages give the same bytes.

    Raises:
        UnicodeEncodeError: a path is not UTF-8.
    """
    return _compressed(_KnownFacts(FORMAT, dict(found)))


def decode_facts(raw: bytes, key: str, query: PackageQuery, label: str) -> FoundPackage | None:
    """Return the package of a key, or None if the facts have no such key.

    Raises:
        MalformedError: they are damaged, or describe an impossible package.
    """
    try:
        facts = msgspec.msgpack.decode(_decompressed(raw), type=_KnownFacts)
        found = facts.packages.get(key) if facts.format == FORMAT else None
        return None if found is None else _checked(found, query, label)
    except (ValueError, zstandard.ZstdError, msgspec.DecodeError) as error:
        raise MalformedError(
            f"{label}: facts of images cannot be read: {error}",
            remedy="export them again: pkgtools image facts IMAGE --output PLACE",
        ) from None


def encode_layer(changes: LayerChanges) -> bytes:
    """Serialize a layer's changes.

    Raises:
        UnicodeEncodeError: a path is not UTF-8.
    """
    return _compressed(replace(changes, label="", links={}, names=0, data=0))


def decode_layer(raw: bytes) -> LayerChanges:
    """Return a layer's changes.

    Raises:
        ValueError: the bytes are damaged.
    """
    try:
        return msgspec.msgpack.decode(_decompressed(raw), type=LayerChanges)
    except (zstandard.ZstdError, msgspec.DecodeError) as error:
        raise ValueError(str(error)) from None


def _compressed(facts: object) -> bytes:
    compressor = zstandard.ZstdCompressor(level=3, write_checksum=True)
    return compressor.compress(_ENCODER.encode(facts))


def _decompressed(raw: bytes) -> bytes:
    """Return a frame's content; zstandard would allocate any size that the header has."""
    if not 0 <= zstandard.frame_content_size(raw) <= LIMIT:
        raise ValueError(f"the frame says no size, or one of over {LIMIT} bytes")
    return zstandard.ZstdDecompressor().decompress(raw)


def _checked(found: FoundPackage, query: PackageQuery, label: str) -> FoundPackage:
    """Return a package if `Image.find` can return it."""
    members = found.members
    paths = [found.folder, *found.names, *members]
    if any(relative(path, label) != path or "\0" in path for path in paths):
        raise ValueError("a path is not as layers have it")
    if any(path != member.path for path, member in members.items()):
        raise ValueError("a file has two paths")
    files = {path for path, member in members.items() if member.kind is not FileKind.FOLDER}
    if any(not files.isdisjoint(parents(path)) for path in [*members, *found.names]):
        raise ValueError("a file has files below it")
    if replace(found, by_table=()) != package_at(query, found.folder, members, found.names):
        raise ValueError("it has files that are not the package's")
    return found
