"""A tree on disk: an installed package, a package folder, or a source checkout."""

import glob
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Final, NoReturn

from packaging.utils import canonicalize_name

from pkgtools.blob import DIRECTORY, Blob
from pkgtools.catalog import Upstream
from pkgtools.errors import TreeError, UsageError
from pkgtools.source.python import environment
from pkgtools.source.receipt import PROVENANCE, load_receipt
from pkgtools.source.record import recorded
from pkgtools.source.wheel import import_names, installed_path
from pkgtools.util.files import inside, read_bytes, read_file

SITE_FOLDERS: Final = ("site-packages", "dist-packages")
"""Names of the folders that Python packages are installed in."""
_STRICT: Final = "__editable__."
"""https://setuptools.pypa.io/en/latest/userguide/development_mode.html#strict-editable-installs"""
_PYTHONS: Final = ("python", "python3")


@dataclass(frozen=True)
class Tree:
    """A tree that can be read and patched. All its paths are resolved."""

    upstream: Upstream
    root: Path
    """The folder that relative names start from."""
    is_checkout: bool
    """Whether `root` is a source tree; otherwise it holds the installed package."""
    dist_info: Path | None
    """The package manager's folder, where there is one."""
    home: Path
    """Where the receipt and the journal lie."""
    python: str | None = field(default=None, compare=False)
    """The interpreter whose package it is, where it was found by that."""

    is_of_image: ClassVar[bool] = False
    """Whether its files came out of an image."""

    @property
    def place(self) -> str:
        """The folder, as its user knows it."""
        return str(self.root)

    @property
    def is_of_conda(self) -> bool:
        """Whether conda installed it, and lists its files in a folder ``conda-meta``."""
        installer = self.dist_info / "INSTALLER" if self.dist_info else None
        return bool(installer and installer.is_file() and read_bytes(installer).strip() == b"conda")

    @property
    def record(self) -> Path | None:
        """The package manager's list of files, where there is one."""
        record = self.dist_info / "RECORD" if self.dist_info is not None else None
        return record if record is not None and record.is_file() else None

    @property
    def is_from_patched_wheel(self) -> bool:
        """Whether it was installed from a wheel that `build wheel` made."""
        return self.dist_info is not None and (self.dist_info / PROVENANCE).is_file()

    @property
    def git_root(self) -> Path | None:
        """The work tree of git that a checkout lies in."""
        above = (self.root, *self.root.parents) if self.is_checkout else ()
        return next((folder for folder in above if (folder / ".git").exists()), None)

    @property
    def label(self) -> str:
        """The folder, and for an installed package its version as the package manager has it."""
        return f"{self.place} ({self.dist_info.stem})" if self.dist_info else self.place

    @property
    def version(self) -> str | None:
        """The version as the package manager has it; None for a checkout."""
        return self.dist_info.stem.rpartition("-")[2] if self.dist_info is not None else None

    @property
    def package_file(self) -> str:
        """The name of the package's folder, or of its only module."""
        return self.package_path.rpartition("/")[2]

    @property
    def package_path(self) -> str:
        """Where the package's folder, or its only module, lies below `root`."""
        folder, module = f"{self.upstream.package}/", self.upstream.module
        if self.is_checkout:
            folder, module = self.upstream.in_source(folder), self.upstream.in_source(module)
        is_module = (self.root / module).is_file() and not (self.root / folder).is_dir()
        return module if is_module else folder.rstrip("/")

    @cached_property
    def environment(self) -> dict[str, str]:
        """What is known of the environment that it is for, as markers speak of it (PEP 508).

        That is the Python whose site-packages it lies in, else the one whose packages are meant
        where none is named.
        """
        return environment(str(self.interpreter) if self.interpreter is not None else None)

    @property
    def interpreter(self) -> Path | None:
        """The Python whose site-packages it lies in, where that is found."""
        above = self.root.parents[2] if self.root.name in SITE_FOLDERS else self.root
        return next((p for n in _PYTHONS if (p := above / "bin" / n).is_file()), None)

    def name(self, path: str) -> str:
        """Return `path` of the source tree relative to `root`."""
        if self.is_checkout:
            return path
        return installed_path(self.upstream, path, lambda: self._tops)

    @cached_property
    def _tops(self) -> frozenset[str]:
        """What RECORD lists, and the receipt: a series may have removed a package."""
        if self.dist_info is None:
            return frozenset()
        names = set(recorded(self.record)) if self.record is not None else set()
        receipt = load_receipt(self.home)
        for entry in receipt.entries if receipt is not None else ():
            names |= {self.upstream.in_wheel(path) or "" for path in entry.paths}
        return import_names(names)

    def file(self, path: str) -> Path:
        """Return where `path` of the source tree lies, with no symbolic link above it."""
        return inside(self.root, self.name(path))

    def read(self, path: str) -> Blob | None:
        """Return the content of `path` of the source tree."""
        if not self.is_checkout and self.upstream.is_above_package(path):
            return Blob(b"", DIRECTORY)
        return read_file(self.file(path))

    def compiled_beside(self, path: str) -> str | None:
        """Return the extension module that has a file's name, if there is one."""
        place = self.file(path)
        beside = place.parent.glob(f"{glob.escape(place.stem)}.*")
        return next((each.name for each in beside if each.suffix in {".so", ".pyd"}), None)


