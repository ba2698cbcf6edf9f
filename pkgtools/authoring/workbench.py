"""The repository that ``pkgtools checkout`` makes of a series: what it holds and how it is read.

The base is one commit, tagged ``base``, and each patch is a commit on it::

    base   the files of the source, without the series
    0001   one commit for each patch, whose message ends with ``Patch-Filename: 0001-fix.patch``
    HEAD   the branch ``series``

The trailer is Electron's (script/lib/git.py): it survives a rebase, an amended message and a
reordered list, so that the commit still says which patch it is. ``.git/pkgtools.json`` says
which series it was, and the digest that this series had.
"""

import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from pkgtools.authoring.gitdiff import FileChange, git
from pkgtools.authoring.message import PatchAuthor, mail_date
from pkgtools.blob import Blob
from pkgtools.errors import MalformedError, UsageError
from pkgtools.util.files import read_bytes, replace_file

TRAILER: Final = "Patch-Filename"
BRANCH: Final = "series"
BASE: Final = "base"
_STATE: Final = ".git/pkgtools.json"
_NOBODY: Final = "pkgtools <pkgtools@localhost> 0 +0000"
# The user's settings must not change what is checked out or committed: no line end is converted,
# no filter, hook or signature runs, and no ignore list hides a file.
_CONFIG: Final = {
    "core.autocrlf": "false",
    "core.eol": "lf",
    "core.fileMode": "true",
    "core.hooksPath": ".git/no-hooks",
    "core.excludesFile": os.devnull,
    "core.attributesFile": os.devnull,
    "commit.gpgSign": "false",
}
_ATTRIBUTES: Final = "* -text -eol -ident -filter -working-tree-encoding !diff !merge\n"
_EXCLUDED: Final = "__pycache__/\n*.py[cod]\n*.orig\n*.rej\n*~\n.*.sw?\n"
_UNFINISHED: Final = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
}
"""What git keeps below .git while such a command waits for its user."""
_Name = Annotated[str, msgspec.Meta(pattern=r"^[^\0]+\Z")]
_Commit = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{40}\Z")]


class BenchState(msgspec.Struct, forbid_unknown_fields=True):
    """Where a workbench came from."""

    version: Literal[1]
    catalog: _Name
    series: _Name
    digests: list[str]
    """Of the series as it is in the workbench; during a commit, as it was and as it will be."""
    base: _Commit
    from_wheel: bool
    names: dict[str, str]
    """The patches of commits without a trailer, by commit."""


@dataclass(frozen=True)
class NewCommit:
    """A commit to make."""

    message: str
    author: PatchAuthor | None
    files: Mapping[str, Blob | None]
    """What changes; None removes a file."""


@dataclass(frozen=True)
class MadeCommit:
    """A commit that is there."""

    id: str
    message: str
    author: str
    """Name and address, as the commit has them."""
    date: str
    changes: Mapping[str, tuple[Blob | None, Blob | None]]
    """Each changed path, before and after."""

    @property
    def file_changes(self) -> list[FileChange]:
        """The changes, for a diff or a `PatchedSource`."""
        return [FileChange(path, path, *sides) for path, sides in self.changes.items()]

    @property
    def mail_date(self) -> str:
        """The date as a mail has it."""
        return mail_date(self.date)

    @property
    def subject(self) -> str:
        """The first paragraph of the message."""
        return " ".join(self.message.strip().partition("\n\n")[0].split())


def make_repository(folder: Path, commits: Sequence[NewCommit]) -> list[str]:
    """Make a repository of commits in an empty folder, the first one the base; return their ids."""
    git(["init", "--quiet", "--template=", f"--initial-branch={BRANCH}"], cwd=folder)
    for name, value in _CONFIG.items():
        git(["config", name, value], cwd=folder)
    info = folder / ".git" / "info"
    info.mkdir()
    (info / "attributes").write_text(_ATTRIBUTES)
    (info / "exclude").write_text(_EXCLUDED)
    # fast-import takes contents byte by byte: `git add` would ask attributes and filters.
    stream = b"".join(_stream(commits))
    # Deltas and zlib's default level take four times as long, and save 15 % of the space.
    fast = ["-c", "pack.compression=1", "fast-import", "--depth=0"]
    git([*fast, "--quiet", "--date-format=raw"], cwd=folder, given=stream)
    ids = git(["rev-list", "--reverse", BRANCH], cwd=folder).decode().split()
    git(["tag", BASE, ids[0]], cwd=folder)
    git(["reset", "--quiet", "--hard"], cwd=folder)
    return ids


def _stream(commits: Iterable[NewCommit]) -> Iterator[bytes]:
    for commit in commits:
        yield f"commit refs/heads/{BRANCH}\n".encode()
        if commit.author is not None:
            yield f"author {commit.author.mailbox} {commit.author.date}\n".encode()
        yield f"committer {_NOBODY}\n".encode() + _data(commit.message.encode())
        for path, blob in commit.files.items():
            name = _quoted(path)
            if blob is None:
                yield b"D " + name + b"\n"
            else:
                yield f"M {blob.mode:o} inline ".encode() + name + b"\n" + _data(blob.data)


