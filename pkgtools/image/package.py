"""The package in an image, and the files around it that matter."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from packaging.utils import canonicalize_name

from pkgtools.catalog import Upstream
from pkgtools.errors import UsageError
from pkgtools.image.layer import Member, parents
from pkgtools.source.receipt import NAME, PROVENANCE
from pkgtools.source.tree import SITE_FOLDERS

METADATA_FILES: Final = {"METADATA", "RECORD", NAME, PROVENANCE}
"""The files of a .dist-info that are read."""
_CACHE: Final = "__pycache__"


@dataclass(frozen=True)
class PackageQuery:
    """The package to find, and the files of it to read."""

    upstream: Upstream
    files: frozenset[str]
    """Paths as in a wheel: relative to the folder that contains the package."""

    @cached_property
    def _modules(self) -> frozenset[str]:
        return frozenset(name.removesuffix(".py") for name in self.files if name.endswith(".py"))

    @cached_property
    def holders(self) -> frozenset[str]:
        """The package's folders that hold one of the files, or a folder of it.

        Of a module that lies in no folder of its own, the one of its bytecode.
        """
        above = {parent for name in self.files for parent in parents(name)}
        alone = {_CACHE for name in self.files if name.endswith(".py") and "/" not in name}
        return frozenset(above | alone) - {""}

    @property
    def marker(self) -> str:
        """The file by which the package is found."""
        upstream = self.upstream
        return upstream.module if self.is_module else f"{upstream.package}/__init__.py"

    @property
    def is_module(self) -> bool:
        """Whether the package is a module of one file."""
        return self.upstream.module in self.files

    def wants(self, path: str) -> bool:
        """Return whether a path is one of the files, in any folder that can contain the package."""
        folder, _, name = path.rpartition("/")
        if self.is_info(path) or self.is_info(folder):
            return self.is_info(path) or name in METADATA_FILES
        return any(map(self.has, self.relatives(path))) or self.is_of_home(path)

    def keeps(self, path: str) -> bool:
        """Return whether a path is wanted, or in one of the folders of the files."""
        return self.wants(path) or any(
            relative in self.holders or self.is_held(relative) for relative in self.relatives(path)
        )

    def is_held(self, relative: str) -> bool:
        """Return whether a path is directly in one of the folders, or may hide a single module."""
        return (
            posixpath.dirname(relative) in self.holders
            or self._hiding.fullmatch(relative) is not None
        )

    def relatives(self, path: str) -> Iterator[str]:
        """Yield what a path is as a wheel has it, for each place where one of its names starts."""
        whole = f"/{path}/"
        for match in self._starts.finditer(whole):
            yield whole[match.end() : -1]

    @cached_property
    def _starts(self) -> re.Pattern[str]:
        tops = {self.upstream.package, *(name.partition("/")[0] for name in self.files)}
        alone = {name for name in tops if name.endswith(".py")}
        tops |= {_CACHE, *(f"{name}c" for name in alone)} if alone else set()
        names = [*map(re.escape, sorted(tops)), self._hiding.pattern]
        return re.compile(f"/(?=(?:{'|'.join(names)})/)")

    @cached_property
    def _hiding(self) -> re.Pattern[str]:
        """Extension modules with the name of a module that lies in no folder."""
        alone = sorted(re.escape(name) for name in self._modules if "/" not in name)
        return re.compile(rf"(?:{'|'.join(alone)})\.(?:[^/]+\.)?(?:so|pyd)" if alone else "(?!)")

    def has(self, relative: str) -> bool:
        """Return whether a path as in a wheel is one of the files or their bytecode."""
        return relative in self.files or self.is_compiled(relative)

    def is_info(self, path: str) -> bool:
        """Return whether a path is a .dist-info of any version of the package's distribution."""
        if not path.endswith(".dist-info"):
            return False
        name = posixpath.basename(path).removesuffix(".dist-info").rpartition("-")[0]
        return canonicalize_name(name) == canonicalize_name(self.upstream.distribution)

    def infos(self, folder: str, paths: Iterable[str]) -> set[str]:
        """Return the .dist-infos of the package in a folder, if they have metadata."""
        return {
            posixpath.dirname(path)
            for path in paths
            if posixpath.basename(path) in METADATA_FILES
            and self.is_info(posixpath.dirname(path))
            and posixpath.dirname(posixpath.dirname(path)) == folder
        }

    def is_of_home(self, path: str) -> bool:
        """Return whether a path is a checkout's receipt, or tells where that is."""
        folders = path.split("/")
        if folders[-1] == NAME:
            return ".pkgtools" in folders or "/.git/pkgtools/" in f"/{path}"
        return folders[-2:] == [".git", "HEAD"]

    def is_compiled(self, relative: str) -> bool:
        """Return whether a path is bytecode of one of the modules."""
        if not relative.endswith(".pyc"):
            return False
        folder, name = posixpath.split(relative)
        if posixpath.basename(folder) == _CACHE:
            folder, name = posixpath.dirname(folder), name.partition(".")[0]
        return posixpath.join(folder, name.removesuffix(".pyc")) in self._modules


