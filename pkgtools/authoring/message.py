"""A patch's message and author, and the mail around it as ``git format-patch`` writes one."""

import contextlib
import email.utils
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pkgtools.authoring.gitdiff import git, text_around
from pkgtools.patch import Patch, header_length
from pkgtools.patch.headers import message_of

NOBODY: Final = "nobody <nobody@localhost>"
FROM_LINE: Final = b"From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n"
_EPOCH: Final = "Thu, 1 Jan 1970 00:00:00 +0000"
_END: Final = 253_402_300_800
"""The year 10000, in seconds: git's dates start in 1970, and Python's end before this one."""
_FARTHEST_ZONE: Final = 14 * 60
_MIME: Final = (
    "MIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n"
)
# git am ends a message at such a line (mailinfo.c, `patchbreak`).
_BREAK: Final = re.compile(r"^(?=---|diff -|Index: )", re.MULTILINE)
_UNFIT: Final = re.compile(r"[^A-Za-z0-9._]+")
_LENGTH: Final = 52
"""Of a name's subject, as git cuts it."""


@dataclass(frozen=True)
class PatchAuthor:
    """Who wrote a patch, and when."""

    name: str
    address: str
    date: str
    """Seconds since the epoch and the time zone, as git writes them in a commit."""

    @property
    def mailbox(self) -> str:
        """Return the value of a ``From:`` header."""
        return f"{self.name} <{self.address}>"


def mail_head(author: str, message: str, date: str = _EPOCH) -> bytes:
    """Return the part of a mail before the diff; a message has an empty line below its subject."""
    subject, _, body = message.partition("\n\n")
    head = f"From: {author}\nDate: {date}\nSubject: [PATCH] {' '.join(subject.split())}\n"
    mime = "" if (author + message).isascii() else _MIME
    body = f"{_BREAK.sub(' ', body.strip())}\n" if body.strip() else ""
    return FROM_LINE + f"{head}{mime}\n{body}---\n\n".encode()


def full_message(patch: Patch, body: str | None = None) -> str:
    """Return the subject and the body of a patch."""
    body = message_of(patch) if body is None else body
    return "\n\n".join(filter(None, (patch.subject, body))) + "\n"


def mail_date(date: str) -> str:
    """Return git's seconds and time zone as the value of a ``Date:`` header."""
    seconds, _, zone = date.partition(" ")
    offset = int(f"{zone[0]}1") * (int(zone[1:3]) * 3600 + int(zone[3:]) * 60)
    parts = email.utils.formatdate(int(seconds) + offset).rsplit(" ", 1)
    return f"{parts[0]} {zone}"


def author_of(patch: Patch) -> PatchAuthor:
    """Return the author of a patch as ``git am`` reads it; nobody if it names none."""
    head, _ = text_around(patch) if header_length(patch.text) else (b"", b"")
    command = ["mailinfo", os.devnull, os.devnull]
    # It exits with 1 where it cannot decode something, and prints the rest.
    said = git(command, cwd=Path(tempfile.gettempdir()), given=head, good=(0, 1))
    facts = dict(line.partition(": ")[::2] for line in said.decode(errors="replace").split("\n"))
    seconds = minutes = 0
    if date := email.utils.parsedate_tz(facts.get("Date", "")):
        minutes = (date[9] or 0) // 60
        with contextlib.suppress(ValueError, OverflowError):  # no such day
            seconds = email.utils.mktime_tz(date)
    if not 0 <= seconds < _END or abs(minutes) > _FARTHEST_ZONE:
        seconds = minutes = 0
    zone = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}{abs(minutes) % 60:02}"
    name = _plain(facts.get("Author", "")) or "nobody"
    address = _plain(facts.get("Email", "")) or "nobody@localhost"
    return PatchAuthor(name, address, f"{seconds} {zone}")


def _plain(text: str) -> str:
    """Return a name without the characters that end it in a commit."""
    return " ".join(re.sub(r"[<>\0\n]", "", text).split())


def file_name(subject: str) -> str:
    """Return the name of a patch file, made of a subject as git makes it."""
    name = _UNFIT.sub("-", subject).strip("-.")[:_LENGTH].strip("-.")
    return f"{name or 'patch'}.patch"
