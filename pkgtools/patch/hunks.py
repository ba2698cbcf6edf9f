"""Hunks of a unified diff, read line by line and held against the counts of their headers.

unidiff reads text: it loses bytes that are not UTF-8 and lone carriage returns, and passes
over lines behind a hunk whose header counts too few. The tests compare both readers.
https://www.gnu.org/software/diffutils/manual/html_node/Detailed-Unified.html
"""

import itertools
import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NoReturn, Self

from pkgtools.patch.lines import Lines

_HEADER: Final = re.compile(rb"(@@|##) -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? \1")
"""Subversion writes ``##`` above the hunks of a property."""
_CONTEXT, _REMOVED, _ADDED, _NO_NEWLINE = b" ", b"-", b"+", b"\\"
_LF: Final = re.compile(rb"\n\Z")
_BODY: Final = (_CONTEXT, _REMOVED, _ADDED)
_NEXT: Final = (b"@@ ", b"diff ", b"Index: ")
"""Starts of the next hunk or section."""
_MARKER: Final = re.compile(rb"\\ .{9,}\n")
"""The words are in the language of whoever made the patch; git tests the length alone."""


HunkLine = tuple[bytes, bytes]
"""(`` ``, ``-`` or ``+``; the line with its line end, which the last may lack)."""


@dataclass(frozen=True)
class Hunk:
    """One hunk. Line numbers are 1-based, as in the header."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[HunkLine, ...]
    line: int
    """The line of its header in the patch file."""

    def with_crlf(self) -> Self:
        """Return the hunk for a file whose lines end in CRLF."""
        lines = ((tag, _LF.sub(b"\r\n", text)) for tag, text in self.lines)
        return replace(self, lines=tuple(lines))

    @cached_property
    def old(self) -> bytes:
        """The pre-image: context and removed lines."""
        return b"".join(text for tag, text in self.lines if tag != _ADDED)

    @cached_property
    def new(self) -> bytes:
        """The post-image: context and added lines."""
        return b"".join(text for tag, text in self.lines if tag != _REMOVED)

    @property
    def has_context(self) -> bool:
        """Whether it has a context line."""
        return any(tag == _CONTEXT for tag, _ in self.lines)

    @property
    def trailing_context(self) -> int:
        """The number of context lines behind the last change."""
        behind = itertools.takewhile(lambda line: line[0] == _CONTEXT, reversed(self.lines))
        return sum(1 for _ in behind)

    @property
    def first_old_line(self) -> int:
        """The 1-based line at which the pre-image starts; an empty one starts behind a line."""
        return self.old_start if self.old_count else self.old_start + 1

    @property
    def first_new_line(self) -> int:
        """The same for the post-image."""
        return self.new_start if self.new_count else self.new_start + 1


def is_hunk_header(line: bytes, mark: bytes = b"@@") -> bool:
    """Whether `line` starts a hunk."""
    return line.startswith(mark) and _HEADER.match(line) is not None


def starts_property(lines: Lines) -> bool:
    """Whether a hunk of a Subversion property is next; revisions that were merged are prose."""
    return is_hunk_header(lines.peek(), b"## -") and not lines.peek(1).startswith(b"   ")


def read_hunk(lines: Lines) -> Hunk:
    """Read the hunk at the next line; fail if its header counts other lines than its body has."""
    at = lines.number
    match = _HEADER.match(lines.take())
    if match is None:
        lines.fail("this hunk header is malformed", line=at)
    # A count of 1 is left out (GNU diffutils, "Detailed Unified").
    old_start, old_count = int(match[2]), int(match[3] or 1)
    new_start, new_count = int(match[4]), int(match[5] or 1)
    body = _read_body(lines, at, old_count, new_count)
    if all(tag == _CONTEXT for tag, _ in body):
        lines.fail("this hunk changes nothing", line=at)
    # Only an empty side can start at line 0: it starts behind that line.
    if (old_count and not old_start) or (new_count and not new_start):
        lines.fail("this hunk starts at line 0 and is not empty there", line=at)
    return Hunk(old_start, old_count, new_start, new_count, body, at)


def _read_body(lines: Lines, at: int, old_count: int, new_count: int) -> tuple[HunkLine, ...]:
    body: list[HunkLine] = []
    old_left, new_left = old_count, new_count
    ended: set[bytes] = set()
    while old_left or new_left or lines.peek().startswith(_NO_NEWLINE):
        line = lines.peek()
        tag, content = _split(line)
        if tag == _NO_NEWLINE:
            _end_without_newline(lines, body, ended)
            continue
        fits = {_CONTEXT: old_left and new_left, _REMOVED: old_left, _ADDED: new_left}
        if not fits.get(tag):
            _fail_counts(lines, at, old_count, new_count)
        if not content.endswith(b"\n") and not lines.peek(1):
            lines.fail("the file ends in the middle of a line")
        if tag in ended or (tag == _CONTEXT and ended):
            lines.fail("a line follows one that is marked as the file's last")
        lines.take()
        body.append((tag, content))
        old_left -= tag != _ADDED
        new_left -= tag != _REMOVED
    # git apply ignores lines behind the counted ones, and so applies half of an edited hunk.
    if _continues(lines) or _ate_signature(lines, body):
        _fail_counts(lines, at, old_count, new_count)
    return tuple(body)


def _split(line: bytes) -> tuple[bytes, bytes]:
    """Return a body line's tag and content; mailers strip the space of an empty context line."""
    if line == b"\n":
        return _CONTEXT, line
    return line[:1], line[1:]


