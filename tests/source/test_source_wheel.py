"""Wheels, whole and damaged, read without unpacking."""

from __future__ import annotations

import tracemalloc
import zipfile
from typing import TYPE_CHECKING

import pytest
from project import PREFIX, build_wheel, installed

from pkgtools.blob import DIRECTORY, EXECUTABLE, REGULAR, SYMLINK, Blob
from pkgtools.errors import DoesNotApplyError, UsageError
from pkgtools.source import WheelSource
from pkgtools.source.wheel import wheel_version

if TYPE_CHECKING:
    from pathlib import Path

    from project import Project

    from pkgtools.catalog import Upstream

_NAME = "widget_kit-1.0-py3-none-any.whl"


@pytest.fixture
def upstream(project: Project) -> Upstream:
    """Return the synthetic upstream."""
    return project.catalog().upstreams[0]


def test_every_member_is_read_by_its_path_in_the_source_tree(
    project: Project, upstream: Upstream
) -> None:
    with WheelSource(project.wheel("1.0"), upstream) as wheel:
        for path, blob in project.releases["1.0"].items():
            if path.startswith(PREFIX):
                assert wheel.read(path) == blob
        assert wheel.version == "1.0"
        assert wheel.label == _NAME
        assert wheel.read("src/widget/none.py") is None
        assert wheel.read("src/widget/core.py/below") is None
        for folder in ("src/widget/legacy", "src/widget", "src"):
            assert wheel.read(folder) == Blob(b"", DIRECTORY)
        with pytest.raises(DoesNotApplyError, match=r"README\.md"):
            wheel.read("README.md")


def test_names_of_65_kb_take_no_more_memory_than_they_are_long(
    upstream: Upstream, tmp_path: Path
) -> None:
    """Six of them took 6.4 GB: each folder of each was kept by its whole name."""
    path = tmp_path / _NAME
    names = [f"widget/{number}{'/a' * 32_000}/b" for number in range(6)]
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, b"")
    with WheelSource(path, upstream) as wheel:
        tracemalloc.start()
        assert wheel.read("src/widget/none") is None
        for name in (names[0].removesuffix("/b"), "widget/5", "widget"):
            assert wheel.read(f"src/{name}") == Blob(b"", DIRECTORY)
        for name in ("widget/6", "widget/", "widget/5/a/", "widget/0/b"):
            assert wheel.read(f"src/{name}") is None
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 5_000_000


def test_modes_are_those_that_the_archive_has(
    project: Project, upstream: Upstream, tmp_path: Path
) -> None:
    files = dict(project.releases["1.0"])
    files["src/widget/tool.sh"] = Blob(b"#!/bin/sh\n", EXECUTABLE)
    files["src/widget/link"] = Blob(b"tool.sh", SYMLINK)
    files["src/widget/none"] = Blob(b"made on another system", 0)
    with WheelSource(build_wheel(tmp_path, files, "1.0"), upstream) as wheel:
        assert wheel.read("src/widget/tool.sh") == files["src/widget/tool.sh"]
        assert wheel.read("src/widget/link") == files["src/widget/link"]
        assert wheel.read("src/widget/none") == Blob(b"made on another system", REGULAR)


def test_a_member_that_is_there_twice_is_refused(
    project: Project, upstream: Upstream, tmp_path: Path
) -> None:
    """Which of the two an installer takes is its own affair: no answer would be true."""
    path = build_wheel(tmp_path, dict(project.releases["1.0"]), "1.0")
    with zipfile.ZipFile(path, "a") as wheel, pytest.warns(UserWarning, match="Duplicate name"):
        wheel.writestr("widget/core.py", b"other\n")
    with pytest.raises(UsageError, match=r"widget/core\.py twice"):
        WheelSource(path, upstream)


