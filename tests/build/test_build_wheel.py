"""Building a patched wheel: true, reproducible, and what pip makes of it."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.utils import parse_wheel_filename
from project import PREFIX, Project, apply_with_git, git, make_series, put
from silent import Silent

from pkgtools.authoring.lock import write_locks
from pkgtools.build.wheel import BuiltWheel, build_wheel
from pkgtools.build.zipcopy import ZipCopy
from pkgtools.catalog import Catalog, find_catalog, load_catalog
from pkgtools.errors import DoesNotApplyError, TreeError, UsageError
from pkgtools.source import WheelSource
from pkgtools.source.at_hand import AtHand
from pkgtools.source.receipt import PROVENANCE
from pkgtools.tree.state import State, identify

if TYPE_CHECKING:
    from collections.abc import Callable


def _build(
    project: Project, folder: Path, wheel: Path | None = None, name: str = "w-1.0"
) -> BuiltWheel:
    catalog = project.catalog()
    target = catalog.target(name)
    with WheelSource(wheel or project.wheel("1.0"), target.upstream) as source:
        return build_wheel(catalog, target, source, folder)


def _members(path: str | Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_its_files_are_what_the_series_makes(project: Project, tmp_path: Path) -> None:
    built = _build(project, tmp_path)
    packaged = {
        name: data for name, data in _members(built.path).items() if ".dist-info/" not in name
    }
    assert packaged == {
        path.removeprefix(PREFIX): blob.data
        for path, blob in project.patched["v1.0"].items()
        if path.startswith(PREFIX)
    }


def test_its_version_names_target_and_series(project: Project, tmp_path: Path) -> None:
    built = _build(project, tmp_path)
    digest = project.catalog().target("w-1.0").series.digest.removeprefix("sha256:")
    name, version, _, _ = parse_wheel_filename(Path(built.path).name)
    assert (name, str(version)) == ("widget-kit", f"1.0+w.1.0.s{digest[:12]}")
    metadata = _members(built.path)[f"widget_kit-{version}.dist-info/METADATA"]
    assert f"\nVersion: {version}\n".encode() in metadata


def test_its_record_is_true(project: Project, tmp_path: Path) -> None:
    members = _members(_build(project, tmp_path).path)
    (record,) = (name for name in members if name.endswith(".dist-info/RECORD"))
    rows = list(csv.reader(members[record].decode().splitlines()))
    assert sorted(row[0] for row in rows) == sorted(members)
    for path, digest, size in rows:
        if path != record:
            plain = hashlib.sha256(members[path]).digest()
            encoded = base64.urlsafe_b64encode(plain).decode().rstrip("=")
            assert (digest, size) == (f"sha256={encoded}", str(len(members[path])))


def test_two_builds_are_the_same_bytes(project: Project, tmp_path: Path) -> None:
    first, second = _build(project, tmp_path / "a"), _build(project, tmp_path / "b")
    assert Path(first.path).read_bytes() == Path(second.path).read_bytes()
    assert first.sha256 == hashlib.sha256(Path(first.path).read_bytes()).hexdigest()


def test_untouched_members_keep_their_compressed_bytes(project: Project, tmp_path: Path) -> None:
    built = _build(project, tmp_path)
    assert _compressed(project.wheel("1.0"), "widget/other.py") == _compressed(
        Path(built.path), "widget/other.py"
    )


def _compressed(path: Path, member: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(member)
    raw = path.read_bytes()[info.header_offset :]
    start = 30 + int.from_bytes(raw[26:28], "little") + int.from_bytes(raw[28:30], "little")
    return raw[start : start + info.compress_size]


def test_the_executable_bit_is_in_the_archive(project: Project, tmp_path: Path) -> None:
    with zipfile.ZipFile(_build(project, tmp_path).path) as archive:
        assert archive.getinfo("widget/tool.sh").external_attr >> 16 == 0o100755


def test_provenance_names_the_base_and_every_patch(project: Project, tmp_path: Path) -> None:
    members = _members(_build(project, tmp_path).path)
    (name,) = (name for name in members if name.endswith(PROVENANCE))
    facts = json.loads(members[name])
    target = project.catalog().target("w-1.0")
    base = hashlib.sha256(project.wheel("1.0").read_bytes()).hexdigest()
    assert facts["base"]["archive_info"]["hashes"] == {"sha256": base}
    assert facts["series"] == target.series.digest
    assert [patch["name"] for patch in facts["patches"]] == [p.name for p in target.series.patches]


def test_pip_installs_it_and_leaves_nothing_behind(project: Project, tmp_path: Path) -> None:
    built = _build(project, tmp_path)
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    site = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    before = sorted(site.rglob("*"))
    _pip(python, "install", "--no-index", "--no-deps", built.path)
    (found,) = identify(project.catalog(), project.tree(site))
    assert (found.state, found.target) == (State.PATCHED, "w-1.0")
    answer = "import widget.answer; print(widget.answer.ANSWER)"
    done = subprocess.run([python, "-c", answer], capture_output=True, text=True, check=True)
    assert done.stdout == "42\n"
    _pip(python, "uninstall", "--yes", "widget-kit")
    assert [path for path in sorted(site.rglob("*")) if "__pycache__" not in path.parts] == [
        path for path in before if "__pycache__" not in path.parts
    ]


def _pip(python: Path, *arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    command += [str(word) for word in arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_wheel_that_is_patched_already_is_refused(project: Project, tmp_path: Path) -> None:
    built = _build(project, tmp_path)
    with pytest.raises(UsageError, match=r"is patched with w-1\.0 already"):
        _build(project, tmp_path, Path(built.path))
    with pytest.raises(DoesNotApplyError, match=r"is w-1\.0 \(1\.0\), patched") as refused:
        _build(project, tmp_path, Path(built.path), "w-1.1")
    assert str(refused.value.remedy).startswith("give an unpatched tree or wheel")


def test_a_wheel_of_another_release_is_refused(project: Project, tmp_path: Path) -> None:
    with pytest.raises(DoesNotApplyError, match=r"is w-1\.1"):
        _build(project, tmp_path, project.wheel("1.1"))


def test_a_folder_that_cannot_be_made_is_refused(project: Project, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(TreeError, match="cannot be written"):
        _build(project, tmp_path / "file")


def test_a_series_that_needs_a_build_is_refused(project: Project, tmp_path: Path) -> None:
    catalog = _catalog_with_native_source(project, tmp_path)
    target = catalog.target("w-1.0")
    with (
        WheelSource(project.wheel("1.0"), target.upstream) as source,
        pytest.raises(DoesNotApplyError, match=r"native\.c is compiled when the package is built"),
    ):
        build_wheel(catalog, target, source, tmp_path / "out")


def _catalog_with_native_source(project: Project, tmp_path: Path) -> Catalog:
    """Return a catalog whose w-1.0 adds a C file."""
    targets = project.copy_catalog(tmp_path / "catalog")
    folder = targets.parent / "patches" / "widget" / "v1.0"
    shutil.rmtree(folder)
    git(tmp_path, "clone", "--quiet", project.repository, tmp_path / "clone")
    steps = [("native: faster", (put(f"{PREFIX}widget/native.c", b"int n;\n"),))]
    release = dict(project.releases["1.0"])
    make_series(tmp_path / "clone", project.commits["1.0"], release, steps, folder)
    catalog = load_catalog(targets)
    write_locks([catalog.target("w-1.0")], AtHand(Silent(), [project.wheel("1.0")]))
    return catalog


def test_the_zip_writer_makes_what_zipfile_reads(tmp_path: Path) -> None:
    content = {"a.txt": b"", "b/ü.txt": b"text\n" * 1000}
    with ZipCopy(tmp_path / "a.zip", "w") as archive:
        for name, data in content.items():
            archive.write_member(name, data, zipfile.ZipInfo(), 0o100644)
    assert _members(tmp_path / "a.zip") == content
    with zipfile.ZipFile(tmp_path / "a.zip") as written:
        assert written.testzip() is None
        assert written.getinfo("a.txt").date_time == (1980, 1, 1, 0, 0, 0)


def test_members_of_any_size_and_number_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By zip64, here with limits of its own far below 4 GiB and 65,535 members."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    content = {"a.txt": b"text\n" * 1000, "b.txt": b"c"}
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    with (
        zipfile.ZipFile(tmp_path / "a.zip") as old,
        (tmp_path / "a.zip").open("rb") as raw,
        ZipCopy(tmp_path / "b.zip", "w") as new,
    ):
        for info in old.infolist():
            new.copy_member(raw, info, f"new/{info.filename}")
        new.write_member("c.txt", b"x" * 1000, old.infolist()[0], 0o100644)
    monkeypatch.undo()
    assert b"PK\x06\x06" in (tmp_path / "b.zip").read_bytes()  # zip64's record of the end
    assert _members(tmp_path / "b.zip") == {
        "new/a.txt": content["a.txt"],
        "new/b.txt": content["b.txt"],
        "c.txt": b"x" * 1000,
    }


def test_a_real_release_is_what_git_apply_makes_of_it(
    release: Callable[[str], Path], tmp_path: Path
) -> None:
    catalog = load_catalog(find_catalog(Path(__file__).parent))
    target = catalog.target("v0.5.17")
    wheel = release("0.5.17")
    with WheelSource(wheel, target.upstream) as source:
        built = build_wheel(catalog, target, source, tmp_path)
    tree = tmp_path / "tree"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tree / "python")
    apply_with_git(tree, target.series)
    members = _members(built.path)
    for path in (tree / "python" / "sglang").rglob("*"):
        if path.is_file():
            assert members[path.relative_to(tree / "python").as_posix()] == path.read_bytes(), path
    check = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--dry-run"]
    done = subprocess.run(
        [*check, "--no-deps", "--no-index", "--ignore-installed", built.path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
