"""Files that hold several patches: mailboxes, exports of Mercurial, and ``git log -p``."""

from __future__ import annotations

import contextlib
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pkgtools.errors import MalformedError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

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
_LOG: Final = re.compile(
    rb"^\W{0,3}(?:commit |From )?[0-9a-f]{40,64}\b"
    rb"|^\W{0,3}(?:commit )?(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,39}(?:[ :,)\]]|$)"
    rb"|^(?:changeset: +\d+:[0-9a-f]{12}|r\d+ \| |revno: \d|# HG changeset patch)"
    rb"|^(?:[A-Z][\w-]*-by|Author|Committer|From): [^\n]*<[^>\s]+@[^>\s]+>"
    rb"|^(?:\w\S* ){1,4}<[^>\s]+@[^>\s]+>\s*$"
    rb"|^(?!(?:---|\+\+\+) )[^\n]*(?<!\d)\d\d:\d\d:\d\d ?(?:\d{4} )?(?:[-+]\d\d:?\d\d|Z)\b",
    re.MULTILINE,
)
"""A line of a commit's header: its hash, its number, a person with an address, or a date."""
_SECTION: Final = re.compile(rb"^(?:diff --git |--- [^\n]+\n\+\+\+ )", re.MULTILINE)
_ZONE_BEHIND_SPACE: Final = re.compile(r"(?<=:\d\d) (?=[-+]\d{4}$)")
_DATE: Final = re.compile(rb"^(?:Author)?Date: +([^\n]+)$", re.MULTILINE)


def split_mails(data: bytes) -> list[bytes]:
    """Return the patches of a file in its order; a file of one patch whole."""
    mails = [match.start() for match in _MAIL.finditer(data)]
    # A mail's message may quote a log.
    starts = mails or [match.start() for match in _COMMIT.finditer(data)]
    if not starts:
        return [data]
    # Debian's headers (DEP-3) and remarks belong to the first patch, a diff of its own does not.
    if _SECTION.search(data[: starts[0]]):
        starts.insert(0, 0)
    else:
        starts[0] = 0
    parts = [data[at:end] for at, end in pairwise([*starts, len(data)])]
    return parts if mails else _with_diffs(parts)


def starts_commit(between: bytes) -> bool:
    """Return whether the text between two sections is a commit's, in any format of a log."""
    return _LOG.search(between) is not None


def in_order(name: str, patches: Sequence[bytes]) -> list[bytes]:
    """Return the patches of a file in the order in which they were made.

    A mailbox has that order. ``git log`` writes the newest first, unless it was told otherwise;
    only the dates show which.

    Raises:
        MalformedError: the dates of a log show no order.

    """
    if len(patches) == 1 or _MAIL.search(patches[0]):
        return list(patches)
    dates = [_date(patch) for patch in patches]
    steps = {(then > now) - (then < now) if then and now else 0 for then, now in pairwise(dates)}
    if steps in ({-1}, {0, -1}) and None not in dates:
        return list(patches)
    if steps in ({1}, {0, 1}) and None not in dates:
        return list(reversed(patches))
    raise MalformedError(
        f"{name}: the dates of its {len(patches)} commits do not show their order",
        remedy="write them again with `git format-patch --stdout`",
        file=name,
        line=1,
    )


def _with_diffs(parts: Sequence[bytes]) -> list[bytes]:
    """Join commits without a diff, such as merges, to the one before them."""
    joined = [parts[0]]
    for part in parts[1:]:
        if _SECTION.search(joined[-1]) and _SECTION.search(part):
            joined.append(part)
        else:
            joined[-1] += part
    return joined


def _date(patch: bytes) -> datetime | None:
    """Return when a commit was made; it is written in one of ``git log --date``'s formats."""
    from datetime import datetime  # noqa: PLC0415 - slow to import, and only logs need it
    from email.utils import parsedate_to_datetime  # noqa: PLC0415

    found = _DATE.search(patch)
    shown = found[1].decode(errors="replace").strip() if found else ""
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        with contextlib.suppress(ValueError):
            date = read(_ZONE_BEHIND_SPACE.sub("", shown))
            return date if date.tzinfo else None
    return None
