"""A wheel file, read without unpacking it.

The format is https://packaging.python.org/en/latest/specifications/binary-distribution-format/
What pip installs is read, and what it refuses is refused.
"""

import lzma
import struct
import zipfile
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, takewhile
from pathlib import Path
from typing import Final, Self

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from pkgtools.blob import DIRECTORY, LIMIT, REGULAR, Blob, canonical_mode
from pkgtools.catalog import Target, Upstream
from pkgtools.catalog.marker import environment_of_tag, holds
from pkgtools.errors import DoesNotApplyError, UsageError
from pkgtools.source.base import Source
from pkgtools.util.files import open_regular

FETCH_AGAIN: Final = "delete the wheel and fetch it again: it is damaged"
"""What to do about a wheel that is not as one is made."""
_DAMAGED: Final = (
    KeyError,  # there is no such member
    EOFError,
    IndexError,
    NotImplementedError,  # another version of the format, or another compression
    OSError,
    OverflowError,
    RuntimeError,  # it is encrypted
    ValueError,  # a name that is not UTF-8
    lzma.LZMAError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
_INFO: Final = ".dist-info"
_DATA: Final = ".data"
_SCHEMES: Final = ("purelib", "platlib")
"""Folders of the .data folder that an installer puts where the other members go."""


class WheelSource:
    """One wheel of an upstream.

    Raises:
        UsageError: the file is not a wheel of this upstream, or cannot be read.
    """

    def __init__(self, path: Path, upstream: Upstream) -> None:
        self.path = path
        self.upstream = upstream
        self.version = wheel_version(path, upstream)
        try:
            open_regular(path).close()  # zipfile would wait for the writer of a FIFO
            self._zip = zipfile.ZipFile(path)
        except _DAMAGED as error:
            raise self._damaged(f" cannot be read as a wheel: {error}") from None
        self._members: dict[str, zipfile.ZipInfo] = {}
        for info in self._zip.infolist():
            # zipfile keeps the last of two, other tools the first: they would see different files.
            if info.filename in self._members:
                raise self._damaged(f" holds {info.filename} twice")
            self._members[info.filename] = info

    def __reduce__(self) -> tuple[type[Self], tuple[Path, Upstream]]:
        """Let another process open the wheel for itself."""
        return type(self), (self.path, self.upstream)

    def _damaged(self, what: str) -> UsageError:
        return UsageError(f"{self.path}{what}", remedy=FETCH_AGAIN)

    @cached_property
    def info(self) -> str:
        """The .dist-info folder: as in pip, the one whose name starts with the distribution's."""
        found = sorted(top for top in self._tops if top.endswith(_INFO))
        name = canonicalize_name(self.upstream.distribution)
        # pip's parse_wheel() accepts such a name, too, so RECORD must be there.
        if len(found) != 1 or not canonicalize_name(found[0]).startswith(name):
            shown = " and ".join(found) or "none"
            raise self._damaged(f" has to have one .dist-info folder of {name}, but has {shown}")
        return found[0]

    @cached_property
    def _tops(self) -> frozenset[str]:
        return frozenset(name.partition("/")[0] for name in self._members)

    @cached_property
    def _roots(self) -> tuple[str, ...]:
        """The folders whose content an installer puts into site-packages."""
        data = [top for top in sorted(self._tops) if top.endswith(_DATA)]
        # PEP 427: an installer spreads NAME.data/purelib and /platlib into site-packages.
        return ("", *(f"{top}/{scheme}/" for top in data for scheme in _SCHEMES))

    @cached_property
    def _installed_tops(self) -> frozenset[str]:
        return import_names(map(self.installed_name, self._members))

    @property
    def label(self) -> str:
        """The wheel's file name."""
        return self.path.name

    @property
    def metadata(self) -> bytes:
        """The content of METADATA."""
        return self.read_member(f"{self.info}/METADATA")

    @property
    def environment(self) -> dict[str, str]:
        """What its tags tell of the environments that it is for, as markers speak of it."""
        return wheel_environment(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._zip.close()

    def read(self, path: str) -> Blob | None:
        """Return a member; paths are those of the source tree."""
        if self.upstream.is_above_package(path):
            return Blob(b"", DIRECTORY)
        name = self.member(path)
        info = self._members.get(name)
        if info is None:
            installed = self._installed(path)
            is_directory = any(self._has_directory(root + installed) for root in self._roots)
            return Blob(b"", DIRECTORY) if is_directory else None
        # The upper half is st_mode where a Unix made the archive; other systems leave it zero.
        mode = info.external_attr >> 16
        return Blob(self.read_member(name), canonical_mode(mode) if mode else REGULAR)

    def installed_name(self, member: str) -> str:
        """Return where an installer puts a member, relative to site-packages."""
        root = max((root for root in self._roots if member.startswith(root)), key=len)
        return member.removeprefix(root)

    def members(self) -> Iterable[zipfile.ZipInfo]:
        """Return what the archive says of each member, in its order."""
        return self._members.values()

    def read_member(self, name: str) -> bytes:
        """Return a member's content."""
        try:
            info = self._members[name]
            # The size in the directory is a claim, and zipfile allocates what it inflates.
            if info.file_size > LIMIT:
                raise self._damaged(f": {name} claims {info.file_size} bytes")
            return self._zip.read(info)
        except _DAMAGED as error:
            raise self._damaged(f": {name} cannot be read: {error}") from None

    def member(self, path: str) -> str:
        """Return the member of a path of the source tree; a new one goes beside its siblings."""
        installed = self._installed(path)
        if len(self._roots) == 1:
            return installed
        found = [root + installed for root in self._roots if root + installed in self._members]
        if len(found) > 1:
            raise self._damaged(f" holds {' and '.join(found)}")
        if found:
            return found[0]
        for folder in (installed.rpartition("/")[0], installed.partition("/")[0]):
            for root in self._roots:
                if folder and self._has_directory(root + folder):
                    return root + installed
        return installed

    def _installed(self, path: str) -> str:
        return installed_path(self.upstream, path, lambda: self._installed_tops)

    def compiled_beside(self, member: str) -> str | None:
        """Return the extension module that has a member's name, if there is one.

        It was built from the member, or is imported in its place: Python looks for extension
        modules first (`importlib.machinery.FileFinder`).
        """
        beside = self._starting(member.rpartition(".")[0] + ".")
        return next((name for name in beside if name.endswith((".so", ".pyd"))), None)

    def has_alike(self, member: str) -> bool:
        """Whether the wheel ships files with the member's suffix beside it, so that it is data.

        Of a member in a new folder, those below the folder that holds the new one count, unless
        that is the package's.
        """
        folder, _, name = member.rpartition("/")
        suffix = "." + name.rpartition(".")[2]
        above = folder
        while "/" in self.installed_name(above) and not self._has_directory(above):
            above = above.rpartition("/")[0]
        inside = self._starting(f"{above}/" if above else "")
        alike = (name for name in inside if name.endswith(suffix))
        if above == folder:
            return any(name.rpartition("/")[0] == folder for name in alike)
        return "/" in self.installed_name(above) and any(alike)

    def _has_directory(self, name: str) -> bool:
        # A set of all folders would take the square of a name's length: 1 GB for one of 65 kB.
        return any(self._starting(f"{name}/"))

    def _starting(self, start: str) -> Iterator[str]:
        first = bisect_left(self._sorted_names, start)
        return takewhile(lambda n: n.startswith(start), islice(self._sorted_names, first, None))

    @cached_property
    def _sorted_names(self) -> list[str]:
        return sorted(self._members)


def wheel_version(path: Path, upstream: Upstream) -> str:
    """Return the version in the file name of a wheel of `upstream`."""
    try:
        name, version, _, _ = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise UsageError(
            f"{path}: invalid wheel name: {error}",
            remedy="give the wheel's file, with the name that it was built with",
        ) from None
    if name != canonicalize_name(upstream.distribution):
        raise UsageError(
            f"{path} is a wheel of {name}, not of {upstream.distribution}",
            remedy="give a wheel of it, or another catalog with --catalog",
        )
    return str(version)


def wheel_environment(path: Path) -> dict[str, str]:
    """Return what all tags in a wheel's file name tell of its environments."""
    *_, tags = parse_wheel_filename(path.name)
    known = [environment_of_tag(tag).items() for tag in tags]
    # A name like py2.py3-none-any stands for several tags: only what all of them say is certain.
    return dict(set(known[0]).intersection(*known[1:]))


def fits_wheel(target: Target, path: Path) -> bool:
    """Whether no tag of a wheel contradicts a target's marker."""
    return target.marker is None or holds(target.marker, wheel_environment(path)) is not False


@dataclass(frozen=True)
class OutsideFiles:
    """The files of a series that only a source checkout has."""

    outside: Sequence[str]


class OutsidePackageError(DoesNotApplyError):
    """A series touches files that only a source checkout has."""

    def __init__(self, upstream: Upstream, paths: Sequence[str]) -> None:
        super().__init__(
            f"the series touches {', '.join(paths)}, which only a source checkout of "
            f"{upstream.name} has",
            remedy="keep these parts out of the series (pkgtools import --package-only), or "
            "correct the upstream's prefix in targets.toml; as it is, the series fits a source "
            "checkout only",
            details=OutsideFiles(paths),
        )


@contextmanager
def all_outside_named(source: Source, paths: Iterable[str]) -> Iterator[None]:
    """Let a refusal of one path outside the package name all of `paths` that are outside."""
    try:
        yield
    except OutsidePackageError:
        if source.upstream is None:
            raise
        outside = []
        for path in sorted(paths):
            try:
                source.read(path)
            except OutsidePackageError:
                outside.append(path)
        raise OutsidePackageError(source.upstream, outside) from None


def installed_path(upstream: Upstream, path: str, tops: Callable[[], frozenset[str]]) -> str:
    """Return where `path` of the source tree is installed.

    That is in the upstream's package, or in another package or module that its distribution has
    (`tops`; of setuptools, ``pkg_resources``).

    Raises:
        OutsidePackageError: only a source checkout has that part.
    """
    name = upstream.installed_path(path)
    if name is not None:
        return name
    beside = upstream.in_wheel(path)
    if beside is None or beside.partition("/")[0] not in tops():
        raise OutsidePackageError(upstream, [path])
    return beside


def import_names(files: Iterable[str]) -> frozenset[str]:
    """Return the packages and modules among the installed `files` of a distribution."""
    tops = {name.partition("/")[0] for name in files}
    return frozenset(top for top in tops if not top.endswith((_INFO, _DATA)))
