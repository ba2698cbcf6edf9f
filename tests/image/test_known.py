"""What is known of a base by its digest: used where it holds, and never believed otherwise."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from typing import IO, TYPE_CHECKING

import pytest
from silent import Silent

from pkgtools.errors import MalformedError, PkgtoolsError, UsageError
from pkgtools.image import facts
from pkgtools.image.inspect import inspect_image
from pkgtools.image.reference import open_image
from pkgtools.image.stored import LayeredImage
from pkgtools.image.streams import decompressed

from .building import SYSTEM, build, write_base
from .images import SITE, Entry, add_to_index, compress, digest, moved, put_blob, tar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from project import Project

    from pkgtools.image.merged import LayerCache
    from pkgtools.image.package import FoundPackage, PackageQuery

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the images whose layers are looked through from here on."""
    seen: list[str] = []
    find = LayeredImage.find

    def counted(
        self: LayeredImage, query: PackageQuery, cache: LayerCache | None = None
    ) -> FoundPackage:
        seen.append(self.reference)
        return find(self, query, cache)

    monkeypatch.setattr(LayeredImage, "find", counted)
    return seen


def _spoil_layers(where: Path) -> None:
    """Make every layer of a layout unreadable."""
    for path in (where / "blobs" / "sha256").iterdir():
        if not path.read_bytes().startswith(b"{"):
            path.write_bytes(b"not what the digest says")


@pytest.mark.parametrize("kind", ["gzip", "archive"])
def test_a_wrong_name_is_refused_before_the_base_is_read(
    kind: str, project: Project, widget: list[Entry], tmp_path: Path, reads: list[str]
) -> None:
    base = write_base(tmp_path / "base", [widget], kind)
    for name in (base, "elsewhere:1"):
        with pytest.raises(UsageError):
            build(project.catalog(), base, name)
    assert reads == []


def test_a_base_is_read_once(
    project: Project, widget: list[Entry], tmp_path: Path, reads: list[str]
) -> None:
    base = write_base(tmp_path / "layout", [SYSTEM, widget])
    cold = build(project.catalog(), base, f"oci:{tmp_path / 'layout'}:cold")
    copy = write_base(tmp_path / "copy", [SYSTEM, widget])
    _spoil_layers(tmp_path / "copy")  # so that no reading of them goes unnoticed
    warm = build(project.catalog(), copy, f"oci:{tmp_path / 'copy'}:warm")
    assert reads == [base]
    assert warm.id == cold.id


def test_an_older_series_is_undone_without_reading_again(
    project: Project, widget: list[Entry], tmp_path: Path, reads: list[str]
) -> None:
    base = write_base(tmp_path / "layout", [widget])
    patched = build(project.catalog(), base, f"oci:{tmp_path / 'layout'}:old").reference
    del reads[:]
    cold = build(project.changed_catalog(), patched, f"oci:{tmp_path / 'layout'}:cold")
    warm = build(project.changed_catalog(), patched, f"oci:{tmp_path / 'layout'}:warm")
    assert reads == [patched]
    assert warm.id == cold.id
    assert warm.replaced


