"""Wheels as other tools build them: pkgtools patches what pip installs, and names damage."""

from __future__ import annotations

import base64
import csv
import email
import hashlib
import io
import json
import subprocess
import sys
import tracemalloc
import zipfile
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from project import PREFIX, Project, build_wheel, installed

from pkgtools.blob import DIRECTORY, Blob
from pkgtools.build.wheel import BuiltWheel
from pkgtools.build.wheel import build_wheel as build_patched
from pkgtools.errors import DoesNotApplyError, PkgtoolsError, UsageError
from pkgtools.source import WheelSource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from project import Files

    from pkgtools.catalog import Upstream

INFO = "widget_kit-1.0.dist-info"
DATA = "widget_kit-1.0.data"


def _build(project: Project, wheel: Path, folder: Path) -> BuiltWheel:
    catalog = project.catalog()
    target = catalog.target("w-1.0")
    with WheelSource(wheel, target.upstream) as source:
        return build_patched(catalog, target, source, folder)


class _Stream(io.RawIOBase):
    """A file that cannot seek: zipfile writes data descriptors behind the members."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        return self._file.write(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def _repack(
    wheel: Path,
    folder: Path,
    rename: Callable[[str], str] = str,
    *,
    method: int = zipfile.ZIP_DEFLATED,
    system: int = 3,
    force_zip64: bool = False,
    stream: bool = False,
    more: dict[str, bytes] | None = None,
) -> Path:
    """Write a wheel again in another shape, with a true RECORD."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / wheel.name
    with zipfile.ZipFile(wheel) as old:
        members = {rename(i.filename): (i, old.read(i)) for i in old.infolist()}
    infos = {name: info for name, (info, _) in members.items()}
    content = {name: data for name, (_, data) in members.items()} | (more or {})
    record = next(name for name in content if name.endswith("/RECORD"))
    rows = [f"{name},{_digest(data)},{len(data)}" for name, data in content.items()]
    content[record] = "\n".join(
        [r for r in rows if not r.startswith(record)] + [f"{record},,"]
    ).encode()
    target: Path | _Stream = _Stream(path) if stream else path
    with zipfile.ZipFile(target, "w", method) as new:
        for name, data in content.items():
            entry = zipfile.ZipInfo(name, (2020, 1, 2, 3, 4, 6))
            entry.create_system, entry.compress_type = system, method
            mode = infos[name].external_attr if name in infos else 0o100644 << 16
            entry.external_attr = mode if system else 0x20
            with new.open(entry, "w", force_zip64=force_zip64) as file:
                file.write(data)
    if isinstance(target, _Stream):
        target.close()
    return path


