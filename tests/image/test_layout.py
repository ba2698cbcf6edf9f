"""OCI layouts and archives: names, what is stored beside what was there, and damage."""

from __future__ import annotations

import json
import os
import resource
import shutil
import tarfile
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from crash import fork, in_child
from silent import Silent

from pkgtools.build.image import build_image
from pkgtools.errors import MalformedError, TreeError, UsageError
from pkgtools.image import archive
from pkgtools.image.reference import open_image
from pkgtools.util import files

from .building import SYSTEM, build, bytes_of, write_base
from .images import (
    DOCKER_TYPES,
    Entry,
    add_to_index,
    config_of,
    digest,
    put_blob,
    read,
    symlink,
    tar,
    with_size,
    write_archive,
    write_layout,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from project import Project

    from .images import Compression

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


@pytest.mark.parametrize("spelling", ["oci:{0}:base", "oci:{0}/:base", "oci:{0}/../layout:base"])
def test_the_name_of_the_base_is_never_taken(
    spelling: str, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    where = tmp_path / "layout"
    write_base(where, [widget])
    before = bytes_of(where)
    for base in (f"oci:{where}:base", f"oci:{where}"):  # by its name, and as the only one
        with pytest.raises(UsageError) as refused:
            build(project.catalog(), base, spelling.format(where))
        assert "never overwritten" in refused.value.message
    assert bytes_of(where) == before


@pytest.mark.parametrize("spelling", ["oci:{0}/:new", "oci:{0}/../layout:new", "oci:{0}/./x:new"])
def test_a_layout_can_be_spelt_in_any_way(
    spelling: str, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    base = write_base(tmp_path / "layout", [widget])
    built = build(project.catalog(), base, spelling.format(tmp_path / "layout"))
    assert digest(read(built.reference).layers[-1]) == built.layer


def test_another_name_of_the_base_is_never_taken(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    where = tmp_path / "layout"
    base = write_base(where, [widget])
    (descriptor,) = json.loads((where / "index.json").read_bytes())["manifests"]
    add_to_index(where, {k: descriptor[k] for k in ("mediaType", "digest", "size")}, "stable")
    before = bytes_of(where)
    with pytest.raises(UsageError, match="stable is a name of the base"):
        build(project.catalog(), base, f"oci:{where}:stable")
    assert bytes_of(where) == before


def test_the_name_of_another_image_is_replaced(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    where = tmp_path / "layout"
    base = write_base(where, [widget])
    write_layout(where, [tar([])], name="latest")
    write_layout(where, [tar([symlink("a", "b")])], name="kept")
    kept = read(f"oci:{where}:kept")
    index = json.loads((where / "index.json").read_bytes())
    (where / "index.json").write_text(json.dumps({**index, "annotations": {"mine": "stay"}}))
    build(project.catalog(), base, f"oci:{where}:latest")
    assert read(f"oci:{where}:latest").labels["pkgtools.target"] == "w-1.0"
    assert read(f"oci:{where}:kept") == kept
    assert json.loads((where / "index.json").read_bytes())["annotations"] == {"mine": "stay"}


@pytest.mark.parametrize("tag", ["", "../outside", "a b", "-x", "new\n", "a" + "/.." * 3])
def test_a_name_that_is_none_is_refused(
    tag: str, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    base = write_base(tmp_path / "layout", [widget])
    before = bytes_of(tmp_path)
    with pytest.raises(UsageError, match="invalid image name"):
        build(project.catalog(), base, f"oci:{tmp_path / 'layout'}:{tag}")
    assert bytes_of(tmp_path) == before


def test_concurrent_builds_into_one_layout_all_land(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    """Each opened the layout before any of the others had stored."""
    where = tmp_path / "layout"
    base = write_base(where, [widget])
    catalog = project.catalog()
    names = [f"oci:{where}:new-{number}" for number in range(4)]
    targets = [catalog.target("w-1.0")]
    opened = [open_image(base) for _ in names]
    running = [
        fork(partial(build_image, catalog, targets, image, Silent(), name))
        for image, name in zip(opened, names, strict=True)
    ]
    assert not any(child.wait().failed for child in running)
    assert len({digest(read(name).blobs[-1]) for name in names}) == 1
    assert read(base).labels == {}


@pytest.mark.parametrize("limit", [0, 200, 1000, 4000, 9000])
def test_a_full_disk_leaves_the_old_layout(
    limit: int, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    """A limit of the kernel: what is larger cannot be written, be it blob, index or extract."""
    where = tmp_path / "layout"
    base = write_base(where, [widget])
    catalog = project.catalog()
    assert catalog.target("w-1.0").lock.revision  # read now
    before = bytes_of(where)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        with pytest.raises(TreeError, match="File too large") as caught:
            build(catalog, base, f"oci:{where}:new")
        assert caught.value.remedy

    assert not in_child(limited).failed
    after = bytes_of(where)
    assert {name: after.get(name) for name in before} == before
    assert not [name for name in after if name.endswith(".pkgtools-new")]
    assert len(read(base).layers) == 1


@pytest.mark.parametrize("limit", [0, 200, 4000, 30_000])
def test_a_full_disk_leaves_the_old_archive(
    limit: int, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    base = write_base(tmp_path, [widget], "archive")
    old = tmp_path / "old.tar"
    shutil.copy(tmp_path / "base.tar", old)
    catalog = project.catalog()
    assert catalog.target("w-1.0").lock.revision  # read now
    before = bytes_of(tmp_path)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        with pytest.raises(TreeError, match="File too large") as caught:
            build(catalog, base, f"docker-archive:{old}")
        assert caught.value.remedy

    assert not in_child(limited).failed
    assert bytes_of(tmp_path) == before


def test_an_archive_never_overwrites_its_base(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    base = write_base(tmp_path, [widget], "archive")
    (tmp_path / "link.tar").symlink_to(tmp_path / "base.tar")
    (tmp_path / "hard.tar").hardlink_to(tmp_path / "base.tar")
    os.mkfifo(tmp_path / "fifo")
    before = bytes_of(tmp_path)
    for name in ("base.tar", "./base.tar", "link.tar", "hard.tar"):
        with pytest.raises(UsageError, match="is a name of the base, which is never overwritten"):
            build(project.catalog(), base, f"docker-archive:{tmp_path}/{name}")
    own = f"docker-archive:{tmp_path}"
    names = (f"{own}/new.tar:No Name", f"{own}/new.tar:a:b:c", f"{own}/fifo")
    odd = ("oci:new", "oci:new:", "docker://host.example/New", "docker:/x")
    for name in ("base.tar", own, *odd, *names):
        with pytest.raises(UsageError, match="invalid image name"):
            build(project.catalog(), base, name)
    assert bytes_of(tmp_path) == before


def _saved_as(path: Path) -> list[dict[str, Any]]:
    with tarfile.open(path) as archive:
        saved: list[dict[str, Any]] = json.load(archive.extractfile("manifest.json"))  # type: ignore[arg-type]
        files = {name for entry in saved for name in [entry["Config"], *entry["Layers"]]}
        assert set(archive.getnames()) == {"manifest.json", *files}
    return saved


def test_an_archive_names_its_image(project: Project, widget: list[Entry], tmp_path: Path) -> None:
    """Loaded, it must not take the name of the base, which another engine has already."""
    catalog = project.catalog()
    base = write_base(tmp_path, [widget], "archive")
    varied = f"w-1.0-{catalog.target('w-1.0').series.short_digest}"
    tagged = f"registry.example:5000/widget:1-{varied}"
    for name, path, tags in (
        (None, f"base-{varied}.tar:{tagged}", [tagged]),
        ("own.tar:kit", "own.tar:kit", ["kit:latest"]),
        ("own.tar", "own.tar", []),
    ):
        built = build(catalog, base, name and f"docker-archive:{tmp_path}/{name}")
        assert built.reference == f"docker-archive:{tmp_path}/{path}"
        (saved,) = _saved_as(tmp_path / path.partition(":")[0])
        assert saved["RepoTags"] == tags


@pytest.mark.parametrize("kind", ["archive", "layout"])
def test_a_base_whose_name_is_none_adds_no_line(
    kind: str, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    if kind == "archive":
        path = tmp_path / "base.tar"
        base = write_base(tmp_path, [widget], "archive")
        path.write_bytes(
            path.read_bytes().replace(b"registry.example:5000/w", b"a\\n::error::xxxxxxxxxxx")
        )
    else:
        write_layout(tmp_path, [tar(widget)], name="a\n::error::x")
        base = f"oci:{tmp_path}"
    with pytest.raises(UsageError, match=r"invalid image name .*a\\n::error::x") as refused:
        build(project.catalog(), base)
    assert "\n" not in refused.value.message


def test_one_image_of_an_archive_of_several(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    layers = {"other.tar": tar([Entry("other")]), "widget.tar": tar(widget)}
    members = {**layers, "o.json": config_of([layers["other.tar"]])}
    members["w.json"] = config_of([layers["widget.tar"]])
    saved = [
        {"Config": "o.json", "RepoTags": ["other:1"], "Layers": ["other.tar"]},
        {"Config": "w.json", "RepoTags": ["kit:1", "kit:latest"], "Layers": ["widget.tar"]},
    ]
    members["manifest.json"] = json.dumps(saved).encode()
    path = tmp_path / "base.tar"
    path.write_bytes(tar([Entry(name, data) for name, data in members.items()]))
    pinned = f"kit:1@sha256:{'0' * 64}"
    for name, message in (
        ("", "has 2 images"),
        (":kit:2", "has no image kit:2"),
        (f":{pinned}", f"has no image {pinned}"),
    ):
        with pytest.raises(UsageError, match=message) as caught:
            build(project.catalog(), f"docker-archive:{path}{name}")
        assert "kit:1, kit:latest, other:1" in str(caught.value.remedy)
    built = build(project.catalog(), f"docker-archive:{path}:kit", f"docker-archive:{tmp_path}/new")
    assert built.base == f"docker-archive:{path}:kit"
    assert _saved_as(tmp_path / "new")[0]["Layers"][0] == "widget.tar"
    again = build(
        project.catalog(), f"docker-archive:{path}:kit:latest", f"docker-archive:{tmp_path}/again"
    )
    assert again.id == built.id  # however the base is spelt


@pytest.mark.parametrize("how", ["gzip", "zstd"])
def test_layers_of_an_archive_can_be_compressed(
    how: Compression, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    plain = [tar(SYSTEM), tar(widget)]
    expected = build(project.catalog(), write_archive(tmp_path / "plain.tar", plain))
    base = write_archive(tmp_path / "base.tar", plain, how=how)
    built = build(project.catalog(), base)
    assert built.layer == expected.layer
    assert read(built.reference).layers[:-1] == plain


def test_a_layer_that_is_a_link_in_an_archive(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    """Older engines write a layer that an image has twice as a link to the first."""
    layers = [tar([]), tar(widget), tar([])]
    config = config_of(layers)
    saved = [{"Config": "c.json", "RepoTags": None, "Layers": ["a/l.tar", "b/l.tar", "c/l.tar"]}]
    members = {"c.json": config, "manifest.json": json.dumps(saved).encode()}
    members |= {"a/l.tar": layers[0], "b/l.tar": layers[1]}

    entries = [Entry(name, data) for name, data in members.items()]
    (tmp_path / "base.tar").write_bytes(tar([*entries, symlink("c/l.tar", "../a/l.tar")]))
    built = build(project.catalog(), f"docker-archive:{tmp_path / 'base.tar'}")
    assert read(built.reference).layers[:-1] == layers


def test_platforms_are_told_apart(project: Project, widget: list[Entry], tmp_path: Path) -> None:
    where = tmp_path / "layout"
    entries = []
    for machine, layer in {"amd64": widget, "arm64": widget, "unknown": []}.items():
        write_layout(where, [tar(layer)], name=machine)
        (found,) = (
            m
            for m in json.loads((where / "index.json").read_bytes())["manifests"]
            if m["annotations"]["org.opencontainers.image.ref.name"] == machine
        )
        entries.append({**found, "platform": {"os": "linux", "architecture": machine}})
    index = json.dumps({"schemaVersion": 2, "manifests": entries}).encode()
    (where / "index.json").unlink()
    add_to_index(where, put_blob(where, index, INDEX), "multi")
    built = build(project.catalog(), f"oci:{where}:multi")
    assert read(built.reference).labels["pkgtools.target"] == "w-1.0"
    (new,) = json.loads((where / "index.json").read_bytes())["manifests"][1:]
    assert new["platform"]["os"] == "linux"
    with pytest.raises(UsageError, match="multi is a name of the base"):
        build(project.catalog(), f"oci:{where}:multi", f"oci:{where}:multi")


def test_a_platform_that_is_not_there(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    where = tmp_path / "layout"
    write_layout(where, [tar(widget)])
    (found,) = json.loads((where / "index.json").read_bytes())["manifests"]
    entry = {**found, "platform": {"os": "linux", "architecture": "s390x"}}
    index = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
    (where / "index.json").unlink()
    add_to_index(where, put_blob(where, index, INDEX), "multi")
    with pytest.raises(UsageError, match="has 0 images for linux/"):
        build(project.catalog(), f"oci:{where}:multi")


def test_several_images_must_be_named(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    where = tmp_path / "layout"
    write_base(where, [widget])
    write_layout(where, [tar([])], name="other")
    with pytest.raises(UsageError, match="has 2 images") as refused:
        build(project.catalog(), f"oci:{where}")
    assert refused.value.remedy == "name one of: base, other"
    with pytest.raises(UsageError, match="has no image 'nobody'"):
        build(project.catalog(), f"oci:{where}:nobody")
    (tmp_path / "index.json").write_text('{"schemaVersion": 2, "manifests": []}')
    with pytest.raises(UsageError, match=r"has no image$") as refused:
        build(project.catalog(), f"oci:{tmp_path}")
    assert "skopeo copy" in str(refused.value.remedy)
    for name in ("", ":base"):
        with pytest.raises(UsageError, match="cannot be read"):
            build(project.catalog(), f"oci:{tmp_path / 'nowhere'}{name}")


def _index(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def damage(where: Path) -> None:
        path = where / "index.json"
        facts = json.loads(path.read_bytes())
        path.write_text(json.dumps(change(facts)))

    return damage


def _descriptor(**changes: object) -> Callable[[Path], None]:
    return _index(lambda facts: {"manifests": [{**facts["manifests"][0], **changes}]})


def _platforms(raw: bytes) -> Callable[[Path], None]:
    """Have an index of platforms for the manifest."""

    def damage(where: Path) -> None:
        _descriptor(**put_blob(where, raw, INDEX))(where)

    return damage


def _manifest(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def damage(where: Path) -> None:
        (descriptor,) = json.loads((where / "index.json").read_bytes())["manifests"]
        raw = (where / "blobs" / "sha256" / descriptor["digest"][7:]).read_bytes()
        new = put_blob(where, json.dumps(change(json.loads(raw))).encode(), MANIFEST)
        _descriptor(**new)(where)

    return damage


def _config(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def with_config(where: Path, manifest: dict[str, Any]) -> dict[str, Any]:
        raw = (where / "blobs" / "sha256" / manifest["config"]["digest"][7:]).read_bytes()
        made = put_blob(where, json.dumps(change(json.loads(raw))).encode(), "config")
        return {**manifest, "config": made}

    def damage(where: Path) -> None:
        _manifest(lambda manifest: with_config(where, manifest))(where)

    return damage


def _blob(number: int, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Damage a blob in place: the manifest's, the configuration's, the layer's."""

    def damage(where: Path) -> None:
        (descriptor,) = json.loads((where / "index.json").read_bytes())["manifests"]
        blobs = where / "blobs" / "sha256"
        manifest = json.loads((blobs / descriptor["digest"][7:]).read_bytes())
        entry = [descriptor, manifest["config"], *manifest["layers"]][number]
        path = blobs / entry["digest"][7:]
        path.write_bytes(change(path.read_bytes()))

    return damage


def _text(text: str) -> Callable[[Path], None]:
    def damage(where: Path) -> None:
        (where / "index.json").write_text(text)

    return damage


def _fifo(where: Path) -> None:
    (where / "index.json").unlink()
    os.mkfifo(where / "index.json")


DAMAGE: dict[str, Callable[[Path], None]] = {
    "no JSON": _text("nothing"),
    "a list": _text("[]"),
    "deep JSON": _text("[" * 100_000),
    "deep JSON in a key that is not read": _text('{"manifests": [], "x": ' + "[" * 100_000),
    "no manifests": _text("{}"),
    "manifests are text": _index(lambda _: {"manifests": "abc"}),
    "manifests are a dict": _index(lambda facts: {"manifests": facts}),
    "a manifest is text": _index(lambda _: {"manifests": ["abc"]}),
    "a manifest is null": _index(lambda _: {"manifests": [None]}),
    "annotations are a list": _descriptor(annotations=["a"]),
    "a name is a number": _descriptor(annotations={"org.opencontainers.image.ref.name": 7}),
    "a media type is a list": _descriptor(mediaType=[INDEX]),
    "a digest leads out": _descriptor(digest="sha256:../../x"),
    "a digest leads out, of its length": _descriptor(digest="sha256:" + "../" * 21 + "x"),
    "a digest is a path": _descriptor(digest="/etc/passwd"),
    "a digest is a number": _descriptor(digest=7),
    "a digest of another kind": _descriptor(digest="sha512:" + "0" * 128),
    "a digest with a line end": _descriptor(digest="sha256:" + "0" * 64 + "\n"),
    "a digest is too short": _descriptor(digest="sha256:" + "0" * 63),
    "an index of platforms is text": _platforms(b"text"),
    "an index of platforms has none": _platforms(b"{}"),
    "an index of platforms has a text": _platforms(b'{"manifests": ["abc"]}'),
    "an unknown manifest": _manifest(lambda m: {**m, "mediaType": "application/x-other"}),
    "a manifest without layers": _manifest(lambda m: {"config": m["config"]}),
    "a manifest without config": _manifest(lambda m: {"layers": m["layers"]}),
    "layers are text": _manifest(lambda m: {**m, "layers": "abc"}),
    "a layer is null": _manifest(lambda m: {**m, "layers": [None]}),
    "a layer's digest leads out": _manifest(
        lambda m: {**m, "layers": [{"digest": "sha256:../../../x"}]}
    ),
    "a layer twice": _manifest(lambda m: {**m, "layers": m["layers"] * 2}),
    "the config is text": _manifest(lambda m: {**m, "config": "abc"}),
    "annotations of a manifest are text": _manifest(lambda m: {**m, "annotations": "x"}),
    "a config without rootfs": _config(lambda _: {}),
    "diff ids are text": _config(lambda c: {**c, "rootfs": {"diff_ids": "abc"}}),
    "diff ids are numbers": _config(lambda c: {**c, "rootfs": {"diff_ids": [1]}}),
    "labels are a list": _config(lambda c: {**c, "config": {"Labels": ["a"]}}),
    "a label is a number": _config(lambda c: {**c, "config": {"Labels": {"a": 1}}}),
    "the runtime is text": _config(lambda c: {**c, "config": "x"}),
    "the history is text": _config(lambda c: {**c, "history": "x"}),
    "the time is a number": _config(lambda c: {**c, "created": 1}),
    "the manifest has other bytes": _blob(0, lambda raw: raw + b" "),
    "the config has other bytes": _blob(1, lambda raw: raw + b" "),
    "the layer has other bytes": _blob(2, lambda raw: raw + b" "),
    "the layer is cut short": _blob(2, lambda raw: raw[: len(raw) // 2]),
    "the layer is empty": _blob(2, lambda _: b""),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_layout_is_refused(
    name: str, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    where = tmp_path / "layout"
    write_base(where, [widget])
    DAMAGE[name](where)
    before = bytes_of(tmp_path)
    for base in (f"oci:{where}:base", f"oci:{where}"):
        with pytest.raises((MalformedError, UsageError)) as refused:
            build(project.catalog(), base, f"oci:{where}:new")
        if isinstance(refused.value, UsageError):  # it has no image of that name, which is true
            assert "has no image 'base'" in refused.value.message
    assert refused.type is MalformedError
    assert bytes_of(tmp_path) == before


def test_an_index_beyond_the_limit_is_not_read(
    project: Project, widget: list[Entry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = write_base(tmp_path / "layout", [widget])
    monkeypatch.setattr(files, "LIMIT", 100)
    with pytest.raises(UsageError, match=r"index.json cannot be read: Larger than 100 bytes"):
        build(project.catalog(), base)


def test_a_fifo_in_the_place_of_an_index_is_not_waited_for(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    base = write_base(tmp_path / "layout", [widget])
    _fifo(tmp_path / "layout")
    with pytest.raises(UsageError, match=r"index.json cannot be read: Not a regular file"):
        build(project.catalog(), base)


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_blob_that_is_not_there(
    missing: int, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    base = write_base(tmp_path / "layout", [widget])
    (descriptor,) = json.loads((tmp_path / "layout" / "index.json").read_bytes())["manifests"]
    blobs = tmp_path / "layout" / "blobs" / "sha256"
    manifest = json.loads((blobs / descriptor["digest"][7:]).read_bytes())
    entry = [descriptor, manifest["config"], *manifest["layers"]][missing]
    (blobs / entry["digest"][7:]).unlink()
    with pytest.raises(MalformedError, match="is not there") as caught:
        build(project.catalog(), base)
    assert "skopeo copy" in str(caught.value.remedy)


def test_keys_that_are_null_or_absent(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    """Go writes null for an empty map; the specification calls most keys optional."""
    where = tmp_path / "layout"
    base = write_base(where, [widget])
    _config(
        lambda c: {
            "rootfs": c["rootfs"],
            "config": {"Labels": None, "Cmd": ["x"]},
            "history": None,
            "created": "0001-01-01T00:00:00Z",
        }
    )(where)
    _manifest(lambda m: {**m, "annotations": None})(where)
    new = read(build(project.catalog(), base).reference)
    assert new.config["config"]["Cmd"] == ["x"]
    assert new.config["created"] == "1970-01-01T00:00:00Z"
    assert {info.mtime for info in new.top.values()} == {0}


@pytest.mark.parametrize(
    "created", ["", "yesterday", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"]
)
def test_an_image_of_no_time_is_of_the_epoch(
    created: str, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    where = tmp_path / "layout"
    base = write_base(where, [widget])
    _config(lambda c: {**c, "created": created})(where)
    new = read(build(project.catalog(), base).reference)
    assert new.config["created"] == "1970-01-01T00:00:00Z"


def test_a_docker_manifest_stays_one(project: Project, widget: list[Entry], tmp_path: Path) -> None:
    kind, _, layer = DOCKER_TYPES
    base = write_layout(tmp_path / "layout", [tar(widget)], types=DOCKER_TYPES)
    new = read(build(project.catalog(), base).reference)
    assert new.manifest["mediaType"] == kind
    assert new.manifest["layers"][-1]["mediaType"] == layer


def _saved(**changes: object) -> bytes:
    layer = tar([])
    entry = {"Config": "c.json", "RepoTags": ["a:b"], "Layers": ["l.tar"], **changes}

    manifest = json.dumps([entry]).encode()
    members = {"c.json": config_of([layer]), "l.tar": layer, "manifest.json": manifest}
    return tar([Entry(name, data) for name, data in members.items()])


def _of(members: dict[str, bytes]) -> bytes:

    return tar([Entry(name, data) for name, data in members.items()])


ARCHIVES = {
    "empty": tar([]),
    "no manifest": _of({"x": b""}),
    "two images": _of({"manifest.json": b"[{}, {}]"}),
    "no JSON": _of({"manifest.json": b"["}),
    "deep JSON": _of({"manifest.json": b"[" * 100_000}),
    "deep JSON of an unknown key": _of({"manifest.json": b'[{"x":' + b"[" * 100_000}),
    "a manifest that is a link to itself": tar([symlink("manifest.json", "manifest.json")]),
    "a manifest that is a link out": tar([symlink("manifest.json", "/etc/passwd")]),
    "no such config": _saved(Config="nothing"),
    "a config that leads out": _saved(Config="../../etc/passwd"),
    "a config that is a number": _saved(Config=7),
    "layers are text": _saved(Layers="l.tar"),
    "no such layer": _saved(Layers=["nothing"]),
    "a layer is a number": _saved(Layers=[7]),
    "tags are numbers": _saved(RepoTags=[7]),
    "a layer too many": _saved(Layers=["l.tar", "l.tar"]),
    "cut short": _saved()[:1500],
    "a header that goes back": tar([Entry("a")])[:512] + with_size(_saved(), -512),
    "a header of a size beyond counting": with_size(tar([Entry("a", kind=b"Z")]), 2**80),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_a_damaged_archive_is_refused(name: str, project: Project, tmp_path: Path) -> None:
    (tmp_path / "base.tar").write_bytes(ARCHIVES[name])
    with pytest.raises(MalformedError):
        build(project.catalog(), f"docker-archive:{tmp_path / 'base.tar'}")
    assert [path.name for path in tmp_path.iterdir()] == ["base.tar"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not a tar archive"),
        (b"x" * 5000, "is not a tar archive"),
        (tar([Entry("a", pax={"GNU.sparse.map": "x,y"})]), "is not a tar archive"),
        (_of({"manifest.json": b"[]"}), "has 0 images"),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_is_no_archive(
    data: bytes | None, message: str, project: Project, tmp_path: Path
) -> None:
    path = tmp_path / "base.tar"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(UsageError, match=message):
        build(project.catalog(), f"docker-archive:{path}")


def test_an_archive_of_one_layer_that_loops(project: Project, tmp_path: Path) -> None:
    layer = tar([])
    entry = {"Config": "c.json", "RepoTags": [], "Layers": ["l.tar"]}

    entries = [
        Entry("c.json", config_of([layer])),
        Entry("manifest.json", json.dumps([entry]).encode()),
        symlink("l.tar", "l.tar"),
    ]
    (tmp_path / "base.tar").write_bytes(tar(entries))
    with pytest.raises(MalformedError, match=r"l\.tar is not a layer"):
        build(project.catalog(), f"docker-archive:{tmp_path / 'base.tar'}")


def test_an_archive_of_too_many_members_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(archive, "_MOST", 10)
    (tmp_path / "many.tar").write_bytes(tar([Entry(str(n)) for n in range(11)]))
    with pytest.raises(MalformedError, match="it has more than 10 members"):
        open_image(f"docker-archive:{tmp_path}/many.tar")
