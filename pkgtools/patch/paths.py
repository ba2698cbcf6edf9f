"""Path names in patches: git's quoting, the strip level, and which are safe."""

import re
from collections.abc import Iterator
from typing import Final

from pkgtools.patch.lines import text

_ESCAPES: Final = dict(zip(b'abfnrtv"\\', b'\a\b\f\n\r\t\v"\\', strict=True))
_QUOTED: Final = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_ESCAPE: Final = re.compile(rb"\\([0-3][0-7]{2}|.)", re.DOTALL)
_ZONE: Final = rb"(?:UTC|GMT|Z|[-+]\d{1,2}:?\d\d)"
_STAMP: Final = re.compile(
    rb"(?P<gap>[ \t]+)(?P<date>\d{4}-\d\d-\d\d) (?P<time>\d\d:\d\d:\d\d(?:[.,]\d+)?)"
    rb"(?: ?(?P<zone>" + _ZONE + rb"))?[ \t]*$"
)
"""A date as diff(1) of GNU, of FreeBSD and macOS write it."""
_CTIME: Final = re.compile(
    rb"(?P<gap>[ \t]+)(?:[A-Z][a-z]{2},? +)(?P<month>[A-Z][a-z]{2}) +(?P<day>\d{1,2}) "
    rb"(?P<time>\d\d:\d\d:\d\d(?:[.,]\d+)?)(?: (?:[A-Z]{3,4}))? (?P<year>\d{4})"
    rb"(?: (?P<zone>" + _ZONE + rb"))?[ \t]*$"
)
"""A date as ctime(3) has it: OpenBSD, NetBSD, Mercurial (which adds the zone)."""
_LIKE_DATE: Final = re.compile(
    rb" \d\d(\d\d)?-\d\d-\d\d \d\d:\d\d|[ \t]+\((?:revision|working copy|nonexistent|rev)[^)]*\)$"
    rb"| [A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d"
)
_HFS_IGNORES: Final = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")

DEV_NULL: Final = b"/dev/null"
_EPOCH_DAYS: Final = {
    b"1970-01-01": 0,
    b"1970-Jan-01": 0,
    b"1969-12-31": -1440,
    b"1969-Dec-31": -1440,
}
"""Each with its minutes after the start of 1970."""


class PathError(ValueError):
    """A path name that cannot be read or must not be used."""


def unquote(raw: bytes) -> tuple[bytes, bytes]:
    r"""Read one C-style quoted name at the start of `raw`.

    Returns the name and what follows it. Git quotes names that hold a double
    quote, a backslash, a control character or (``core.quotePath``) a byte above
    127, which it writes as ``\ooo``.
    """
    match = _QUOTED.match(raw)
    if match is None:
        raise PathError("a quoted path has no closing quote")

    def unescape(escape: re.Match[bytes]) -> bytes:
        body = escape[1]
        if len(body) == 3:
            # Three octal digits (git's quote.c, `quote_c_style`).
            return bytes([int(body, 8)])
        if body[0] not in _ESCAPES:
            raise PathError(f"\\{body.decode('latin-1')} is not an escape that git writes")
        return bytes([_ESCAPES[body[0]]])

    return _ESCAPE.sub(unescape, match[1]), raw[match.end() :]


def strip(name: bytes, level: int) -> bytes:
    """Remove the first `level` components, as ``git apply -p`` does; fail if nothing is left."""
    parts = name.split(b"/", level)
    if len(parts) <= level or not parts[-1]:
        shown = text(name)
        wanted = "a/ or b/" if level == 1 else f"{level} folders"
        raise PathError(f"the path {shown!r} has no {wanted} before it")
    return parts[-1]


def header_name(line: bytes) -> bytes:
    """Return the name in a ``---`` or ``+++`` line's rest: quoted, or up to a tab or a date.

    Git finds a date behind spaces as well, where a mailer or an editor replaced the tab.

    Raises:
        PathError: it is not quoted well, or ends in something like a date.
    """
    if line.startswith(b'"'):
        return unquote(line)[0]
    rest = line.rstrip(b"\n")
    date = _STAMP.search(rest)
    name = rest[: date.start()] if date else rest
    # GNU diff ends a name with a tab, and git does where the name holds a space.
    name = name.split(b"\t")[0]
    if _LIKE_DATE.search(name):
        raise PathError("the tab between the name and its date was lost on the way")
    return _plain_name(name)


