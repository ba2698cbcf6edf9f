"""Extract the files of a package that matter from an image, as a tree that can be patched."""

import contextlib
import os
import posixpath
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from pkgtools.blob import SYMLINK
from pkgtools.catalog import Catalog, Upstream
from pkgtools.errors import TreeError
from pkgtools.image.layer import FileKind, Member, folders_above, parents
from pkgtools.image.model import Image
from pkgtools.image.package import FoundPackage, PackageQuery
from pkgtools.source import Tree, find_tree
from pkgtools.source.receipt import NAME, load_receipt
from pkgtools.source.tree import package_in
from pkgtools.transaction.journal import Base
from pkgtools.transaction.stage import Write, permissions_of
from pkgtools.util.files import inside, no_temporary_files, put_blob


@dataclass(frozen=True, kw_only=True)
class ImageTree(Tree):
    """A tree that was extracted from an image."""

    is_of_image: ClassVar[bool] = True
    image: str
    package: FoundPackage = field(repr=False)

    def compiled_beside(self, path: str) -> str | None:
        """Return the extension module of the image that has a file's name, if there is one."""
        stem = posixpath.splitext(posixpath.join(self.package.folder, self.name(path)))[0] + "."
        names = sorted(self.package.names)
        found = (n for n in names if n.startswith(stem) and "/" not in n[len(stem) :])
        built = (n for n in found if n.endswith((".so", ".pyd")))
        return next(map(posixpath.basename, built), None)

    @property
    def place(self) -> str:
        """The folder in the image."""
        return f"/{self.package.folder}"

    @cached_property
    def environment(self) -> dict[str, str]:
        """What its place tells: an image's Python is not run, and engines run Linux."""
        version = re.search(r"/python(\d+\.\d+)/", f"{self.place}/")
        known = {"os_name": "posix", "platform_system": "Linux", "sys_platform": "linux"}
        return known | ({"python_version": version[1]} if version else {})

    @property
    def label(self) -> str:
        """The image, the folder in it, and the installed version."""
        return f"{self.image} {super().label}"


@dataclass(frozen=True)
class ExtractedPackage:
    """The files of a package that were extracted from an image."""

    root: Path
    """A temporary folder in the place of the image's root."""
    tree: ImageTree
    members: dict[str, Member] = field(repr=False)
    """The files as they were extracted."""

    def put(self, writes: Iterable[Write]) -> None:
        """Make a draft's writes; a temporary folder needs neither a journal nor fsync(2)."""
        try:
            for write in writes:
                self._put(write)
        except OSError as error:
            raise no_temporary_files(error) from None

    def _put(self, write: Write) -> None:
        home = self.tree.home if write.base is Base.HOME else self.tree.root
        path = inside(home, write.name)
        status = path.lstat() if write.before is not None else None
        path.unlink(missing_ok=True)
        if write.after is None:
            return
        put_blob(path, write.after)
        if write.after.mode != SYMLINK:
            path.chmod(permissions_of(write, status))
            if write.mtime_ns is not None:
                os.utime(path, ns=(write.mtime_ns, write.mtime_ns))

    def changes(self, mtime: int) -> tuple[list[Member], list[str]]:
        """Return the changed members, and the removed paths.

        New files and folders get the package's owner. Existing folders are left out, so that they
        keep their owners and permissions; one that becomes empty is removed, as in any other tree.
        Written files get `mtime`, in seconds since the epoch; restored files keep their own.
        """
        owner = self._owner()
        known = _with_folders({*self.tree.package.names, *self.members})
        written = self.root.stat().st_ctime_ns
        left = {path for path, m in self.members.items() if m.kind is not FileKind.FOLDER}
        changed = []
        for found in _walk(self.root):
            path = found.path
            old = self.members.get(path)
            now = replace(found, uid=(old or owner).uid, gid=(old or owner).gid)
            if now.kind is FileKind.FOLDER:
                if path not in known:
                    changed.append(replace(now, permissions=0o755, mtime=mtime))
                continue
            left.discard(path)
            if old is not None and now.permissions == _readable(old):
                now = replace(now, permissions=old.permissions)
            if old is None or _differ(old, now):
                own = now.mtime if now.mtime < written // 10**9 else mtime
                changed.append(replace(now, mtime=own))
        stays = _with_folders((known - _with_folders(left)) | {m.path for m in changed})
        return sorted(changed, key=lambda m: m.path), _outermost(left, stays)

    def _owner(self) -> Member:
        """Return a file of the package whose owner new files get; not all have ``__init__.py``."""
        package = self.tree.package
        inside = posixpath.join(package.folder, self.tree.package_file)
        files = [p for p in package.members if p == inside or p.startswith(f"{inside}/")]
        marker = f"{inside}/__init__.py"
        return package.members[marker if marker in files else min(files)]


def query_of(catalog: Catalog, upstream: Upstream) -> PackageQuery:
    """Return a query for all files that series of an upstream touch."""
    targets = [t for t in catalog.sound_targets if t.upstream == upstream]
    paths = {path for target in targets for path in target.series.paths}
    files = {name for path in paths if (name := upstream.in_wheel(path)) is not None}
    if upstream.module not in files:
        files.add(f"{upstream.package}/__init__.py")
    return PackageQuery(upstream, frozenset(files))


