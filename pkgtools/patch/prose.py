"""The lines around the sections of a patch file: text, or a change without its data.

``git apply`` and patch(1) pass over every line outside a section. Here a line that belongs
to a diff is refused there: its section would disappear in silence.
"""

import re
from typing import Final, NoReturn

from pkgtools.patch.hunks import is_hunk_header
from pkgtools.patch.lines import Lines

_BINARY: Final = "write the patch again with `git diff --binary` or `git format-patch`"
_UNIFIED: Final = "write the patch again with `git diff` or `diff -ru`"
_NAMED: Final = (
    # (pattern of the line, what it says, what to do); anywhere in the file
    (
        rb"(?:Binary files? .* (?:differ|has changed)|Cannot display: file marked as a .*)\s*",
        "a binary file differs, but the patch does not hold its data",
        _BINARY,
    ),
    (
        rb"diff --(?:cc|combined) .*\s*|@@@+ -\d.* @@@+.*\s*",
        "the combined diff of a merge cannot be applied",
        "write the patch again against one parent (`git diff HEAD^ HEAD`)",
    ),
    (
        rb"(?i:Content-Transfer-Encoding): (?:quoted-printable|base64)\s*",
        "an encoded mail starts in the middle of the file, so that it is not decoded",
        "take out what stands before the mail's header",
    ),
    (
        rb"\* Unmerged path .*\s*",
        "git names a file with a conflict, and the patch does not hold its change",
        "resolve the conflict and write the patch again",
    ),
    (
        rb"Only in \S+: \S+\s*",
        "a file is on one side only, and the patch does not hold its content",
        "write the patch again with `diff -N` or `git diff`",
    ),
    (
        rb"File \S.* is an? .* while file \S.* is an? .*\s*",
        "a file changes its type, and the patch does not hold the change",
        "write the patch again with `git diff`",
    ),
    (
        rb"Files \S.* and \S.* differ\s*",
        "files differ, and the patch does not hold the change",
        _UNIFIED,
    ),
    (
        rb"Submodule .* [0-9a-f]{7,40}\.{2,3}[0-9a-f]{7,40}\b.*\s*",
        "submodules are not supported",
        "take the submodule out of the patch",
    ),
    (
        rb"(?:\w+: svn:(?:executable|special)|=== (?:renamed|\w+ symlink|.*\(properties) .*)\s*",
        "a file's name, mode or type changes, and the patch does not hold the change",
        "write the patch again with `git diff`",
    ),
)
_BETWEEN: Final = re.compile(
    rb"(?:[ \t\r\f]*\n"
    # above a section: Subversion, CVS, quilt, IntelliJ, Mercurial, diff -r, Bazaar, filterdiff
    rb"|Index: [^\n]*\n(?==|IDEA|--- |diff -(?!-git ))|=+\r?\n(?=\S)"
    rb"|diff -(?!-git )[^\n]*\n(?=--- )"
    rb"|(?:RCS file: [^\n]*|retrieving revision [\d.]+)\n(?=retrieving |diff -)"
    rb"|=== (?:added|modified|removed) (?:file|directory) '[^\n]*'\s*\n(?====|--- )"
    rb"|IDEA additional info:\n(?:Subsystem: [^\n]*\n(?:<\+>[^\n]*\n)*)+(?==)"
    rb"|(?:new|deleted) file mode 100644\n(?=--- )"
    # behind one: diff -r, interdiff, Subversion
    rb"|Common subdirectories: [^\n]*\n|(?:only in patch\d|unchanged|reverted):\n(?=[uor-])"
    rb"|Property changes on: [^\n]*\n_{20,}\s*\n"
    rb"(?:(?:Added|Modified|Deleted|Name): [^\n]*\n(?:##[^\n]*\n|[ +\\-][^\n]*\n)*)*"
    rb")*"
)
"""What programs write between two sections."""
_PARTS: Final = (
    # lines of a section; in a commit message they are prose
    (
        re.compile(
            rb"(?:(?:old|new|new file|deleted file) mode [0-7]{6}|similarity index \d+%|"
            rb"dissimilarity index \d+%|GIT binary patch)\s*"
        ),
        None,
    ),
    (re.compile(rb"(?:rename|copy) from .*\s*"), re.compile(rb"(?:rename|copy) to .*\s*")),
    (
        re.compile(rb"index [0-9a-f]{4,40}\.\.[0-9a-f]{4,40}(?: [0-7]{6})?\s*"),
        re.compile(rb"[^-].*\s*"),
    ),
    (re.compile(rb"--- \S.*\s*"), re.compile(rb"\+\+\+ \S.*\s*")),
)
_AFTER_SECTION: Final = re.compile(
    rb"\s*$|diff |Index: |[=_*#>|-]|Common subdirectories: |Only in |Binary files |From |[\w-]+: "
)
_COMMAND: Final = re.compile(rb"diff -\w*[rN].* (\S+?)(/\S+) (\S+?)\2\s*")
_BODY_LINE: Final = re.compile(rb"[+-](?!-*\s*$|----|- ?$).*\s*")
_BULLET: Final = re.compile(rb"[+-] {1,3}[\w\"'`(<\[*]")
# filterdiff(1) leaves it where it takes out the line `diff --git`.
_PLAIN_MODE: Final = re.compile(rb"(?:new|deleted) file mode 100644\s*")
_CONTEXT_DIFF: Final = (re.compile(rb"\*{3} \S.*\s*"), re.compile(rb"--- \S.*\s*"))
_NORMAL_DIFF: Final = (re.compile(rb"\d+(?:,\d+)?[acd]\d+(?:,\d+)?\s*"), re.compile(rb"[<>] .*\s*"))
# Quoted or indented it is an example; behind anything else it is a section that is damaged.
_DIFF: Final = re.compile(rb"(\W{1,8})diff --git \S")
_QUOTES: Final = re.compile(rb"[\s>|#*+-]*(?:[`'\"(]*)")


