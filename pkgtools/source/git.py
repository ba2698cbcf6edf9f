"""A revision inside a git object database, read without a worktree.

The only module that knows GitPython, which takes a while to import: nothing
imports this before there is a repository to read.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from pkgtools.blob import DIRECTORY, Blob
from pkgtools.errors import SourceUnavailableError, UsageError
from pkgtools.util.files import read_text

try:
    import git
    from git.exc import BadName, GitError, InvalidGitRepositoryError, NoSuchPathError
    from git.index.fun import read_cache
except ImportError as error:  # GitPython asks for the git command when imported
    raise SourceUnavailableError(
        f"git cannot be used: {str(error).strip().splitlines()[0]}",
        remedy="install git, or use --tree or --wheel, which do not need it",
    ) from None


def tracked_paths(index: bytes) -> list[str]:
    """Return the paths that a git index file lists.

    Raises:
        ValueError: it cannot be read, or is of version 4.
    """
    try:
        _, entries, _, _ = read_cache(io.BytesIO(index))
    except (AssertionError, IndexError, OverflowError, struct.error, GitError) as error:
        raise ValueError(f"not a git index: {error}") from None
    return [str(path) for path, _ in entries]


class Repository:
    """A git directory or a checkout, as a place to find revisions in."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _without_git_variables():
            try:
                self._repo = git.Repo(path)
            except (InvalidGitRepositoryError, NoSuchPathError):
                raise UsageError(
                    f"{path} is not a git repository",
                    remedy="give a clone or a git directory with --git",
                ) from None
        # GitPython takes a bare directory without a config file for a work tree's; a
        # partial clone must not fetch; and a replaced object is not the revision
        # (https://git-scm.com/docs/git#_environment_variables).
        self._repo.git.update_environment(
            GIT_DIR=str(self._repo.git_dir),
            GIT_NO_LAZY_FETCH="1",
            GIT_NO_REPLACE_OBJECTS="1",
            GIT_OPTIONAL_LOCKS="0",
        )

    def find(self, revision: str) -> GitSource | None:
        """Return the source at `revision` (anything ``git rev-parse`` takes), or None."""
        with self._asked():
            try:
                return GitSource(self.path, self._repo.commit(revision))
            except (BadName, ValueError, IndexError, OSError):
                return None

    def between(self, start: str, end: str, paths: Sequence[str]) -> list[GitSource]:
        """Return the commits after `start` and before `end`, by first parents, that touch `paths`.

        Oldest first; newest first where `end` is the older one. Nothing where neither
        is in the other's first-parent history: then no way leads along it.
        """
        with self._asked():
            for first, last, step in ((start, end, -1), (end, start, 1)):
                if first in self._repo.git.rev_list("--first-parent", last).splitlines():
                    along = [*paths, *self._renamed(start, end, paths)]
                    span = ("--first-parent", f"{first}..{last}", "--", *along)
                    touching = self._repo.git.rev_list(*span).splitlines()
                    return [self.get(commit) for commit in touching[::step] if commit != last]
        return []

    def _renamed(self, start: str, end: str, paths: Sequence[str]) -> list[str]:
        """Return what `paths` are called at `end` where git sees a rename."""
        options = ("--name-status", "-M", "--diff-filter=R", "-z")
        words = _words(self._repo.git.diff(*options, start, end))
        return [new for old, new in zip(words[1::3], words[2::3], strict=True) if old in paths]

    def get(self, revision: str) -> GitSource:
        """`find`, or raise a `UsageError`."""
        source = self.find(revision)
        if source is None:
            raise UsageError(
                f"{self.path} has no revision {revision!r}",
                remedy="fetch it first, or give another repository with --git",
            )
        return source

    @property
    def root(self) -> Path:
        """The folder that its paths start from: the work tree, or the git directory."""
        return Path(self._repo.working_tree_dir or self._repo.git_dir).resolve()

    def differences(self, commit: str, folder: str) -> list[tuple[str, str]]:
        """Return how the work tree differs from a commit in a folder, ignored files apart.

        Each path comes with ``missing``, ``changed`` or ``extra``.
        """
        kinds = {"D": "missing", "A": "extra"}
        with self._asked():
            found = dict.fromkeys(self._untracked(folder), "extra")
            # The user's configuration must not change the output (diff.renames, diff.external).
            options = ("--name-status", "--no-renames", "--no-ext-diff", "-z")
            words = _words(self._repo.git.diff(*options, commit, "--", folder))
        for kind, path in zip(words[::2], words[1::2], strict=True):
            found[path] = kinds.get(kind, "changed")
        return sorted(found.items())

    def work_files(self, folder: str) -> tuple[set[str], set[str]]:
        """Return the files below a folder that HEAD or the index has, and the others.

        Ignored files are in neither.
        """
        with self._asked():
            tracked = _words(self._repo.git.ls_files("--cached", "-z", "--", folder))
            others = self._untracked(folder)
            head = self.find("HEAD") if self._repo.head.is_valid() else None
        return {*tracked, *(head.paths(folder) if head is not None else ())}, set(others)

    def _untracked(self, folder: str) -> list[str]:
        options = ("--others", "--exclude-standard", "-z")
        return _words(self._repo.git.ls_files(*options, "--", folder))

    def upstream_commit(
        self, url: str | None, known: Sequence[str], is_release: Callable[[str], bool]
    ) -> GitSource | None:
        """Return the upstream's commit that HEAD's own commits lie on.

        The upstream's are the `known` commits and what they descend from, the release tags, and
        the branches of remotes of its `url`. Of another remote the branches can be a fork's own,
        so they tell nothing. None where git tells nothing, or cannot read a commit.
        """
        with _without_git_variables():
            git = self._repo.git
            urls = git.config("--get-regexp", r"^remote\..*\.url$", with_exceptions=False)
            remotes = [line.split(" ", 1) for line in urls.splitlines()]
            theirs = [key[7:-4] for key, place in remotes if _is_same(place, url)]
            known = [*known, *self._release_tag(is_release)]
            if theirs or not remotes:  # else a fork's commit can be the fetched one
                known = [*known, *self._shallow()]
            if not theirs and not known:
                return None
            branches = (f"--remotes={name}" for name in theirs)
            options = ("--boundary", "--ignore-missing", "HEAD", "--not")
            try:
                own = git.rev_list(*options, *branches, *known).splitlines()
            except GitError:
                return None
        below = [line[1:] for line in own if line.startswith("-")]
        return self.get(below[0] if own else "HEAD") if below or not own else None

    def _release_tag(self, is_release: Callable[[str], bool]) -> Iterator[str]:
        """Yield the nearest release tag that HEAD descends from.

        `git describe` walks from HEAD, and does not read each of thousands of tags.
        """
        others: list[str] = []
        describe = partial(self._repo.git.describe, "--tags", "--abbrev=0", with_exceptions=False)
        while tag := describe(*others, "HEAD"):
            if is_release(tag):
                yield f"refs/tags/{tag}"
                return
            other = f"--exclude={tag.rstrip('0123456789')}*"
            if other in others:  # a renamed tag, for which git says the name in its object
                return
            others.append(other)

    def _shallow(self) -> list[str]:
        """Return the commits that were fetched without their parents."""
        path = Path(self._repo.common_dir, "shallow")
        return read_text(path).split() if path.is_file() else []

    def last_tag(self) -> str | None:
        """Return the nearest tag that HEAD descends from, or None.

        Raises:
            SourceUnavailableError: the history was cut off, so that a tag could be behind it.
            UsageError: git fails.
        """
        with self._asked():
            if self._repo.git.rev_parse("--is-shallow-repository") == "true":
                raise SourceUnavailableError(
                    f"{self.path} is a shallow clone: its last tag may be cut off",
                    remedy="fetch the history: git fetch --unshallow --tags",
                )
            # `git describe` fails without a commit, and without a tag that HEAD descends from.
            born = self._repo.head.is_valid()
            if not born or not self._repo.git.tag("--merged", "HEAD"):
                return None
            return str(self._repo.git.describe("--tags", "--abbrev=0", "HEAD"))

    @contextlib.contextmanager
    def _asked(self) -> Iterator[None]:
        """Ask git about this repository; its failure is a `UsageError` with what git says."""
        with _without_git_variables():
            try:
                yield
            except GitError as error:
                raise UsageError(f"{self.path}: git says: {_reason(error)}") from None


