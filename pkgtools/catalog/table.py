"""Find, read and check targets.toml."""

import re
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from packaging.version import InvalidVersion, Version

from pkgtools.catalog.added import is_added_folder
from pkgtools.catalog.marker import VARIABLES, requirement_fault, variables_of
from pkgtools.catalog.model import Alias, Catalog, Revision, Target, TargetSet, Upstream
from pkgtools.catalog.tomlfile import TomlFile
from pkgtools.catalog.writes import PACKAGED, recover_catalog
from pkgtools.errors import UsageError

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_FILE: Final = "targets.toml"


class _CatalogTable(msgspec.Struct, forbid_unknown_fields=True):
    """A table of targets.toml."""


class _Release(_CatalogTable):
    version: str
    tag: str | None = None


class _AliasTable(_CatalogTable):
    name: str
    commit: str | None = None


class _Target(_CatalogTable):
    name: str
    upstream: str
    series: str
    commit: str | None = None
    release: _Release | None = None
    alias: list[_AliasTable] = []
    absorbed: list[str] = []
    marker: str | None = None
    requires: list[str] = []


class _Set(_CatalogTable):
    name: str
    targets: Annotated[list[str], msgspec.Meta(min_length=1)]


class _Upstream(_CatalogTable):
    name: str
    distribution: str
    package: str
    git: str | None = None
    prefix: str = ""
    layout: dict[str, str] = {}
    checks: str | None = None


class _Policy(_CatalogTable):
    headers: list[Literal["Upstream-Status", "Origin", "Bug", "Forwarded", "CVE", "Removal-Plan"]]


class _TargetsFile(_CatalogTable):
    upstream: list[_Upstream]
    target: list[_Target] = []
    sets: list[_Set] = msgspec.field(name="set", default_factory=list)
    name: str | None = None
    default: str | None = None
    policy: _Policy | None = None


def find_catalog(start: Path) -> Path:
    """Return the targets.toml of `start` or of a folder above it, else the packaged one."""
    for folder in (start, *start.parents):
        if (folder / _FILE).is_file():
            return folder / _FILE
    packaged = PACKAGED / _FILE
    # In an editable install the file lies where the maintainer edits it.
    return packaged if packaged.is_file() else PACKAGED.parents[1] / _FILE


def load_catalog(path: Path, *, unfinished: bool = False) -> Catalog:
    """Read targets.toml. The series are read when a target's is asked for.

    Writes that a killed command left unfinished are finished first. With `unfinished`, targets
    whose series is not there yet are left out.
    """
    if not path.is_file():
        raise UsageError(
            f"{path} is not a catalog file", remedy="give a targets.toml with --catalog"
        )
    recover_catalog(path.parent)
    return _Reader(path, unfinished=unfinished).read()


