"""A synthetic upstream that is not SGLang: its releases, its commits and a catalog for it.

``widget-kit`` on an index, ``widget`` to Python, ``src/`` in its repository. What a target
makes is computed here by plain text edits, so that no test takes pkgtools' word for it.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pygit2
import pygit2.enums
from silent import Silent

from pkgtools.authoring.lock import write_locks
from pkgtools.blob import EXECUTABLE, REGULAR, SYMLINK, Blob
from pkgtools.catalog import Catalog, load_catalog
from pkgtools.source import Tree, find_tree
from pkgtools.source.at_hand import AtHand
from pkgtools.source.git import Repository

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pkgtools.catalog import Series

    Files = dict[str, Blob]
    Edit = Callable[[Files], None]

PREFIX: Final = "src/"
_RELEASED: Final = 1_577_934_245
_MAKER: Final = pygit2.Signature("Widget Maker", "maker@example.invalid", _RELEASED, 0)

_CORE: Final = b'''\
"""The core of widget."""

LIMIT = 32


def scale(values, factor):
    """Return the scaled sum."""
    total = 0
    for value in values:
        total += value * factor
    return total


def clip(values, limit=LIMIT):
    """Return the values up to a limit."""
    return [min(value, limit) for value in values]


def spread(values):
    """Return the distance from the least to the largest."""
    if not values:
        return 0
    return max(values) - min(values)


def describe(values):
    """Return a line about the values."""
    return f"{len(values)} values, spread {spread(values)}"
'''
_INIT: Final = b'"""Widgets."""\n\n__version__ = "%s"\n'
_ANSWER: Final = b'"""The answer."""\n\nANSWER = 41\n'
_TOOL: Final = b"#!/bin/sh\nexec python -m widget\n"
_GONE: Final = b'"""Nobody needs this."""\n\nGONE = True\n'
_OTHER: Final = b'"""Something else."""\n\nOTHER = 1\n'
_NEW: Final = b'"""What the patch adds."""\n\nfrom widget.answer import ANSWER\n\nDEEP = ANSWER\n'

_TARGETS: Final = """\
# Another team's catalog.
name = "widgets"
default = "w-1.1"

[[upstream]]
name = "widget"
git = "https://git.example.invalid/widget"
distribution = "widget-kit"
package = "widget"
prefix = "src/"

[[target]]
name = "w-1.0"
upstream = "widget"
series = "v1.0"
release = { version = "1.0", tag = "v1.0" }

[[target]]
name = "w-1.1"
upstream = "widget"
series = "v1.1"
release = { version = "1.1", tag = "v1.1" }

[[target]]
name = "w-dev"
upstream = "widget"
series = "dev"
commit = "@dev@"

[[target.alias]]
name = "w-dev-base"
commit = "@dev-base@"