class GitSource:
    """One commit's tree."""

    upstream = None

    def __init__(self, repository: Path, commit: git.Commit) -> None:
        self.repository = repository
        self.commit = commit.hexsha
        self._commit = commit
        self._tree = commit.tree

    def __reduce__(self) -> tuple[Callable[[Path, str], GitSource], tuple[Path, str]]:
        """Let another process open the repository for itself."""
        return _opened, (self.repository, self.commit)

    @property
    def label(self) -> str:
        """The repository and the abbreviated commit."""
        return f"{self.repository}@{self.commit[:12]}"

    def has_tag(self, name: str) -> bool:
        """Whether a tag is of the commit."""
        with _without_git_variables():
            options = {"verify": True, "quiet": True, "with_exceptions": False}
            found = self._commit.repo.git.rev_parse(f"refs/tags/{name}^{{commit}}", **options)
        return str(found) == self.commit

    def paths(self, prefix: str) -> dict[str, str]:
        """Return the files below `prefix`, each with its mode, type and id."""
        with self._reading(prefix):
            listed = self._commit.repo.git.ls_tree("-r", "-z", self.commit, "--", prefix or ".")
        entries = (entry.partition("\t") for entry in _words(listed))
        return {path: facts for facts, _, path in entries}

    def read(self, path: str) -> Blob | None:
        """Return the content of `path`; git does not store empty folders."""
        with self._reading(path):
            try:
                item = self._tree.join(path)
            except KeyError:
                return None
            if item.type != "blob":
                return Blob(b"", DIRECTORY)
            return Blob(item.data_stream.read(), item.mode)

    @contextlib.contextmanager
    def _reading(self, path: str) -> Iterator[None]:
        with _without_git_variables():
            try:
                yield
            except (GitError, ValueError, OSError) as error:
                raise SourceUnavailableError(
                    f"{self.label}: {path} cannot be read: {_reason(error)}",
                    remedy="give a complete clone with --git",
                ) from None


def _words(listed: str) -> list[str]:
    """Return what git lists with ``-z``."""
    # -z: names are neither quoted nor separated by what they can contain.
    return [word for word in listed.split("\0") if word]


def _reason(error: Exception) -> str:
    return str(getattr(error, "stderr", "") or error).strip().splitlines()[-1]


@contextlib.contextmanager
def _without_git_variables() -> Iterator[None]:
    """Hide ``GIT_DIR`` and its like, which a hook sets and which would win over a path."""
    kept = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("GIT_")}
    try:
        yield
    finally:
        os.environ.update(kept)


def _opened(repository: Path, commit: str) -> GitSource:
    return Repository(repository).get(commit)


def _is_same(url: str, other: str | None) -> bool:
    """Whether two URLs are of one repository, by any protocol or through a mirror of the host."""
    names = (
        re.split("[/:@]", each.removesuffix("/").removesuffix(".git"))
        for each in (url, other or "")
    )
    owner, theirs = ([part.lower() for part in parts[-2:]] for parts in names)
    return owner == theirs
