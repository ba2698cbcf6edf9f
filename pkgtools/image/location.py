"""Where an image's Python finds the package, decided from as few layers as can settle it."""

from __future__ import annotations

import csv
import posixpath
from typing import TYPE_CHECKING, Final

from pkgtools.image.layer import FileKind, parents
from pkgtools.image.package import INSTALLED, ways_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pkgtools.image.layer import Member
    from pkgtools.image.merged import Overlay
    from pkgtools.image.package import PackageQuery

_DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""What engines set where an image has no PATH (moby's ``system.DefaultPathEnv``)."""
_ELSEWHERE: Final = ("PYTHONPATH=", "PYTHONHOME=")
"""Variables by which Python looks in places that its own folder does not tell."""


def candidates(query: PackageQuery, members: Mapping[str, Member], tree: str | None) -> list[str]:
    """Return the folders that hold the package.

    A package without ``__init__.py`` (PEP 420) counts where its distribution is installed beside
    it, where the user says so, or where there is no other.
    """
    marker = f"{query.upstream.package}/__init__.py"
    files = {path for path, member in members.items() if member.kind is FileKind.FILE}
    regular = {_above(path, marker) for path in files if f"/{path}".endswith(f"/{marker}")}
    namespaces = {
        _above(path, relative)
        for path in files
        for relative in query.relatives(path)
        if relative in query.files
    }
    installed = {f for f in namespaces if query.infos(f, files)}
    return sorted(regular | (namespaces if tree is not None else installed) or namespaces)


def installed_last(
    query: PackageQuery, overlay: Overlay, tree: str | None, env: Sequence[str]
) -> str | None:
    """Return the folder of the package, if the layers below cannot change what is read of it.

    That is so where a package manager installed it: RECORD (PEP 376) lists every file, so what
    RECORD does not list, and no layer down to here has, was not installed. All that it lists of
    the files and folders in question must have been seen or hidden, and each folder on the way
    must have its own entry, as engines write them.

    Of several copies on the image's PATH, the one in the highest layer is meant. A copy elsewhere,
    a checkout, or a PYTHONPATH, settles nothing: then all layers decide.
    """
    folders = candidates(query, overlay.members, tree)
    if tree is not None:
        folders = [folder for folder in ways_of(query, tree) if folder in folders][:1]
    else:
        if any(entry.startswith(_ELSEWHERE) for entry in env):
            return None
        marker = f"{query.upstream.package}/__init__.py"
        depths = {f: overlay.depths.get(posixpath.join(f, marker), overlay.count) for f in folders}
        on_path = [folder for folder in folders if _is_on_path(folder, env)]
        if len(on_path) < len(folders):
            return None
        folders = [f for f in on_path if depths[f] == min(depths.values())]
    if len(folders) != 1 or not _is_settled(query, folders[0], overlay):
        return None
    return folders[0]


def _is_settled(query: PackageQuery, folder: str, overlay: Overlay) -> bool:
    record = _record(query, folder, overlay.members)
    if record is None:
        return False
    info = posixpath.dirname(record.path)
    listed = {posixpath.normpath(posixpath.join(folder, name)) for name in _listed(record.data)}
    if posixpath.join(folder, query.upstream.package, "__init__.py") not in listed:
        return False  # another package's files may lie in the same folders (PEP 420)
    holders = {posixpath.join(folder, holder) for holder in query.holders}
    here = {
        path
        for path in listed
        if not path.endswith(".pyc")
        and (posixpath.dirname(path) in holders or path.startswith(f"{info}/"))
    }
    folders = {parent for path in here for parent in parents(path)} - {""}
    return all(map(overlay.settles, here | folders))


def _record(query: PackageQuery, folder: str, members: Mapping[str, Member]) -> Member | None:
    """Return RECORD of the one .dist-info in a folder that an installer wrote."""
    infos = query.infos(folder, members)
    if len(infos) != 1:
        return None
    (info,) = infos
    both = [members.get(f"{info}/{name}") for name in ("METADATA", "RECORD")]
    if any(member is None or member.kind is not FileKind.FILE for member in both):
        return None
    return both[1]


def _listed(record: bytes) -> Iterator[str]:
    """Yield the paths of RECORD; none of one that cannot be read."""
    try:
        rows = list(csv.reader(record.decode().splitlines()))
    except (UnicodeDecodeError, csv.Error):
        return
    yield from (row[0] for row in rows if row)


def _is_on_path(folder: str, env: Sequence[str]) -> bool:
    """Whether a folder is the site-packages of a Python whose programs are on PATH."""
    paths = [entry.removeprefix("PATH=") for entry in env if entry.startswith("PATH=")]
    programs = {path.strip("/") for path in (paths or [_DEFAULT_PATH])[-1].split(":")}
    prefix, library, rest = folder.rpartition("lib/python")
    if not library or posixpath.basename(rest) not in INSTALLED or rest.count("/") != 1:
        return False
    return posixpath.join(prefix, "bin") in programs


def _above(path: str, below: str) -> str:
    return path.removesuffix(below).rstrip("/")