[[target.alias]]
name = "w-dev-short"
"""


@dataclass(frozen=True)
class Project:
    """Everything that was built, below one folder."""

    root: Path
    releases: Mapping[str, Files]
    """The source tree of each release and commit, by name: ``1.0``, ``1.1``, ``dev``."""
    patched: Mapping[str, Files]
    """What each series makes: ``v1.0``, ``v1.1``, ``dev``, and ``changed`` for the newer v1.0."""
    commits: Mapping[str, str]

    @property
    def repository(self) -> Path:
        """The upstream's git repository, with a work tree of its own."""
        return self.root / "upstream"

    @property
    def targets(self) -> Path:
        """The catalog's targets.toml."""
        return self.root / "catalog" / "targets.toml"

    @property
    def changed_targets(self) -> Path:
        """A later state of the catalog, in which the series of w-1.0 is another."""
        return self.root / "changed" / "targets.toml"

    def catalog(self) -> Catalog:
        """Return the catalog, which no test changes: it is read once."""
        return _load(self.targets)

    def changed_catalog(self) -> Catalog:
        """Return the later catalog."""
        return _load(self.changed_targets)

    def wheel(self, version: str) -> Path:
        """Return the wheel of a release."""
        return self.root / "wheels" / f"widget_kit-{version}-py3-none-any.whl"

    def copy_catalog(self, where: Path) -> Path:
        """Copy the catalog, to be broken; return its targets.toml."""
        shutil.copytree(self.targets.parent, where)
        return where / "targets.toml"

    def write_checkout(self, where: Path, name: str = "1.0") -> Path:
        """Write a release's source tree as a git checkout with one commit."""
        write_history(where, {name: self.releases[name]}, {name: "as released"}, {})
        age(where)
        index = pygit2.Repository(where).index
        index.add_all()  # with the times that the files have now
        index.write()
        return where

    def write_archive(self, where: Path, name: str = "1.0") -> Path:
        """Write a release's source tree as an exported archive: no git, and files of some age."""
        write_files(where, self.releases[name])
        age(where)
        return where

    def install(
        self, site: Path, version: str = "1.0", *, compiled: bool = False, crlf: bool = False
    ) -> Path:
        """Unpack a release into a site-packages folder as an installer does; return its dist-info.

        Args:
            site: the folder.
            version: of the release.
            compiled: compile the modules and list them in RECORD, as pip does.
            crlf: end RECORD's rows as Python's csv module does by default.

        """
        site.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(self.wheel(version)) as wheel:
            for info in wheel.infolist():
                Path(wheel.extract(info, site)).chmod(stat.S_IMODE(info.external_attr >> 16))
        dist_info = site / f"widget_kit-{version}.dist-info"
        (dist_info / "INSTALLER").write_bytes(b"pip\n")
        record = dist_info / "RECORD"
        rows = record.read_bytes()
        rows += record_row(f"{dist_info.name}/INSTALLER", b"pip\n")
        if compiled:
            age(site)
            for name in sorted(installed(self.releases[version])):
                if not name.endswith(".py"):
                    continue
                made = compile_module(site / name)
                rows += f"{made.relative_to(site).as_posix()},,\n".encode()
        record.write_bytes(rows.replace(b"\n", b"\r\n") if crlf else rows)
        age(site)
        return dist_info

    def tree(self, path: Path) -> Tree:
        """Return the tree at `path`."""
        return find_tree(path, self.catalog().upstreams[0])


@cache
def _load(targets: Path) -> Catalog:
    return load_catalog(targets)


def build_project(root: Path) -> Project:
    """Build everything; about a second."""
    upstream = root / "upstream"
    releases = _releases()
    tags = {name: f"v{name}" for name in releases if name[0].isdigit()}
    messages = {name: f"widget {name}" for name in releases}
    commits = write_history(upstream, releases, messages, tags)
    for name in tags:
        build_wheel(root / "wheels", releases[name], name)
    patched = {}
    series = {"v1.0": ("1.0", _FIRST), "v1.1": ("1.1", _FIRST), "dev": ("dev", _FIRST[:2])}
    for name, (base, steps) in series.items():
        folder = root / "catalog" / "patches" / "widget" / name
        patched[name] = make_series(upstream, commits[base], releases[base], steps, folder)
    text = _TARGETS.replace("@dev@", commits["dev"]).replace("@dev-base@", commits["dev-base"])
    (root / "catalog" / "targets.toml").write_text(text)
    shutil.copytree(root / "catalog", root / "changed")
    folder = root / "changed" / "patches" / "widget" / "v1.0"
    shutil.rmtree(folder)
    patched["changed"] = make_series(upstream, commits["1.0"], releases["1.0"], _SECOND, folder)
    project = Project(root, releases, patched, commits)
    lock_all(project.targets, upstream, project)
    lock_all(project.changed_targets, upstream, project)
    return project


def lock_all(targets: Path, repository: Path, project: Project) -> None:
    """Write the locks of a catalog from the project's own wheels and commits."""
    wheels = [project.wheel(name) for name in project.releases if name[0].isdigit()]
    write_locks(load_catalog(targets).targets, AtHand(Silent(), wheels, [Repository(repository)]))


def _releases() -> dict[str, Files]:
    first: Files = {
        "README.md": Blob(b"# widget\n"),
        f"{PREFIX}widget/__init__.py": Blob(_INIT % b"1.0"),
        f"{PREFIX}widget/answer.py": Blob(_ANSWER),
        f"{PREFIX}widget/core.py": Blob(_CORE),
        f"{PREFIX}widget/legacy/gone.py": Blob(_GONE),
        f"{PREFIX}widget/other.py": Blob(_OTHER),
        f"{PREFIX}widget/tool.sh": Blob(_TOOL),
    }
    second = dict(first)
    second[f"{PREFIX}widget/__init__.py"] = Blob(_INIT % b"1.1")
    second[f"{PREFIX}widget/answer.py"] = Blob(_ANSWER.replace(b"The", b"Yet another"))
    second[f"{PREFIX}widget/core.py"] = Blob(_CORE.replace(b"\nLIMIT", b"\nimport math\n\nLIMIT"))
    base = dict(second)
    base[f"{PREFIX}widget/core.py"] = Blob(_CORE.replace(b"LIMIT = 32", b"LIMIT = 48"))
    dev = base | {"README.md": Blob(b"# widget, in development\n")}
    return {"1.0": first, "1.1": second, "dev-base": base, "dev": dev}


