"""The order in which the commits of a log were made."""

import contextlib
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NoReturn

from pkgtools.patch.lines import Lines
from pkgtools.patch.mail import holds_diff, is_mail
from pkgtools.patch.model import FilePatch, Kind, is_same_id
from pkgtools.patch.parser import parse_patch, shown_level

_COMMIT: Final = re.compile(rb"\s*(?:commit |From )?(?!0+ )([0-9a-f]{7,64})\b")
_ZONE_BEHIND_SPACE: Final = re.compile(r"(?<=:\d\d) (?=[-+]\d{4}$)")
_MISSING: Final = "0" * 40
_DATE: Final = re.compile(rb"^(?:Commit)?Date: +([^\n]+)$", re.MULTILINE)


def in_order(name: str, patches: Sequence[bytes]) -> list[bytes]:
    """Return the patches of a file in the order in which they were made.

    A mailbox has that order. ``git log`` writes the newest first, unless it was told otherwise:
    where two commits change one file, its blob ids show which came first. Other commits make the
    same tree in both orders; their dates decide.

    Raises:
        MalformedError: neither shows one order, or a merge is shown against each parent.
    """
    commits = [m[1] for patch in patches if holds_diff(patch) and (m := _COMMIT.match(patch))]
    if len(set(commits)) < len(commits):
        _fail(name, f"one of its {len(patches)} commits is there twice, as a merge's are")
    if len(patches) == 1 or is_mail(patches[0]):
        return list(patches)
    backwards = list(reversed(patches))
    files = [_files(name, patch) for patch in patches]
    orders = (_follows(files), _follows(reversed(files)))
    if not any(orders):
        _fail(name, f"the blob ids of its {len(patches)} commits do not show their order")
    if not all(orders):
        return list(patches) if orders[0] else backwards
    dates = [date for patch in patches if (date := _date(patch)) is not None]
    ordered = sorted(dates)
    is_known = len(dates) == len(patches) and dates[0] != dates[-1]
    if not is_known or dates not in (ordered, ordered[::-1]):
        _fail(name, f"the dates of its {len(patches)} commits do not show their order")
    return list(patches) if dates == ordered else backwards


def _files(name: str, patch: bytes) -> tuple[FilePatch, ...]:
    level = shown_level(name, patch)
    return parse_patch(name, patch, level.number if level else None).files


def _follows(patches: Iterable[Sequence[FilePatch]]) -> bool:
    """Whether each patch starts from the blobs that those before it leave."""
    ids: dict[str, str] = {}
    for files in patches:
        if not all(is_same_id(ids.get(file.old_path), file.old_id) for file in files):
            return False
        made = {file.new_path: file.new_id or ids.get(file.old_path) for file in files}
        ids |= {file.old_path: _MISSING for file in files if file.kind is Kind.RENAME}
        ids |= {path: blob for path, blob in made.items() if blob}
    return True


def _date(patch: bytes) -> datetime | None:
    from datetime import datetime  # noqa: PLC0415 - slow to import, and only logs need it
    from email.utils import parsedate_to_datetime  # noqa: PLC0415

    found = _DATE.search(patch)
    shown = found[1].decode(errors="replace").strip() if found else ""
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        with contextlib.suppress(ValueError):
            date = read(_ZONE_BEHIND_SPACE.sub("", shown))
            return date if date.tzinfo else None
    return None


def _fail(name: str, message: str) -> NoReturn:
    Lines(name, b"").fail(message, remedy="write them again with `git format-patch --stdout`")
