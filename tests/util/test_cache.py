"""Where the user's cache is."""

from __future__ import annotations

from pathlib import Path

import pytest

from pkgtools.util import cache
from pkgtools.util.cache import cache_folder


def test_the_cache_is_where_the_user_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder("wheels") == tmp_path / "pkgtools" / "wheels"


@pytest.mark.usefixtures("_no_home")
def test_who_has_no_home_has_no_cache() -> None:
    assert cache_folder("wheels") is None


@pytest.mark.parametrize("path", ["~/.cache/pkgtools", "here/pkgtools"])
def test_the_current_folder_is_never_the_cache(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions of platformdirs differ in what no home is, and a relative XDG_CACHE_HOME."""
    monkeypatch.setattr(cache, "user_cache_path", lambda *_, **__: Path(path))
    assert cache_folder("wheels") is None
