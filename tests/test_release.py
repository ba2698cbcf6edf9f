"""What a release is made of: the same bytes wherever and whenever it is built."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest
from project import git

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, bytes]]:
    """Build sdist and wheel twice: in other folders, with other times and permissions."""
    made = []
    for name, umask in (("a", 0o022), ("b", 0o077)):
        folder = tmp_path_factory.mktemp(name)
        for path in git(ROOT, "ls-files", "-z").split("\0"):
            if path and (ROOT / path).is_file():
                target = folder / "source" / path
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / path, target)
                os.utime(target, (umask, umask))
                target.chmod(0o666 & ~umask)
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "--directory", folder / "dist"],
            cwd=folder / "source",
            check=True,
            capture_output=True,
            umask=umask,
            env={**os.environ, "SOURCE_DATE_EPOCH": "1750000000"},
        )
        made.append({path.name: path.read_bytes() for path in (folder / "dist").iterdir()})
    return made


def test_two_builds_are_the_same_bytes(built: list[dict[str, bytes]]) -> None:
    assert sorted(name.rpartition(".")[2] for name in built[0]) == ["gz", "whl"]
    assert built[0] == built[1]


def test_it_says_what_it_is_and_has_all_that_it_needs(
    built: list[dict[str, bytes]], tmp_path: Path
) -> None:
    for name, data in built[0].items():
        (tmp_path / name).write_bytes(data)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        fields = BytesParser().parsebytes(archive.read(metadata))
    assert fields["Description-Content-Type"] == "text/markdown"
    assert fields["License-Expression"] == "Apache-2.0"
    tracked = [path for path in git(ROOT, "ls-files").splitlines() if (ROOT / path).is_file()]
    assert {p for p in tracked if p.startswith("pkgtools/")} <= names
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as tar:
        inside = {name.partition("/")[2] for name in tar.getnames()}
    assert set(tracked) - inside <= {".gitignore", ".gitattributes"}
