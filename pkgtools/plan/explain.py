"""Explain why a hunk does not apply: the nearest similar lines, or an absorbed change."""

import difflib
import re
from collections import Counter
from functools import lru_cache
from typing import Final

from pkgtools.patch.lines import text
from pkgtools.plan.match import numbers_of, text_of
from pkgtools.plan.model import Nearest
from pkgtools.util.lines import split

_CANDIDATES: Final = 5
_COMMON: Final = 50
"""Lines with more places than this do not help to find the place of a hunk."""
_CODE: Final = re.compile(
    rb"""(?:[^#'"]++|'(?:[^'\\]|\\.?)*+(?:'|\Z)|"(?:[^"\\]|\\.?)*+(?:"|\Z))*+""", re.DOTALL
)
"""What precedes a comment in a line of Python: a ``#`` in a string starts none."""
_LONGEST: Final = 400
"""Only so many lines of a pre-image are compared: the comparison is quadratic."""


def shown_lines(block: bytes) -> tuple[str, ...]:
    """Return the lines of `block` as a person can read them, odd line ends spelled out."""
    return tuple(_shown(line) for line in split(block))


def _shown(line: bytes) -> str:
    body = line.removesuffix(b"\n")
    carriage = "\\r" if body.endswith(b"\r") else ""
    missing = "" if line.endswith(b"\n") else " (no newline at end of file)"
    return text(body.removesuffix(b"\r")) + carriage + missing


def nearest_place(data: bytes, block: bytes) -> Nearest | None:
    """Return the place in `data` whose lines resemble those of `block` most."""
    wanted = split(block)[:_LONGEST]
    lines, where = _lines_of(data)
    votes: Counter[int] = Counter()
    for number, line in enumerate(wanted):
        places = where.get(line.strip(), [])
        # Each line votes for the start that it would give: the cost is linear, unlike a diff's.
        if line.strip() and len(places) <= _COMMON:
            votes.update(max(place - number, 0) for place in places)
    starts = [start for start, _ in votes.most_common(_CANDIDATES)]
    windows = [lines[start : start + len(wanted)] for start in starts]
    # autojunk would ignore lines that are frequent in blocks of 200 lines and more.
    matchers = [difflib.SequenceMatcher(None, wanted, each, autojunk=False) for each in windows]
    if not matchers:
        return None
    best = max(range(len(matchers)), key=lambda number: matchers[number].ratio())
    diff = _diff(matchers[best], wanted, windows[best])
    return Nearest(starts[best] + 1, round(matchers[best].ratio(), 3), diff)


@lru_cache(maxsize=1)  # every hunk of a file is explained in turn
def _lines_of(data: bytes) -> tuple[list[bytes], dict[bytes, list[int]]]:
    """Return the lines of a file, and the numbers of those that differ in white space only."""
    lines = split(data)
    return lines, numbers_of(line.strip() for line in lines)


def _diff(
    matcher: difflib.SequenceMatcher[bytes], wanted: list[bytes], window: list[bytes]
) -> tuple[str, ...]:
    """Return both blocks as one; `difflib.ndiff` takes minutes where few lines are alike."""
    diff: list[str] = []
    for tag, old, old_end, new, new_end in matcher.get_opcodes():
        mark = " " if tag == "equal" else "-"
        diff += (f"{mark} {_shown(line)}" for line in wanted[old:old_end])
        if tag != "equal":
            diff += (f"+ {_shown(line)}" for line in window[new:new_end])
    return tuple(diff)


def absorbed_at(path: str, data: bytes, before: bytes, after: bytes) -> int | None:
    """Return the 1-based line where `data` already holds `after`, if it does.

    Python is compared without comments, so that an upstream which took the same
    change over with a remark of its own is recognised. What a hunk makes must
    stand exactly once. Where a hunk only removes lines that is mere context,
    which proves less: see `_removed_at`.
    """
    if not after.strip():
        return None
    old, new = split(before), split(after)
    remaining = iter(old)
    if all(line in remaining for line in new):  # a subsequence: nothing is added
        return _removed_at(data, old, new)
    searched = text_of(data)
    found = list(searched.find(after))
    if len(found) == 1:
        return searched.line_of(found[0])
    return None if found or not path.endswith(".py") else _absorbed_python(data, before, after)


def _removed_at(data: bytes, old: list[bytes], new: list[bytes]) -> int | None:
    """Return where the lines around removed ones have closed up, if they are gone.

    The context at one side alone stands in the unchanged file as well: without
    lines before it the place must start the file, without lines behind it end it.
    """
    searched = text_of(data)
    if next(searched.find(b"".join(old)), None) is not None:
        return None
    block = b"".join(new)
    found = [
        at
        for at in searched.find(block)
        if (at == 0 or old[0] == new[0]) and (at + len(block) == len(data) or old[-1] == new[-1])
    ]
    return searched.line_of(found[0]) if len(found) == 1 else None


def _absorbed_python(data: bytes, before: bytes, after: bytes) -> int | None:
    """Compare line by line without comments; lines that hold nothing else do not count."""
    numbers, code, where = _code_of(data)
    _, old = _code(before)
    _, new = _code(after)
    remaining = iter(old)
    if all(line in remaining for line in new):  # what is left without comments adds nothing
        return None
    found = [at for at in where.get(new[0], ()) if code[at : at + len(new)] == new]
    return numbers[found[0]] if len(found) == 1 else None


@lru_cache(maxsize=1)
def _code_of(data: bytes) -> tuple[list[int], list[bytes], dict[bytes, list[int]]]:
    """Return `_code` of a file, and the places of equal lines."""
    numbers, code = _code(data)
    return numbers, code, numbers_of(code)


def _code(source: bytes) -> tuple[list[int], list[bytes]]:
    """Return the lines of `source` cut at their comments, with their numbers."""
    numbers: list[int] = []
    code: list[bytes] = []
    for number, line in enumerate(split(source), 1):
        match = _CODE.match(line)
        bare = match[0].rstrip() if match else b""
        if bare or not line.strip():
            numbers.append(number)
            code.append(bare)
    return numbers, code
