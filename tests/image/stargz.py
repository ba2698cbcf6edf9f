"""Layers with a table of contents, made by the formats' own documents and nothing of pkgtools.

The eStargz document (stargz-snapshotter, docs/estargz.md) says which frames a layer has; for
zstd:chunked skopeo makes them.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from .images import OCI_TYPES, add_to_index, config_of, digest, put_blob

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_KINDS = {
    tarfile.REGTYPE: "reg",
    tarfile.DIRTYPE: "dir",
    tarfile.SYMTYPE: "symlink",
    tarfile.LNKTYPE: "hardlink",
    tarfile.CHRTYPE: "char",
}
TOC_DIGEST = "containerd.io/snapshot/stargz/toc.digest"


def estargz(layer: bytes, chunk: int = 1000, shared: int = 0) -> tuple[bytes, dict[str, Any]]:
    """Return a layer as eStargz has it, and its table.

    Args:
        layer: the archive.
        chunk: bytes of a chunk.
        shared: bytes of a frame that another chunk can be added to (``--estargz-min-chunk-size``).

    """
    out, pending, entries = io.BytesIO(), bytearray(), []

    def flush(data: bytes) -> None:
        if data:
            out.write(gzip.compress(data, mtime=0))

    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        for info in archive:
            when = datetime.fromtimestamp(info.mtime, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            entry: dict[str, Any] = {"name": info.name, "type": _KINDS[info.type]}
            entry |= {"mode": info.mode, "uid": info.uid, "gid": info.gid, "modtime": when}
            entry |= {"linkName": info.linkname} if info.linkname else {}
            pending += layer[info.offset : info.offset_data]
            entries.append(entry)
            if not info.isreg() or not info.size:
                continue
            data = layer[info.offset_data : info.offset_data + info.size]
            entry |= {"size": info.size, "digest": digest(data)}
            for at in range(0, info.size, chunk):
                if len(pending) >= shared:
                    flush(bytes(pending))
                    pending = bytearray()
                part = data[at : at + chunk]
                here = {"offset": out.tell(), "chunkOffset": at, "chunkDigest": digest(part)}
                here |= {"innerOffset": len(pending)} if pending else {}
                here |= {"chunkSize": len(part)} if at + chunk < info.size else {}
                if at:
                    entries.append({"name": info.name, "type": "chunk", **here})
                else:
                    entry |= here
                pending += part
            pending += bytes(-info.size % 512)
    flush(bytes(pending))
    return with_table(out.getvalue(), {"version": 1, "entries": entries})


def with_table(frames: bytes, table: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
    """Return the frames of an eStargz layer with a table and the footer behind them."""
    return frames + end_of(len(frames), table), table


def end_of(start: int, table: dict[str, Any]) -> bytes:
    """Return the end of an eStargz layer, from its table on."""
    raw = json.dumps(table).encode()
    info = tarfile.TarInfo("stargz.index.json")
    info.size = len(raw)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(info, io.BytesIO(raw))
    extra = b"SG\x16\x00" + b"%016xSTARGZ" % start
    footer = b"\x1f\x8b\x08\x04" + bytes(4) + b"\x00\xff\x1a\x00" + extra
    footer += b"\x01\x00\x00\xff\xff" + bytes(8)
    assert len(footer) == 51
    return gzip.compress(packed.getvalue(), mtime=0) + footer


def descriptor_of(blob: bytes, table: dict[str, Any]) -> dict[str, Any]:
    """Return the descriptor of an eStargz layer, which vouches for its table."""
    return {
        "mediaType": f"{OCI_TYPES[2]}+gzip",
        "digest": digest(blob),
        "size": len(blob),
        "annotations": {TOC_DIGEST: digest(json.dumps(table).encode())},
    }


def write_estargz(where: Path, layers: Sequence[bytes], chunk: int = 1000) -> str:
    """Write a layout whose layers are eStargz; return the image's reference."""
    made = [estargz(layer, chunk) for layer in layers]
    plain = [gzip.decompress(blob) for blob, _ in made]
    for blob, _ in made:
        put_blob(where, blob, "")
    manifest = {
        "schemaVersion": 2,
        "mediaType": OCI_TYPES[0],
        "config": put_blob(where, config_of(plain), OCI_TYPES[1]),
        "layers": [descriptor_of(blob, table) for blob, table in made],
    }
    add_to_index(where, put_blob(where, json.dumps(manifest).encode(), OCI_TYPES[0]), "base")
    return f"oci:{where}:base"
