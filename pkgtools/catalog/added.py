"""A folder of added files: source files that a series adds, kept once and read as a patch.

The folder has the real tree below it and a file ``MESSAGE`` with the commit message::

    spec-capture/MESSAGE
    spec-capture/python/sglang/srt/spec_capture/sink.py

It is rendered as the mail that ``git format-patch`` would write of a commit that creates
the files, and that mail is parsed like any patch file. So a plan, a lockfile, a port and
an image treat it as they treat every other patch. The same files give the same bytes.
"""

import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pkgtools.blob import EXECUTABLE, REGULAR, Blob, canonical_mode
from pkgtools.errors import MalformedError
from pkgtools.patch import Patch, parse_patch
from pkgtools.util.files import read_source, read_text

MESSAGE: Final = "MESSAGE"
_HEAD: Final = """\
From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: pkgtools <pkgtools@localhost>
Date: Thu, 1 Jan 1970 00:00:00 +0000
Subject: [PATCH] {message}
---

"""
_NO_ID: Final = "0" * 40
_CACHE: Final = "__pycache__"
_QUOTED: Final = frozenset('"\\')
"""git quotes these in a header, and control characters (core.quotePath)."""


def is_added_folder(path: Path) -> bool:
    """Whether `path` is a folder of added files."""
    return (path / MESSAGE).is_file()


@dataclass(frozen=True)
class AddedFiles:
    """A folder of added files."""

    folder: Path
    message: str
    files: Mapping[str, Blob]
    """By path in the source tree."""

    def patch(self) -> Patch:
        """Return a patch that creates each file."""
        if not self.files:
            raise MalformedError(
                f"{self.folder}: the folder adds no file",
                remedy="put files into it, at their paths in the source tree",
            )
        parts = [_HEAD.format(message=self.message).encode()]
        parts += [_section(self.folder, name, self.files[name]) for name in sorted(self.files)]
        patch = parse_patch(str(self.folder), b"".join(parts))
        return replace(patch, name=self.folder.name, path=self.folder)


def read_added(folder: Path) -> AddedFiles:
    """Read a folder of added files."""
    message = _message(folder)
    files = {path.relative_to(folder).as_posix(): path for path in _files(folder)}
    del files[MESSAGE]
    blobs = {
        name: Blob(read_source(path), canonical_mode(path.stat().st_mode))
        for name, path in files.items()
    }
    return AddedFiles(folder, message, blobs)


def _message(folder: Path) -> str:
    path = folder / MESSAGE
    try:
        text = read_text(path).strip()
    except FileNotFoundError:
        raise MalformedError(
            f"{path} is missing",
            remedy="write the commit message there: a subject, an empty line, why",
        ) from None
    subject, _, body = text.partition("\n")
    # git am ends a message at a line of three dashes (git-mailinfo).
    if not subject or body.startswith("\n") != bool(body) or "\n---" in text:
        raise MalformedError(
            f"{path}: a message has a subject, an empty line before its body, and no line "
            "that starts with ---",
            remedy="write it like the message of a commit",
        )
    return f"{text}\n"


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files to add; an installed catalog has bytecode beside them."""
    for path in sorted(folder.iterdir()):
        if path.name == _CACHE or path.suffix == ".pyc":
            continue
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            yield from _files(path)
        elif not stat.S_ISREG(mode):
            raise MalformedError(
                f"{path}: a folder of added files has regular files only",
                remedy="add it by a patch (`git format-patch`), or remove it",
            )
        else:
            yield path


def _section(folder: Path, name: str, blob: Blob) -> bytes:
    data = blob.data
    if not name.isprintable() or _QUOTED & set(name):
        raise MalformedError(
            f"{folder / name}: the name has characters that git quotes", remedy="rename the file"
        )
    if b"\0" in data or blob.mode not in (REGULAR, EXECUTABLE):
        raise MalformedError(
            f"{folder / name}: a folder of added files has text files only",
            remedy="add a binary file by a patch (`git format-patch --binary`)",
        )
    head = f"diff --git a/{name} b/{name}\nnew file mode {blob.mode:o}\n"
    head += f"index {_NO_ID}..{blob.id}\n"
    if not data:
        return head.encode()
    lines = data.split(b"\n")
    end = b"\n\\ No newline at end of file\n" if lines[-1] else b"\n"
    lines = lines if lines[-1] else lines[:-1]
    tab = "\t" if " " in name else ""  # as git: patch(1) would end the name at the space
    count = "1" if len(lines) == 1 else f"1,{len(lines)}"
    head += f"--- /dev/null\n+++ b/{name}{tab}\n@@ -0,0 +{count} @@\n"
    return head.encode() + b"\n".join(b"+" + line for line in lines) + end
