"""Writing patches: git's own diff between two sets of files, behind the old mail headers."""

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final

from pkgtools.blob import Blob
from pkgtools.errors import CheckFailedError
from pkgtools.patch import Patch
from pkgtools.util.files import put_blob

# The header of a created or deleted file has one of the two folders twice.
_ONE_SIDED: Final = re.compile(rb'^diff --git ("?)([ab])/(.*)\1 \1\2/\3\1$', re.MULTILINE)
# git treats the folders as a part of these names, not as a prefix.
_RENAME: Final = re.compile(rb'^(rename (?:from|to) )("?)[ab]/', re.MULTILINE)
_FULL_ID: Final = re.compile(rb"^index [0-9a-f]{40}\.\.", re.MULTILINE)
_STAT: Final = re.compile(rb"\n---\n(?: [^\n]*\n)+?(?: \d+ files? changed[^\n]*\n)(?: [^\n]*\n)*")
_SECONDS: Final = 60


@dataclass(frozen=True)
class FileChange:
    """The change of one file by one patch."""

    old_path: str
    path: str
    """Differs from `old_path` where the patch renames the file."""
    before: Blob | None
    after: Blob | None


def diff_text(
    changes: Iterable[FileChange], *, full_index: bool = True, find_renames: bool = False
) -> bytes:
    """Return git's diff of some files, as ``git diff`` prints it in a repository.

    A change from one path to another is a rename. With `find_renames`, so are a file that goes and
    one like it that comes. With `full_index`, blob ids have all their digits.
    """
    with tempfile.TemporaryDirectory(prefix="pkgtools-") as scratch:
        root = Path(scratch)
        for side in ("a", "b"):
            (root / side).mkdir()
        renames = find_renames
        for change in changes:
            if change.before is not None:
                put_blob(root / "a" / change.old_path, change.before)
            if change.after is not None:
                put_blob(root / "b" / change.path, change.after)
            renames = renames or change.old_path != change.path
        command = ["diff", "--no-index", "--no-prefix", "--no-ext-diff", "--binary", "--no-color"]
        command += ["--full-index"] if full_index else []
        command += ["-M"] if renames else ["--no-renames"]
        text = git([*command, "a", "b"], cwd=root, good=(0, 1))
    text = _RENAME.sub(rb"\1\2", text)
    return _ONE_SIDED.sub(rb"diff --git \1a/\3\1 \1b/\3\1", text)


def patch_text(patch: Patch, changes: Iterable[FileChange]) -> bytes:
    """Return a patch file with the headers and the message of `patch` and these changes."""
    return with_headers(patch, diff_text(changes, full_index=patch_index(patch)))


def patch_index(patch: Patch) -> bool:
    """Whether the blob ids of a patch have all their digits."""
    return _FULL_ID.search(patch.text) is not None


def with_headers(patch: Patch, diff: bytes) -> bytes:
    """Return a patch file with the headers and the message of `patch` and another diff."""
    head, tail = text_around(patch)
    if _STAT.search(head):
        with tempfile.TemporaryDirectory(prefix="pkgtools-") as scratch:
            stat = git(["apply", "--stat", "--summary"], cwd=Path(scratch), given=diff)
        head = _STAT.sub(lambda _: b"\n---\n" + stat, head)
    return head + diff + tail


def text_around(patch: Patch) -> tuple[bytes, bytes]:
    """Return the text before and behind a patch's sections.

    Lines end at LF alone: a message may hold carriage returns. They stay also where the whole
    file was converted to CRLF.
    """
    was_converted = patch.data.replace(b"\r\n", b"\n") == patch.text
    lines = list(BytesIO(patch.data if was_converted else patch.text))
    head, tail = lines[: patch.files[0].line - 1], lines[patch.files[-1].end - 1 :]
    return b"".join(head), b"".join(tail)


def git(
    arguments: list[str], *, cwd: Path, given: bytes = b"", good: tuple[int, ...] = (0,)
) -> bytes:
    """Run git without anyone's configuration, attributes or repository, and return its output.

    In a folder of a repository git would read that one's configuration, and ``git apply``
    passes over every file that is not below the folder.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env = {**kept, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C"}
    env |= {"GIT_CEILING_DIRECTORIES": str(cwd.parent), "GIT_ATTR_NOSYSTEM": "1"}
    # The user's attributes file is read even where the configuration is not (gitattributes(5)).
    settings = ["core.quotePath=true", "core.safecrlf=false", f"core.attributesFile={os.devnull}"]
    # A repository's own configuration can name programs to run.
    settings += ["core.fsmonitor=false", f"core.hooksPath={os.devnull}", "log.showSignature=false"]
    options = [word for setting in settings for word in ("-c", setting)]
    try:
        done = subprocess.run(
            ["git", *options, *arguments],
            cwd=cwd,
            env=env,
            input=given,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise CheckFailedError(
            f"git cannot be run: {error}", remedy="install git: patches are written with it"
        ) from None
    if done.returncode not in good:
        reason = done.stderr.decode(errors="replace").strip().splitlines()
        raise CheckFailedError(
            f"git failed in {cwd}: {reason[-1] if reason else ''}",
            remedy=f"see what git says there: {shlex.join(['git', *arguments])}",
        )
    return done.stdout
