"""Serialize what was found in images, for the cache, exported files and referrers.

Facts cannot be proved without reading the image, so their author must be trusted. This module
checks that they describe a package that an image can contain; patching then checks that its files
are those of a known revision.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import zstandard

from pkgtools.errors import MalformedError
from pkgtools.image.layer import FileKind, Member, parents, relative
from pkgtools.image.merged import LayerChanges
from pkgtools.image.package import FoundPackage, package_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pkgtools.image.package import PackageQuery

FORMAT: Final = 4
"""Increment with each change of the format or of the results of `Image.find`."""
LIMIT: Final = 64 * 1024 * 1024
"""Uncompressed bytes of facts; SGLang's, with all files that series touch, have 10 MB."""
_ID: Final = 2**63 - 1
_Owner = Annotated[int, msgspec.Meta(ge=-_ID, le=_ID)]


class _MemberFacts(msgspec.Struct, array_like=True):
    """A `Member` within the bounds of an archive."""

    path: str
    kind: FileKind
    permissions: Annotated[int, msgspec.Meta(ge=0, le=0o7777)]
    uid: _Owner
    gid: _Owner
    mtime: Annotated[int, msgspec.Meta(ge=0, le=_ID // 10**9)]
    data: bytes


class _PackageFacts(msgspec.Struct):
    """A `FoundPackage`."""

    folder: str
    members: list[_MemberFacts]
    names: list[str]
    by_table: list[str]


class _LayerFacts(msgspec.Struct):
    """A `LayerChanges`."""

    members: list[_MemberFacts]
    hidden: list[str]
    opaque: list[str]
    others: list[str]
    folders: list[str]


class _KnownFacts(msgspec.Struct):
    format: int
    packages: dict[str, _PackageFacts]
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
    packages = {
        key: _PackageFacts(
            each.folder, _packed(each.members), sorted(each.names), list(each.by_table)
        )
        for key, each in sorted(found.items())
    }
    return _compressed(_KnownFacts(FORMAT, packages))


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
    paths = (changes.hidden, changes.opaque, changes.others, changes.folders)
    return _compressed(_LayerFacts(_packed(changes.members), *map(sorted, paths)))


def decode_layer(raw: bytes) -> LayerChanges:
    """Return a layer's changes.

    Raises:
        ValueError: the bytes are damaged.

    """
    try:
        facts = msgspec.msgpack.decode(_decompressed(raw), type=_LayerFacts)
    except (zstandard.ZstdError, msgspec.DecodeError) as error:
        raise ValueError(str(error)) from None
    return LayerChanges(
        members=_unpacked(facts.members),
        hidden=set(facts.hidden),
        opaque=set(facts.opaque),
        others=set(facts.others),
        folders=set(facts.folders),
    )


def _packed(members: Mapping[str, Member]) -> list[_MemberFacts]:
    return [_MemberFacts(**vars(member)) for _, member in sorted(members.items())]


def _unpacked(members: list[_MemberFacts]) -> dict[str, Member]:
    return {member.path: Member(**msgspec.structs.asdict(member)) for member in members}


def _compressed(facts: msgspec.Struct) -> bytes:
    raw = msgspec.msgpack.encode(facts)
    return zstandard.ZstdCompressor(level=3, write_checksum=True).compress(raw)


def _decompressed(raw: bytes) -> bytes:
    """Return a frame's content; zstandard would allocate any size that the header has.

    Raises:
        ValueError: the size is missing, or larger than `LIMIT`.

    """
    if not 0 <= zstandard.frame_content_size(raw) <= LIMIT:
        raise ValueError(f"the frame says no size, or one of over {LIMIT} bytes")
    return zstandard.ZstdDecompressor().decompress(raw)


def _checked(facts: _PackageFacts, query: PackageQuery, label: str) -> FoundPackage:
    """Return the package that facts describe.

    Raises:
        MalformedError: a path leads out of the image.
        ValueError: `Image.find` cannot return such a package.

    """
    paths = [facts.folder, *facts.names, *(member.path for member in facts.members)]
    if any(relative(path, label) != path or "\0" in path for path in paths):
        raise ValueError("a path is not as layers have it")
    members = _unpacked(facts.members)
    files = {path for path, member in members.items() if member.kind is not FileKind.FOLDER}
    if any(not files.isdisjoint(parents(path)) for path in [*members, *facts.names]):
        raise ValueError("a file has files below it")
    found = FoundPackage(facts.folder, members, frozenset(facts.names))
    if found != package_at(query, facts.folder, members, facts.names):
        raise ValueError("it has files that are not the package's")
    return replace(found, by_table=tuple(facts.by_table))
