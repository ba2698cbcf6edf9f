"""Package managers that link files of a cache into environments: the cache never changes."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import Result, call
from small import Small, make_small
from trees import snapshot
from uv import find_uv_bin

if TYPE_CHECKING:
    from collections.abc import Mapping

SITE = "lib/python3.11/site-packages"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """Return a series that changes, adds and removes a file."""
    made = make_small(
        tmp_path_factory.mktemp("small"),
        {"1.0": {"a.py": "A = 1\n", "b.py": "B = 1\n", "c.py": "C = 1\n"}},
        [("one", {"a.py": "A = 2\n", "new.py": "N = 1\n", "b.py": None})],
    )
    assert call("lock", "--catalog", made.catalog, "--wheel", made.wheel("1.0")).code == 0
    return made


def _uv(small: Small, root: Path, mode: str) -> Path:
    """Install with uv, and return the folder of the packages."""
    site = root / "env" / SITE
    command = [find_uv_bin(), "--offline", "--cache-dir", str(root / "cache"), "pip", "install"]
    command += ["--link-mode", mode, "--target", str(site), "--python", sys.executable]
    subprocess.run([*command, str(small.wheel("1.0"))], capture_output=True, check=True)
    return site


def _conda(small: Small, root: Path, mode: str) -> Path:
    """Install with rattler, and return the folder of the packages.

    rattler makes no soft links; conda's ``always_softlink`` does.
    """
    pytest.importorskip("rattler", reason="py-rattler is in the dependency group test")
    with zipfile.ZipFile(small.wheel("1.0")) as wheel:
        files = {f"{SITE}/{name}": wheel.read(name) for name in wheel.namelist()}
    (info,) = {name.partition(".dist-info/")[0] for name in files if ".dist-info/" in name}
    files[f"{info}.dist-info/INSTALLER"] = b"conda"
    archive = root / "channel/linux-64/widget-kit-1.0-0.tar.bz2"
    _write_package(archive, files)
    digest = hashlib.sha256(archive.read_bytes()).digest()
    asyncio.run(_link(archive, digest, root, mode))
    if mode == "soft":
        for name in files:
            cached = root / "cache/widget-kit-1.0-0" / name
            (root / "env" / name).unlink()
            (root / "env" / name).symlink_to(cached)
    return root / "env" / SITE


def _write_package(archive: Path, files: Mapping[str, bytes]) -> None:
    """Write a package: https://docs.conda.io/projects/conda-build/en/stable/resources/package-spec.html."""
    index = {"name": "widget-kit", "version": "1.0", "build": "0", "build_number": 0, "depends": []}
    rows = [
        {
            "_path": name,
            "path_type": "hardlink",
            "sha256": hashlib.sha256(data).hexdigest(),
            "size_in_bytes": len(data),
        }
        for name, data in files.items()
    ]
    about = {
        "info/index.json": json.dumps({**index, "subdir": "linux-64"}),
        "info/paths.json": json.dumps({"paths_version": 1, "paths": rows}),
        "info/files": "\n".join(files),
    }
    archive.parent.mkdir(parents=True)
    with tarfile.open(archive, "w:bz2") as tar:
        for name, data in {**files, **{n: text.encode() for n, text in about.items()}}.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


async def _link(archive: Path, digest: bytes, root: Path, mode: str) -> None:
    from rattler import (  # noqa: PLC0415 - it is not in the group dev
        BuildString,
        Config,
        PackageRecord,
        RepoDataRecord,
        install,
    )

    package = PackageRecord("widget-kit", "1.0", BuildString("0"), 0, "linux-64", sha256=digest)
    channel = archive.parent.parent.as_uri()
    record = RepoDataRecord(package, archive.name, archive.as_uri(), channel)
    allowed = {"hard": mode == "hard", "symbolic": False, "ref": False}
    text = "".join(f"allow-{kind}-links = {str(yes).lower()}\n" for kind, yes in allowed.items())
    await install(
        [record],
        target_prefix=root / "env",
        cache_dir=root / "cache",
        show_progress=False,
        config=Config.from_toml(text),
    )


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


INSTALLERS = {"uv": _uv, "conda": _conda}


@pytest.mark.parametrize(
    ("installer", "mode", "links"),
    [
        ("uv", "clone", None),
        ("uv", "copy", 1),
        ("uv", "hardlink", 2),
        ("conda", "copy", 1),
        ("conda", "hard", 2),
    ],
)
def test_the_cache_stays_as_it_is(
    small: Small, tmp_path: Path, installer: str, mode: str, links: int | None
) -> None:
    site = INSTALLERS[installer](small, tmp_path, mode)
    assert links is None or (site / "widget/a.py").stat().st_nlink == links
    cache, before = snapshot(tmp_path / "cache"), _contents(tmp_path / "env")

    def run(command: str, *words: str) -> Result:
        done = call(command, *words, "--tree", site, "--catalog", small.catalog)
        assert done.code == 0, done.err
        assert snapshot(tmp_path / "cache") == cache
        return done

    applied = run("apply", "--target", "one")
    assert ("conda lists the files as they were" in applied.err) is (installer == "conda")
    patched = _contents(tmp_path / "env")
    assert patched.keys() - before.keys() > {f"{SITE}/widget/new.py"}
    run("verify", "--target", "one")
    run("status")
    run("reverse")
    assert _contents(tmp_path / "env") == before
    for name in ("a.py", "new.py"):  # as patch(1) does: it replaces the file
        (site / "widget" / name).unlink(missing_ok=True)
        (site / "widget" / name).write_bytes(patched[f"{SITE}/widget/{name}"])
    (site / "widget/b.py").unlink()
    run("adopt", "--target", "one")
    run("verify", "--target", "one")
    run("reverse")
    assert _contents(tmp_path / "env").items() >= {**before}.items() - _records(before)


def _records(files: Mapping[str, bytes]) -> set[tuple[str, bytes]]:
    return {(name, data) for name, data in files.items() if name.endswith("/RECORD")}


@pytest.mark.parametrize(("installer", "mode"), [("uv", "symlink"), ("conda", "soft")])
def test_links_into_a_cache_are_refused_with_the_way_out(
    small: Small, tmp_path: Path, installer: str, mode: str
) -> None:
    site = INSTALLERS[installer](small, tmp_path, mode)
    assert (site / "widget/a.py").is_symlink()
    before = snapshot(tmp_path)
    for command in ("apply", "verify", "status", "adopt"):
        words = () if command == "status" else ("--target", "one")
        done = call(command, *words, "--tree", site, "--catalog", small.catalog)
        assert done.code == 7, done.err
        assert "which other environments can use too" in done.err
        assert "--link-mode copy" in done.err
    assert snapshot(tmp_path) == before
