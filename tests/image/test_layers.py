"""Layers: read, merged and written, beside what GNU tar makes of the same bytes."""

from __future__ import annotations

import io
import tarfile
import tempfile
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pkgtools.errors import MalformedError
from pkgtools.image import layer as layers_module
from pkgtools.image import merged as merged_module
from pkgtools.image.layer import FileKind, Member, write_layer
from pkgtools.image.merged import StoredLayer, merge

from .images import (
    Entry,
    compress,
    device,
    folder,
    hard_link,
    opaque,
    symlink,
    tar,
    unpack,
    whiteout,
    with_size,
    write_layout,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .images import Compression

FORMATS = [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]
LONG = "/".join(["a-folder-whose-name-is-long"] * 10) + "/" + "n" * 200
BASE = [
    folder("d"),
    Entry("d/one", b"1"),
    Entry("d/two", b"2", mode=0o4755),
    folder("d/e"),
    Entry("d/e/three", b"3"),
    symlink("link", "d/one"),
]
CASES: dict[str, list[list[Entry]]] = {
    "one layer": [BASE],
    "nothing": [[]],
    "a file replaced": [BASE, [Entry("d/one", b"new")]],
    "a file removed": [BASE, [whiteout("d/one")]],
    "a folder removed": [BASE, [whiteout("d")]],
    "a folder removed and made again": [BASE, [whiteout("d"), folder("d"), Entry("d/x", b"x")]],
    "a whiteout behind what it does not hide": [BASE, [Entry("d/x", b"x"), whiteout("d/one")]],
    "removed, then there again": [BASE, [whiteout("d/one")], [Entry("d/one", b"again")]],
    "opaque": [BASE, [folder("d"), opaque("d"), Entry("d/x", b"x")]],
    "opaque, at the end of its layer": [BASE, [folder("d"), Entry("d/x", b"x"), opaque("d")]],
    "all removed": [BASE, [Entry(".wh..wh..opq"), Entry("new", b"n")]],
    "a folder replaced by a file": [BASE, [Entry("d/e", b"a file now")]],
    "a folder replaced by a link": [BASE, [symlink("d/e", "/etc")]],
    "a folder without an entry replaced by a file": [
        [Entry("p/q/r/s", b"s"), Entry("p/t", b"t")],
        [Entry("p/q", b"a file now")],
    ],
    "a folder without an entry removed": [[Entry("p/q/r", b"r")], [whiteout("p/q")]],
    "a file replaced by a folder": [BASE, [folder("d/one"), Entry("d/one/deep", b"deep")]],
    "a link replaced by a folder": [BASE, [folder("link"), Entry("link/deep", b"deep")]],
    "a link replaced by a file": [BASE, [Entry("link", b"plain")]],
    "hard links": [[*BASE, hard_link("d/other", "d/one"), hard_link("third", "d/other")]],
    "a hard link's file is replaced above": [
        [*BASE, hard_link("d/other", "d/one")],
        [Entry("d/one", b"new")],
    ],
    "an entry twice": [[Entry("twice", b"first"), Entry("twice", b"second")]],
    "long names": [[Entry(LONG, b"deep"), hard_link("short", LONG), symlink("to", LONG)]],
    "odd names": [[Entry("ümläut \n name", b"1"), Entry(" space ", b"2"), Entry("-dash", b"3")]],
    "a name that almost hides": [BASE, [Entry("d/.whx", b"x"), Entry("d/wh.one", b"y")]],
    "empty files": [[Entry("empty"), Entry("d/empty")]],
}


def _stored(plain: Sequence[bytes], how: Compression = "") -> list[StoredLayer]:
    blobs = [compress(layer, how) for layer in plain]
    return [StoredLayer(f"layer {n}", _opener(blob)) for n, blob in enumerate(blobs)]


def _opener(blob: bytes) -> Callable[[], io.BytesIO]:
    return lambda: io.BytesIO(blob)


def _as_unpacked(plain: Sequence[bytes], scratch: Path) -> dict[str, tuple[str, bytes, int]]:
    """Return what GNU tar and the rules for whiteouts make of some layers."""
    reference = write_layout(scratch / "layout", plain)
    unpack(reference, scratch / "rootfs")
    found = {}
    for path in (scratch / "rootfs").rglob("*"):
        name = path.relative_to(scratch / "rootfs").as_posix()
        if path.is_symlink():
            found[name] = ("LINK", bytes(path.readlink()), 0)
        elif path.is_file():
            found[name] = ("FILE", path.read_bytes(), path.stat().st_mode & 0o7777)
    return found


def _as_merged(layers: Sequence[StoredLayer]) -> dict[str, tuple[str, bytes, int]]:
    return {
        path: (m.kind.name, m.data, m.permissions if m.kind is FileKind.FILE else 0)
        for path, m in merge(layers, lambda _: True).items()
        if m.kind is not FileKind.FOLDER
    }


@pytest.mark.parametrize("name", CASES)
def test_layers_are_what_tar_unpacks(name: str, tmp_path: Path) -> None:
    plain = [tar(entries) for entries in CASES[name]]
    assert _as_merged(_stored(plain)) == _as_unpacked(plain, tmp_path)


@pytest.mark.parametrize("how", ["", "gzip", "zstd"])
@pytest.mark.parametrize("prefix", ["", "./", "/"])
@pytest.mark.parametrize("tar_format", FORMATS, ids=["pax", "gnu"])
def test_the_way_a_layer_is_written_does_not_matter(
    how: Compression, prefix: str, tar_format: int
) -> None:
    for entries in CASES.values():
        written = [tar(some, prefix, tar_format) for some in entries]
        expected = _as_merged(_stored([tar(some) for some in entries]))
        assert _as_merged(_stored(written, how)) == expected


_NAMES = st.sampled_from(["a", "b", "a/a", "a/b", "b/a", "a/a/a", "a/a/b", "b/a/a"])
_KINDS = st.sampled_from(["file", "link", "folder", "whiteout", "opaque"])


def _entries(drawn: list[tuple[str, str, int]]) -> list[Entry]:
    """Return a layer that an engine could have written: every folder above a path is in it."""
    made: dict[str, Entry] = {}
    for path, kind, number in drawn:
        parents = [path[:at] for at, letter in enumerate(path) if letter == "/"]
        if any(made[p].kind != tarfile.DIRTYPE for p in parents if p in made):
            continue
        if any(name.startswith(f"{path}/") for name in made) or path in made:
            continue
        hidden = {p.replace(".wh.", "") for p in made if ".wh." in p}
        if {path, *parents} & hidden:
            continue
        for parent in parents:
            made[parent] = folder(parent)
        entry = {
            "file": Entry(path, str(number).encode()),
            "link": symlink(path, f"/nowhere/{number}"),
            "folder": folder(path),
            "whiteout": whiteout(path),
            "opaque": folder(path),
        }[kind]
        made[entry.path] = entry
        if kind == "opaque":
            made[f"{path}/.wh..wh..opq"] = opaque(path)
    return list(made.values())


LAYERS = st.lists(
    st.lists(st.tuples(_NAMES, _KINDS, st.integers(0, 99)), max_size=5).map(_entries),
    min_size=1,
    max_size=4,
)


@settings(max_examples=40, deadline=None)
@given(LAYERS)
def test_any_layers_are_what_tar_unpacks(layers: list[list[Entry]]) -> None:
    plain = [tar(entries) for entries in layers]
    with tempfile.TemporaryDirectory() as scratch:
        assert _as_merged(_stored(plain)) == _as_unpacked(plain, Path(scratch))


def test_only_what_is_wanted_is_kept() -> None:
    plain = tar([Entry("big", b"big"), Entry("small", b"small"), hard_link("name", "big")])
    kept = merge(_stored([plain]), {"small", "name"}.__contains__)
    assert {path: member.data for path, member in kept.items()} == {
        "big": b"big",  # its other name is wanted
        "small": b"small",
        "name": b"big",
    }
    assert merge(_stored([plain]), {"small"}.__contains__)["big"].data == b""


def test_owner_mode_and_time_are_read() -> None:
    entry = Entry("file", b"", 0o640, owner=(5, 2**31), mtime=7)
    (member,) = merge(_stored([tar([entry])]), lambda _: True).values()
    assert member == Member("file", FileKind.FILE, 0o640, 5, 2**31, 7, b"")


@pytest.mark.parametrize(
    "entry",
    [
        Entry("../outside", b"x"),
        Entry("a/../../outside", b"x"),
        Entry("a/..", b"x"),
        whiteout("../outside"),
        hard_link("inside", "../../etc/passwd"),
        Entry("short", b"x", pax={"path": "../outside"}),
    ],
    ids=lambda entry: entry.path,
)
@pytest.mark.parametrize("prefix", ["", "./", "/"])
def test_a_path_that_leads_out_is_refused(entry: Entry, prefix: str) -> None:
    with pytest.raises(MalformedError, match="leads out of the image"):
        merge(_stored([tar([entry], prefix)]), lambda _: True)


@pytest.mark.parametrize(
    "entries",
    [
        [hard_link("name", "nowhere")],
        [hard_link("name", "name")],
        [hard_link("one", "two"), hard_link("two", "one")],
        [folder("d"), hard_link("name", "d")],
        [symlink("to", "/etc/passwd"), hard_link("name", "to")],
        [device("null"), hard_link("name", "null")],
    ],
    ids=["nothing", "itself", "a loop", "a folder", "a symbolic link", "a device"],
)
def test_a_hard_link_to_no_file_is_refused_where_it_matters(entries: list[Entry]) -> None:
    layers = _stored([tar(entries)])
    with pytest.raises(MalformedError, match=r"is a hard link to .*, which is not a file"):
        merge(layers, lambda _: True)
    merge(layers, lambda _: False)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("1.9", 1),
        ("9223372035", 9223372035),
        ("9223372036", 0),
        ("-1", 0),
        ("1e30", 0),
        ("inf", 0),
        ("-inf", 0),
        ("nan", 0),
    ],
)
def test_a_time_that_no_file_system_keeps_is_the_epoch(said: str, kept: int) -> None:
    """As it is to containerd and moby."""
    merged = merge(_stored([tar([Entry("a", pax={"mtime": said})])]), lambda _: True)
    assert merged["a"].mtime == kept