def substitute(path: str, old: bytes, new: bytes) -> Edit:
    """Return the edit that replaces one piece of text in a file."""

    def edit(files: Files) -> None:
        before = files[path].data
        assert before.count(old) == 1, (path, old)
        files[path] = Blob(before.replace(old, new), files[path].mode)

    return edit


def put(path: str, data: bytes, mode: int = REGULAR) -> Edit:
    """Return the edit that writes a file."""

    def edit(files: Files) -> None:
        files[path] = Blob(data, mode)

    return edit


def remove(path: str) -> Edit:
    """Return the edit that deletes a file."""

    def edit(files: Files) -> None:
        del files[path]

    return edit


def set_mode(path: str, mode: int) -> Edit:
    """Return the edit that changes a file's mode."""

    def edit(files: Files) -> None:
        files[path] = Blob(files[path].data, mode)

    return edit


_MODIFY: Final = (
    substitute(f"{PREFIX}widget/answer.py", b"ANSWER = 41", b"ANSWER = 42"),  # of the same size
    substitute(f"{PREFIX}widget/core.py", b"    total = 0\n", b"    total = 0.0\n"),
    substitute(f"{PREFIX}widget/core.py", b"spread {spread(values)}", b"{spread(values)} apart"),
)
_ADD: Final = (
    put(f"{PREFIX}widget/extra/__init__.py", b""),
    put(f"{PREFIX}widget/extra/deep/new.py", _NEW),
)
_RETIRE: Final = (
    remove(f"{PREFIX}widget/legacy/gone.py"),
    set_mode(f"{PREFIX}widget/tool.sh", EXECUTABLE),
    substitute(f"{PREFIX}widget/core.py", b"limit=LIMIT", b"limit=2 * LIMIT"),
)
_FIRST: Final[Sequence[tuple[str, Sequence[Edit]]]] = (
    ("answer: the right one", _MODIFY),
    ("extra: a new part", _ADD),
    ("legacy: retire it", _RETIRE),
)
_SECOND: Final[Sequence[tuple[str, Sequence[Edit]]]] = (
    (
        "answer: a better one",
        (substitute(f"{PREFIX}widget/answer.py", b"ANSWER = 41", b"ANSWER = 43"),),
    ),
    ("extra: a new part", (put(f"{PREFIX}widget/extra/__init__.py", b"EXTRA = True\n"),)),
    ("other: another one", (substitute(f"{PREFIX}widget/other.py", b"OTHER = 1", b"OTHER = 2"),)),
)


def make_series(
    repository: Path,
    base: str,
    files: Files,
    steps: Sequence[tuple[str, Sequence[Edit]]],
    folder: Path,
) -> Files:
    """Commit each step on `base` and export them with ``git format-patch``; return the end."""
    objects = pygit2.Repository(repository)
    after, commit = dict(files), pygit2.Oid(hex=base)
    for subject, edits in steps:
        for edit in edits:
            edit(after)
        message = f"{subject}\n\nA reason.\n\nUpstream-Status: Pending"
        commit = _commit(objects, after, message, [commit])
    folder.mkdir(parents=True)
    range_ = f"{base}..{commit}"
    made = git(repository, "format-patch", "--zero-commit", "--output-directory", folder, range_)
    names = [line.rpartition("/")[2] for line in made.splitlines()]
    (folder / "series").write_text("".join(f"{name}\n" for name in names))
    return after


def write_history(
    where: Path, trees: Mapping[str, Files], messages: Mapping[str, str], tags: Mapping[str, str]
) -> dict[str, str]:
    """Make a repository with one commit a tree, the last of them checked out as ``main``.

    No git runs: a hundred tests make repositories.

    Returns:
        the commits, by the names of the trees.

    """
    repository = pygit2.init_repository(where, initial_head="main")
    commits: dict[str, str] = {}
    last: list[pygit2.Oid] = []
    for name, files in trees.items():
        last = [_commit(repository, files, messages[name], last)]
        commits[name] = str(last[0])
        if name in tags:
            repository.references.create(f"refs/tags/{tags[name]}", last[0])
    repository.references.create("refs/heads/main", last[0])
    repository.checkout("HEAD", strategy=pygit2.enums.CheckoutStrategy.FORCE)
    return commits


