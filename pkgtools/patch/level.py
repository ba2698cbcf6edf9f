"""The number of folders before a patch's names: ``a/`` and ``b/``, none, or more.

Git and patch(1) take the number from ``-p``. Here the names show it, and every section of
a patch must show the same: else a new file could land elsewhere than its siblings.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pkgtools.patch.paths import git_pairs, strip_or_none
from pkgtools.patch.section import Section

_DEEPEST: Final = 40
_CUSTOMARY: Final = (b"a/", b"b/", b"./")
"""Prefixes that are not folders, unless the other names say so."""
_BACKUP: Final = re.compile(
    rb"(?:[.~_-](?:orig|origin|original|old|org|bak|backup|dist|new|save|saved|unpatched|patched)|~)+"
    rb"\d*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Level:
    """How many folders to strip from each name of a patch."""

    number: int
    is_certain: bool
    """Whether the names leave no other reading. Names without any prefix do: the folder
    that they start with can be the project's, as in ``proj/m.py.orig`` and ``proj/m.py``."""


class LevelError(ValueError):
    """The sections of a patch have prefixes of different lengths."""


def same_file(old: bytes, new: bytes) -> bytes | None:
    """Return the name of the file that a plain diff changes, or None for two files.

    Git prefers the shorter name if the other one is the same with something behind it;
    here that is a backup's ending.
    """
    if old == new:
        return old
    short, long = sorted((old, new), key=len)
    return short if long.startswith(short) and _BACKUP.fullmatch(long[len(short) :]) else None


def find_level(sections: Sequence[Section]) -> Level | None:
    """Return the level that all sections show, or None; raise a `LevelError` if two differ."""
    exact = {number for s in sections if (number := level_of_move(s)) is not None}
    unmoved = [s for s in sections if level_of_move(s) is None]
    fewest = {number for s in unmoved if (number := _fewest_of(s))}
    others = [s for s in unmoved if not _fewest_of(s) and _names(s)]
    if len(exact or fewest) > 1 or (exact and fewest and max(fewest) > min(exact)):
        shown = " and ".join(str(number) for number in sorted(exact | fewest))
        raise LevelError(f"its sections have {shown} folders before the names")
    if exact or fewest:
        number = next(iter(exact or fewest))
        known = {p for s in sections if s not in others for p in _prefixes(s, number)}
        if not all(_prefixes(s, number) & {*known, *_CUSTOMARY} for s in others):
            raise LevelError("some of its sections have a prefix before the names, some have none")
        return Level(number, is_certain=True)
    if all(any(name.startswith(_CUSTOMARY) for name in _names(s)) for s in others):
        return Level(1, is_certain=True)
    if any(_fewest(*pair) == 0 for s in others for pair in _pairs(s)):
        return Level(0, is_certain=False)
    return None


def level_of_move(section: Section) -> int | None:
    """Return the number of folders before the names; rename lines have none."""
    return next((old.count(b"/") for old, _ in _prefixes_of_move(section)), None)


def _prefixes_of_move(section: Section) -> Iterator[tuple[bytes, bytes]]:
    old, new = section.moved_from, section.moved_to
    if old is None or new is None:
        return
    for left, right in _pairs(section):
        before, behind = left.removesuffix(old), right.removesuffix(new)
        ends = left.endswith(old) and right.endswith(new)
        if ends and before.count(b"/") == behind.count(b"/"):
            yield before, behind


def _fewest_of(section: Section) -> int:
    levels = [n for pair in _pairs(section) if (n := _fewest(*pair)) is not None]
    return min(levels, default=0)


def _fewest(old: bytes, new: bytes) -> int | None:
    # The fewest folders after which both sides name one file.
    for number in range(_DEEPEST):
        left, right = strip_or_none(old, number), strip_or_none(new, number)
        if left is None or right is None:
            return None
        if same_file(left, right) is not None:
            return number
    return None


def _pairs(section: Section) -> Iterator[tuple[bytes, bytes]]:
    """Yield what the two sides may be called; ``diff --git`` does not quote spaces."""
    if section.old_name is not None and section.new_name is not None:
        yield section.old_name, section.new_name
    elif section.git_line is not None:
        yield from git_pairs(section.git_line)


def _names(section: Section) -> set[bytes]:
    named = {n for n in (section.old_name, section.new_name) if n is not None}
    return named or {n for pair in _pairs(section) for n in pair if _fewest(*pair) is not None}


def _prefixes(section: Section, number: int) -> set[bytes]:
    moved = {p for pair in _prefixes_of_move(section) for p in pair if p.count(b"/") == number}
    stripped = ((name, strip_or_none(name, number)) for name in _names(section))
    return moved | {name[: len(name) - len(rest)] for name, rest in stripped if rest is not None}
