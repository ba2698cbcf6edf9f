"""Which release a source says that it is.

Files decide what a tree is: a label can be wrong, and a fork's builds share one version. What a
source says of itself tells apart the releases whose touched files are the same.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from packaging.version import InvalidVersion, Version

from pkgtools.errors import SourceUnavailableError, UsageError
from pkgtools.source import Source, Tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pkgtools.catalog import Catalog
    from pkgtools.source.git import GitSource
    from pkgtools.tree.state import Identity

_COMMIT: Final = re.compile("[0-9a-f]{40}")
_FILES: Final = ("_version.py", "version.py", "__init__.py")
_VERSION: Final = re.compile(
    rb"""^(?:__version__|Version)\s*[:=].*?["' ](\d[^"'\s]*)""", re.MULTILINE
)


def is_release(version: str | None, release: str | None) -> bool | None:
    """Whether a package's version is that of a release; None where it says nothing.

    A build between releases, or one whose tool knew no version (0.0.0), says nothing. A patched
    wheel adds a local part (PEP 440) to the release's version.
    """
    if version is None or release is None or _COMMIT.fullmatch(release):
        return None
    try:
        found, wanted = Version(version), Version(release)
    except InvalidVersion:  # of before PEP 440
        return None
    if found.is_devrelease or not any(found.release):
        return None
    return Version(found.public) == Version(wanted.public)  # 1.1 is 1.1.0


def other_version(revisions: Iterable[str], source: Source) -> str | None:
    """Return a package's version, if that is of another release than all of some revisions."""
    version = getattr(source, "version", None)
    told = {is_release(version, revision) for revision in revisions}
    return version if told == {False} else None


def checkout_of(source: Source) -> Tree | None:
    """Return the checkout that a source is, or is a view of."""
    tree = source if isinstance(source, Tree) else getattr(source, "tree", None)
    return tree if tree is not None and tree.is_checkout else None


def said(catalog: Catalog, matches: Sequence[Identity], source: Source) -> list[Identity]:
    """Return those of several matches that a source says it is, or all if it says nothing."""
    if len(matches) > 1 and (tree := checkout_of(source)) is not None:
        base = base_commit(catalog, tree)
        version = None if base is not None else _written_version(tree)
        judged = [_judged(catalog, match, base, version) for match in matches]
        # A commit between releases is none of them.
        matches = judged if any(match.by_version for match in judged) else matches
    if any(match.by_version for match in matches):
        matches = [match for match in matches if match.by_version is not False]
    return list(matches)


def _judged(
    catalog: Catalog, match: Identity, base: GitSource | None, version: str | None
) -> Identity:
    revisions = catalog.target(match.target).revisions
    revision = next(each for each in revisions if each.name == match.revision)
    told = is_release(version, revision.version)
    if base is not None and revision.commit is not None:
        told = revision.commit == base.commit
    elif base is not None and revision.tag is not None:
        told = base.has_tag(revision.tag)
    return replace(match, by_version=told)


def base_commit(catalog: Catalog, tree: Tree) -> GitSource | None:
    """Return the commit of the upstream that a git checkout is of, below a fork's own commits."""
    if tree.git_root != tree.root:  # the history of a folder around it is its user's own
        return None
    revisions = [r for t in catalog.targets if t.upstream == tree.upstream for r in t.revisions]
    tags = {each.tag: each.version or "" for each in revisions if each.tag}
    prefixes = {"v", *(tag.removesuffix(version) for tag, version in tags.items())}

    def is_release_tag(name: str) -> bool:
        found = (name.removeprefix(prefix) for prefix in prefixes)
        return name in tags or any(_is_public(each) for each in found)

    commits = [each.commit for each in revisions if each.commit]
    try:
        from pkgtools.source.git import Repository  # noqa: PLC0415 - GitPython is slow to import

        return Repository(tree.root).upstream_commit(tree.upstream.git, commits, is_release_tag)
    except (SourceUnavailableError, UsageError):
        return None


def _is_public(version: str) -> bool:
    try:
        return version[:1].isdigit() and Version(version).local is None
    except InvalidVersion:
        return False


def _written_version(tree: Tree) -> str | None:
    """Return the version that an unpacked archive has in a file, where one does."""
    folder = tree.package_path
    for path in ("PKG-INFO", *(f"{folder}/{name}" for name in _FILES)):
        blob = tree.read(path)
        if blob is not None and (found := _VERSION.search(blob.data)):
            return found[1].decode(errors="replace")
    return None
