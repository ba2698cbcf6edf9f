"""The catalog, and its nouns: upstream, revision, target, alias, set."""

from __future__ import annotations

import difflib
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pkgtools.catalog.lock import Lockfile, load_lock
from pkgtools.catalog.series import LOCKFILE, Series, load_series
from pkgtools.errors import FilePlace, MalformedError, UsageError


@dataclass(frozen=True)
class Upstream:
    """A project that is patched."""

    name: str
    git: str | None
    """Its repository's URL; None for a package that is known by its wheels alone."""
    distribution: str
    """Its name on PyPI."""
    package: str
    """What Python imports: a folder, or a module of one file."""
    prefix: str
    """The prefix of paths in the source tree that a wheel lacks: empty, or ending in ``/``."""
    checks: Path | None = None
    """A script that proves a patched image: run in it, with the package's folder as argument.
    The folder that it lies in is copied with it. It prints a JSON object a check, each on
    a line: ``name``, ``message`` (null if it holds) and ``seconds``."""

    layout: tuple[tuple[str, str], ...] = ()
    """Folders of the source tree that a wheel has elsewhere than `prefix` says, each with its
    folder there; both end in ``/``."""

    def in_wheel(self, path: str) -> str | None:
        """Return the member of a wheel for `path` of the source tree, or None."""
        for source, wheel in sorted(self.layout, reverse=True):
            if path.startswith(source):
                return wheel + path.removeprefix(source)
        return path.removeprefix(self.prefix) if path.startswith(self.prefix) else None

    def in_source(self, name: str) -> str:
        """Return the path in the source tree of a wheel's member."""
        for wheel, source in sorted(((w, s) for s, w in self.layout), reverse=True):
            if name.startswith(wheel):
                return source + name.removeprefix(wheel)
        return self.prefix + name

    def installed_path(self, path: str) -> str | None:
        """Return the member of a wheel for `path`, or None if it is outside the package."""
        name = self.in_wheel(path) or ""
        return name if name == self.module or name.startswith(f"{self.package}/") else None

    @property
    def module(self) -> str:
        """The file of a package that is a single module (``six.py``)."""
        return f"{self.package}.py"

    def is_above_package(self, path: str) -> bool:
        """Whether `path` of the source tree is the package's folder, or one around it."""
        return self.in_source(f"{self.package}/").startswith(f"{path}/")


@dataclass(frozen=True)
class Revision:
    """One exact state of an upstream: a commit, or a release's tag and version."""

    commit: str | None = None
    """40 hexadecimal digits."""
    version: str | None = None
    tag: str | None = None
    """None for a release of which only wheels are known."""

    @property
    def name(self) -> str:
        """The commit or the version: its key in a lock."""
        return self.commit or self.version or ""


@dataclass(frozen=True)
class Alias:
    """Another accepted name of a target, and the revision it was validated on."""

    name: str
    revision: Revision | None


@dataclass(frozen=True)
class Target:
    """A name that a user types: one series on one revision."""

    name: str
    upstream: Upstream
    revision: Revision
    aliases: tuple[Alias, ...]
    directory: Path
    """The folder of its series."""
    shelf: Path
    """The folder of its upstream's series and shared patches."""
    absorbed: tuple[Path, ...]
    """Patches of other series, or shared ones, that this revision carries itself."""
    marker: str | None = None
    """The environments that it is for; None for all. See `pkgtools.catalog.marker`."""
    requires: tuple[str, ...] = ()
    """Requirements (PEP 508) of the patched package, in place of the upstream's of that name."""

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """Every revision that a lock must cover: its own, then the aliases'."""
        return (self.revision, *(a.revision for a in self.aliases if a.revision))

    def revision_of(self, name: str) -> Revision | None:
        """Return the revision of a name; None for an alias that was not validated."""
        for alias in self.aliases:
            if alias.name == name:
                return alias.revision
        return self.revision

    @property
    def catalog_folder(self) -> Path:
        """The folder of targets.toml."""
        return self.shelf.parent.parent

    @property
    def lock_path(self) -> Path:
        """Its lockfile, which targets with the same series share."""
        return self.directory / LOCKFILE

    def absorbed_name(self, path: Path) -> str:
        """Return what targets.toml and the lockfile call an absorbed patch."""
        return path.relative_to(self.shelf).as_posix()

    def with_series(self, series: Series) -> Target:
        """Return the target with a series that is not on disk yet."""
        made = replace(self)
        made.__dict__["series"] = series  # where a cached property keeps its value
        return made

    @cached_property
    def series(self) -> Series:
        """Its patches, read and linted on first use."""
        return load_series(self.directory)

    @cached_property
    def lock(self) -> Lockfile:
        """Its lockfile, read on first use and compared with the series."""
        lock = load_lock(self.lock_path, self.series.digest, self.name)
        for revision in self.revisions:
            locked = lock.find(revision.name)
            if locked is not None and locked.requires != list(self.requires):
                raise MalformedError(
                    f"{self.lock_path}: {revision.name} has other requirements than {self.name}",
                    remedy=f"run `pkgtools lock --target {self.name}`",
                    details=FilePlace(str(self.lock_path), None),
                )
        return lock


