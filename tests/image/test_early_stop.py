"""Layers from the top down: what is found is what all of them hold, and few are read."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import marshal
import struct
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from commands import call
from crash import SHORT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pkgtools.errors import PkgtoolsError, UsageError
from pkgtools.image.facts import decode_layer, encode_layer
from pkgtools.image.layer import FileKind, parents
from pkgtools.image.merged import StoredLayer, merge
from pkgtools.image.model import Config
from pkgtools.image.package import choose_folder, package_at
from pkgtools.image.stored import LayeredImage
from pkgtools.image.tree import query_of
from pkgtools.source.git import tracked_paths

from .building import build, write_base
from .images import (
    SITE,
    Entry,
    entries_of,
    folder,
    hard_link,
    moved,
    opaque,
    symlink,
    tar,
    unpack,
    whiteout,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from project import Project

    from pkgtools.image.merged import LayerChanges
    from pkgtools.image.package import FoundPackage, PackageQuery

LOCAL = "usr/local/lib/python3.12/site-packages"
VENV = "opt/venv/lib/python3.11/site-packages"
INFO = "widget_kit-1.0.dist-info"
PATH = ["PATH=/opt/venv/bin:/usr/local/bin:/usr/bin"]


def engine_layer(entries: Iterable[Entry]) -> list[Entry]:
    """Return a layer as engines write it: each folder has its entry before what is in it."""
    made: dict[str, Entry] = {}
    for entry in entries:
        for above in reversed([p for p in parents(entry.path) if p]):
            made.setdefault(above, folder(above))
        made.pop(entry.path, None)
        made[entry.path] = entry
    return list(made.values())


class Cache:
    """What layers do, by their labels, as the bytes that the cache of a user has."""

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}

    def get(self, layer: StoredLayer) -> LayerChanges | None:
        raw = self._known.get(layer.label)
        return decode_layer(raw) if raw else None

    def put(self, layer: StoredLayer, changes: LayerChanges) -> None:
        self._known[layer.label] = encode_layer(changes)


class Stored(LayeredImage):
    """An image of some layers."""

    reference = "image"

    def __init__(
        self, layers: Sequence[StoredLayer], tree: str | None, env: Sequence[str] = PATH
    ) -> None:
        self.layers, self.tree = layers, tree
        facts = {"rootfs": {"diff_ids": []}, "config": {"Env": list(env)}}
        self.config = Config(json.dumps(facts).encode())

    def default_name(self, suffix: str) -> str:
        raise NotImplementedError


@dataclass
class Image:
    """The layers of an image, from the lowest, and which of them were opened."""

    layers: Sequence[Sequence[Entry]]

    def __post_init__(self) -> None:
        self.opened: list[int] = []

    def stored(self) -> list[StoredLayer]:
        return [
            StoredLayer(f"layer {n}", self._opener(n, tar(entries)))
            for n, entries in enumerate(self.layers)
        ]

    def _opener(self, number: int, data: bytes) -> Any:
        def open_layer() -> io.BytesIO:
            self.opened.append(number)
            return io.BytesIO(data)

        return open_layer

    def find(
        self, query: PackageQuery, tree: str | None = None, cache: Cache | None = None
    ) -> FoundPackage | str:
        try:
            return Stored(self.stored(), tree).find(query, cache)
        except PkgtoolsError as error:
            return type(error).__name__


def everything(image: Image, query: PackageQuery, where: str | None = None) -> FoundPackage | str:
    """Return what reading all layers finds, by `merge` alone, which GNU tar is held against."""
    try:
        members = merge(image.stored(), query.keeps)
        read = merge(image.stored(), query.wants)
        marker = "/widget/__init__.py"
        files = {p for p, m in members.items() if m.kind is FileKind.FILE}
        folders = {p.removesuffix(marker) for p in files if p.endswith(marker)}
        if not folders and any(p.removeprefix(f"{LOCAL}/") in query.files for p in files):
            folders = {LOCAL}  # a namespace package is left (PEP 420)
        at = where or choose_folder(query, folders, None, "image")
        names = [p for p in members if query.keeps(p)]
        package = package_at(query, at, read, names)
        for name in package.names:
            if any(p in members and members[p].kind.value != "folder" for p in parents(name)):
                return "TreeError"
    except PkgtoolsError as error:
        return type(error).__name__
    return package


@pytest.fixture(scope="session")
def query(project: Project) -> PackageQuery:
    catalog = project.catalog()
    return query_of(catalog, catalog.upstreams[0])


def test_only_the_layer_of_the_package_is_read(query: PackageQuery, widget: list[Entry]) -> None:
    base = [Entry("usr/lib/libc.so", b"c")]
    torch = engine_layer([Entry(f"{LOCAL}/torch/__init__.py", b"import big\n")])
    package = engine_layer(moved(widget, LOCAL))
    image = Image([base, torch, package, [Entry("root/.cache")]])
    assert image.find(query) == everything(image, query)
    image.opened.clear()
    image.find(query)
    assert image.opened == [3, 2]


def test_a_file_that_record_lists_is_looked_for_below(
    query: PackageQuery, widget: list[Entry]
) -> None:
    """The top layer has RECORD and all but one module: an image that was edited, or patched."""
    below = engine_layer(moved(widget, LOCAL))
    above = [e for e in below if not e.path.endswith("answer.py")]
    image = Image([[Entry("etc/hosts")], below, above])
    found = image.find(query)
    assert found == everything(image, query)
    assert f"{LOCAL}/widget/answer.py" in found.members  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "missing", ["RECORD", "METADATA", "the folders", "PATH", "PYTHONPATH", "two"]
)
def test_all_is_read_where_less_does_not_settle_it(
    missing: str, query: PackageQuery, widget: list[Entry]
) -> None:
    entries = moved(widget, LOCAL)
    package = entries if missing == "the folders" else engine_layer(entries)
    if missing in ("RECORD", "METADATA"):
        package = [e for e in package if not e.path.endswith(f"/{missing}")]
    if missing == "two":
        package += engine_layer(moved(widget, VENV))
    env = {"PATH": ["PATH=/opt/bin"], "PYTHONPATH": [*PATH, "PYTHONPATH=/opt"]}.get(missing, PATH)
    image = Image([[Entry("etc/hosts")], package])
    refused = pytest.raises(UsageError, match="has 'widget' in")
    with refused if missing == "two" else contextlib.nullcontext():
        Stored(image.stored(), None, env).find(query)
    assert image.opened == [1, 0]


CHECKOUT = "opt/work/widget"


def _cloned(project: Project, where: Path, *, url: str = CHECKOUT) -> list[list[Entry]]:
    """Return the layers of an editable install of a git checkout."""
    tree = project.write_checkout(where / "tree")
    kept = [e for e in entries_of(tree, CHECKOUT) if "/.git/" not in e.path]
    git = [
        Entry(f"{CHECKOUT}/.git/{name}", (tree / ".git" / name).read_bytes())
        for name in ("HEAD", "index")
    ]
    said = {"url": f"file:///{url}", "dir_info": {"editable": True}}
    info = [
        Entry(f"{LOCAL}/{INFO}/METADATA", b"Name: widget-kit\n"),
        Entry(f"{LOCAL}/{INFO}/direct_url.json", json.dumps(said).encode()),
    ]
    return [engine_layer([*kept, *git]), engine_layer(info)]


def test_an_editable_checkout_is_settled_by_gits_index(
    query: PackageQuery, project: Project, tmp_path: Path
) -> None:
    base = [Entry("usr/lib/libc.so", b"c")]
    clone, install = _cloned(project, tmp_path)
    image = Image([base, clone, install])
    found = image.find(query)
    assert image.opened == [2, 1]
    assert found == everything(image, query, f"{CHECKOUT}/src")
    for edit in (
        [Entry(f"{CHECKOUT}/src/widget/answer.py", b"other\n")],
        [whiteout(f"{CHECKOUT}/src/widget/core.py"), Entry(f"{CHECKOUT}/src/widget/new.py")],
        [folder(f"{CHECKOUT}/src/widget"), opaque(f"{CHECKOUT}/src/widget")],
        [symlink(f"{CHECKOUT}/src/widget/legacy", "/etc")],
        [Entry(f"{CHECKOUT}/.git/pkgtools/pkgtools.json", b"{}")],
        [Entry(f"{CHECKOUT}/.git/index", b"DIRC damaged")],
        [whiteout(f"{CHECKOUT}/.git")],
        [whiteout(f"{LOCAL}/{INFO}")],
    ):
        image = Image([base, clone, install, engine_layer(edit)])
        assert image.find(query) == everything(image, query)


def test_any_index_of_git_is_read_or_refused(project: Project, tmp_path: Path) -> None:
    tree = project.write_checkout(tmp_path / "tree")
    raw = (tree / ".git" / "index").read_bytes()
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=tree, capture_output=True, check=True)
    assert sorted(tracked_paths(raw)) == sorted(listed.stdout.decode().split("\0")[:-1])
    subprocess.run(["git", "update-index", "--index-version", "4"], cwd=tree, check=True)
    packed = (tree / ".git" / "index").read_bytes()
    for damaged in (packed, b"", raw[:40], raw[:-25], raw[:8] + b"\xff" * 4 + raw[12:]):
        with pytest.raises(
            ValueError, match=r"not a git index|Truncated|Unterminated|Invalid|Unsupported"
        ):
            tracked_paths(damaged)


@pytest.mark.parametrize("missing", ["the url", "the index", "another copy"])
def test_a_checkout_that_nothing_settles_is_read_whole(
    missing: str, query: PackageQuery, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    layers = _cloned(project, tmp_path, url="opt/else" if missing == "the url" else CHECKOUT)
    if missing == "the index":
        layers[0] = [e for e in layers[0] if not e.path.endswith(".git/index")]
    if missing == "another copy":
        layers.append(engine_layer(moved(widget, VENV.replace("venv", "other"))))
    image = Image([[Entry("etc/hosts")], *layers])
    found = image.find(query)
    assert image.opened == list(reversed(range(len(image.layers))))
    assert found == everything(image, query)


def test_of_two_copies_on_the_path_the_one_installed_last_is_meant(
    query: PackageQuery, widget: list[Entry]
) -> None:
    for first, last in ((LOCAL, VENV), (VENV, LOCAL)):
        image = Image([engine_layer(moved(widget, first)), engine_layer(moved(widget, last))])
        assert image.find(query) == everything(image, query, last)


def test_a_copy_off_the_path_needs_the_users_word(query: PackageQuery, widget: list[Entry]) -> None:
    other = VENV.replace("venv", "other")
    image = Image([engine_layer(moved(widget, LOCAL)), engine_layer(moved(widget, other))])
    assert image.find(query) == "UsageError"
    assert image.find(query, other) == everything(image, query, other)


_INSIDE = ["widget/answer.py", "widget/core.py", "widget/__init__.py", f"{INFO}/RECORD"]
_FOLDERS = ["widget", "widget/legacy", INFO, ""]
_OUTSIDE = ["usr/bin/tool", "usr/local/lib/other.py", "opt/x", "usr/lib/y", "etc/z"]
_EDIT = st.tuples(
    st.sampled_from(["edit", "whiteout", "symlink", "link", "add", "opaque", "other", "again"]),
    st.integers(0, 3),
    st.integers(0, 4),
)


def _upper(drawn: list[tuple[str, int, int]], package: list[Entry]) -> list[Entry]:
    """Return a layer above the package's, which changes it in any way that a layer can."""
    entries: list[Entry] = []
    for kind, number, other in drawn:
        path = f"{LOCAL}/{_INSIDE[number]}"
        holder = f"{LOCAL}/{_FOLDERS[number]}".rstrip("/")
        entries += {
            "edit": [Entry(path, b"edited %d\n" % other)],
            "whiteout": [whiteout(path if other < 3 else holder)],
            "symlink": [symlink(path if other < 4 else holder, "/etc/passwd")],
            "link": [Entry(_OUTSIDE[other], b"linked\n"), hard_link(path, _OUTSIDE[other])],
            "add": [Entry(f"{holder}/added{other}.py", b"new\n")],
            "opaque": [folder(holder), opaque(holder)],
            "other": [Entry(_OUTSIDE[other], b"elsewhere\n")],
            "again": [e for e in package if other == 0 or e.path not in {path, holder}],
        }[kind]
    files = {e.path for e in entries if e.kind != b"5"}
    sound = [e for e in entries if not files.intersection(parents(e.path))]
    return engine_layer(sound)