class _Reader:
    """Checks one file and keeps the lines of its tables for errors."""

    def __init__(self, path: Path, *, unfinished: bool) -> None:
        # The file may be a stranger's, in a folder above: its name is a plain one.
        self.file = TomlFile(path, "correct it, or name another catalog with --catalog")
        self.unfinished = unfinished
        self.patches = path.parent / "patches"

    def read(self) -> Catalog:
        raw = self.file.decode(_TargetsFile)
        upstreams: dict[str, Upstream] = {}
        for number, upstream in enumerate(raw.upstream):
            at = f".upstream[{number}]"
            if upstream.name in upstreams:
                self.file.fail(f"a second upstream {upstream.name!r}", f"{at}.name")
            upstreams[upstream.name] = self._upstream(upstream, at)
        taken: dict[str, str] = {}
        for number, target in enumerate(raw.target):
            self._claim(taken, target.name, f".target[{number}].name", "target")
        for number, target in enumerate(raw.target):
            for place, alias in enumerate(target.alias):
                self._claim(taken, alias.name, f".target[{number}].alias[{place}].name", "alias")
        for number, each in enumerate(raw.sets):
            self._claim(taken, each.name, f".set[{number}].name", "set")
        targets = tuple(
            self._target(target, f".target[{number}]", upstreams)
            for number, target in enumerate(raw.target)
            if not self.unfinished or (self.patches / target.upstream / target.series).is_dir()
        )
        if raw.default not in (None, *(target.name for target in raw.target)):
            self.file.fail(f"there is no target {raw.default!r}", ".default")
        if raw.name is not None and not _NAME.fullmatch(raw.name):
            self.file.fail(f"invalid name {raw.name!r}: letters, digits and . _ + - only", ".name")
        return Catalog(
            path=self.file.path,
            upstreams=tuple(upstreams.values()),
            targets=targets,
            default=next((t for t in targets if t.name == raw.default), None),
            sets=self._sets(raw, targets),
            name=raw.name,
            policy=tuple(raw.policy.headers) if raw.policy else (),
        )

    def _sets(self, raw: _TargetsFile, targets: tuple[Target, ...]) -> tuple[TargetSet, ...]:
        known = [target.name for target in raw.target]
        by_name = {target.name: target for target in targets}
        for number, each in enumerate(raw.sets):
            for name in each.targets:
                if name not in known:
                    self.file.fail(f"there is no target {name!r}", f".set[{number}].targets")
            if len(set(each.targets)) < len(each.targets):
                self.file.fail("it names a target twice", f".set[{number}].targets")
        return tuple(
            TargetSet(each.name, tuple(by_name[n] for n in each.targets if n in by_name))
            for each in raw.sets
        )

    def _claim(self, taken: dict[str, str], name: str, key: str, kind: str) -> None:
        if not _NAME.fullmatch(name):
            self.file.fail(f"{name!r} is not a name: use letters, digits and . _ + -", key)
        if name not in taken:
            taken[name] = kind
        elif taken[name] == kind:
            self.file.fail(f"a second {kind} {name!r}", key)
        else:
            self.file.fail(f"the {kind} {name!r} shadows the {taken[name]} of that name", key)

    def _upstream(self, raw: _Upstream, at: str) -> Upstream:
        if not _NAME.fullmatch(raw.name):
            self.file.fail(f"{raw.name!r} is not a name", f"{at}.name")
        # Stubs are installed as `NAME-stubs` (PEP 561).
        if not raw.package.removesuffix("-stubs").isidentifier():
            self.file.fail(f"{raw.package!r} is not an import package", f"{at}.package")
        if raw.prefix and not (raw.prefix.endswith("/") and _is_inside(raw.prefix[:-1])):
            self.file.fail("a prefix is a relative path with a / at its end", f"{at}.prefix")
        for folder in (word for pair in raw.layout.items() for word in pair):
            if not (folder.endswith("/") and _is_inside(folder[:-1])):
                self.file.fail("layout has relative paths with a / at their end", f"{at}.layout")
        checks = None
        if raw.checks is not None:
            checks = self.file.path.parent / raw.checks
            if not _is_inside(raw.checks) or "/" not in raw.checks or not checks.is_file():
                self.file.fail("checks must be a script in a subfolder", f"{at}.checks")
        return Upstream(
            name=raw.name,
            git=raw.git,
            distribution=raw.distribution,
            package=raw.package,
            prefix=raw.prefix,
            checks=checks,
            layout=tuple(raw.layout.items()),
        )

    def _target(self, raw: _Target, at: str, upstreams: dict[str, Upstream]) -> Target:
        if raw.upstream not in upstreams:
            self.file.fail(f"there is no upstream {raw.upstream!r}", f"{at}.upstream")
        base = self.patches / raw.upstream
        if not _is_inside(raw.series) or not (base / raw.series / "series").is_file():
            self.file.fail(
                f"there is no series {base / raw.series}",
                f"{at}.series",
                remedy=f"make it: pkgtools import PATCH --output {base / raw.series}",
            )
        for patch in raw.absorbed:
            path = base / patch
            if not _is_inside(patch) or not (path.is_file() or is_added_folder(path)):
                self.file.fail(f"there is no patch {base / patch}", f"{at}.absorbed")
        for requirement in raw.requires:
            if fault := requirement_fault(requirement):
                self.file.fail(f"invalid requirement {requirement!r}: {fault}", f"{at}.requires")
        aliases = tuple(
            Alias(alias.name, self._commit(alias.commit, f"{at}.alias[{place}].commit"))
            for place, alias in enumerate(raw.alias)
        )
        return Target(
            name=raw.name,
            upstream=upstreams[raw.upstream],
            revision=self._revision(raw, at),
            aliases=aliases,
            directory=base / raw.series,
            shelf=base,
            absorbed=tuple(base / patch for patch in raw.absorbed),
            marker=self._marker(raw.marker, f"{at}.marker") if raw.marker is not None else None,
            requires=tuple(raw.requires),
        )

    def _marker(self, text: str, key: str) -> str:
        from packaging.markers import InvalidMarker, Marker  # noqa: PLC0415 - few have one

        try:
            marker = str(Marker(text))
        except InvalidMarker as error:
            self.file.fail(f"{text!r} is not a marker: {str(error).splitlines()[0]}", key)
        unknown = variables_of(marker) - VARIABLES
        if unknown:
            self.file.fail(
                f"a target cannot depend on {', '.join(sorted(unknown))}",
                key,
                remedy=f"use {', '.join(sorted(VARIABLES))}",
            )
        return marker

    def _revision(self, raw: _Target, at: str) -> Revision:
        commit = self._commit(raw.commit, f"{at}.commit")
        if commit is not None and raw.release is None:
            return commit
        if raw.release is None or commit is not None:
            self.file.fail("a target has either a commit or a release", at)
        try:
            Version(raw.release.version)
        except InvalidVersion as error:
            self.file.fail(str(error), f"{at}.release")
        return Revision(version=raw.release.version, tag=raw.release.tag)

    def _commit(self, value: str | None, key: str) -> Revision | None:
        if value is None:
            return None
        if not _COMMIT.fullmatch(value):
            self.file.fail(
                f"{value!r} is not a commit: 40 lower-case hexadecimal digits, here {len(value)}",
                key,
            )
        return Revision(commit=value)


def _is_inside(path: str) -> bool:
    return "\0" not in path and all(part not in ("", ".", "..") for part in path.split("/"))