def _digest(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
    return f"sha256={digest}"


def _moved(scheme: str) -> Callable[[str], str]:
    return lambda name: name if ".dist-info/" in name else f"{DATA}/{scheme}/{name}"


def _half(name: str) -> str:
    return f"{DATA}/platlib/{name}" if name.endswith(("core.py", "tool.sh")) else name


def _info(spelling: str) -> Callable[[str], str]:
    return lambda name: name.replace(INFO, f"{spelling}.dist-info")


SHAPES: dict[str, dict[str, object]] = {
    "Info": {"rename": _info("Widget_Kit-1.0")},
    "info with a dot": {"rename": _info("widget.kit-1.0")},
    "info with a long version": {"rename": _info("widget_kit-1.0.0")},
    "info with a dash": {"rename": _info("widget-kit-1.0")},
    "purelib": {"rename": _moved("purelib")},
    "platlib": {"rename": _moved("platlib")},
    "half in platlib": {"rename": _half},
    "lzma": {"method": zipfile.ZIP_LZMA},
    "bzip2": {"method": zipfile.ZIP_BZIP2},
    "stored": {"method": zipfile.ZIP_STORED},
    "DOS": {"system": 0},
    "zip64": {"force_zip64": True},
    "data descriptors": {"stream": True},
    "signed": {"more": {f"{INFO}/RECORD.jws": b"{}", f"{INFO}/RECORD.p7s": b"x"}},
}


_PIP = """
import json, sys
from pip._internal.cli.main import main
for wheel, folder in json.load(sys.stdin):
    if status := main([*sys.argv[1:], "--target", folder, wheel]):
        sys.exit(status)
"""


def _pip(*installs: tuple[str | Path, Path]) -> list[dict[str, bytes]]:
    """Install each wheel into a folder with pip; return the files that are not metadata.

    One process does all, because starting pip takes three times as long as an installation.
    """
    options = ["install", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-compile"]
    done = subprocess.run(
        [sys.executable, "-c", _PIP, *options],
        input=json.dumps([[str(wheel), str(folder)] for wheel, folder in installs]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [
        {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file() and ".dist-info/" not in path.relative_to(folder).as_posix()
        }
        for _, folder in installs
    ]


def test_wheels_of_any_shape_are_patched(project: Project, tmp_path: Path) -> None:
    wheel = project.wheel("1.0")
    built = {
        shape: _build(
            project,
            _repack(wheel, tmp_path / shape / "in", **how),  # type: ignore[arg-type]
            tmp_path / shape / "out",
        )
        for shape, how in SHAPES.items()
    }
    wanted = {
        path.removeprefix(PREFIX): blob.data
        for path, blob in project.patched["v1.0"].items()
        if path.startswith(PREFIX)
    }
    installed = _pip(*((each.path, tmp_path / shape / "site") for shape, each in built.items()))
    for shape, files in zip(SHAPES, installed, strict=True):
        assert files == wanted, shape
        _check_archive(built[shape], shape)


def _check_archive(built: BuiltWheel, shape: str) -> None:
    """Check that RECORD lists every member, and that signatures are gone."""
    with zipfile.ZipFile(built.path) as made:
        names = set(made.namelist())
        (record,) = (name for name in names if name.endswith("/RECORD"))
        assert record == f"widget_kit-{built.version}.dist-info/RECORD", shape
        rows = list(csv.reader(made.read(record).decode().splitlines()))
        assert sorted(row[0] for row in rows) == sorted(names), shape
        assert all(row[1] == _digest(made.read(row[0])) for row in rows if row[0] != record), shape
        assert made.testzip() is None, shape
        if shape == "DOS":
            assert made.getinfo("widget/other.py").create_system == 0
    signatures = ("RECORD.jws", "RECORD.p7s")
    assert built.dropped == tuple(f"{INFO}/{n}" for n in signatures if shape == "signed")
    assert not any(name.endswith(signatures) for name in names), shape


@pytest.mark.parametrize("infos", [[], ["gadget-1.0"], ["widget_kit-1.0", "Widget.Kit-1.0"]])
def test_wheel_without_one_dist_info_is_refused(
    project: Project, tmp_path: Path, infos: list[str]
) -> None:
    wheel = _repack(project.wheel("1.0"), tmp_path / "in", more={"x/RECORD": b""})
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, blob in installed(project.releases["1.0"]).items():
            archive.writestr(name, blob.data)
        for info in infos:
            archive.writestr(f"{info}.dist-info/METADATA", "Version: 1.0\n")
    with pytest.raises(UsageError, match=r"has to have one \.dist-info folder") as refused:
        _build(project, wheel, tmp_path / "out")
    assert refused.value.remedy is not None


def test_file_that_two_members_install_is_refused(project: Project, tmp_path: Path) -> None:
    more = {f"{DATA}/purelib/widget/core.py": b"other\n"}
    wheel = _repack(project.wheel("1.0"), tmp_path / "in", more=more)
    with pytest.raises(UsageError, match=r"holds widget/core\.py and .*purelib/widget/core\.py"):
        _build(project, wheel, tmp_path / "out")


def test_the_version_is_a_field_in_any_case(project: Project, tmp_path: Path) -> None:
    """As in a mail (RFC 822); a description can have such a line too."""
    metadata = b"Metadata-Version: 2.1\nname: widget-kit\nversion: 1.0\n\nVersion: old\n"
    more = {f"{INFO}/METADATA": metadata}
    built = _build(project, _repack(project.wheel("1.0"), tmp_path / "in", more=more), tmp_path)
    with zipfile.ZipFile(built.path) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
        made = email.message_from_bytes(wheel.read(name))
    assert f"-{made['Version']}-py3" in built.path
    assert made.get_payload() == "Version: old\n"


@pytest.fixture
def upstream(project: Project) -> Upstream:
    """Return the synthetic upstream."""
    return project.catalog().upstreams[0]


def test_other_packages_and_modules_of_the_wheel_are_read(
    project: Project, upstream: Upstream, tmp_path: Path
) -> None:
    files: Files = dict(project.releases["1.0"])
    files[f"{PREFIX}other/m.py"] = Blob(b"b = 1\n")
    files[f"{PREFIX}single.py"] = Blob(b"c = 1\n")
    with WheelSource(build_wheel(tmp_path, files, "1.0"), upstream) as wheel:
        assert wheel.read("src/other/m.py") == Blob(b"b = 1\n")
        assert wheel.read("src/single.py") == Blob(b"c = 1\n")
        assert wheel.read("src/other/new.py") is None
        assert wheel.read("src/other") == Blob(b"", DIRECTORY)
        assert wheel.member("src/other/new.py") == "other/new.py"
        for outside in ("src/setup.py", "other/m.py", f"src/{INFO}/METADATA", "README.md"):
            with pytest.raises(DoesNotApplyError, match="only a source checkout"):
                wheel.read(outside)


@pytest.mark.parametrize("suffix", ["cpython-311-x86_64-linux-gnu.so", "abi3.so", "so", "pyd"])
def test_module_behind_an_extension_module_is_refused(
    project: Project, tmp_path: Path, suffix: str
) -> None:
    more = {f"widget/core.{suffix}": b"\177ELF"}
    wheel = _repack(project.wheel("1.0"), tmp_path / "in", more=more)
    with pytest.raises(
        DoesNotApplyError, match=rf"core\.py is compiled into widget/core\.{suffix}"
    ):
        _build(project, wheel, tmp_path / "out")
    (tmp_path / "in" / wheel.name).unlink()
    beside = {f"widget/core_fast.{suffix}": b"\177ELF", "widget/sub/core.so": b"\177ELF"}
    wheel = _repack(project.wheel("1.0"), tmp_path / "in", more=beside)
    assert _build(project, wheel, tmp_path / "out").patched


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_damage_anywhere_is_no_traceback(project: Project, tmp_path: Path, method: int) -> None:
    wheel = _repack(project.wheel("1.0"), tmp_path / "in", method=method)
    whole = wheel.read_bytes()
    random = Random(method)  # noqa: S311
    at = whole.index(b"PK\x01\x02")  # the directory, where most of the fields are
    places = [random.randrange(len(whole)) for _ in range(60)]
    places += [random.randrange(at, len(whole)) for _ in range(120)]
    remedies = []
    for place in places:
        data = bytearray(whole)
        data[place] ^= random.choice((0x01, 0x80, 0xFF))
        wheel.write_bytes(data)
        try:
            _build(project, wheel, tmp_path / "out")
        except PkgtoolsError as error:
            remedies.append(error.remedy)
    assert len(remedies) > len(places) // 4
    assert all(remedies)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (6, b"\xc8\x00"),  # version needed to extract: 20.0
        (8, b"\x00\x08"),  # the name is UTF-8, and here it is not
        (10, b"\x63\x00"),  # an unknown compression
        (8, b"\x01\x00"),  # encrypted
        (24, b"\xff\xff\xff\xff"),  # zip64 without its extra field
    ],
)
def test_damaged_field_is_named(project: Project, tmp_path: Path, field: int, value: bytes) -> None:
    wheel = _repack(project.wheel("1.0"), tmp_path / "in", more={"widget/gr\u00fc.py": b""})
    data = bytearray(wheel.read_bytes())
    for name in (b"widget/core.py", "widget/gr\u00fc.py".encode()):
        at = data.rindex(name) - 46
        assert data[at : at + 4] == b"PK\x01\x02"
        data[at + field : at + field + len(value)] = value
        if name.endswith("\u00fc.py".encode()):
            data[at + 46 + len("widget/gr")] = 0xFF
    wheel.write_bytes(data)
    with pytest.raises(UsageError, match=r"cannot be read|encrypted|claims") as refused:
        _build(project, wheel, tmp_path / "out")
    assert "fetch it again" in str(refused.value.remedy)


def test_a_member_takes_no_more_memory_than_the_file_has(project: Project, tmp_path: Path) -> None:
    wheel = _repack(project.wheel("1.0"), tmp_path / "in", more={"widget/data.bin": b"data"})
    data = bytearray(wheel.read_bytes())
    at = data.rindex(b"widget/data.bin") - 46
    data[at + 20 : at + 24] = b"\0\0\0\xf0"  # its compressed size: 3.75 GiB
    wheel.write_bytes(data)
    tracemalloc.start()
    with pytest.raises(UsageError, match="cut short"):
        _build(project, wheel, tmp_path / "out")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 << 20


def test_data_of_other_schemes_stays_where_pip_puts_it(project: Project, tmp_path: Path) -> None:
    more = {
        f"{DATA}/data/share/widget/core.py": b"{{ a }} = 1\n",
        f"{DATA}/scripts/core.py": b"print(1)\n",
    }
    wheel = _repack(project.wheel("1.0"), tmp_path / "in", more=more)
    built = _build(project, wheel, tmp_path / "out")
    before, after = _pip((wheel, tmp_path / "before"), (built.path, tmp_path / "after"))
    beside = {"share/widget/core.py", "bin/core.py"}
    assert {name: after[name] for name in beside} == {name: before[name] for name in beside}
    wanted = {
        path.removeprefix(PREFIX): blob.data
        for path, blob in project.patched["v1.0"].items()
        if path.startswith(PREFIX)
    }
    assert {n: data for n, data in after.items() if n not in beside} == wanted