def _lower(drawn: list[tuple[str, int, int]]) -> list[Entry]:
    """Return a layer below the package's: of the package only what RECORD lists, of any content."""
    entries: list[Entry] = []
    for kind, number, other in drawn:
        path = f"{LOCAL}/{_INSIDE[number]}"
        entries += {
            "edit": [Entry(path, b"older %d\n" % other)],
            "whiteout": [whiteout(_OUTSIDE[other])],
            "symlink": [symlink(path, "/etc/passwd")],
            "link": [Entry(_OUTSIDE[other], b"linked\n"), hard_link(path, _OUTSIDE[other])],
            "add": [Entry(f"{LOCAL}/torch/added{other}.py", b"torch\n")],
            "opaque": [folder(LOCAL), opaque(LOCAL)],
            "other": [Entry(_OUTSIDE[other], b"below\n")],
            "again": [],
        }[kind]
    return engine_layer(entries)


@settings(max_examples=40 if SHORT else 150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    lower=st.lists(st.lists(_EDIT, max_size=3), max_size=2),
    upper=st.lists(st.lists(_EDIT, max_size=3), max_size=2),
    prefix=st.sampled_from(["", "./"]),
)
def test_what_is_found_is_what_all_layers_hold(
    lower: list[list[tuple[str, int, int]]],
    upper: list[list[tuple[str, int, int]]],
    prefix: str,
    query: PackageQuery,
    widget: list[Entry],
) -> None:
    package = engine_layer(moved(widget, LOCAL))
    # Below the layer that installs, a file that RECORD does not list counts as absent.
    again = [number for number, drawn in enumerate(upper) if "again" in {e[0] for e in drawn}]
    upper = [
        [e for e in drawn if e[0] != "add" or number >= max(again, default=0)]
        for number, drawn in enumerate(upper)
    ]
    layers = [*map(_lower, lower), package, *(_upper(drawn, package) for drawn in upper)]
    spelt = [[replace(e, path=prefix + e.path) for e in entries] for entries in layers]
    image = Image(spelt)
    expected = everything(Image(layers), query)
    assert image.find(query) == expected
    cache = Cache()
    for _ in range(2):
        assert image.find(query, cache=cache) == expected


