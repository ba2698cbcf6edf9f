"""Find the package as the image's Python does, from as few layers as possible."""

import csv
import posixpath
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pkgtools.errors import SourceUnavailableError
from pkgtools.image.layer import FileKind, Member, parents
from pkgtools.image.merged import Overlay
from pkgtools.image.package import PackageQuery, ways_of
from pkgtools.source.tree import SITE_FOLDERS

_DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The PATH of an image that sets none (moby's ``system.DefaultPathEnv``)."""


class _DirInfo(msgspec.Struct):
    editable: bool = False


class _DirectUrl(msgspec.Struct):
    """The parts of direct_url.json that are read (PEP 610)."""

    url: str
    dir_info: _DirInfo = msgspec.field(default_factory=_DirInfo)


_ELSEWHERE: Final = ("PYTHONPATH=", "PYTHONHOME=")
"""Variables that have Python look in folders other than its own."""


def candidates(query: PackageQuery, members: Mapping[str, Member], tree: str | None) -> list[str]:
    """Return the folders that hold the package.

    A package without ``__init__.py`` (PEP 420), or a module, counts where its distribution is
    installed beside it, where the user says so, or where there is no other.
    """
    files = {path for path, member in members.items() if member.kind is FileKind.FILE}
    regular = {
        _above(path, query.marker)
        for path in files
        if f"/{path}".endswith(f"/{query.marker}") and not query.is_module
    }
    namespaces = {
        _above(path, relative)
        for path in files
        for relative in query.relatives(path)
        if relative in query.files
        and relative.partition("/")[0] in (query.upstream.package, query.upstream.module)
    }
    installed = {f for f in namespaces if query.infos(f, files)}
    return sorted(regular | (namespaces if tree is not None else installed) or namespaces)


def installed_last(
    query: PackageQuery, overlay: Overlay, tree: str | None, env: Sequence[str]
) -> str | None:
    """Return the folder of the package if lower layers cannot change the answer, else None.

    A package manager lists each file that it installs in RECORD (PEP 376), so a file that RECORD
    does not list and that no layer read so far has was not installed. In a git checkout the index
    is that list, as git clones into an empty folder. The listed files of interest must be seen or
    hidden by now, and each of their parent folders must have its own entry, as engines write them.

    Of several copies on the image's PATH, the one in the highest layer is meant. A checkout is
    meant if it is the only copy and its installation is editable (PEP 610). With a copy elsewhere
    or a PYTHONPATH, only all layers together give the answer.
    """
    folders = candidates(query, overlay.members, tree)
    if tree is not None:
        folders = [folder for folder in ways_of(query, tree) if folder in folders][:1]
    else:
        if any(entry.startswith(_ELSEWHERE) for entry in env):
            return None
        markers = {folder: posixpath.join(folder, query.marker) for folder in folders}
        depths = {f: overlay.depths.get(marker, overlay.count) for f, marker in markers.items()}
        if len(folders) == 1 and _is_editable(query, folders[0], overlay.members, env):
            return folders[0] if _is_cloned(query, folders[0], overlay) else None
        on_path = [folder for folder in folders if _is_on_path(folder, env)]
        if len(on_path) < len(folders):
            return None
        folders = [f for f in on_path if depths[f] == min(depths.values())]
    if len(folders) != 1:
        return None
    is_known = _is_installed(query, folders[0], overlay) or _is_cloned(query, folders[0], overlay)
    return folders[0] if is_known else None


def is_evidence(query: PackageQuery, path: str) -> bool:
    """Return whether a file tells how the package is installed without being a part of it."""
    if path.endswith("/.git/index"):
        return True
    return path.endswith("/direct_url.json") and query.is_info(posixpath.dirname(path))


def _is_installed(query: PackageQuery, folder: str, overlay: Overlay) -> bool:
    infos = query.infos(folder, overlay.members)
    if len(infos) != 1:
        return False
    (info,) = infos
    metadata, record = (overlay.members.get(f"{info}/{n}") for n in ("METADATA", "RECORD"))
    if not metadata or not record or {metadata.kind, record.kind} != {FileKind.FILE}:
        return False
    listed = {posixpath.normpath(posixpath.join(folder, name)) for name in _listed(record.data)}
    own = {path for path in listed if path.startswith(f"{info}/")}
    return _is_settled(query, folder, overlay, listed, own)


def _is_cloned(query: PackageQuery, folder: str, overlay: Overlay) -> bool:
    root = _checkout_root(query, folder)
    head, index = (overlay.members.get(f"{root}/.git/{name}") for name in ("HEAD", "index"))
    if not head or not index or {head.kind, index.kind} != {FileKind.FILE}:
        return False
    if query.infos(folder, overlay.members):
        return False
    listed = {posixpath.join(root, name) for name in _tracked(index.data)}
    return _is_settled(query, folder, overlay, listed, {head.path})


def _is_settled(
    query: PackageQuery, folder: str, overlay: Overlay, listed: set[str], own: set[str]
) -> bool:
    """Return whether the listed files of interest, and `own`, are seen or hidden."""
    if posixpath.join(folder, query.marker) not in listed:
        return False  # other packages can share the folders of a namespace package (PEP 420)
    inside = f"{folder}/".lstrip("/")
    wanted = {posixpath.join(folder, name) for name in query.files}
    here = own | (listed & wanted)
    below = (p for p in listed if p.startswith(inside) and not p.endswith(".pyc"))
    here |= {p for p in below if query.is_held(p.removeprefix(inside))}
    folders = {parent for path in here for parent in parents(path)} - {""}
    return all(map(overlay.settles, here | folders))


def _is_editable(
    query: PackageQuery, folder: str, members: Mapping[str, Member], env: Sequence[str]
) -> bool:
    urls = {f"file:///{folder}", f"file:///{_checkout_root(query, folder)}"}
    for path, member in members.items():
        info, name = posixpath.split(path)
        if name != "direct_url.json" or not query.is_info(info):
            continue
        try:
            facts = msgspec.json.decode(member.data, type=_DirectUrl)
        except (msgspec.DecodeError, RecursionError):
            continue
        is_on_path = _is_on_path(posixpath.dirname(info), env)
        if facts.dir_info.editable and facts.url.rstrip("/") in urls and is_on_path:
            return True
    return False


def _checkout_root(query: PackageQuery, folder: str) -> str:
    """Return the root of the source tree that a folder would belong to."""
    return f"/{folder}".removesuffix(f"/{query.upstream.prefix}".rstrip("/")).lstrip("/")


def _tracked(index: bytes) -> list[str]:
    """Return the paths in git's index; none if it is damaged."""
    try:
        from pkgtools.source.git import tracked_paths  # noqa: PLC0415 - few images have one

        return tracked_paths(index)
    except (SourceUnavailableError, ValueError):  # SourceUnavailableError: no git command
        return []


def _listed(record: bytes) -> list[str]:
    try:
        return [row[0] for row in csv.reader(record.decode().splitlines()) if row]
    except (UnicodeDecodeError, csv.Error):
        return []


def _is_on_path(folder: str, env: Sequence[str]) -> bool:
    paths = [entry.removeprefix("PATH=") for entry in env if entry.startswith("PATH=")]
    programs = {path.strip("/") for path in (paths or [_DEFAULT_PATH])[-1].split(":")}
    prefix, library, rest = folder.rpartition("lib/python")
    if not library or posixpath.basename(rest) not in SITE_FOLDERS or rest.count("/") != 1:
        return False
    return posixpath.join(prefix, "bin") in programs


def _above(path: str, below: str) -> str:
    return path.removesuffix(below).rstrip("/")
