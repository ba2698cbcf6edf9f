"""Path names in patches: git's quoting, the strip level, and which are safe."""

from __future__ import annotations

import re
from typing import Final

_ESCAPES: Final = {
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
    b'"': b'"',
    b"\\": b"\\",
}
_QUOTED: Final = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_ESCAPE: Final = re.compile(rb"\\([0-3][0-7]{2}|.)", re.DOTALL)
_EPOCH: Final = re.compile(
    rb"\t(1969-12-31|1970-01-01) ([0-2]\d):([0-5]\d):00(?:\.0+)? ([-+][0-2]\d):?([0-5]\d)\n"
)
_DATE: Final = re.compile(rb" \d\d(\d\d)?-\d\d-\d\d \d\d:\d\d:\d\d")
_HFS_IGNORES: Final = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")

DEV_NULL: Final = b"/dev/null"


class PathError(ValueError):
    """A path name that cannot be read or must not be used."""


def unquote(raw: bytes) -> tuple[bytes, bytes]:
    r"""Read one C-style quoted name at the start of `raw`.

    Returns the name and what follows it. Git quotes names that hold a double
    quote, a backslash, a control character or (``core.quotePath``) a byte above
    127, which it writes as ``\ooo``.

    Raises:
        PathError: there is no closing quote, or an escape git does not write.

    """
    match = _QUOTED.match(raw)
    if match is None:
        raise PathError("a quoted path has no closing quote")

    def unescape(escape: re.Match[bytes]) -> bytes:
        body = escape[1]
        if len(body) == 3:
            return bytes([int(body, 8)])
        if body not in _ESCAPES:
            raise PathError(f"\\{body.decode('latin-1')} is no escape that git writes")
        return _ESCAPES[body]

    return _ESCAPE.sub(unescape, match[1]), raw[match.end() :]


def strip_first(name: bytes) -> bytes:
    """Remove the first component (``a/``, ``b/``), as ``git apply -p1`` does."""
    _, slash, rest = name.partition(b"/")
    if not slash or not rest:
        raise PathError(
            f"the path {name.decode('utf-8', 'backslashreplace')!r} has no a/ or b/ before it"
        )
    return rest


def header_name(line: bytes) -> bytes:
    """Return the name in a ``---`` or ``+++`` line's rest: quoted, or up to a tab or the end.

    Raises:
        PathError: it is not quoted well, or takes a date for a part of the name.

    """
    if line.startswith(b'"'):
        return unquote(line)[0]
    name = line.rstrip(b"\n").split(b"\t")[0]
    if _DATE.search(name):
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
    """Whether a header line is dated at the start of 1970: diff(1)'s way to say "no file"."""
    match = _EPOCH.search(line)
    if match is None:
        return False
    hour, minute, zone_hour, zone_minute = (int(match[group]) for group in (2, 3, 4, 5))
    zone = abs(zone_hour) * 60 + zone_minute
    since_midnight = hour * 60 + minute - (-zone if match[4].startswith(b"-") else zone)
    return since_midnight == (0 if match[1].startswith(b"1970") else 24 * 60)


def git_header_name(line: bytes) -> bytes | None:
    """Return the stripped name of ``diff --git``, when both sides name the same file.

    The line is the only source of the name for a mode change or an empty file.
    Unquoted names may hold spaces, so the split is where both halves are equal.
    """
    rest = line.rstrip(b"\n")
    if b'"' in rest:
        names = []
        while rest:
            name, rest = unquote(rest) if rest.startswith(b'"') else _plain(rest)
            names.append(name)
            rest = rest.removeprefix(b" ")
        if len(names) == 2 and strip_first(names[0]) == strip_first(names[1]):
            return strip_first(names[0])
        return None
    for at in range(len(rest)):
        if rest[at : at + 1] != b" ":
            continue
        left, right = rest[:at], rest[at + 1 :]
        if b"/" in left and b"/" in right and strip_or_none(left) == strip_or_none(right):
            return strip_or_none(left)
    return None


def _plain(rest: bytes) -> tuple[bytes, bytes]:
    """Read an unquoted name that stands before a quoted one."""
    name, _, after = rest.partition(b' "')
    return name, b'"' + after if after else b""


def strip_or_none(name: bytes) -> bytes | None:
    """`strip_first`, or None where there is nothing to strip."""
    try:
        return strip_first(name)
    except PathError:
        return None


def safe_path(raw: bytes) -> str:
    """Return `raw` as a relative path that stays inside a tree.

    Raises:
        PathError: it is absolute, has an empty, ``.``, ``..`` or ``.git``
            component, or a character that no package manager could list.

    """
    shown = raw.decode("utf-8", "backslashreplace")
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        raise PathError(f"the path {shown!r} is not UTF-8: RECORD could not list it") from None
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

    NTFS passes over trailing dots, spaces and what follows a colon, and knows the
    short name; HFS+ passes over characters that are not seen.
    """
    plain = _HFS_IGNORES.sub("", part).lower().split(":")[0].rstrip(". ")
    return plain in (".git", "git~1")
