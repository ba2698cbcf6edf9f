"""The whole package: what RECORD, or git, lists, and what lies there."""

import base64
import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from pkgtools.blob import LIMIT, SYMLINK
from pkgtools.catalog import Catalog
from pkgtools.errors import CheckFailedError
from pkgtools.source import Source, Tree, WheelSource
from pkgtools.source.listing import package_files
from pkgtools.source.record import recorded, recorded_in
from pkgtools.tree.state import Identity
from pkgtools.util.files import read_file


@dataclass(frozen=True)
class Difference:
    """A file of the package that is not as it was installed or committed."""

    path: str
    what: str
    """``missing``, ``changed`` or ``extra``."""


@dataclass(frozen=True)
class Differences:
    """The details of a package that is not whole."""

    differences: tuple[Difference, ...]


def hold_whole(catalog: Catalog, match: Identity, source: Source, touched: Collection[str]) -> None:
    """Hold a package or a wheel against RECORD, a checkout or a commit against git.

    RECORD has the paths that series changed (`touched`); git does not.

    Raises:
        CheckFailedError: files beyond the series are missing, changed or extra.
    """
    if isinstance(source, WheelSource):
        found, was = _beyond_wheel(source), "packed"
        remedy = "fetch or build the wheel again"
    elif not isinstance(source, Tree):
        found, was = _beyond_base(catalog, match, source, touched), "released"
        remedy = "compare it with the release"
    elif source.is_checkout:
        found, was = _beyond_git(catalog, match, source, touched), "committed"
        remedy = "check the files out again (git restore, git clean)"
    else:
        found, was = _beyond_record(source), "installed"
        remedy = "reinstall the package and apply again"
    differences = tuple(found)
    if differences:
        if all(each.what == "extra" for each in differences):
            remedy = "remove the extra files"
        told = ", ".join(f"{each.path} ({each.what})" for each in differences)
        raise CheckFailedError(
            f"{source.label} has the series of {match.target}, but other files differ from what "
            f"was {was}: {told}",
            remedy=f"{remedy}, or verify the files of the series alone with --series-only",
            details=Differences(differences),
        )


def _beyond_wheel(wheel: WheelSource) -> Iterator[Difference]:
    """Yield each member that the wheel's RECORD does not have as it is.

    A wheel's RECORD lists every member but its own signatures
    (https://packaging.python.org/en/latest/specifications/binary-distribution-format/).
    """
    name = f"{wheel.info}/RECORD"
    rows = recorded_in(wheel.read_member(name), f"{wheel.label}: {name}")
    members = {info.filename: info for info in wheel.members() if not info.is_dir()}
    for path, digest in sorted(rows.items()):
        if path not in members:
            yield Difference(path, "missing")
        elif digest and members[path].file_size <= LIMIT:
            data = wheel.read_member(path)
            if not _has_digest(data, digest):
                yield Difference(path, "changed")
    # PEP 427: RECORD cannot list its own signatures.
    signed = {f"{name}.jws", f"{name}.p7s"}
    yield from (Difference(path, "extra") for path in sorted(members.keys() - rows.keys() - signed))


def _beyond_base(
    catalog: Catalog, match: Identity, source: Source, touched: Collection[str]
) -> Iterator[Difference]:
    """Yield each file of a commit that the target's revision has otherwise, if that is there."""
    from pkgtools.source.git import GitSource, Repository  # noqa: PLC0415 - GitPython is slow

    if not isinstance(source, GitSource):
        return
    target, wanted = catalog.target(match.target), _wanted(catalog, match)
    base = Repository(source.repository).find(wanted) if wanted else None
    if base is None:
        return
    folder = f"{target.upstream.prefix}{target.upstream.package}"
    before, after = base.paths(folder), source.paths(folder)
    for path in sorted({*before, *after} - set(touched)):
        if before.get(path) != after.get(path):
            what = "missing" if path not in after else "changed" if path in before else "extra"
            yield Difference(path, what)


def _wanted(catalog: Catalog, match: Identity) -> str | None:
    """Return what git calls the revision of a match, or None for a release without a tag."""
    revisions = catalog.target(match.target).revisions
    revision = next(r for r in revisions if r.name == match.revision)
    return revision.commit or (f"refs/tags/{revision.tag}" if revision.tag else None)


def _beyond_record(tree: Tree) -> Iterator[Difference]:
    """Yield each file that RECORD does not have as it is.

    Rows outside the folder (scripts) are the environment's, those without a hash are of
    files that change: RECORD itself, bytecode (PEP 376).
    """
    if tree.record is None:
        return
    rows = recorded(tree.record)
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
        lists = tree.root.glob("*.dist-info/RECORD")
        others = {name for other in lists for name in recorded(other)}
        yield from (Difference(name, "extra") for name in extra if name not in others)


def _has_digest(data: bytes, recorded: str) -> bool:
    algorithm, _, value = recorded.partition("=")
    # shake has no fixed length; an algorithm of another Python cannot be checked.
    if algorithm not in hashlib.algorithms_guaranteed or algorithm.startswith("shake"):
        return True
    made = base64.urlsafe_b64encode(hashlib.new(algorithm, data).digest())
    # PEP 376 had padding, PEP 427 has none.
    return made.rstrip(b"=").decode() == value.rstrip("=")


def _beyond_git(
    catalog: Catalog, match: Identity, tree: Tree, touched: Collection[str]
) -> Iterator[Difference]:
    """Yield each file that git has otherwise: in the revision if it is there, else in HEAD."""
    if tree.git_root is None:
        return
    from pkgtools.source.git import Repository  # noqa: PLC0415 - GitPython is slow to import

    repository = Repository(tree.git_root)
    inside = tree.root.relative_to(repository.root)
    folder = (inside / tree.package_path).as_posix()
    base = repository.find(_wanted(catalog, match) or "HEAD") or repository.find("HEAD")
    if base is None:
        return
    for path, what in repository.differences(base.commit, folder):
        name = Path(path).relative_to(inside).as_posix()
        if name not in touched:
            yield Difference(name, what)
