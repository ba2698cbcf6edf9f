"""Layers with a table of contents: the answer is that of reading all, from a few ranges."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from commands import call
from hypothesis import given, settings
from hypothesis import strategies as st

from pkgtools.errors import PkgtoolsError
from pkgtools.image import contents
from pkgtools.image.merged import StoredLayer, merge

from .building import SYSTEM, build, call_build, write_base
from .fake_registry import FakeRegistry, fake_registry
from .images import Entry, hard_link, moved, read, symlink, tar
from .stargz import TOC_DIGEST, descriptor_of, estargz, with_table, write_estargz
from .test_early_stop import LOCAL, engine_layer
from .test_layers import CASES, LAYERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from project import Project

    from pkgtools.image.layer import Member


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as running:
        yield running


def _stored(
    blob: bytes, descriptor: dict[str, Any], *, whole: Callable[[], Any] | None = None
) -> StoredLayer:
    """Return a layer; by default one that can only be read by its table."""

    def refuse() -> Any:
        raise AssertionError("the layer is read whole")

    def read_range(start: int, end: int) -> bytes:
        return blob[start:end]

    return StoredLayer("layer", whole or refuse, descriptor, read_range=read_range)


def _by_table(layer: bytes, chunk: int = 1000, shared: int = 0) -> StoredLayer:
    blob, table = estargz(layer, chunk, shared)
    return _stored(blob, descriptor_of(blob, table))


def _whole(layer: bytes) -> StoredLayer:
    return StoredLayer("layer", lambda: io.BytesIO(layer))


def _merged(layers: Sequence[StoredLayer], unwanted: str) -> dict[str, Member] | str:
    try:
        return merge(layers, lambda path: not path.endswith(unwanted))
    except PkgtoolsError as error:
        return type(error).__name__


@settings(max_examples=60, deadline=None)
@given(LAYERS, st.sampled_from(["a", "b", "."]))
def test_any_table_says_what_its_layer_says(layers: list[list[Entry]], unwanted: str) -> None:
    plain = [tar(entries) for entries in layers]
    expected = _merged([_whole(layer) for layer in plain], unwanted)
    for chunk, shared in ((1, 0), (1000, 0), (1000, 2000), (1, 2000)):
        assert _merged([_by_table(layer, chunk, shared) for layer in plain], unwanted) == expected


@pytest.mark.parametrize("prefix", ["", "./", "/"])
def test_each_kind_of_entry_is_in_a_table(prefix: str) -> None:
    for name, layers in CASES.items():
        plain = [tar(entries, prefix) for entries in layers]
        for unwanted in (".", "e"):  # a hard link's file may not be wanted itself
            expected = _merged([_whole(layer) for layer in plain], unwanted)
            found = _merged([_by_table(layer) for layer in plain], unwanted)
            assert found == expected, name


def test_a_table_of_skopeos_says_what_its_layer_says(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    """Of zstd:chunked; skopeo writes the older names of the annotations."""
    skopeo = shutil.which("skopeo")
    if skopeo is None:
        pytest.skip("skopeo is not installed: apt-get install skopeo")
    big = Entry("usr/lib/big.so", _noise(300_000))
    source = write_base(tmp_path / "source", [[*engine_layer(moved(widget, LOCAL)), big]], "")
    made = f"oci:{tmp_path / 'made'}:base"
    command = [skopeo, "copy", "--quiet", "--dest-compress-format", "zstd:chunked", source, made]
    subprocess.run(command, check=True)
    for path in (tmp_path / "made" / "blobs" / "sha256").iterdir():
        raw = path.read_bytes()
        if not raw.startswith(b"{"):  # damaged in the large file, it cannot be read whole
            path.write_bytes(raw[:150_000] + bytes(50) + raw[150_050:])
            layer_path, sound = path, raw
    catalog = project.catalog()
    assert build(catalog, made).layer == build(catalog, source).layer
    layer_path.write_bytes(sound)
    # The newer names.
    text = next(p for p in _manifests(tmp_path / "made") if "zstd-chunked" in p.read_text())
    facts = json.loads(text.read_text().replace("io.containers", "io.github.containers"))
    described = facts["layers"][0]
    layer = _stored(
        (tmp_path / "made" / "blobs" / "sha256" / described["digest"][7:]).read_bytes(), described
    )
    assert merge([layer], lambda path: path == "usr/lib/big.so")["usr/lib/big.so"].data == big.data


def _noise(size: int) -> bytes:
    """Return bytes that do not compress, the same each time."""
    return b"".join(hashlib.sha512(b"%d" % n).digest() for n in range(size // 64))


def _manifests(where: Path) -> list[Path]:
    blobs = (where / "blobs" / "sha256").iterdir()
    return [path for path in blobs if path.read_bytes().startswith(b"{")]


@pytest.fixture
def hard(widget: list[Entry], tmp_path: Path) -> str:
    """Return a base with the package in one layer of all of site-packages."""
    others = [
        Entry(f"{LOCAL}/other/{number}.so", os.urandom(400_000), mode=0o755) for number in range(9)
    ]
    package = engine_layer([*others[:5], *moved(widget, LOCAL), *others[5:]])
    path = [Entry("etc/os-release", b"ID=widget\n")]
    return write_estargz(
        tmp_path / "layout", [tar(engine_layer(SYSTEM)), tar(package), tar(path)], 100_000
    )


def _bytes_read(registry: FakeRegistry) -> int:
    """Return how many bytes of layers were asked for."""
    layers = set(registry.layers_read())
    total = 0
    for asked in registry.asked:
        digest = asked.path.rpartition("/")[2]
        if asked.method == "GET" and digest in layers:
            part = re.fullmatch(r"bytes=(\d+)-(\d+)", asked.headers.get("Range", ""))
            whole = len(registry.blobs["base", digest])
            total += int(part[2]) - int(part[1]) + 1 if part else whole
    return total


def test_few_bytes_of_a_large_layer_are_read(
    registry: FakeRegistry,
    project: Project,
    hard: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base = registry.push_layout(hard, "base:1")
    done = call_build(project, base, "--tag", f"docker://{registry.address}/base:new")
    assert done.code == 0, done
    size = sum(len(blob) for (name, _), blob in registry.blobs.items() if name == "base")
    assert size > 3_500_000
    assert _bytes_read(registry) < 1_100_000  # one window, of a megabyte, and the tables
    registry.ranges = False
    plain = registry.push_layout(hard, "plain:1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another cache"))
    again = call_build(project, plain, "--tag", f"docker://{registry.address}/plain:new")
    assert again.facts["layer"] == done.facts["layer"]


@pytest.mark.parametrize("fault", ["drop", "half", 503])
def test_a_break_while_ranges_are_read_costs_time_alone(
    fault: object,
    registry: FakeRegistry,
    project: Project,
    hard: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    base = registry.push_layout(hard, "base:1")
    registry.fault = lambda number, asked: (
        fault if "Range" in asked.headers and number % 2 else None
    )
    done = call_build(project, base, "--tag", f"docker://{registry.address}/base:new")
    assert done.code == 0, done
    registry.fault = lambda _number, asked: fault if "Range" in asked.headers else None
    refused = call_build(project, base, "--tree", LOCAL)
    assert (refused.code, refused.facts["error"]["code"]) == (7, "registry"), refused


LAYER = tar(
    [
        Entry("one", b"1" * 2500),
        Entry("two", b"2"),
        hard_link("three", "two"),
        symlink("four", "two"),
        Entry("five", b"5"),
    ]
)


def _table(change: Callable[[list[dict[str, Any]]], object]) -> StoredLayer:
    """Return a layer whose manifest vouches for a changed table."""
    blob, table = estargz(LAYER)
    change(table["entries"])
    frames = blob[: int(blob[-35:-19], 16)]
    made, table = with_table(frames, table)
    return _stored(made, descriptor_of(made, table), whole=lambda: io.BytesIO(LAYER))


def _entry(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _swap_content(entries: list[dict[str, Any]]) -> None:
    """Say of one file what is true of another."""
    two, five = _entry(entries, "two"), _entry(entries, "five")
    for key in ("offset", "digest", "chunkDigest"):
        two[key], five[key] = five[key], two[key]


LIES: dict[str, Callable[[list[dict[str, Any]]], object]] = {
    "a wrong digest": lambda e: e[0].update(chunkDigest=f"sha256:{'0' * 64}"),
    "a path that leads out": lambda e: e[0].update(name="../one"),
    "an owner that no system has": lambda e: e[0].update(uid=2**63 - 1 + 1),
    "a large file": lambda e: e[0].update(size=2**40),
    "a long file": lambda e: e[0].update(size=2501),
    "a large chunk": lambda e: e[0].update(chunkSize=2**40),
    "an offset behind the end": lambda e: e[0].update(offset=2**40),
    "an offset elsewhere": lambda e: e[0].update(offset=1),
    "an inner offset": lambda e: e[0].update(innerOffset=2**40),
    "a link to nowhere": lambda e: _entry(e, "three").update(linkName="nowhere"),
    "a negative size": lambda e: e[0].update(size=-1),
    "a negative offset": lambda e: e[0].update(offset=-1),
    "no digest": lambda e: [e[0].pop("digest"), e[0].pop("chunkDigest")],
    "a type of tomorrow": lambda e: e[0].update(type="reflink"),
    "no text": lambda e: e[0].update(name=7),
    # Each of these tables is sound in itself, and its digests are those of some bytes.
    "a missing file": lambda e: e.remove(_entry(e, "two")),
    "a missing link": lambda e: e.remove(_entry(e, "four")),
    "the last file is missing": lambda e: e.remove(_entry(e, "five")),
    "an entry more at the end": lambda e: e.append({**_entry(e, "four"), "name": "last"}),
    "a missing chunk": lambda e: [e.pop(2), e[0].update(size=1500)],
    "a file more": lambda e: e.insert(3, {**_entry(e, "two"), "name": "more"}),
    "a path twice": lambda e: _entry(e, "five").update(name="two"),
    "another name": lambda e: _entry(e, "two").update(name="new"),
    "another link": lambda e: _entry(e, "four").update(linkName="one"),
    "another mode": lambda e: _entry(e, "five").update(mode=0o755),
    "another time": lambda e: _entry(e, "five").update(modtime="2001-01-01T00:00:00Z"),
    "a folder in a file's place": lambda e: _entry(e, "four").update(type="dir", linkName=""),
    "content of another file": _swap_content,
}


@pytest.mark.parametrize("name", LIES)
def test_of_a_table_that_lies_the_layer_is_read(name: str) -> None:
    """Engines unpack the archive: its files are what the facts must be true of."""
    layer = _table(LIES[name])
    assert merge([layer], lambda _: True) == merge([_whole(LAYER)], lambda _: True)


KEYS = ("name", "type", "size", "offset", "chunkSize", "innerOffset", "mode", "uid", "linkName")
VALUES = (-1, 1, 2500, "two", "dir", "chunk")


def test_any_change_of_a_table_gives_the_answer_of_the_layer() -> None:
    """Where all files are read, all headers are compared."""
    expected = merge([_whole(LAYER)], lambda _: True)
    count = len(estargz(LAYER)[1]["entries"])
    for number, key, value in itertools.product(range(count), KEYS, VALUES):
        layer = _table(lambda e: e[number].update({key: value}))  # noqa: B023
        assert merge([layer], lambda _: True) == expected, (number, key, value)
    for number, other in itertools.product(range(count), repeat=2):
        for layer in (
            _table(lambda e: e.pop(number)),  # noqa: B023
            _table(lambda e: e.insert(other, e[number])),  # noqa: B023
            _table(lambda e: e.insert(other, e.pop(number))),  # noqa: B023
        ):
            assert merge([layer], lambda _: True) == expected, (number, other)


def test_a_table_that_holds_is_said(project: Project, widget: list[Entry], tmp_path: Path) -> None:
    base = write_estargz(tmp_path / "layout", [tar(engine_layer(moved(widget, LOCAL)))])
    (layer,) = read(base).manifest["layers"]
    for _ in range(2):  # the second time, from the cache
        assert build(project.catalog(), base).by_table == (layer["digest"],)
    found = call("image", "inspect", base, "--json", "--catalog", project.targets)
    assert found.facts["by_table"] == [layer["digest"]]
    text = call("image", "inspect", base, "--catalog", project.targets)
    assert f"read by table of contents: {layer['digest']}" in text.out
    out = tmp_path / "attestations"
    made = call_build(project, base, "--attest", str(out))
    assert made.code == 0, made.out
    (path,) = out.glob("*.intoto.json")
    (dependency, *_) = json.loads(path.read_bytes())["predicate"]["buildDefinition"][
        "resolvedDependencies"
    ]
    assert dependency["annotations"] == {"pkgtools.by_table": [layer["digest"]]}
    assert build(project.catalog(), write_base(tmp_path / "plain", [widget])).by_table == ()


@pytest.mark.parametrize("what", ["no digest", "another digest", "no footer", "too large"])
def test_a_table_that_no_manifest_vouches_for_is_not_used(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob, table = estargz(LAYER)
    descriptor = descriptor_of(blob, table)
    if what == "no digest":
        del descriptor["annotations"]
    elif what == "another digest":
        descriptor["annotations"][TOC_DIGEST] = f"sha256:{'1' * 64}"
    elif what == "no footer":
        descriptor["size"] -= 1
    else:
        monkeypatch.setattr(contents, "_TABLE_LIMIT", 100)
    layer = _stored(blob, descriptor, whole=lambda: io.BytesIO(LAYER))
    assert merge([layer], lambda _: True) == merge([_whole(LAYER)], lambda _: True)


CHUNKED = "io.github.containers.zstd-chunked.manifest-"


@pytest.mark.parametrize("position", ["", "1:2:3:4", "1:2:3:1", "x:2:3:1", "-5:9:9:1", "0:99:9:1"])
def test_a_position_that_is_none_is_not_used(position: str) -> None:
    said = {f"{CHUNKED}checksum": f"sha256:{'1' * 64}", f"{CHUNKED}position": position}
    layer = _stored(LAYER, {"annotations": said}, whole=lambda: io.BytesIO(LAYER))
    assert merge([layer], lambda _: True) == merge([_whole(LAYER)], lambda _: True)
