"""Find the sources of a port from the names that a user typed."""

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from packaging.version import InvalidVersion, Version

from pkgtools.catalog import Catalog, Target, Upstream
from pkgtools.catalog.model import unknown_name
from pkgtools.errors import SourceUnavailableError, UsageError
from pkgtools.source import Source, WheelSource, find_tree
from pkgtools.source.at_hand import Sources
from pkgtools.source.release import release_wheel, released_versions
from pkgtools.source.wheel import wheel_version
from pkgtools.util.progress import Reporter

_ABBREVIATED: Final = re.compile(r"[0-9a-f]{7,40}")
"""A commit, and by PEP 440 it can be a version too: 24c91001 is 24rc91001."""


@dataclass(frozen=True)
class Stop:
    """One source on the way, with what it is called."""

    name: str
    """The name that finds it again: a path, a version, a target or a commit."""
    source: Source
    version: str | None = None
    commit: str | None = None


def newest_target(catalog: Catalog) -> Target:
    """Return the target of the newest release.

    Raises:
        UsageError: there is none, or several upstreams.

    """
    upstreams = [catalog.default.upstream] if catalog.default else list(catalog.upstreams)
    released = [t for t in catalog.targets if t.upstream in upstreams and t.revision.version]
    if len(upstreams) != 1 or not released:
        one = f"no target of a release of {', '.join(u.name for u in upstreams)}"
        what = one if len(upstreams) == 1 else "several upstreams and no default target"
        raise UsageError(f"{catalog.path} has {what}", remedy="name the target to start from")
    return max(released, key=lambda target: Version(target.revision.version or ""))


class Finder:
    """Finds the sources of one upstream."""

    def __init__(
        self, catalog: Catalog, upstream: Upstream, reporter: Reporter, sources: Sources
    ) -> None:
        self._catalog = catalog
        self.upstream = upstream
        self._reporter = reporter
        self._at_hand = sources.at_hand(catalog, reporter)

    def find(self, name: str) -> Stop:
        """Return the source that `name` is: a wheel, a tree, a target, a release or a commit.

        Raises:
            UsageError: the name is none of these.
            SourceUnavailableError: it is known, but cannot be had.

        """
        path = Path(name)
        # A target can have a folder's name: with a / in it, a name is a folder's.
        stop = None if "/" in name else self._target(name) or self._release(name)
        if stop is not None:
            return stop
        if path.suffix == ".whl" and path.is_file():
            wheel = WheelSource(path, self.upstream)
            return Stop(str(path.absolute()), wheel, version=wheel.version)
        if path.is_dir():
            tree = find_tree(path, self.upstream)
            return Stop(str(path.absolute()), tree, version=tree.version)
        for repository in self._at_hand.repositories:
            source = repository.find(name)
            if source is not None:
                return Stop(source.commit, source, commit=source.commit)
        raise unknown_name(
            f"{name!r} is not a target, release, wheel, tree or commit",
            name,
            (target.name for target in self._catalog.targets),
            "name a target or release, give a path, or a commit together with --git",
        )

    def between(self, start: Stop, end: Stop, paths: Sequence[str]) -> list[Stop]:
        """Return the stops between two: commits that touch `paths`, or releases."""
        if start.commit and end.commit:
            for repository in self._at_hand.repositories:
                if repository.find(start.commit) and repository.find(end.commit):
                    found = repository.between(start.commit, end.commit, paths)
                    return [Stop(s.commit, s, commit=s.commit) for s in found]
        if not (start.version and end.version) or start.version == end.version:
            return []  # without asking the index
        first, last = Version(start.version), Version(end.version)
        low, high = min(first, last), max(first, last)
        inside = sorted(v for v in self._versions if low < v < high and not v.is_prerelease)
        stops = []
        for version in inside:
            with contextlib.suppress(SourceUnavailableError):  # no wheel for this platform
                stops.append(self.find(str(version)))
        return stops if first < last else stops[::-1]

    def latest(self) -> str:
        """Return the newest release that is known, pre-releases aside.

        Raises:
            SourceUnavailableError: none is known.

        """
        stable = [version for version in self._versions if not version.is_prerelease]
        if not stable:
            raise SourceUnavailableError(
                f"no release of {self.upstream.distribution} is known",
                remedy="name a release, or give a wheel of one with --wheel",
            )
        return str(max(stable))

    @cached_property
    def _versions(self) -> set[Version]:
        known = [
            t.revision.version
            for t in self._catalog.targets
            if t.upstream == self.upstream and t.revision.version
        ]
        with self._reporter.task(f"looking for releases of {self.upstream.distribution}"):
            released = released_versions(self.upstream)
        if not released:
            with self._reporter.task("the package index did not answer: going by what is at hand"):
                pass
        known += released
        known += [wheel_version(path, self.upstream) for path in self._at_hand.given]
        return {Version(version) for version in known if _is_version(version)}

    def _target(self, name: str) -> Stop | None:
        for target in self._catalog.targets:
            if name not in (target.name, *(alias.name for alias in target.aliases)):
                continue
            revision = target.revision_of(name)
            if revision is None:
                raise SourceUnavailableError(
                    f"{name} was not validated: its revision is not known in full",
                    remedy="give the commit that you mean",
                )
            source = self._at_hand.find(target, revision)[0]
            return Stop(name, source, version=revision.version, commit=revision.commit)
        return None

    def _release(self, name: str) -> Stop | None:
        if not _is_version(name):
            return None
        wanted = Version(name)
        for target in self._catalog.targets:
            version = target.revision.version
            if target.upstream == self.upstream and version and Version(version) == wanted:
                return self._target(target.name)
        for path in self._at_hand.given:
            if Version(wheel_version(path, self.upstream)) == wanted:
                return Stop(name, WheelSource(path, self.upstream), version=name)
        for repository in self._at_hand.repositories:
            source = repository.find(f"refs/tags/v{name}")
            if source is not None:
                return Stop(name, source, version=name, commit=source.commit)
        if _ABBREVIATED.fullmatch(name) and any(r.find(name) for r in self._at_hand.repositories):
            return None
        path = release_wheel(self.upstream, name, {}, self._reporter)
        return Stop(name, WheelSource(path, self.upstream), version=name)


def _is_version(name: str) -> bool:
    try:
        Version(name)
    except InvalidVersion:
        return False
    return True