def _data(data: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(data), data)


def _quoted(path: str) -> bytes:
    raw = os.fsencode(path)
    if not raw.startswith(b'"') and b"\n" not in raw:
        return raw
    inner = raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + inner + b'"'


def write_state(folder: Path, state: BenchState) -> None:
    """Keep what a workbench is for."""
    replace_file(folder / _STATE, msgspec.json.format(msgspec.json.encode(state), indent=1))


def read_state(folder: Path) -> BenchState:
    """Return what a workbench is for."""
    path = folder / _STATE
    if not path.is_file():
        raise UsageError(
            f"{folder} is not a folder that `pkgtools checkout` made",
            remedy="make one: pkgtools checkout DIR --series SERIES",
        )
    try:
        return msgspec.json.decode(read_bytes(path), type=BenchState)
    except (OSError, msgspec.DecodeError) as error:
        raise MalformedError(
            f"{path} is damaged: {error}", remedy="check the series out again, to another folder"
        ) from None


class Workbench:
    """A repository that `make_repository` made, as its user left it: no edit or rebase is open.

    It is the source of its base.
    """

    upstream = None

    def __init__(self, folder: Path, base: str) -> None:
        self.folder = folder
        self.base = base
        for name, what in _UNFINISHED.items():
            if (folder / ".git" / name).exists():
                raise UsageError(
                    f"{folder}: a {what} is not finished",
                    remedy=f"finish it there (git -C {folder} status says how), then commit again",
                )
        if not read_bytes(folder / ".git/HEAD").startswith(b"ref: "):
            raise UsageError(
                f"{folder}: HEAD is detached, so it may lack commits of the series",
                remedy=f"go back: git -C {folder} switch {BRANCH}; or keep what is checked out: "
                f"git -C {folder} switch -c NAME",
            )
        dirty = self._git("status", "--porcelain", "--no-renames", "-z").split(b"\0")
        if names := [os.fsdecode(line[3:]) for line in dirty if line]:
            raise UsageError(
                f"{folder} has edits that no commit has: {', '.join(names)}",
                remedy=f"commit them there: `git -C {folder} add --all`, then `git -C {folder} "
                f"commit --amend` for the last patch, or `git -C {folder} commit` for a new one",
            )
        from pkgtools.source.git import Repository  # noqa: PLC0415 - slow to import

        self._repository = Repository(folder)
        self._read_base = functools.cache(self._repository.get(base).read)

    def commits(self) -> list[MadeCommit]:
        """Return the commits on the base, in order; they have to be one line."""
        listed = self._git("rev-list", "--reverse", "--parents", f"{self.base}..HEAD").decode()
        found = []
        parent = self.base
        for line in listed.splitlines():
            commit, *parents = line.split()
            if parents != [parent]:
                raise UsageError(
                    f"{self.folder}: {commit[:12]} does not follow {parent[:12]}: the commits are "
                    "not one line on the base",
                    remedy=f"make one of it: git -C {self.folder} rebase {self.base[:12]}",
                )
            found.append(self._commit(commit, parent))
            parent = commit
        if not found and self._git("rev-parse", "HEAD").decode().strip() != self.base:
            raise UsageError(
                f"{self.folder}: HEAD does not descend from the base {self.base[:12]}",
                remedy=f"go back: git -C {self.folder} reset --hard {BRANCH}@{{1}}",
            )
        return found

    @property
    def label(self) -> str:
        """What to call its base in errors."""
        return f"the base of {self.folder}"

    def read(self, path: str) -> Blob | None:
        """Return a file of the base."""
        return self._read_base(path)

    def _commit(self, commit: str, parent: str) -> MadeCommit:
        form = "%an <%ae>%x00%ad%x00%B"
        raw = self._git("show", "-s", "--encoding=UTF-8", "--date=raw", f"--format={form}", commit)
        author, date, message = raw.decode(errors="replace").split("\0", 2)
        return MadeCommit(
            commit, message.strip() + "\n", author, date, self._changes(commit, parent)
        )

    def _changes(self, commit: str, parent: str) -> dict[str, tuple[Blob | None, Blob | None]]:
        options = ["-r", "-z", "--name-status", "--no-renames"]
        words = self._git("diff-tree", *options, parent, commit).split(b"\0")
        old, new = self._repository.get(parent), self._repository.get(commit)
        found = {}
        for status, path in zip(words[::2], map(os.fsdecode, words[1::2]), strict=False):
            # A file that comes or goes can have a folder of its name on the other side.
            before = None if status == b"A" else old.read(path)
            after = None if status == b"D" else new.read(path)
            if any(blob and blob.is_directory for blob in (before, after)):
                raise UsageError(
                    f"{self.folder}: {commit[:12]} changes the submodule {path}, which no patch "
                    "can hold",
                    remedy="take it out of the commit",
                )
            found[path] = before, after
        return found

    def _git(self, *arguments: str, given: bytes = b"") -> bytes:
        return git(["--no-replace-objects", *arguments], cwd=self.folder, given=given)
