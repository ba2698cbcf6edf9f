"""Files that hold several patches: mailboxes, exports of Mercurial, and ``git log -p``."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

# A mailbox's separator: mailsplit.c `is_from_line`. Mercurial's `hg export` has its own.
_MAIL: Final = re.compile(
    rb"^(?:From [^\n]+\d.\d\d:\d\d *(?:9[1-9]|[1-9]\d\d+)[^:\n]*|# HG changeset patch)\r?\n",
    re.MULTILINE,
)
_COMMIT: Final = re.compile(
    rb"^(?:commit [0-9a-f]{40,64}(?: \([^\n]*\))?\r?\n"
    rb"(?=(?:Merge|Author|AuthorDate|Reflog): |tree )"
    rb"|[0-9a-f]{7,64} [^\n]+\n(?=diff --git )"
    rb"|[0-9a-f]{40,64}\n\n?(?=diff --git ))",
    re.MULTILINE,
)
"""A commit in any format of ``git log``."""
_SECTION: Final = re.compile(rb"^(?:diff --git |--- [^\n]+\n\+\+\+ )", re.MULTILINE)


def split_mails(data: bytes) -> list[bytes]:
    """Return the patches of a file in its order; a file of one patch whole."""
    mails = [match.start() for match in _MAIL.finditer(data)]
    # A mail's message may quote a log.
    starts = mails or [match.start() for match in _COMMIT.finditer(data)]
    if not starts:
        return [data]
    # Debian's headers (DEP-3) and remarks belong to the first patch, a diff of its own does not.
    if holds_diff(data[: starts[0]]):
        starts.insert(0, 0)
    else:
        starts[0] = 0
    parts = [data[at:end] for at, end in pairwise([*starts, len(data)])]
    return parts if mails else _with_diffs(parts)


def is_mail(data: bytes) -> bool:
    """Whether a part of a file is a mail, or an export of Mercurial."""
    return _MAIL.search(data) is not None


def holds_diff(data: bytes) -> bool:
    """Whether a part of a file has a section."""
    return _SECTION.search(data) is not None


def _with_diffs(parts: Sequence[bytes]) -> list[bytes]:
    """Put commits without a diff, such as merges, behind the diff before or after them."""
    joined = [parts[0]]
    for part in parts[1:]:
        if not holds_diff(joined[-1]):
            joined[-1] = part + joined[-1]
        elif holds_diff(part):
            joined.append(part)
        else:
            joined[-1] += part
    return joined
