"""What the tests share: a synthetic upstream, the real releases, and quick folders."""

from __future__ import annotations

import contextlib
import gc
import os
import pwd
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from crash import SHORT
from hypothesis import settings
from index import wheel_of
from project import build_project

from pkgtools.catalog import load_catalog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from project import Project

    from pkgtools.catalog import Catalog

REPOSITORY = Path(__file__).resolve().parent.parent
_ROOM: Final = 4 << 30
"""More than all temporary folders of a run take."""


def pytest_configure() -> None:
    """Keep temporary folders in memory: the tests sync twenty thousand files and folders.

    In the short form of the searches, hypothesis tries half of its default number of examples.
    """
    gc.set_threshold(100_000, 50, 100)  # the defaults take another 5 %
    if SHORT:
        settings.register_profile("short", max_examples=50)
        settings.load_profile("short")
    with contextlib.suppress(FileNotFoundError):  # macOS
        memory = os.statvfs("/dev/shm")
        # Docker mounts it with 64 MB and noexec.
        if memory.f_bavail * memory.f_frsize > _ROOM and not memory.f_flag & os.ST_NOEXEC:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", "/dev/shm")
            os.environ.setdefault("TMPDIR", "/dev/shm")
            tempfile.tempdir = None  # it may have been asked for before


def pytest_collection_finish() -> None:
    """Leave the collected tests out of garbage collection: it takes 5 % of the time."""
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what asks a package index for a release, at least the first time."""
    for item in items:
        if "release" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.network)


@pytest.fixture(autouse=True)
def _no_git_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run as if from a shell: a hook that runs the tests sets GIT_DIR and the like."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def _no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run as a user whom the system does not know, as containers do that are given a number."""

    def unknown(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Build the synthetic upstream; no test writes to it."""
    return build_project(tmp_path_factory.mktemp("project"))


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """Make a folder, in memory where it can be: some tests make a thousand transactions."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        folder = tmp_path / "quick"
        folder.mkdir()
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="pkgtools-test-", dir=memory) as own:
        folder = Path(own, "quick")
        folder.mkdir()
        yield folder


@pytest.fixture(scope="session")
def sglang() -> Catalog:
    """Read the catalog of this repository."""
    return load_catalog(REPOSITORY / "targets.toml")


@pytest.fixture(scope="session")
def release(sglang: Catalog) -> Callable[[str], Path]:
    """Return the wheel of a real release, by version; downloaded once into the user's cache."""

    @cache  # comparing the digest of a wheel takes 40 ms
    def wheel(version: str) -> Path:
        return wheel_of(next(t for t in sglang.targets if t.revision.version == version))

    return wheel


@pytest.fixture(scope="session")
def sglang_git() -> list[Path]:
    """Return the git directories with the K3 commits that PKGTOOLS_SGLANG_GIT names."""
    value = os.environ.get("PKGTOOLS_SGLANG_GIT", "")
    if not value:
        pytest.skip("PKGTOOLS_SGLANG_GIT names no git directory with the K3 commits")
    return [Path(path) for path in value.split(os.pathsep)]
