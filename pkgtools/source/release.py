"""Download release wheels with the user's pip into a cache."""

import re
import shutil
import subprocess
import sys
import tempfile
from bisect import bisect
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from packaging.version import InvalidVersion, Version

from pkgtools.catalog import Upstream
from pkgtools.errors import SourceUnavailableError
from pkgtools.source.python import last_words
from pkgtools.util.cache import cache_folder
from pkgtools.util.files import sha256
from pkgtools.util.progress import Reporter

_SECONDS: Final = 1800


def cached_wheel(upstream: Upstream, version: str, known: Mapping[str, str]) -> Path | None:
    """Return the release's wheel from the cache if its digest is the locked one, else None."""
    folder = _folder(upstream, version)
    for path in sorted(folder.glob("*.whl")) if folder else ():
        if path.name not in known or sha256(path) == known[path.name]:
            return path
    return None


def release_wheel(
    upstream: Upstream, version: str, known: Mapping[str, str], reporter: Reporter
) -> Path:
    """Return a wheel of the release; pip downloads it if the cache does not have it.

    pip chooses the wheel for this interpreter and platform, and the index from the user's
    configuration. A file whose SHA-256 is not the `known` one of its name is refused.
    """
    if (found := cached_wheel(upstream, version, known)) is not None:
        return found
    folder = _folder(upstream, version)
    if folder is None:
        raise SourceUnavailableError(
            f"cannot download {upstream.distribution}: the user has no home folder for the cache",
            remedy="set XDG_CACHE_HOME to a folder of your own, or give the wheel with --wheel",
        )
    try:
        from filelock import FileLock  # noqa: PLC0415 - most runs download nothing

        folder.mkdir(parents=True, exist_ok=True)
        # Two runs that need the same release download it once.
        with FileLock(folder / "lock"):
            if (found := cached_wheel(upstream, version, known)) is not None:
                return found
            with reporter.task(f"downloading {upstream.distribution} {version}"):
                return _download(upstream, version, folder, known)
    except OSError as error:
        raise SourceUnavailableError(
            f"the cache {folder} cannot be written: {error.strerror}",
            remedy="set XDG_CACHE_HOME to a folder of your own",
        ) from None


def released_versions(upstream: Upstream) -> list[str]:
    """Return the versions on the user's package index; an empty list if it does not answer."""
    command = [*_pip(), "index", "versions", upstream.distribution]
    command += ["--no-input", "--disable-pip-version-check", "--retries=0", "--timeout=15"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    # Read as text: an older pip has no --json here.
    found = re.search(r"^Available versions: (.*)$", done.stdout, re.MULTILINE)
    return [version.strip() for version in found[1].split(",")] if found else []


def _folder(upstream: Upstream, version: str) -> Path | None:
    """Return the cache folder of a release; pip chooses a wheel for one kind of interpreter."""
    cache = cache_folder("wheels")
    tag = str(sys.implementation.cache_tag)
    return cache / upstream.distribution / version / tag if cache is not None else None


def _download(upstream: Upstream, version: str, folder: Path, known: Mapping[str, str]) -> Path:
    requirement = f"{upstream.distribution}=={version}"
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        command = [*_pip(), "download", "--no-deps", "--only-binary=:all:", "--quiet"]
        command += ["--no-input", "--disable-pip-version-check", "--dest", scratch, requirement]
        try:
            subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)
        except subprocess.SubprocessError as error:
            raise SourceUnavailableError(
                f"pip could not download a wheel of {requirement}: {_reason(error, version)}",
                remedy="see `pip config list`, or give the wheel with --wheel",
            ) from None
        wheel = next(Path(scratch).glob("*.whl"), None)
        if wheel is None:
            raise SourceUnavailableError(
                f"pip downloaded nothing for {requirement}, and reported no error",
                remedy="see `pip config list`, or give the wheel with --wheel",
            )
        digest = sha256(wheel)
        if known.get(wheel.name, digest) != digest:
            raise SourceUnavailableError(
                f"{wheel.name}: pip downloaded a file with the sha256 {digest}; the lockfile has "
                f"{known[wheel.name]}",
                remedy="find out which index serves it, and do not install it",
            )
        # A rename in one file system is atomic: the cache never has half a wheel.
        return wheel.replace(folder / wheel.name)


def _reason(error: subprocess.SubprocessError, version: str) -> str:
    """Return why a download failed."""
    text = str(getattr(error, "stderr", None) or "")
    reason = last_words(error)  # without a network, pip also ends in "No matching distribution"
    if re.search(r"^WARNING: Retrying ", text, re.MULTILINE):
        return f"the package index did not answer; {reason}"
    listed = re.search(r"\(from versions: (\d[^)]*)\)", text)
    try:
        versions = sorted(map(Version, listed[1].split(", "))) if listed else []
        at = bisect(versions, Version(version)) if versions else 0
    except InvalidVersion:  # of before PEP 440, which an old pip lists
        return reason
    near = ", ".join(map(str, versions[max(0, at - 2) : at + 2]))
    return f"{reason}; pip finds {near}" if near else reason


def _pip() -> list[str]:
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    command = shutil.which("pip") or shutil.which("pip3")
    if command is None:
        raise SourceUnavailableError(
            "cannot download a release: pip is not installed",
            remedy="install pip, or give the wheel with --wheel",
        )
    return [command]