def _commit(
    repository: pygit2.Repository, files: Files, message: str, parents: list[pygit2.Oid]
) -> pygit2.Oid:
    index = pygit2.Index()
    for path, blob in files.items():
        entry = repository.create_blob(blob.data)
        index.add(pygit2.IndexEntry(path, entry, pygit2.enums.FileMode(blob.mode)))
    tree = index.write_tree(repository)
    return repository.create_commit(None, _MAKER, _MAKER, f"{message}\n", tree, parents)


def git(where: Path, *arguments: str | Path) -> str:
    """Run git, cut off from the user's configuration; return what it prints."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=where,
        env=git_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def apply_with_git(tree: Path, series: Series) -> None:
    """Apply a series with git: an oracle."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "patch")
        for patch in series.patches:
            path.write_bytes(patch.data)
            git(tree, "apply", path)


def git_environment() -> dict[str, str]:
    """Return an environment in which git knows an author and nothing of the user's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {
        "LC_ALL": "C",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Widget Maker",
        "GIT_AUTHOR_EMAIL": "maker@example.invalid",
        "GIT_AUTHOR_DATE": "2020-01-02T03:04:05+0000",
        "GIT_COMMITTER_NAME": "Widget Maker",
        "GIT_COMMITTER_EMAIL": "maker@example.invalid",
        "GIT_COMMITTER_DATE": "2020-01-02T03:04:05+0000",
    }


def build_wheel(folder: Path, files: Files, version: str) -> Path:
    """Write a wheel of what lies below the prefix, with a true RECORD."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"widget_kit-{version}.dist-info"
    members = {
        path.removeprefix(PREFIX): blob for path, blob in files.items() if path.startswith(PREFIX)
    }
    members[f"{info}/METADATA"] = Blob(
        f"Metadata-Version: 2.1\nName: widget-kit\nVersion: {version}\n".encode()
    )
    members[f"{info}/WHEEL"] = Blob(
        b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    rows = b"".join(record_row(path, blob.data) for path, blob in members.items())
    members[f"{info}/RECORD"] = Blob(rows + f"{info}/RECORD,,\n".encode())
    path = folder / f"widget_kit-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, blob in members.items():
            entry = zipfile.ZipInfo(name, (2020, 1, 2, 3, 4, 6))
            entry.external_attr = blob.mode << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, blob.data)
    return path


def record_row(path: str, data: bytes) -> bytes:
    """Return a row of RECORD as the packaging specification says, by other means than pkgtools'."""
    digest = base64.b64encode(hashlib.new("sha256", data).digest(), b"-_").decode().strip("=")
    if set(path) & set('," '):
        path = '"' + path.replace('"', '""') + '"'
    return f"{path},sha256={digest},{len(data)}\n".encode()


def compile_module(path: Path) -> Path:
    """Compile one module as an import would, and return where its bytecode lies."""
    import py_compile  # noqa: PLC0415 - tests that need it are few

    made = py_compile.compile(
        str(path), doraise=True, invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP
    )
    assert made is not None
    return path.parent / "__pycache__" / Path(made).name


def age(where: Path) -> None:
    """Let some time have passed: set back the times of all files below `where` but git's own."""
    for path in where.rglob("*"):
        if not path.is_dir() and (".git" not in path.parts or "pkgtools" in path.parts):
            os.utime(path, (_RELEASED, _RELEASED), follow_symlinks=False)


def write_files(where: Path, files: Mapping[str, Blob]) -> None:
    """Write a source tree."""
    for path, blob in files.items():
        target = where / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        if blob.mode == SYMLINK:
            target.symlink_to(os.fsdecode(blob.data))
        else:
            target.write_bytes(blob.data)
            target.chmod(stat.S_IMODE(blob.mode))


def installed(files: Mapping[str, Blob]) -> Files:
    """Return what of a source tree an installed package has, by its paths there."""
    return {
        path.removeprefix(PREFIX): blob for path, blob in files.items() if path.startswith(PREFIX)
    }