@dataclass(frozen=True)
class FoundPackage:
    """The package in one image."""

    folder: str
    """The folder that contains the package, relative to the image's root."""
    members: Mapping[str, Member] = field(repr=False)
    """The existing wanted files, their bytecode and folders, the files of the package's .dist-info,
    and a git directory and receipts around the package."""
    names: frozenset[str] = field(repr=False)
    """All paths in the folders above the wanted files: a folder goes when it becomes empty. Of
    single modules, the extension modules that hide them."""
    by_table: tuple[str, ...] = ()
    """The digests of layers that were read by their table of contents; see `contents`."""


def choose_folder(query: PackageQuery, folders: Iterable[str], tree: str | None, label: str) -> str:
    """Return which of the folders contains the package; see `location.candidates`.

    The user's choice `tree` is such a folder, the package's own folder, or a checkout.
    """
    upstream = query.upstream
    found = sorted(folders)
    if tree is None:
        found = [f for f in found if _could_be_imported(f, upstream)]
    else:
        found = [f for f in ways_of(query, tree) if f in found][:1]
    if len(found) == 1:
        return found[0]
    if tree is not None:
        raise UsageError(
            f"{label} has no package {upstream.package!r} in {tree}",
            remedy=f"give the folder that contains {upstream.package!r} with --tree",
        )
    if not found:
        raise UsageError(
            f"{label} has no package {upstream.package!r} installed",
            remedy="give the folder that contains it with --tree, or another image",
        )
    raise UsageError(
        f"{label} has {upstream.package!r} in {', '.join('/' + f for f in found)}",
        remedy="say which one is meant with --tree",
    )


def ways_of(query: PackageQuery, tree: str) -> list[str]:
    """Return the folders that the user's choice can mean, the most likely first."""
    given = tree.strip("/")
    ways = [given, posixpath.join(given, query.upstream.prefix.rstrip("/"))]
    if posixpath.basename(given) in (query.upstream.package, query.upstream.module):
        ways.append(posixpath.dirname(given))
    return ways


def package_at(
    query: PackageQuery, folder: str, members: Mapping[str, Member], names: Iterable[str]
) -> FoundPackage:
    """Return the package in `folder`, with those members and names of an image that belong to it.

    A receipt around the folder belongs to a checkout; that of an installed package is in its
    .dist-info.
    """
    inside = f"{folder}/".lstrip("/")
    holders = {posixpath.join(folder, holder) for holder in query.holders}
    is_installed = bool(query.infos(folder, members))
    homes = set()
    for above in () if is_installed else (folder, *parents(folder)):
        homes |= {posixpath.join(above, home) for home in (".git", ".pkgtools")}
        if posixpath.join(above, ".git", "HEAD") in members:
            break

    def belongs(path: str) -> bool:
        above = posixpath.dirname(path)
        if query.is_info(path) or query.is_info(above):
            return folder in (above, posixpath.dirname(above)) and query.wants(path)
        if path.startswith(inside) and query.wants(path):
            return True
        return query.is_of_home(path) and any(path.startswith(f"{home}/") for home in homes)

    ways = holders | {posixpath.join(holder, _CACHE) for holder in holders}
    found = {path: member for path, member in members.items() if path in ways or belongs(path)}
    held = (n for n in names if n.startswith(inside) and query.is_held(n.removeprefix(inside)))
    return FoundPackage(folder, found, frozenset(held))


def _could_be_imported(folder: str, upstream: Upstream) -> bool:
    """Return whether packages are installed in a folder, or it is in the upstream's source tree."""
    name = posixpath.basename(folder)
    if name in SITE_FOLDERS:
        return True
    return bool(upstream.prefix) and f"/{folder}/".endswith(f"/{upstream.prefix}")