def test_what_is_inspected_is_always_read(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    where = tmp_path / "layout"
    base = write_base(where, [widget])
    build(project.catalog(), base, f"oci:{where}:new")
    _spoil_layers(where)
    with (
        open_image(base) as image,
        pytest.raises(MalformedError, match="is not what its digest says"),
    ):
        inspect_image(project.catalog(), image, Silent())


def test_the_same_configuration_over_other_layers_is_another_image(
    project: Project, widget: list[Entry], tmp_path: Path, reads: list[str]
) -> None:
    """The configuration's digest is the image's id; what its layers are the manifest says."""
    where = tmp_path / "layout"
    base = write_base(where, [widget])
    build(project.catalog(), base, f"oci:{where}:new")
    (descriptor,) = [
        m
        for m in json.loads((where / "index.json").read_bytes())["manifests"]
        if m["annotations"]["org.opencontainers.image.ref.name"] == "base"
    ]
    manifest = json.loads((where / "blobs/sha256" / descriptor["digest"][7:]).read_bytes())
    other = [replace(e, data=e.data.replace(b"LIMIT", b"BOUND")) for e in widget]
    manifest["layers"] = [put_blob(where, tar(other), "application/vnd.oci.image.layer.v1.tar")]
    add_to_index(where, put_blob(where, json.dumps(manifest).encode(), MANIFEST), "forged")
    with pytest.raises(PkgtoolsError):
        build(project.catalog(), f"oci:{where}:forged")
    assert reads == [base, f"oci:{where}:forged"]


def test_another_place_in_the_image_is_another_question(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    venv = "opt/venv/lib/python3.11/site-packages"
    base = write_base(tmp_path / "layout", [widget, moved(widget, venv)])
    for tree in (SITE, venv):
        built = build(project.catalog(), base, tree=tree)
        assert all(path.startswith(f"{tree}/") for path in built.written)


def test_a_place_that_is_no_text_can_be_asked_for(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    base = write_base(tmp_path / "layout", [widget])
    with pytest.raises(UsageError, match="has no package 'widget' in"):
        build(project.catalog(), base, tree=os.fsdecode(b"caf\xe9"))


def test_other_files_are_another_question(
    project: Project, widget: list[Entry], tmp_path: Path, reads: list[str]
) -> None:
    """A series that came to touch a file more asks for that one too."""
    base = write_base(tmp_path / "layout", [widget])
    build(project.catalog(), base)
    build(project.changed_catalog(), base)
    asked = {path for t in project.changed_catalog().sound_targets for path in t.series.paths} - {
        path for t in project.catalog().sound_targets for path in t.series.paths
    }
    assert asked
    assert reads == [base, base]


def test_a_layer_that_images_share_is_read_once(
    project: Project, widget: list[Entry], tmp_path: Path, known_images: Path
) -> None:
    """Another image has one layer more on top; the package's own is known by then."""
    build(project.catalog(), write_base(tmp_path / "one", [SYSTEM, widget]))
    for number, top in enumerate(([Entry("etc/hosts", b"x\n")], [*moved(widget, "opt/widget")])):
        layers = [SYSTEM, widget, top]
        expected = build(project.catalog(), write_base(tmp_path / f"plain{number}", layers))
        shutil.rmtree(known_images)  # what is known of images; layers lie elsewhere
        base = write_base(tmp_path / f"spoilt{number}", layers)
        blobs = tmp_path / f"spoilt{number}" / "blobs" / "sha256"
        for shared in (SYSTEM, widget):
            (blobs / digest(compress(tar(shared), "gzip"))[7:]).write_bytes(b"unreadable")
        assert build(project.catalog(), base).layer == expected.layer


@pytest.mark.parametrize("damage", [b"", b"x" * 100, None])
def test_what_is_known_of_a_layer_can_be_damaged(
    damage: bytes | None,
    project: Project,
    widget: list[Entry],
    tmp_path: Path,
    known_images: Path,
) -> None:
    base = write_base(tmp_path / "layout", [SYSTEM, widget])
    first = build(project.catalog(), base)
    shutil.rmtree(known_images)
    layers = list((known_images.parent / "layers").iterdir())
    assert len(layers) == 2
    for path in layers:
        path.write_bytes(path.read_bytes()[:-7] if damage is None else damage)
    assert build(project.catalog(), base).id == first.id


def test_the_layers_of_an_archive_are_read_once(
    project: Project, widget: list[Entry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = write_base(tmp_path, [SYSTEM, widget], "archive")
    opened: list[str] = []

    def counted(raw: IO[bytes]) -> IO[bytes]:
        opened.append("layer")
        return decompressed(raw)

    monkeypatch.setattr("pkgtools.image.archive.decompressed", counted)
    for name in ("one", "two"):
        build(project.catalog(), base, f"docker-archive:{tmp_path / name}.tar")
    assert opened == ["layer", "layer"]


def test_a_layer_of_an_archive_that_is_not_what_its_digest_says(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    base = write_base(tmp_path, [widget], "archive")
    path = tmp_path / "base.tar"
    other = path.read_bytes().replace(b"LIMIT = 32", b"LIMIT = 33")
    assert other != path.read_bytes()
    path.write_bytes(other)
    with pytest.raises(MalformedError, match="does not have the digest"):
        build(project.catalog(), base)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut short": lambda raw: raw[: len(raw) // 2],
    "one bit": lambda raw: raw[:-9] + bytes([raw[-9] ^ 1]) + raw[-8:],
    "no entry": lambda _: b"x" * 100,
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_entry_is_read_anew(
    name: str,
    project: Project,
    widget: list[Entry],
    tmp_path: Path,
    reads: list[str],
    known_images: Path,
) -> None:
    base = write_base(tmp_path / "layout", [widget])
    first = build(project.catalog(), base)
    (entry,) = known_images.iterdir()
    entry.write_bytes(DAMAGE[name](entry.read_bytes()))
    assert build(project.catalog(), base).id == first.id
    assert build(project.catalog(), base).id == first.id
    assert reads == [base, base]  # and is whole again


@pytest.mark.parametrize("what", ["another user's", "a link", "a pipe"])
def test_an_entry_that_this_user_did_not_write_is_not_believed(
    what: str,
    project: Project,
    widget: list[Entry],
    tmp_path: Path,
    reads: list[str],
    known_images: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where several share a cache, one could say of a base what another builds on."""
    base = write_base(tmp_path / "layout", [widget])
    first = build(project.catalog(), base)
    (entry,) = known_images.iterdir()
    if what == "another user's":
        uid = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    elif what == "a link":
        entry.rename(tmp_path / "elsewhere")
        entry.symlink_to(tmp_path / "elsewhere")
    else:
        entry.unlink()
        os.mkfifo(entry)
    assert build(project.catalog(), base).id == first.id
    assert reads == [base, base]


@pytest.mark.parametrize("what", ["a file", "a folder"])
def test_a_cache_that_cannot_be_written_costs_time_alone(
    what: str,
    project: Project,
    widget: list[Entry],
    tmp_path: Path,
    reads: list[str],
    known_images: Path,
) -> None:
    base = write_base(tmp_path / "layout", [widget])
    if what == "a file":
        known_images.parent.mkdir(parents=True)
        known_images.write_bytes(b"")
    else:
        build(project.catalog(), base)
        (entry,) = known_images.iterdir()
        entry.unlink()
        entry.mkdir()
        del reads[:]
    assert build(project.catalog(), base).id == build(project.catalog(), base).id
    assert reads == [base, base]


@pytest.mark.usefixtures("_no_home")
def test_without_a_home_nothing_is_kept(
    project: Project, widget: list[Entry], tmp_path: Path, reads: list[str]
) -> None:
    base = write_base(tmp_path / "layout", [widget])
    assert build(project.catalog(), base).id == build(project.catalog(), base).id
    assert reads == [base, base]


def test_a_name_that_is_no_text_is_not_kept(
    project: Project, widget: list[Entry], tmp_path: Path, reads: list[str]
) -> None:
    odd = Entry(f"{SITE}/widget/extra/" + os.fsdecode(b"caf\xe9"))
    base = write_base(tmp_path / "layout", [[*widget, odd]])
    assert build(project.catalog(), base).id == build(project.catalog(), base).id
    assert reads == [base, base]


def test_the_oldest_are_forgotten(
    project: Project,
    widget: list[Entry],
    tmp_path: Path,
    known_images: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(facts, "_MOST", 2)
    kept: list[Path] = []
    for number in range(3):
        layer = [*widget, Entry("etc/number", b"%d" % number)]
        build(project.catalog(), write_base(tmp_path / f"{number}", [layer]))
        (new,) = set(known_images.iterdir()) - set(kept)
        os.utime(new, (number, number))
        kept.append(new)
    assert set(known_images.iterdir()) == set(kept[1:])


def test_nothing_else_is_forgotten(
    project: Project,
    widget: list[Entry],
    tmp_path: Path,
    known_images: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """XDG_CACHE_HOME can be a folder in which a user has files of such a place."""
    monkeypatch.setattr(facts, "_MOST", 1)
    known_images.mkdir(parents=True)
    cut_short = known_images / f".{'0' * 64}.pkgtools-new"
    for path in (cut_short, known_images / "base.tar", known_images / "layout"):
        path.write_bytes(b"")
        os.utime(path, (1, 1))
    build(project.catalog(), write_base(tmp_path / "layout", [widget]))
    (new,) = (path.name for path in known_images.iterdir() if path.stat().st_mtime > 1)
    assert {path.name for path in known_images.iterdir()} == {new, "base.tar", "layout"}