@pytest.mark.parametrize("key", ["uid", "gid"])
@pytest.mark.parametrize("number", [2**63, -(2**63)])
def test_an_owner_that_no_system_has_is_refused(key: str, number: int) -> None:
    layers = _stored([tar([Entry("a", pax={key: str(number)})])])
    with pytest.raises(MalformedError, match="layer 0: a has an owner"):
        merge(layers, lambda _: True)


def _damaged() -> dict[str, bytes]:
    plain = tar([Entry("a", b"x" * 100_000), Entry("b", b"y" * 100_000)])
    zipped, zstd = compress(plain, "gzip"), compress(plain, "zstd")
    return {
        "gzip cut short": zipped[: len(zipped) // 2],
        "gzip damaged": zipped[:40] + b"\xff" * 40 + zipped[80:],
        "zstd cut short": zstd[:-3],
        "zstd damaged": zstd[:40] + b"\xff" * 40 + zstd[80:],
        "tar cut short": plain[:100_000],
        "no tar": b"this is no archive" * 100,
        "an odd header": plain[:148] + b"zzzzzzzz" + plain[156:],
        "a PAX header that lies": tar([Entry("a", b"x", pax={"size": "99999"})]),
        "a PAX header that goes back": tar([Entry("a", b"x", pax={"size": "-2048"})]),
        "a header that goes back": tar([folder("d")])[:512] + with_size(plain, -512),
        "a header of a size beyond counting": with_size(tar([Entry("a", kind=b"Z")]), 2**80),
        "a long name of a size beyond counting": with_size(
            tar([Entry("n" * 200)], tar_format=tarfile.GNU_FORMAT), 2**80
        ),
        "a map of holes that is none": tar([Entry("a", b"x", pax={"GNU.sparse.map": "x,y"})]),
    }


@pytest.mark.parametrize("name", _damaged())
def test_a_damaged_layer_is_refused(name: str) -> None:
    layer = StoredLayer("layer 0", _opener(_damaged()[name]))
    with pytest.raises(MalformedError, match=r"^layer 0 cannot be read: "):
        merge([layer], lambda _: True)


def test_a_file_that_is_too_large_is_refused_where_it_matters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(layers_module, "LIMIT", 10)
    layers = _stored([tar([Entry("large", b"x" * 11), Entry("fits", b"x" * 10)])])
    with pytest.raises(MalformedError, match="layer 0: large is larger than 10 bytes"):
        merge(layers, lambda _: True)
    assert merge(layers, {"fits"}.__contains__)["fits"].data == b"x" * 10


def test_a_layer_is_written_as_tar_reads_it() -> None:
    members = [
        Member("b", FileKind.FILE, 0o640, 3, 4, 5, b"data"),
        Member(LONG, FileKind.LINK, data=b"to"),
        Member("a", FileKind.FOLDER, 0o755),
    ]
    written = write_layer(members, ["c/gone", "top"])
    with tarfile.open(fileobj=io.BytesIO(written.data)) as archive:
        found = {info.name: info for info in archive}
        assert archive.extractfile("b").read() == b"data"  # type: ignore[union-attr]
    assert list(found) == sorted(["a", "b", LONG, "c/.wh.gone", ".wh.top"])
    b = found["b"]
    assert (b.mode, b.uid, b.gid, b.mtime, b.uname, b.gname) == (0o640, 3, 4, 5, "", "")
    assert (found[LONG].issym(), found[LONG].linkname, found["a"].isdir()) == (True, "to", True)
    assert write_layer(reversed(members), ["top", "c/gone"]) == written


def _measured(layer: bytes, how: Compression) -> tuple[str, int]:
    """Return how a reading ends, and the memory that it takes at most."""
    blob = compress(layer, how)
    tracemalloc.start()
    try:
        merge([StoredLayer("layer 0", _opener(blob))], lambda _: False)
        said = ""
    except MalformedError as error:
        said = error.message
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return said, peak


def test_a_path_of_many_folders_is_refused() -> None:
    deep = tar([Entry("a/" * 60_000 + "b")])
    said, peak = _measured(deep, "gzip")
    assert said.startswith("layer 0 has a path of 120001 characters")
    assert peak < 10_000_000
    deepest = tar([Entry("a/" * 2_000 + "b")])
    assert _measured(deepest, "") < ("", 10_000_000)


@pytest.mark.parametrize("kind", [b"L", b"K", b"x", b"g"])
def test_an_extended_header_that_claims_gigabytes_is_refused(kind: bytes) -> None:
    claimed = with_size(tar([Entry("a", kind=kind)]), 3 * 2**30)
    said, peak = _measured(claimed + bytes(16 * 2**20), "zstd")
    assert said == "layer 0 cannot be read: an extended header has a size of 3221225472"
    assert peak < 10_000_000


def test_empty_entries_take_little_memory() -> None:
    one = tar([Entry("a")])[:512]
    assert _measured(one * 5_000, "zstd") < ("", 1_000_000)


def test_extended_headers_without_end_are_refused() -> None:
    header = tar([Entry("a", pax={"comment": "x"})])[:1024]
    assert "cannot be read" in _measured(header * 5_000 + bytes(1024), "")[0]
    keys = b"".join(_global(number) for number in range(2_000))
    said, peak = _measured(keys + bytes(1024), "")
    assert said == "layer 0 cannot be read: it has more than 1000 global pax headers"
    assert peak < 10_000_000


def _global(number: int) -> bytes:
    return (
        tarfile.TarInfo.create_pax_global_header({f"key{number}": "value"})
        + tar([Entry(f"f{number}")])[:512]
    )


@pytest.mark.parametrize("major", ["1", ""])
def test_a_map_of_holes_without_end_is_refused(major: str) -> None:
    """Python reads GNU's maps of sparse files without a bound, or for ever at the end."""
    pax = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "9"}
    layer = tar([Entry("a", b"9" * 512, pax=pax)] if major else [Entry("a", kind=b"S")])
    assert _measured(layer[:-1024], "")[0] == "layer 0 cannot be read: it has a sparse file"


def test_a_damaged_header_is_not_the_end_of_a_layer() -> None:
    plain = tar([Entry("a"), Entry("b")])
    damaged = plain[:512] + plain[512:660] + b"zzzzzzzz" + plain[668:]
    assert _measured(damaged, "")[0] == "layer 0 cannot be read: invalid header"


def test_the_files_to_read_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merged_module, "LIMIT", 15)
    layers = _stored([tar([Entry("a", b"x" * 8)]), tar([Entry("b", b"x" * 8)])])
    with pytest.raises(MalformedError, match="the files to read are larger than 15 bytes"):
        merge(layers, lambda _: True)
    assert set(merge(layers, {"a"}.__contains__)) == {"a", "b"}