@dataclass(frozen=True)
class TargetSet:
    """A name for several targets that go together, in order."""

    name: str
    targets: tuple[Target, ...]


@dataclass(frozen=True)
class Catalog:
    """The content of targets.toml."""

    path: Path
    upstreams: tuple[Upstream, ...]
    targets: tuple[Target, ...]
    default: Target | None
    sets: tuple[TargetSet, ...] = ()
    name: str | None = None
    """Distinguishes it from other catalogs with a target of the same name."""
    policy: tuple[str, ...] = ()
    """The headers that each patch must have; see `pkgtools.patch.headers`."""

    @property
    def identity(self) -> str:
        """Its name in receipts: its own, or a digest of its folder."""
        return self.name or self._folder_identity

    @property
    def identities(self) -> frozenset[str]:
        """Its names in receipts, also of the time before it had its own."""
        return frozenset({self.identity, self._folder_identity})

    @property
    def _folder_identity(self) -> str:
        folder = os.fsencode(self.path.resolve().parent)
        return f"folder:{hashlib.sha256(folder).hexdigest()[:16]}"  # a name has no colon

    @cached_property
    def sound_targets(self) -> tuple[Target, ...]:
        """The targets whose series and lockfile can be read; the others are in `problems`."""
        return tuple(target for target in self.targets if target.name not in self.problems)

    @cached_property
    def problems(self) -> dict[str, MalformedError]:
        """The error of each target whose series or lockfile cannot be read.

        The other targets stay usable.
        """
        problems = {}
        for target in self.targets:
            try:
                _ = target.lock
            except MalformedError as error:
                problems[target.name] = error
        return problems

    def folder_of(self, series: Path) -> Path:
        """Return the folder that a command locks to write a series.

        That is the catalog's, or the one around a series that is outside the catalog.
        """
        own = self.path.resolve().parent
        return own if series.resolve().is_relative_to(own) else series.resolve().parent

    def shelf_of(self, series: Path) -> Path | None:
        """Return the folder of an upstream's shared patches around a series, or None."""
        parent = series.absolute().parent.resolve()
        shelves = (self.path.resolve().parent / "patches" / u.name for u in self.upstreams)
        return next((shelf for shelf in shelves if shelf == parent), None)

    def target(self, name: str | None) -> Target:
        """Return the target of that name or alias; without a name, the default."""
        if name is None:
            if self.default is None:
                raise UsageError(
                    f"{self.path} names no default target", remedy="name one with --target"
                )
            return self.default
        names = {t.name: t for t in self.targets}
        names |= {a.name: t for t in self.targets for a in t.aliases}
        if name in names:
            return names[name]
        named_set = self._set(name)
        if named_set is not None:
            members = [target.name for target in named_set.targets]
            raise UsageError(
                f"{name} is a set of targets, and this takes one target",
                remedy=f"name one of them: --target {' or --target '.join(members)}",
            )
        message = f"there is no target {name!r} in {self.path}"
        raise unknown_name(message, name, names, "see `pkgtools targets`")

    def expanded(self, names: Iterable[str]) -> list[str]:
        """Return names with each set replaced by its targets, each target once, in order."""
        found: dict[str, str] = {}
        for name in names:
            named_set = self._set(name)
            for each in [t.name for t in named_set.targets] if named_set else [name]:
                found.setdefault(self.canonical(each), each)
        return list(found.values())

    def _set(self, name: str) -> TargetSet | None:
        return next((each for each in self.sets if each.name == name), None)

    def canonical(self, name: str) -> str:
        """Return the target of an alias; any other name as it is, also one of another catalog."""
        aliases = {alias.name: target.name for target in self.targets for alias in target.aliases}
        return aliases.get(name, name)

    def upstream(self, name: str | None) -> Upstream:
        """Return the upstream of that name; without a name, the first."""
        found = [upstream for upstream in self.upstreams if name in (None, upstream.name)]
        if not found:
            known = ", ".join(upstream.name for upstream in self.upstreams)
            raise UsageError(
                f"{self.path} has no upstream {name!r}", remedy=f"name one of: {known}"
            )
        return found[0]


@dataclass(frozen=True)
class UnknownName:
    """A name that is not a target, and the names of targets that resemble it."""

    target: str
    nearest: list[str]


def unknown_name(message: str, name: str, known: Iterable[str], remedy: str) -> UsageError:
    """Return the error for a name that is none of the known ones; `remedy` if none is near."""
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    remedy = f"did you mean {' or '.join(near)}?" if near else remedy
    return UsageError(message, remedy=remedy, details=UnknownName(name, near))