def find_tree(path: Path, upstream: Upstream) -> Tree:
    """Return the tree of `upstream` at `path`.

    Args:
        path: a source checkout, a site-packages folder, or the package's own folder or module.
        upstream: whose tree it is.

    Raises:
        UsageError: there is none.
        TreeError: the package manager's view of it is ambiguous, or the package is a link
            to one that other environments use too.
    """
    if not (path.is_dir() or (path.is_file() and path.name == upstream.module)):
        raise UsageError(f"{path} is not a folder", remedy=_hint(path))
    source = Tree(upstream, path.resolve(), True, None, path)
    if source.package_path != source.package_file and (path / source.package_path).exists():
        return _checkout(path.resolve(), upstream)
    folder = package_in(path, upstream) or _own_folder(path, source)
    container, real = folder.absolute().parent, folder.resolve().parent
    # https://setuptools.pypa.io/en/latest/userguide/development_mode.html#strict-editable-installs
    if real.name.startswith(_STRICT):
        raise TreeError(
            f"{folder} is made of links to a source checkout: it is an editable install of "
            "setuptools in its strict mode",
            remedy=f"patch the checkout (--tree {real.parents[1]}), and install it again",
        )
    here, there = _dist_info(container, upstream), _dist_info(real, upstream)
    # pdm links the folders of its cache (``cache_method = symlink``) and says so in a file
    # REFER_TO. A link to a folder without a .dist-info of its own is a developer's.
    if here and container.resolve() != real and (there or (here / "REFER_TO").exists()):
        _refuse_link(folder)
    dist_info = here or there
    if dist_info is None:
        root = _checkout_root(folder.resolve(), upstream)
        if root is not None:
            return _checkout(root, upstream)
    for file in (dist_info / "METADATA" if dist_info else folder / "__init__.py", folder):
        if file.is_symlink() and file.is_file():
            _refuse_link(file)
    return Tree(upstream, real, False, dist_info, dist_info or home_of(real))


def _own_folder(path: Path, source: Tree) -> Path:
    """Return `path` if its name is that of the package or module."""
    upstream = source.upstream
    own = {upstream.package, source.package_file} if path.is_dir() else {upstream.module}
    if own & {path.absolute().name, path.resolve().name}:
        return path
    remedy = f"{_hint(path)}; --catalog names another package's"
    raise UsageError(f"{path} holds no package {upstream.package!r}", remedy=remedy)


def package_in(container: Path, upstream: Upstream) -> Path | None:
    """Return the package's folder or module in a folder that holds it."""
    folder, module = container / upstream.package, container / upstream.module
    if folder.is_dir():
        return folder
    return module if module.is_file() else None


def _refuse_link(path: Path) -> NoReturn:
    raise TreeError(
        f"{path} is a symbolic link to {path.resolve()}, which other environments can use too",
        remedy="reinstall the package with copies or hard links: uv pip install --link-mode copy, "
        "conda config --set always_softlink false, or pdm config install.cache_method hardlink",
    )


def _hint(path: Path) -> str:
    if path.suffix == ".whl":
        return "a wheel is given with --wheel (identify, verify, build wheel)"
    if (path / "pyvenv.cfg").is_file():
        return f"of a virtual environment give the interpreter: --python {path / 'bin' / 'python'}"
    return "--tree takes a source checkout, a site-packages folder or the package's own folder"


def _checkout(root: Path, upstream: Upstream) -> Tree:
    return Tree(upstream, root, True, None, home_of(root))


def _checkout_root(package: Path, upstream: Upstream) -> Path | None:
    """Return the source tree that a package's folder or module lies in, if it is one's.

    Without a prefix only the place tells: an unpacked sdist has neither .git nor .dist-info.
    """
    name = f"{upstream.package}/" if package.is_dir() else upstream.module
    parts = upstream.in_source(name).rstrip("/").split("/")
    if list(package.parts[-len(parts) :]) != parts:
        return None
    root = package.parents[len(parts) - 1]
    is_installed = root.name in SITE_FOLDERS and not (root / ".git").exists()
    return None if len(parts) == 1 and is_installed else root


def _dist_info(container: Path, upstream: Upstream) -> Path | None:
    wanted = canonicalize_name(upstream.distribution)
    found = [
        folder.resolve()
        for folder in sorted(container.glob("*.dist-info"))
        if canonicalize_name(folder.stem.rpartition("-")[0]) == wanted
        and (folder / "METADATA").is_file()  # else it is what an uninstall could not remove
    ]
    if len(found) > 1:
        names = " and ".join(folder.name for folder in found)
        raise TreeError(
            f"{container} has {names}: it is unclear which one is installed",
            remedy="delete the .dist-info of the version that was replaced, which `pip install "
            f"--target` leaves, or reinstall {upstream.distribution}",
        )
    return found[0] if found else None


def home_of(root: Path) -> Path:
    """Return where a tree without a .dist-info keeps its receipt.

    Under the git directory, so that ``git status`` stays clean; where there is
    no git either (an exported archive), in the tree.
    """
    for folder in (root, *root.parents):
        git_dir = _git_dir(folder / ".git")
        if git_dir is not None:
            return git_dir / "pkgtools" / root.relative_to(folder)
    return root / ".pkgtools"


def _git_dir(marker: Path) -> Path | None:
    if marker.is_file():  # of a linked worktree
        text = read_bytes(marker).decode(errors="replace")
        # https://git-scm.com/docs/gitrepository-layout: a .git file names the real directory.
        if not text.startswith("gitdir: "):
            return None
        marker = marker.parent / text.removeprefix("gitdir: ").strip()
    # Any folder can be called .git; a repository has HEAD.
    return marker.resolve() if (marker / "HEAD").is_file() else None