def test_files_below_that_record_does_not_list_do_not_reach_the_result(
    project: Project, query: PackageQuery, widget: list[Entry], tmp_path: Path
) -> None:
    """The one thing that an early stop cannot see: what an installation left behind, unlisted.

    The new layer has every file that the series touches, so such a file is hidden there; what
    is left of others is neither RECORD's nor the series'.
    """
    module = f"{SITE}/widget/answer.py"
    (source,) = (e for e in widget if e.path.endswith("/widget/answer.py"))
    stale = importlib.util.MAGIC_NUMBER + bytes(4) + struct.pack("<II", 1, len(source.data))
    cached = f"{SITE}/widget/__pycache__/answer.{sys.implementation.cache_tag}.pyc"
    left = [
        Entry(cached, stale + marshal.dumps(compile("ANSWER = 0", module, "exec"))),
        Entry(f"{SITE}/widget/extra/deep/new.py", b"DEEP = 0\n"),  # the series adds it
        Entry(f"{SITE}/widget/legacy/other.py", b"OTHER = 0\n"),
    ]
    package = [e for e in widget if not e.path.endswith(".pyc")]
    layers = [engine_layer(left), engine_layer(package)]
    image = Image(layers)
    found = image.find(query)
    assert image.opened == [1]
    assert not isinstance(found, str)
    assert not {e.path for e in left} & found.members.keys()
    built = build(project.catalog(), write_base(tmp_path / "layout", layers))
    root = unpack(built.reference, tmp_path / "rootfs")
    asked = "import widget.answer, widget.extra.deep.new as n; print(widget.answer.ANSWER, n.DEEP)"
    done = subprocess.run(
        [sys.executable, "-c", asked],
        env={"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "42 42\n"
    verified = call(
        "verify", "--target", "w-1.0", "--tree", root, "--catalog", project.targets, "--json"
    )
    extra = {"path": "widget/legacy/other.py", "what": "extra"}  # and in the base as well
    assert verified.facts["error"]["details"]["differences"] == [extra]
