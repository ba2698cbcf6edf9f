"""What the image tests share: bases with widget in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .images import Entry, installed_entries

if TYPE_CHECKING:
    from pathlib import Path

    from project import Project


@pytest.fixture(scope="session")
def widget(project: Project, tmp_path_factory: pytest.TempPathFactory) -> list[Entry]:
    """Return widget 1.0 as pip installs it, with bytecode, as the entries of a layer."""
    return installed_entries(project, tmp_path_factory.mktemp("installed"))


@pytest.fixture(autouse=True)
def known_images(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the cache of what is known of images: each test has its own, empty."""
    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return cache / "pkgtools" / "images"