def check_text(lines: Lines, *, is_lenient: bool, in_head: bool = False) -> None:
    """Refuse the next line if it belongs to a diff; any other is text.

    Args:
        lines: of which the next one is outside every section.
        is_lenient: whether it may look like a line of a section: in a commit message, which can
            speak of diffs, and behind the headers of a section.
        in_head: whether it is before the first section.
    """
    line = lines.peek()
    if is_hunk_header(line):
        lines.fail("a hunk without a file header")
    for pattern, message, remedy in _NAMED:
        if re.fullmatch(pattern, line):
            lines.fail(message, remedy=remedy)
    damaged = _DIFF.match(line)
    if damaged and not _QUOTES.fullmatch(damaged[1]):
        lines.fail(
            "characters before `diff --git`: no section starts here",
            remedy="take them out; a file's byte order mark in the middle is one",
        )
    for form, (first, second) in (("context", _CONTEXT_DIFF), ("normal", _NORMAL_DIFF)):
        if first.fullmatch(line) and second.fullmatch(lines.peek(1)):
            lines.fail(f"this is a {form} diff, not a unified one", remedy=_UNIFIED)
    if is_lenient:
        return
    if _PLAIN_MODE.fullmatch(line) and lines.peek(1).startswith(b"--- "):
        return
    is_body = _BODY_LINE.fullmatch(line) and not (in_head and _is_prose(lines))
    if is_body or any(
        part.fullmatch(line) and (then is None or then.fullmatch(lines.peek(1)))
        for part, then in _PARTS
    ):
        lines.fail(
            "this line of a diff is outside every file's section",
            remedy="write the patch again, or take the line out if it is a comment",
        )


def check_above(lines: Lines) -> None:
    """Refuse the lines directly above the first section of ``diff -r`` that name its folders.

    Languages put the words of "Only in a: f" before the folder, behind it, or around it.
    """
    command = _COMMAND.fullmatch(lines.peek())
    if command is None:
        return
    old, new = (
        rb"(?<![\w/.~+-])" + re.escape(folder) + rb"(?:/[^:\n]*)?" for folder in command.group(1, 3)
    )
    one = re.compile(
        rb".*(?:%s|%s)(?:'\w+| ?[^\0-\x7f][^:\n]*| \w+[^\0-\x7f]+\w*)?(?::|\xef\xbc\x9a) ?\S.*\s*"
        % (old, new)
    )
    both = re.compile(rb".*%s\W.*%s.*\s*" % (old, new))
    back = 0
    while lines.number + back > 1 and lines.peek(back - 1).strip():
        back -= 1
        line = lines.peek(back)
        if not _AFTER_SECTION.match(line) and (one.fullmatch(line) or both.fullmatch(line)):
            _may_name(lines, lines.number + back)


def check_between(lines: Lines, start: int, *, of_git: bool) -> None:
    """Refuse a text between two sections; the second starts at the next line.

    Programs write known lines there, and git none. Any other line is a comment or belongs to a
    second commit: ``git log`` has every format that its user asks for.
    """
    rows = [lines.peek(back) for back in range(start - lines.number, 0)]
    between = b"".join(rows)
    known = _BETWEEN.match(between + lines.peek())
    end = known.end() if known and not (of_git and set(rows) == {b"\n"}) else 0
    if end < len(between):
        what = "text" if between.strip() else "an empty line"
        lines.fail(
            f"{what} between two sections: a second patch can start here",
            line=start + between.count(b"\n", 0, end),
            remedy="if this is one patch, move the text above its first section or remove the "
            "line; write a log again with `git format-patch --stdout`",
        )


def check_behind(lines: Lines) -> None:
    """Refuse the next line, directly behind a section of ``diff -r``, unless it is known.

    There diff(1) names files that it does not show, in the language of whoever ran it.
    """
    if not _AFTER_SECTION.match(lines.peek()):
        _may_name(lines, lines.number)


def _may_name(lines: Lines, at: int) -> NoReturn:
    lines.fail(
        "diff(1) may name a change here that the patch does not hold",
        line=at,
        remedy="write the patch again with `LC_ALL=C diff -ruN`, or put an empty line between "
        "it and the diff if it is a comment",
    )


def _is_prose(lines: Lines) -> bool:
    """Whether the next line, which starts with + or -, is a bullet or goes on with a sentence."""
    back = 0
    while lines.number + back > 1 and lines.peek(back - 1).strip() not in (b"", b"---"):
        back -= 1
    first = lines.peek(back)
    if not first.startswith((b" ", b"+", b"-", b"@", b"\\")):
        return True
    return all(_BULLET.match(line) is not None for line in (first, lines.peek()))
