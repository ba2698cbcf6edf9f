"""The whole package: what RECORD, or git, lists, and what lies there."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pkgtools.blob import SYMLINK
from pkgtools.errors import CheckFailedError
from pkgtools.source.listing import package_files
from pkgtools.source.record import recorded
from pkgtools.util.files import read_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pkgtools.catalog import Catalog
    from pkgtools.source import Tree
    from pkgtools.tree.state import Identity


@dataclass(frozen=True)
class Difference:
    """A file of the package that is not as it was installed or committed."""

    path: str
    what: str
    """``missing``, ``changed`` or ``extra``."""


class NotWholeError(CheckFailedError):
    """Files beyond the series are missing, changed or extra."""

    def __init__(self, message: str, *, remedy: str, differences: tuple[Difference, ...]) -> None:
        super().__init__(message, remedy=remedy)
        self.differences = differences

    @property
    def details(self) -> object:
        """The files."""
        return {"differences": self.differences}


def hold_whole(catalog: Catalog, match: Identity, tree: Tree, touched: Collection[str]) -> None:
    """Hold a package against RECORD, or in a checkout against git.

    Args:
        catalog: that has the target.
        match: what the tree is.
        tree: the package.
        touched: the paths of the source tree that series changed; RECORD has them, git not.

    Raises:
        NotWholeError: files beyond the series are missing, changed or extra.

    """
    if tree.is_checkout:
        found = tuple(_beyond_git(catalog, match, tree, touched))
        remedy = "check the files out again (git restore, git clean)"
    else:
        found = tuple(_beyond_record(tree))
        remedy = "reinstall the package and apply again"
    if found:
        told = ", ".join(f"{each.path} ({each.what})" for each in found)
        raise NotWholeError(
            f"{tree.label} has the series of {match.target}, but other files differ from what "
            f"was {'committed' if tree.is_checkout else 'installed'}: {told}",
            remedy=f"{remedy}, or verify the files of the series alone with --series-only",
            differences=found,
        )


def _beyond_record(tree: Tree) -> Iterator[Difference]:
    """Yield each file that RECORD does not have as it is.

    Rows outside the folder (scripts) are the environment's, those without a hash are of
    files that change: RECORD itself, bytecode (PEP 376).
    """
    record = tree.dist_info / "RECORD" if tree.dist_info is not None else None
    if record is None or not record.is_file():
        return
    rows = recorded(record)
    for name, digest in sorted(rows.items()):
        if digest and not name.startswith(("/", "..")):
            blob = read_file(tree.root / name)
            if blob is None:
                yield Difference(name, "missing")
            elif blob.mode != SYMLINK and not _has_digest(blob.data, digest):
                yield Difference(name, "changed")
    lying = {tree.name(path) for path in package_files(tree, tree.upstream)}
    extra = sorted(name for name in lying - rows.keys() if not name.endswith(".pyc"))
    if extra:  # of a namespace package, other distributions have files in the same folder
        others = {
            name for other in tree.root.glob("*.dist-info/RECORD") for name in recorded(other)
        }
        yield from (Difference(name, "extra") for name in extra if name not in others)


def _has_digest(data: bytes, recorded: str) -> bool:
    algorithm, _, value = recorded.partition("=")
    if algorithm not in hashlib.algorithms_guaranteed or algorithm.startswith("shake"):
        return True
    made = base64.urlsafe_b64encode(hashlib.new(algorithm, data).digest())
    return made.rstrip(b"=").decode() == value.rstrip("=")


def _beyond_git(
    catalog: Catalog, match: Identity, tree: Tree, touched: Collection[str]
) -> Iterator[Difference]:
    """Yield each file that git has otherwise: in the revision if it is there, else in HEAD."""
    around = (folder for folder in (tree.root, *tree.root.parents) if (folder / ".git").exists())
    git_root = next(around, None)
    if git_root is None:
        return
    from pkgtools.source.git import Repository  # noqa: PLC0415 - GitPython is slow to import

    repository = Repository(git_root)
    revision = next(r for r in catalog.target(match.target).revisions if r.name == match.revision)
    inside = tree.root.relative_to(repository.root)
    folder = (inside / tree.upstream.prefix / tree.package_file).as_posix()
    wanted = revision.commit or (f"refs/tags/{revision.tag}" if revision.tag else "HEAD")
    base = repository.find(wanted) or repository.find("HEAD")
    if base is None:
        return
    for path, what in repository.differences(base.commit, folder):
        name = Path(path).relative_to(inside).as_posix()
        if name not in touched:
            yield Difference(name, what)
