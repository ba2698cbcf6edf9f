"""Finding a revision among the sources that a user gave, or in the release cache."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from pkgtools.catalog import Catalog, Revision, Target
from pkgtools.catalog.lock import read_lock
from pkgtools.errors import SourceUnavailableError, UsageError
from pkgtools.source.base import Source
from pkgtools.source.choose import open_repositories, open_wheel
from pkgtools.source.release import release_wheel
from pkgtools.source.wheel import WheelSource, fits_wheel, wheel_version
from pkgtools.util.progress import Reporter

if TYPE_CHECKING:
    from pkgtools.source.git import Repository


@dataclass(frozen=True)
class AtHand:
    """Wheels and repositories, and pip where it may be asked."""

    reporter: Reporter
    given: Sequence[Path] = ()
    """Wheel files."""
    repositories: Sequence[Repository] = ()
    download: bool = False

    def find(self, target: Target, revision: Revision) -> list[Source]:
        """Return the sources of one revision: one commit, or every wheel of a release.

        Raises:
            SourceUnavailableError: there is none; the message says what to give.
        """
        if revision.version is None:
            return [self._in_repositories(revision.name)]
        wheels = self._given_wheels(target, revision.version)
        if not wheels and self.repositories and revision.tag:
            with contextlib.suppress(SourceUnavailableError):
                return [self._in_repositories(f"refs/tags/{revision.tag}")]
        return list(self.wheels(target, revision.version))

    def find_any(self, target: Target) -> list[Source]:
        """Return the sources of every revision of a target that are at hand."""
        found: list[Source] = []
        for revision in target.revisions:
            with contextlib.suppress(SourceUnavailableError):
                found += self.find(target, revision)
        return found

    def wheels(self, target: Target, version: str) -> list[WheelSource]:
        """Return the wheels of a release: those that were given, else pip's."""
        upstream = target.upstream
        given = self._given_wheels(target, version)
        if not given and self.download:
            # Of whichever series the lock is: wheels do not change.
            locked = target.lock_path.exists() and read_lock(target.lock_path).find(version)
            known = {wheel.name: wheel.sha256 for wheel in locked.wheel} if locked else {}
            given = [release_wheel(upstream, version, known, self.reporter)]
        if not given:
            raise SourceUnavailableError(
                f"there is no wheel of {upstream.distribution} {version}",
                remedy="give one with --wheel, or a repository that has its tag with --git",
            )
        return [WheelSource(path, upstream) for path in given]

    def _given_wheels(self, target: Target, version: str) -> list[Path]:
        found = []
        for path in self.given:
            with contextlib.suppress(UsageError):  # another upstream's
                same = Version(wheel_version(path, target.upstream)) == Version(version)
                if same and fits_wheel(target, path):
                    found.append(path)
        return found

    def _in_repositories(self, revision: str) -> Source:
        for repository in self.repositories:
            if (source := repository.find(revision)) is not None:
                return source
        raise SourceUnavailableError(
            f"no repository was given that has {revision}",
            remedy="give a clone or a git directory that has it with --git",
        )


@dataclass(frozen=True)
class Sources:
    """What a user names to look for revisions in: wheel files and git repositories."""

    wheels: Sequence[Path] = ()
    repositories: Sequence[Path] = ()

    def at_hand(self, catalog: Catalog, reporter: Reporter, *, download: bool = True) -> AtHand:
        """Open these sources, each wheel of a known upstream; pip downloads other releases."""
        repositories = open_repositories(self.repositories)
        for path in self.wheels:
            with open_wheel(catalog, path):
                pass
        return AtHand(reporter, self.wheels, repositories, download)
