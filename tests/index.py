"""A package index, where pip's configuration says: releases of SGLang come from one."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from typing import TYPE_CHECKING

import pytest
from silent import Silent

from pkgtools.errors import SourceUnavailableError
from pkgtools.source.release import release_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from pkgtools.catalog import Target


def wheel_of(target: Target) -> Path:
    """Return the wheel of a target's release; skip the test where no index answers."""
    version = target.revision.version
    assert version is not None
    locked = target.lock.find(version)
    known = {wheel.name: wheel.sha256 for wheel in locked.wheel} if locked else {}
    try:
        return release_wheel(target.upstream, version, known, Silent())
    except SourceUnavailableError:
        if _index_has(target.upstream.distribution):
            raise
        pytest.skip(f"no package index answers, and the cache has no wheel of {version}")


@cache
def _index_has(name: str) -> bool:
    """Whether an index lists any version: if so, one that pip does not get is an error."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "index", "versions", name]
    done = subprocess.run(
        [*pip, "--retries=0", "--timeout=15", "--pre"], capture_output=True, check=False
    )
    return done.returncode == 0