def rest_name(line: bytes) -> bytes:
    """Return the name in a rename or copy line's rest: quoted, or up to the end."""
    return unquote(line)[0] if line.startswith(b'"') else _plain_name(line.removesuffix(b"\n"))


def _plain_name(name: bytes) -> bytes:
    if any(byte < 0x20 for byte in name):
        raise PathError("the name holds a control character and is not quoted")
    return name


def is_epoch(line: bytes) -> bool:
    """Whether a header line is dated at the start of 1970: diff(1)'s way to say "no file".

    ctime(3) names no zone, so that there any hour counts at which 1970 began somewhere.
    """
    rest = line.rstrip(b"\n")
    match = _STAMP.search(rest) or _CTIME.search(rest)
    if match is None:
        return False
    groups = match.groupdict()
    day = groups.get("date") or b"%s-%s-%02d" % (match["year"], match["month"], int(match["day"]))
    whole, _, fraction = match["time"].replace(b",", b".").partition(b".")
    hour, minute, second = (int(part) for part in whole.split(b":"))
    if day not in _EPOCH_DAYS or second or fraction.strip(b"0"):
        return False
    since_1970 = _EPOCH_DAYS[day] + hour * 60 + minute
    if match["zone"] is None:
        return since_1970 % 15 == 0 and -12 * 60 <= since_1970 <= 14 * 60
    return since_1970 == _minutes(match["zone"])


def _minutes(zone: bytes) -> int:
    digits = zone.lstrip(b"-+").replace(b":", b"")
    minutes = int(digits[:-2]) * 60 + int(digits[-2:]) if digits.isdigit() else 0
    return -minutes if zone.startswith(b"-") else minutes


def git_pairs(rest: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield what both sides of ``diff --git`` may be called.

    Unquoted names may hold spaces, so each space may be the one between them.
    """
    if b'"' not in rest:
        spaces = (at for at in range(1, len(rest) - 1) if rest[at : at + 1] == b" ")
        yield from ((rest[:at], rest[at + 1 :]) for at in spaces)
        return
    names = []
    while rest:
        if rest.startswith(b'"'):
            name, rest = unquote(rest)
        else:  # an unquoted name before a quoted one
            name, _, after = rest.partition(b' "')
            rest = b'"' + after if after else b""
        names.append(name)
        rest = rest.removeprefix(b" ")
    if len(names) == 2:
        yield names[0], names[1]


def strip_or_none(name: bytes, level: int) -> bytes | None:
    """`strip`, or None where the name is too short."""
    try:
        return strip(name, level)
    except PathError:
        return None


def safe_path(raw: bytes) -> str:
    """Return `raw` as a relative path that stays inside a tree.

    Raises:
        PathError: it is absolute, has an empty, ``.``, ``..`` or ``.git``
            component, or a character that no package manager could list.
    """
    shown = text(raw)
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        raise PathError(f"the path {shown!r} is not UTF-8: RECORD could not list it") from None
    # RECORD and git's quoted names would need escapes that other tools do not read.
    if any(character in name for character in "\0\n\r"):
        raise PathError(f"the path {shown!r} holds a line end or NUL")
    if name.startswith("/"):
        raise PathError(f"the path {shown!r} is absolute")
    for part in name.split("/"):
        if part in ("", ".", ".."):
            raise PathError(f"the path {shown!r} has a component {part!r} and could leave the tree")
        if _is_git_directory(part):
            raise PathError(f"the path {shown!r} reaches into a git directory")
    return name


def _is_git_directory(part: str) -> bool:
    """Whether some file system takes `part` for ``.git``, as git's own check does.

    NTFS ignores trailing dots and spaces and the text after a colon, and has a short
    name; HFS+ ignores some invisible characters. Writing to such a name runs code of the
    patch on the next git command (CVE-2014-9390, CVE-2019-1352).
    """
    plain = _HFS_IGNORES.sub("", part).lower().split(":")[0].rstrip(". ")
    return plain in (".git", "git~1")
