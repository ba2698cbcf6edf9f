"""Requirements that a target adds to a package: METADATA, RECORD, lockfile, pip and verify."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from typing import TYPE_CHECKING

import pytest
from commands import call
from packaging.metadata import parse_email
from project import build_wheel, record_row

from pkgtools.source.requires import differing, required_python, with_requirements

if TYPE_CHECKING:
    from pathlib import Path

    from commands import Result
    from project import Project


@pytest.fixture
def targets(project: Project, tmp_path: Path) -> Path:
    """Copy the catalog, with a requirement of w-1.0."""
    targets = project.copy_catalog(tmp_path / "catalog")
    text = targets.read_text()
    named = 'name = "w-1.0"\n'
    assert named in text
    targets.write_text(text.replace(named, f'{named}requires = ["needed>=2"]\n'))
    return targets


@pytest.fixture
def wheel(project: Project, tmp_path: Path) -> Path:
    """Build the release with dependencies of its own."""
    path = build_wheel(tmp_path / "release", project.releases["1.0"], "1.0")
    with zipfile.ZipFile(path) as archive:
        members = {info: archive.read(info) for info in archive.infolist()}
    fields = b"Requires-Dist: other\nRequires-Dist: Needed<2\nRequires-Dist: needed; extra == 'x'\n"
    with zipfile.ZipFile(path, "w") as archive:
        for info, data in members.items():
            new = data + fields if info.filename.endswith("METADATA") else data
            if info.filename.endswith("RECORD"):
                rows = [row for row in data.splitlines(keepends=True) if b"METADATA" not in row]
                name = info.filename.replace("RECORD", "METADATA")
                text = next(d for i, d in members.items() if i.filename == name) + fields
                new = record_row(name, text) + b"".join(rows)
            archive.writestr(info, new)
    return path


def run(verb: str, targets: Path, wheel: Path, *words: str | Path) -> Result:
    options = ("--target", "w-1.0", "--catalog", targets)
    return call(*verb.split(), *options, *words, *(() if verb == "verify" else ("--wheel", wheel)))


def pip(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def make_needed(folder: Path, version: str) -> None:
    info = f"needed-{version}.dist-info"
    members = {
        "needed.py": b"",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: needed\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = b"".join(record_row(name, data) for name, data in members.items())
    with zipfile.ZipFile(folder / f"needed-{version}-py3-none-any.whl", "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.writestr(f"{info}/RECORD", rows + f"{info}/RECORD,,\n".encode())


def test_a_lockfile_of_other_requirements_is_refused(targets: Path, wheel: Path) -> None:
    done = run("build wheel", targets, wheel)
    assert done.code == 6
    assert "1.0 has other requirements than w-1.0" in done.err
    assert "pkgtools lock --target w-1.0" in done.err
    assert run("lock", targets, wheel).code == 0
    locked = tomllib.loads((targets.parent / "patches/widget/v1.0/lock.toml").read_text())
    (revision,) = locked["revision"]
    assert revision["requires"] == ["needed>=2"]
    assert run("lock", targets, wheel, "--check").code == 0


def test_pip_installs_what_a_target_requires(targets: Path, wheel: Path, tmp_path: Path) -> None:
    plain = wheel.parent / "plain"
    done = call("build", "wheel", "--wheel", wheel, "--target", "w-1.1", "--catalog", targets)
    assert done.code != 0  # another release's
    assert run("lock", targets, wheel).code == 0
    links = tmp_path / "links"
    made = run("build wheel", targets, wheel, "-o", links, "--json").facts
    again = run("build wheel", targets, wheel, "-o", plain, "--json").facts
    assert made["sha256"] == again["sha256"]
    with zipfile.ZipFile(made["path"]) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = archive.read(name)
        assert record_row(name, metadata) in archive.read(name.replace("METADATA", "RECORD"))
    assert parse_email(metadata)[0]["requires_dist"] == [
        *("other", "needed; extra == 'x'", "needed>=2")
    ]
    verified = run("verify", targets, wheel, "--wheel", made["path"])
    assert verified.code == 0, verified.err

    make_needed(links, "1.5")
    (links / "other-1-py3-none-any.whl").write_bytes(_other())
    install = (
        "install",
        "--quiet",
        "--no-index",
        "--find-links",
        links,
        "--target",
        tmp_path / "s",
    )
    refused = pip(*install, made["requirement"].partition(" ")[0])
    assert refused.returncode != 0
    assert "needed>=2" in refused.stderr
    make_needed(links, "2.1")
    done_by_pip = pip(*install, made["requirement"].partition(" ")[0])
    assert done_by_pip.returncode == 0, done_by_pip.stderr
    assert (tmp_path / "s" / "needed-2.1.dist-info").is_dir()
    verified = run("verify", targets, wheel, "--tree", tmp_path / "s")
    assert verified.code == 0, verified.err

    # RECORD agrees with the edited METADATA: the requirement alone tells.
    (info,) = (tmp_path / "s").glob("widget_kit-*.dist-info")
    edited = (info / "METADATA").read_bytes().replace(b"needed>=2", b"needed")
    rows = (info / "RECORD").read_text().splitlines(keepends=True)
    new = record_row(f"{info.name}/METADATA", edited).decode()
    kept = [row if "METADATA" not in row else new for row in rows]
    (info / "METADATA").write_bytes(edited)
    (info / "RECORD").write_text("".join(kept))
    verified = run("verify", targets, wheel, "--tree", tmp_path / "s")
    assert verified.code == 8
    assert "METADATA does not have the requirement needed>=2 of w-1.0" in verified.err


def _other() -> bytes:
    import io  # noqa: PLC0415 - here alone

    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(
            "other-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: other\nVersion: 1\n"
        )
        archive.writestr(
            "other-1.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr("other-1.dist-info/RECORD", "")
    return made.getvalue()


def test_apply_names_what_a_target_requires(targets: Path, wheel: Path, tmp_path: Path) -> None:
    assert run("lock", targets, wheel).code == 0
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (metadata,) = site.glob("*.dist-info/METADATA")
    before = metadata.read_bytes()
    options = ("--target", "w-1.0", "--catalog", targets, "--tree", site)
    done = call("apply", *options)
    assert "requires needed>=2, which the package's METADATA does not say: install it" in done.out
    assert metadata.read_bytes() == before
    assert call("verify", *options).code == 0
    assert call("reverse", *options[2:]).code == 0
    assert call("apply", *options, "--json").facts["requires"] == ["needed>=2"]


def test_a_requirement_that_is_none_is_refused(targets: Path, wheel: Path) -> None:
    targets.write_text(targets.read_text().replace("needed>=2", "needed >= = 2"))
    done = run("lock", targets, wheel)
    assert done.code == 6
    assert "invalid requirement 'needed >= = 2'" in done.err


HEAD = b"Metadata-Version: 2.1\nName: x\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (HEAD, HEAD + b"Requires-Dist: n>=2\n"),
        (HEAD.rstrip(), HEAD + b"Requires-Dist: n>=2\n"),
        (HEAD + b"\nRequires-Dist: n\n", HEAD + b"Requires-Dist: n>=2\n\nRequires-Dist: n\n"),
        (HEAD + b"requires-dist: n<2\nX: y\n", HEAD + b"Requires-Dist: n>=2\nX: y\n"),
        (HEAD + b"Requires-Dist: N\nX: y\n", HEAD + b"Requires-Dist: n>=2\nX: y\n"),
        (HEAD + b"Requires-Dist: n\n ==1\nX: y\n", HEAD + b"Requires-Dist: n>=2\nX: y\n"),
        (
            HEAD + b"Requires-Dist: nn\nRequires-Dist: n; python_version < '3.9'\nX: y\n",
            HEAD + b"Requires-Dist: nn\nRequires-Dist: n>=2\nX: y\n",
        ),
        (
            HEAD.replace(b"\n", b"\r\n") + b"\r\ntext\r\n",
            HEAD.replace(b"\n", b"\r\n") + b"Requires-Dist: n>=2\r\n\r\ntext\r\n",
        ),
        (HEAD + b"Requires-Dist: ???\n", HEAD + b"Requires-Dist: ???\nRequires-Dist: n>=2\n"),
    ],
)
def test_one_requirement_takes_the_place_of_those_of_its_name(before: bytes, after: bytes) -> None:
    made = with_requirements(before, ["n>=2"])
    assert made == after
    assert differing(made, ["n>=2"]) == []
    assert differing(before, ["n>=2"]) == ["n>=2"]
    assert with_requirements(made, ["n>=2"]) == made


@pytest.mark.parametrize(
    "fields",
    [
        b"Name: a\nRequires-Python: >=3.8\nVersion: 1",
        b"Name: a\r\nrequires-python:>=3.8, <4\r\n\r\nRequires-Python: >=2\r\n",
        b"Requires-Python: >=3.8,\n  <4\nName: a\n",
        b"Name: a\nRequires-Python: >=3.8",
        b"Name: a\n\nRequires-Python: >=3.8\n",
        b"Name: a\nX-Requires-Python: >=3.8\n",
    ],
)
def test_requires_python_is_read_as_packaging_does(fields: bytes) -> None:
    oracle = parse_email(fields)[0].get("requires_python")
    assert required_python(fields) == (oracle and " ".join(oracle.split()))
