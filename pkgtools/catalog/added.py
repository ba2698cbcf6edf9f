"""A folder of added files: source files that a series adds, kept once and read as a patch.

The folder has the real tree below it and a file ``MESSAGE`` with the commit message::

    spec-capture/MESSAGE
    spec-capture/python/sglang/srt/spec_capture/sink.py

It is rendered as the mail that ``git format-patch`` would write of a commit that creates
the files, and that mail is parsed like any patch file. So a plan, a lockfile, a port and
an image treat it as they treat every other patch. The same files give the same bytes.
"""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Final

from pkgtools.blob import Blob, canonical_mode
from pkgtools.errors import MalformedError
from pkgtools.patch import Patch, parse_patch
from pkgtools.util.files import read_bytes, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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


def load_added(folder: Path) -> Patch:
    """Return a folder of added files as a patch that creates each of them.

    Raises:
        MalformedError: the folder has no message or no file, or something that is not a
            text file.

    """
    message = _message(folder)
    files = {path.relative_to(folder).as_posix(): path for path in _files(folder)}
    del files[MESSAGE]
    if not files:
        raise MalformedError(f"{folder}: the folder adds no file")
    parts = [_HEAD.format(message=message).encode()]
    parts += [_section(name, files[name]) for name in sorted(files)]
    patch = parse_patch(str(folder), b"".join(parts))
    if [file.new_path for file in patch.files] != sorted(files):
        raise MalformedError(
            f"{folder / MESSAGE}: the message has lines of a diff",
            remedy="indent them",
        )
    return Patch(folder.name, patch.data, patch.files)


def _message(folder: Path) -> str:
    path = folder / MESSAGE
    try:
        text = read_text(path).strip()
    except FileNotFoundError:
        raise MalformedError(
            f"{path} is missing",
            remedy="write the commit message there: a subject, an empty line, why",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise MalformedError(f"{path} cannot be read: {error}") from None
    subject, _, body = text.partition("\n")
    # git am ends a message at a line of three dashes (git-mailinfo).
    if not subject or body.startswith("\n") != bool(body) or "\n---" in text:
        raise MalformedError(
            f"{path}: a message has a subject, an empty line before its body, and no line "
            "that starts with ---"
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
            raise MalformedError(f"{path}: a folder of added files has regular files only")
        else:
            yield path


def _section(name: str, path: Path) -> bytes:
    try:
        data, mode = read_bytes(path), canonical_mode(path.stat().st_mode)
    except OSError as error:
        raise MalformedError(f"{path} cannot be read: {error.strerror}") from None
    if not name.isprintable() or _QUOTED & set(name):
        raise MalformedError(f"{path}: the name has characters that git quotes")
    if b"\0" in data:
        raise MalformedError(
            f"{path}: a folder of added files has text files only",
            remedy="add a binary file by a patch (`git format-patch --binary`)",
        )
    blob = Blob(data, mode)
    head = f"diff --git a/{name} b/{name}\nnew file mode {mode:o}\nindex {_NO_ID}..{blob.id}\n"
    if not data:
        return head.encode()
    lines = data.split(b"\n")
    end = b"\n\\ No newline at end of file\n" if lines[-1] else b"\n"
    lines = lines if lines[-1] else lines[:-1]
    tab = "\t" if " " in name else ""  # as git: patch(1) would end the name at the space
    count = "1" if len(lines) == 1 else f"1,{len(lines)}"
    head += f"--- /dev/null\n+++ b/{name}{tab}\n@@ -0,0 +{count} @@\n"
    return head.encode() + b"\n".join(b"+" + line for line in lines) + end
