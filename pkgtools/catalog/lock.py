"""Lockfiles: the proven effect of a series on each revision.

The blob ids decide. Wheel digests only name the files that the ids were computed from: a
release has a wheel for each Python and platform, with the same sources in all of them.
"""

from pathlib import Path
from typing import Literal

import msgspec

from pkgtools.catalog.tomlfile import TomlFile
from pkgtools.errors import MalformedError


class _LockTable(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A table of lock.toml."""


class LockedFile(_LockTable):
    """One touched path.

    An id is 40 hexadecimal digits, or empty where there is no file. Where the
    series sets the executable bit, git's mode and a colon precede it.
    """

    path: str
    before: str
    after: str
    patches: list[str]
    """The patches that change it, in order."""
    between: list[str] = []
    """The ids that patches in the middle leave: one fewer than `patches`."""

    @property
    def chain(self) -> list[str]:
        """Every id the file goes through, from before to after."""
        return [self.before, *self.between, self.after]

    @property
    def has_mode(self) -> bool:
        """Whether the ids include a mode."""
        return any(":" in step for step in self.chain)


class LockedWheel(_LockTable):
    """A wheel that the ids were computed from."""

    name: str
    sha256: str


class AbsorbedPatch(_LockTable):
    """A patch that this revision carries itself."""

    patch: str
    at: list[str]
    """``path:line`` of each hunk's post-image in the revision's source."""


class LockedRevision(_LockTable):
    """The changes of the series on one revision: a commit or a release."""

    file: list[LockedFile]
    commit: str | None = None
    release: str | None = None
    wheel: list[LockedWheel] = []
    absorbed: list[AbsorbedPatch] = []
    requires: list[str] = []
    """The target's requirements, which a patched wheel has in its METADATA."""

    @property
    def name(self) -> str:
        """The commit or the version."""
        return self.commit or self.release or ""


class Lockfile(_LockTable):
    """The whole file."""

    version: Literal[1]
    series: str
    """The digest of the series that was proven."""
    revision: list[LockedRevision]

    def find(self, name: str) -> LockedRevision | None:
        """Return the entry of a revision, or None."""
        return next((r for r in self.revision if r.name == name), None)


def read_lock(path: Path) -> Lockfile:
    """Read a lockfile without comparing it with its series."""
    remedy = f"remove {path}, and write it again with `pkgtools lock`"
    return TomlFile(path, remedy).decode(Lockfile)


def load_lock(path: Path, digest: str, target: str) -> Lockfile:
    """Read a lockfile and compare it with its series.

    Raises:
        MalformedError: the file is missing or not well-formed, or is of another series.
    """
    remedy = f"prove the series and write its lockfile with `pkgtools lock --target {target}`"
    if not path.exists():
        raise MalformedError(f"{path} is missing: the series was never proven", remedy=remedy)
    lock = read_lock(path)
    if lock.series != digest:
        TomlFile(path).fail(
            f"the series changed since it was locked: it is {digest} now", ".series", remedy=remedy
        )
    return lock