def _damage(path: Path, member: str, *, method: int, share: float = 0.5) -> None:
    """Change a byte of a member's stored data."""
    with zipfile.ZipFile(path) as wheel:
        info = wheel.getinfo(member)
        assert info.compress_type == method
        at = info.header_offset + 30 + len(info.filename) + int(info.compress_size * share)
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize("share", [0, 0.01, 0.02, 0.05, 0.1, 0.3, 0.5, 0.9, 0.99])
def test_a_corrupt_member_is_refused(
    share: float, project: Project, upstream: Upstream, tmp_path: Path
) -> None:
    path = build_wheel(tmp_path, dict(project.releases["1.0"]), "1.0")
    _damage(path, "widget/core.py", method=zipfile.ZIP_DEFLATED, share=share)
    with WheelSource(path, upstream) as wheel:
        with pytest.raises(UsageError, match=r"widget/core\.py cannot be read"):
            wheel.read("src/widget/core.py")
        assert wheel.read("src/widget/other.py") == project.releases["1.0"]["src/widget/other.py"]


def test_a_wrong_checksum_is_refused(project: Project, upstream: Upstream, tmp_path: Path) -> None:
    path = tmp_path / _NAME
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as wheel:
        for name, blob in installed(project.releases["1.0"]).items():
            wheel.writestr(name, blob.data)
    _damage(path, "widget/core.py", method=zipfile.ZIP_STORED)
    with (
        WheelSource(path, upstream) as wheel,
        pytest.raises(UsageError, match=r"widget/core\.py cannot be read: Bad CRC"),
    ):
        wheel.read("src/widget/core.py")


@pytest.mark.parametrize("cut", [0, 10, 1000, -1, -30])
def test_a_file_that_is_cut_short_is_refused(
    cut: int, project: Project, upstream: Upstream, tmp_path: Path
) -> None:
    path = tmp_path / _NAME
    path.write_bytes(project.wheel("1.0").read_bytes()[:cut])
    with pytest.raises(UsageError, match="cannot be read as a wheel"):
        WheelSource(path, upstream)


def test_an_encrypted_member_is_refused(
    project: Project, upstream: Upstream, tmp_path: Path
) -> None:
    path = build_wheel(tmp_path, dict(project.releases["1.0"]), "1.0")
    data = bytearray(path.read_bytes())
    at = data.rindex(b"widget/core.py")  # in the central directory
    data[at - 38] |= 1
    path.write_bytes(data)
    with (
        WheelSource(path, upstream) as wheel,
        pytest.raises(UsageError, match=r"widget/core\.py cannot be read"),
    ):
        wheel.read("src/widget/core.py")


def test_a_member_that_claims_to_be_huge_is_not_read(
    project: Project, upstream: Upstream, tmp_path: Path
) -> None:
    path = build_wheel(tmp_path, dict(project.releases["1.0"]), "1.0")
    data = bytearray(path.read_bytes())
    at = data.rindex(b"widget/core.py")
    data[at - 22 : at - 18] = (3 << 30).to_bytes(4, "little")  # its size, inflated
    path.write_bytes(data)
    with (
        WheelSource(path, upstream) as wheel,
        pytest.raises(UsageError, match=rf"claims {3 << 30} bytes"),
    ):
        wheel.read("src/widget/core.py")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gadget-1.0-py3-none-any.whl", "is a wheel of gadget, not of widget-kit"),
        ("widget_kit.zip", "Invalid wheel filename"),
        ("widget_kit-1.0.whl", "Invalid wheel filename"),
        ("widget_kit-one-py3-none-any.whl", "Invalid wheel filename"),
        ("nothing.whl", "Invalid wheel filename"),
    ],
)
def test_another_files_name_is_refused(
    name: str, message: str, project: Project, upstream: Upstream, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(project.wheel("1.0").read_bytes())
    with pytest.raises(UsageError, match=message):
        WheelSource(path, upstream)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        (_NAME, "1.0"),
        ("Widget_Kit-1.0.post1-cp311-cp311-manylinux_2_34_x86_64.whl", "1.0.post1"),
        ("widget_kit-1.0+local.7-1-py3-none-any.whl", "1.0+local.7"),
    ],
)
def test_versions(name: str, version: str, upstream: Upstream, tmp_path: Path) -> None:
    assert wheel_version(tmp_path / name, upstream) == version


def test_a_wheel_that_is_not_there(upstream: Upstream, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read as a wheel"):
        WheelSource(tmp_path / _NAME, upstream)