def _end_without_newline(lines: Lines, body: list[HunkLine], ended: set[bytes]) -> None:
    r"""Take a ``\ No newline at end of file`` and cut the line before it."""
    if not body or body[-1][0] in ended or body[-1][1] == b"\n":
        lines.fail("a \\ line stands where no line can lack its line end")
    if not _MARKER.match(lines.peek()):
        lines.fail("a line that starts with \\ is not git's `\\ No newline at end of file`")
    tag, content = body[-1]
    lines.take()
    body[-1] = (tag, content.removesuffix(b"\n"))
    ended |= {_REMOVED, _ADDED} if tag == _CONTEXT else {tag}


def _continues(lines: Lines) -> bool:
    ahead = 0  # editors leave blank lines, which change nothing
    while lines.peek(ahead).startswith(_CONTEXT) and lines.peek(ahead).isspace():
        ahead += 1
    line, behind = lines.peek(ahead), lines.peek(ahead + 1)
    if not line.startswith(_BODY) or (line.startswith(b"--- ") and behind.startswith(b"+++ ")):
        return False
    # Topgit and people end a diff with a line of dashes and a remark.
    is_rule = line == b"---\n" and not behind.startswith((*_BODY, _NO_NEWLINE, *_NEXT))
    return not (is_rule or _is_signature(lines, ahead))


def _ate_signature(lines: Lines, body: list[HunkLine]) -> bool:
    """Whether a header that counts too many took the mail's signature for a removed ``- ``.

    The line behind a hunk is then git's version number, instead of a hunk, section or mail.
    """
    if not body or body[-1] not in ((_REMOVED, b"- \n"), (_REMOVED, b"-\n")):
        return False
    behind = lines.peek()
    return bool(behind.strip()) and not behind.startswith((*_NEXT, b"--", b"From ", b"Only in "))


def _is_signature(lines: Lines, ahead: int) -> bool:
    """Whether the mail signature that ends a patch (``-- ``, git's version) is next."""
    is_rule = lines.peek(ahead).rstrip(b"\r\n") in (b"-- ", b"--")
    return is_rule and not lines.peek(ahead + 1).startswith((*_BODY, _NO_NEWLINE, *_NEXT))


def _fail_counts(lines: Lines, at: int, old_count: int, new_count: int) -> NoReturn:
    old = new = 0
    for ahead in itertools.count(at + 1 - lines.number):
        line, behind = lines.peek(ahead), lines.peek(ahead + 1)
        tag, _ = _split(line)
        if tag not in (*_BODY, _NO_NEWLINE) or _is_signature(lines, ahead):
            break
        if line.startswith(b"--- ") and behind.startswith(b"+++ "):
            break
        if line == b"\n" and not behind.startswith((*_BODY, *_NEXT)):
            break  # not an empty context line, but what separates the patch from a text
        old += tag in (_CONTEXT, _REMOVED)
        new += tag in (_CONTEXT, _ADDED)
    lines.fail(
        f"the hunk header says {old_count} old and {new_count} new lines, "
        f"its body has {old} and {new}",
        line=at,
        remedy="write the patch again with `git diff` or `git format-patch`, or correct the header",
    )
