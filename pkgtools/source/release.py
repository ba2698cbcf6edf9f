"""Release wheels, through the user's own pip, into a cache."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pkgtools.errors import SourceUnavailableError
from pkgtools.util.cache import cache_folder
from pkgtools.util.files import sha256

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pkgtools.catalog import Upstream
    from pkgtools.util.progress import Reporter

_SECONDS: Final = 1800


def cached_wheel(upstream: Upstream, version: str, known: Mapping[str, str]) -> Path | None:
    """Return the release's wheel if it is in the cache, and is the one that the lock knows."""
    folder = _folder(upstream, version)
    for path in sorted(folder.glob("*.whl")) if folder else ():
        if path.name not in known or sha256(path) == known[path.name]:
            return path
    return None


def release_wheel(
    upstream: Upstream, version: str, known: Mapping[str, str], reporter: Reporter
) -> Path:
    """Return a wheel of the release, downloading it with pip when it is not in the cache.

    pip chooses the wheel for this interpreter and platform, from wherever the
    user's configuration says.

    Args:
        upstream: whose release.
        version: of the release.
        known: SHA-256 by wheel name, from the lock; a wheel of another digest is
            not taken.
        reporter: hears of a download.

    Raises:
        SourceUnavailableError: pip is not there, or has no such wheel, or not
            the one that the lock knows.

    """
    found = cached_wheel(upstream, version, known)
    if found is not None:
        return found
    folder = _folder(upstream, version)
    if folder is None:
        raise SourceUnavailableError(
            f"there is no home, and so no cache, to download {upstream.distribution} into",
            remedy="set XDG_CACHE_HOME to a folder of your own, or give the wheel with --wheel",
        )
    try:
        from filelock import FileLock  # noqa: PLC0415 - most runs download nothing

        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "lock"):
            found = cached_wheel(upstream, version, known)
            if found is not None:
                return found
            with reporter.task(f"downloading {upstream.distribution} {version}"):
                return _download(upstream, version, folder, known)
    except OSError as error:
        raise SourceUnavailableError(
            f"the cache {folder} cannot be written: {error.strerror}",
            remedy="set XDG_CACHE_HOME to a folder of your own",
        ) from None


def released_versions(upstream: Upstream) -> list[str]:
    """Return the versions that the user's package index has; none where it cannot be asked."""
    command = [*_pip(), "index", "versions", upstream.distribution, "--json"]
    command += ["--no-input", "--disable-pip-version-check", "--retries=0", "--timeout=15"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        versions = json.loads(done.stdout)["versions"]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        return []
    return [str(version) for version in versions]


def _folder(upstream: Upstream, version: str) -> Path | None:
    """Return where a release's wheels lie: pip chose them for one kind of interpreter."""
    cache = cache_folder("wheels")
    if cache is None:
        return None
    return cache / upstream.distribution / version / str(sys.implementation.cache_tag)


def _download(upstream: Upstream, version: str, folder: Path, known: Mapping[str, str]) -> Path:
    requirement = f"{upstream.distribution}=={version}"
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        command = [*_pip(), "download", "--no-deps", "--only-binary=:all:", "--quiet"]
        command += ["--no-input", "--disable-pip-version-check", "--dest", scratch, requirement]
        try:
            subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)
        except subprocess.SubprocessError as error:
            output = str(getattr(error, "stderr", None) or error).strip()
            raise SourceUnavailableError(
                f"pip did not bring a wheel of {requirement}: {output.splitlines()[-1]}",
                remedy="see `pip config list`, or give the wheel with --wheel",
            ) from None
        wheel = next(Path(scratch).glob("*.whl"))
        digest = sha256(wheel)
        if known.get(wheel.name, digest) != digest:
            raise SourceUnavailableError(
                f"pip brought a {wheel.name} whose sha256 is {digest}, not the locked "
                f"{known[wheel.name]}",
                remedy="find out which index serves it, and do not install it",
            )
        return wheel.replace(folder / wheel.name)


def _pip() -> list[str]:
    """Return the command that runs pip: this interpreter's, else the one on PATH."""
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    command = shutil.which("pip") or shutil.which("pip3")
    if command is None:
        raise SourceUnavailableError(
            "there is no pip to download a release with",
            remedy="install pip, or give the wheel with --wheel",
        )
    return [command]