@contextlib.contextmanager
def extracted(
    image: Image, query: PackageQuery, package: FoundPackage
) -> Iterator[ExtractedPackage]:
    """Extract the files of a package that matter into a temporary folder.

    The image is read again only if a receipt names files that no series touches.
    """
    try:
        package.folder.encode()
    except UnicodeEncodeError:
        raise TreeError(
            f"{image.reference} has the package in a folder whose name is not UTF-8",
            remedy="install the package in a folder with a UTF-8 name",
        ) from None
    members = dict(package.members)
    with tempfile.TemporaryDirectory(prefix="pkgtools-image-") as folder:
        root = Path(folder).resolve()
        _refuse_links(members, image.reference)
        _write(root, members.values(), package)
        tree = _tree(root, query.upstream, package, image.reference)
        inside = f"{package.folder}/".lstrip("/")
        paths = _receipt_paths(root, tree)
        found = {p for p in paths if p.startswith(inside) and query.has(p.removeprefix(inside))}
        more = image.read(paths - found)
        _write(root, more.values(), package)
        yield ExtractedPackage(root, tree, members | more)


def _refuse_links(members: Mapping[str, Member], label: str) -> None:
    """Reject links and devices in the place of files and folders that are read."""
    for path, member in members.items():
        name = posixpath.basename(path)
        if name == "__pycache__" or name.endswith(".dist-info"):
            expected = FileKind.FOLDER
        elif ".dist-info/" in path or name in (NAME, "HEAD"):
            expected = FileKind.FILE
        else:
            continue
        if member.kind is not expected:
            raise TreeError(
                f"/{path} of {label} is not a {expected.name.lower()}",
                remedy="install the package anew, as pip does, and build the image with that",
            )


def _receipt_paths(root: Path, tree: ImageTree) -> set[str]:
    """Return the paths that an applied series has touched, according to its receipt."""
    receipt = load_receipt(tree.home)
    if receipt is None:
        return set()
    names = {tree.name(path) for entry in receipt.entries for path in entry.paths}
    names |= {b.name for entry in receipt.entries for b in entry.bytecode}
    return {(tree.root / name).relative_to(root).as_posix() for name in names}


def _write(root: Path, members: Iterable[Member], package: FoundPackage) -> None:
    """Write members of an image below `root`, never through a link."""
    try:
        (root / package.folder).mkdir(parents=True, exist_ok=True)
        for member in sorted(members, key=lambda m: m.path):
            path = root / member.path
            if not any(parent.is_symlink() for parent in path.parents if parent != root):
                _put(path, member)
    except OSError as error:
        raise no_temporary_files(error) from None


def _put(path: Path, member: Member) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if member.kind is FileKind.FOLDER:
        path.mkdir(exist_ok=True)
    elif member.kind is FileKind.LINK:
        path.symlink_to(os.fsdecode(member.data))
    elif member.kind is FileKind.FILE:
        path.write_bytes(member.data)
        # An image can hold files without read permission, which root in the container ignores.
        path.chmod(_readable(member))
        os.utime(path, (member.mtime, member.mtime))
    else:
        os.mkfifo(path)  # in the place of a device: both are refused as irregular files


def _readable(member: Member) -> int:
    """Return the permissions of an extracted file, which pkgtools must be able to read."""
    return member.permissions | 0o400


def _differ(old: Member, now: Member) -> bool:
    """Return whether a member has changed; the permissions of links do not count."""
    if (old.kind, old.data) != (now.kind, now.data):
        return True
    return now.kind is FileKind.FILE and old.permissions != now.permissions


def _with_folders(paths: set[str]) -> set[str]:
    return paths | folders_above(paths)


def _outermost(gone: set[str], stays: set[str]) -> list[str]:
    """Return the paths to remove so that `gone` is removed and no folder is left empty."""
    removed = set()
    for path in gone:
        empty = [parent for parent in parents(path) if parent not in stays]
        removed.add(empty[-1] if empty else path)
    return sorted(removed)


def _tree(root: Path, upstream: Upstream, package: FoundPackage, reference: str) -> ImageTree:
    around = root / package.folder
    found = find_tree(package_in(around, upstream) or around / upstream.package, upstream)
    home = found.home
    if not home.is_relative_to(root):  # the temporary folder is in a git checkout
        home = found.root / ".pkgtools"
    return ImageTree(
        upstream=upstream,
        root=found.root,
        is_checkout=found.is_checkout,
        dist_info=found.dist_info,
        home=home,
        image=reference,
        package=package,
    )


def _walk(root: Path) -> Iterator[Member]:
    """Yield each file, link and folder below a folder."""
    for at, folders, files in os.walk(root):
        for path in (Path(at, name) for name in [*files, *folders]):
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode):
                data, kind = os.fsencode(path.readlink()), FileKind.LINK
            elif stat.S_ISREG(status.st_mode):
                data, kind = path.read_bytes(), FileKind.FILE
            elif stat.S_ISDIR(status.st_mode):
                data, kind = b"", FileKind.FOLDER
            else:
                continue
            name, mode = path.relative_to(root).as_posix(), stat.S_IMODE(status.st_mode)
            yield Member(name, kind, mode, mtime=int(status.st_mtime), data=data)
