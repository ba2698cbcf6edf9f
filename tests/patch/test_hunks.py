"""Hunks: what is read, and that every wrong count is named with both numbers."""

from __future__ import annotations

import io
import os
import random
import subprocess
from typing import TYPE_CHECKING

import pytest
from unidiff.patch import PatchSet

from pkgtools.errors import FilePlace, MalformedError
from pkgtools.patch import Hunk, parse_patch

if TYPE_CHECKING:
    from pathlib import Path

HEAD = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n"
BODY = b" one\n-two\n+2\n three\n"
SIGNATURE = b"-- \n2.39.5\n\n"


def read(*hunks: bytes, head: bytes = HEAD) -> tuple[Hunk, ...]:
    (file,) = parse_patch("x.patch", head + b"".join(hunks)).files
    return file.hunks


def refusal(*hunks: bytes, head: bytes = HEAD) -> MalformedError:
    with pytest.raises(MalformedError) as caught:
        parse_patch("x.patch", head + b"".join(hunks))
    return caught.value


def test_hunk_holds_both_images_and_where_it_stands() -> None:
    (hunk,) = read(b"@@ -4,3 +5,3 @@ def f():\n", BODY)
    assert (hunk.old_start, hunk.old_count, hunk.new_start, hunk.new_count) == (4, 3, 5, 3)
    assert hunk.old == b"one\ntwo\nthree\n"
    assert hunk.new == b"one\n2\nthree\n"
    assert hunk.lines == ((b" ", b"one\n"), (b"-", b"two\n"), (b"+", b"2\n"), (b" ", b"three\n"))
    assert (hunk.first_old_line, hunk.first_new_line) == (4, 5)
    assert hunk.line == 4
    assert hunk.trailing_context == 1


@pytest.mark.parametrize(
    ("header", "body", "counts"),
    [
        (b"@@ -1 +1 @@\n", b"-a\n+b\n", (1, 1, 1, 1)),
        (b"@@ -1 +1,2 @@\n", b" a\n+b\n", (1, 1, 1, 2)),
        (b"@@ -1,2 +1 @@\n", b" a\n-b\n", (1, 2, 1, 1)),
        (b"@@ -0,0 +1 @@\n", b"+b\n", (0, 0, 1, 1)),
        (b"@@ -1,2 +0,0 @@\n", b"-a\n-b\n", (1, 2, 0, 0)),
        (b"@@ -1 +1 @@ @@ -9,9 +9,9 @@\n", b"-a\n+b\n", (1, 1, 1, 1)),
    ],
)
def test_ranges_may_leave_out_a_count_of_one(
    header: bytes, body: bytes, counts: tuple[int, int, int, int]
) -> None:
    (hunk,) = read(header, body)
    assert (hunk.old_start, hunk.old_count, hunk.new_start, hunk.new_count) == counts


@pytest.mark.parametrize(
    "header",
    [
        b"@@ -a,3 +1,3 @@\n",
        b"@@ -1,3 +1,3\n",
        b"@@ -1,3 + 1,3 @@\n",
        b"@@ -1,3 +1,3@@\n",
        b"@@ -1,1234567890 +1,3 @@\n",
        b"@@ --1,3 +1,3 @@\n",
    ],
)
def test_malformed_header_is_refused(header: bytes) -> None:
    assert "x.patch:4: this hunk header is malformed" in str(refusal(header, BODY))


def test_lines_of_a_body_that_look_like_headers_are_content() -> None:
    body = (
        b" @@ -1,2 +3,4 @@\n"
        b"--- a/g\n"  # removes "-- a/g"
        b"+++ b/g\n"  # adds "++ b/g"
        b"-diff --git a/f b/f\n"
        b"+\\ No newline at end of file\n"
        b" \n"
    )
    (hunk,) = read(b"@@ -1,4 +1,4 @@\n", body)
    assert hunk.old == b"@@ -1,2 +3,4 @@\n-- a/g\ndiff --git a/f b/f\n\n"
    assert hunk.new == b"@@ -1,2 +3,4 @@\n++ b/g\n\\ No newline at end of file\n\n"


def test_carriage_returns_and_bytes_that_are_no_text_are_kept() -> None:
    (hunk,) = read(b"@@ -1,2 +1,2 @@\n", b" a\rb\r\n-\xff\r\n+\xfe\0\r\n")
    assert hunk.old == b"a\rb\r\n\xff\r\n"
    assert hunk.new == b"a\rb\r\n\xfe\0\r\n"


def test_empty_context_line_may_have_lost_its_space() -> None:
    (hunk,) = read(b"@@ -1,3 +1,3 @@\n", b"\n-two\n+2\n\n")
    assert hunk.old == b"\ntwo\n\n"
    assert hunk.trailing_context == 1


def test_empty_context_line_of_crlf_must_have_its_space() -> None:
    # git calls it corrupt; a mailer that strips spaces strips the carriage return as well
    assert "its body has" in str(refusal(b"@@ -1,3 +1,3 @@\n", b"\r\n-two\n+2\n three\n"))


# Counts. A header that counts wrong is refused with both numbers.


def hunk_of(old: int, new: int, *, said_old: int, said_new: int) -> bytes:
    """Return a hunk with one context line at both ends and other counts in its header."""
    body = b" start\n" + b"-old\n" * (old - 2) + b"+new\n" * (new - 2) + b" end\n"
    return b"@@ -1,%d +1,%d @@\n" % (said_old, said_new) + body


@pytest.mark.parametrize(
    ("old", "new", "said_old", "said_new"),
    [(7, 28, 7, 31), (7, 31, 7, 28), (9, 4, 8, 4), (8, 4, 9, 4), (5, 5, 4, 6), (5, 5, 6, 4)],
)
@pytest.mark.parametrize(
    "behind",
    [
        b"",
        SIGNATURE,
        b"-- \nJane\nDoe Ltd.\n",
        b"--\n2.39.5\n",
        b"diff --git a/g b/g\nold mode 100644\nnew mode 100755\n",
        b"@@ -90 +90 @@\n-a\n+b\n",
        b"--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
        b"Index: g\n",
    ],
    ids=["end", "mail", "own", "stripped", "section", "hunk", "plain", "index"],
)
def test_wrong_count_is_refused_with_both_numbers(
    old: int, new: int, said_old: int, said_new: int, behind: bytes
) -> None:
    error = refusal(hunk_of(old, new, said_old=said_old, said_new=said_new), behind)
    assert str(error) == (
        f"x.patch:4: the hunk header says {said_old} old and {said_new} new lines, "
        f"its body has {old} and {new}"
    )
    assert error.details == FilePlace("x.patch", 4)
    assert error.remedy is not None
    assert "git format-patch" in error.remedy


@pytest.mark.parametrize("signature", [b"-- \n2.39.5\n", b"-- \nJane Doe\n", b"--\n2.39.5\n"])
def test_signature_is_not_taken_for_the_one_line_that_is_missing(signature: bytes) -> None:
    # with one old line too many in the header, "-- " would make the counts right
    error = refusal(b"@@ -1,3 +1,2 @@\n", b" a\n-b\n+c\n", signature)
    assert "says 3 old and 2 new lines, its body has 2 and 2" in str(error)


@pytest.mark.parametrize("behind", [b"", b"tg: (9a079e2..) t/x (depends on: y)\n", b"\nmore\n"])
def test_line_of_dashes_behind_a_hunk_is_a_rule(behind: bytes) -> None:
    (hunk,) = read(b"@@ -1,3 +1,3 @@\n", BODY, b"---\n", behind)
    assert hunk.old == b"one\ntwo\nthree\n"
    surplus = refusal(b"@@ -1,3 +1,3 @@\n", BODY, b"---\n four\n")
    assert "its body has 5 and 4" in str(surplus)


@pytest.mark.parametrize(
    "behind",
    [b"", SIGNATURE, b"@@ -9 +8 @@\n-a\n+b\n", b"diff --git a/g b/g\nnew file mode 100644\n"],
)
def test_removed_line_of_a_dash_and_a_space_is_no_signature(behind: bytes) -> None:
    patch = parse_patch("x.patch", HEAD + b"@@ -1,2 +1 @@\n a\n-- \n" + behind)
    assert patch.files[0].hunks[0].old == b"a\n- \n"


def test_removed_dashes_in_the_middle_are_counted() -> None:
    (hunk,) = read(b"@@ -1,4 +1,2 @@\n", b" a\n-- \n--\n b\n", SIGNATURE)
    assert hunk.old == b"a\n- \n-\nb\n"


@pytest.mark.parametrize(
    "behind", [b"", b"-- \n2.39.5\n", b"--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n"]
)
def test_blank_context_behind_a_hunk_is_an_empty_line(tmp_path: Path, behind: bytes) -> None:
    """What git and patch(1) pass over; it changes nothing."""
    data = HEAD + b"@@ -1,3 +1,3 @@\n" + BODY + b" \n  \t\n" + behind
    assert parse_patch("x.patch", data).files[0].hunks[0].old == b"one\ntwo\nthree\n"
    command = ["git", "apply", "--numstat"]
    subprocess.run(command, cwd=tmp_path, input=data, capture_output=True, check=True)
    refusal(b"@@ -1,3 +1,3 @@\n", BODY, b" \n more\n")


@pytest.mark.parametrize("surplus", [b"+more\n", b"-more\n", b" more\n", b"-- \n more\n"])
def test_surplus_line_is_refused(surplus: bytes) -> None:
    assert "the hunk header says 3 old and 3 new lines" in str(
        refusal(b"@@ -1,3 +1,3 @@\n", BODY, surplus)
    )


def test_surplus_removed_dash_before_the_next_section_is_refused() -> None:
    section = b"diff --git a/g b/g\nold mode 100644\nnew mode 100755\n"
    error = refusal(b"@@ -1,3 +1,3 @@\n", BODY, b"-- \n", section)
    assert "its body has 4 and 3" in str(error)


def test_empty_context_lines_without_their_space_are_counted() -> None:
    error = refusal(b"@@ -1,9 +1,9 @@\n", b" a\n-b\n+c\n\n", b"diff --git a/g b/g\n")
    assert "its body has 3 and 3" in str(error)


@pytest.mark.parametrize(
    ("hunk", "said"),
    [
        (b"@@ -1,2 +1,2 @@\n a\n b\n", "this hunk changes nothing"),
        (b"@@ -1,0 +1,0 @@\n", "this hunk changes nothing"),
        (b"@@ -0,2 +1,2 @@\n a\n-b\n+c\n", "starts at line 0 and is not empty there"),
        (b"@@ -1,2 +0,2 @@\n a\n-b\n+c\n", "starts at line 0 and is not empty there"),
        (b"@@ -2,0 +3 @@\n+c\n", "this hunk has no context, so its place cannot be verified"),
        (b"@@ -1,2 +1,2 @@\n a\n-b\n+c", "the file ends in the middle of a line"),
    ],
)
def test_hunk_that_says_nothing_or_no_place_is_refused(hunk: bytes, said: str) -> None:
    assert said in str(refusal(hunk))


# The end of the file.

MARK = b"\\ No newline at end of file\n"


@pytest.mark.parametrize(
    ("header", "body", "old", "new"),
    [
        (b"@@ -1 +1 @@\n", b"-a\n" + MARK + b"+b\n", b"a", b"b\n"),
        (b"@@ -1 +1 @@\n", b"-a\n+b\n" + MARK, b"a\n", b"b"),
        (b"@@ -1 +1 @@\n", b"-a\n" + MARK + b"+b\n" + MARK, b"a", b"b"),
        (b"@@ -1 +1 @@\n", b"+b\n" + MARK + b"-a\n" + MARK, b"a", b"b"),
        (b"@@ -1,2 +1,2 @@\n", b"-a\n+b\n c\n" + MARK, b"a\nc", b"b\nc"),
        (b"@@ -1 +1,2 @@\n", b"-a\n" + MARK + b"+a\n+b\n", b"a", b"a\nb\n"),
        (b"@@ -1 +1 @@\n", b"-a\r\n" + MARK + b"+b\r\n", b"a\r", b"b\r\n"),
        (b"@@ -1 +1 @@\n", b"-a\n\\ Kein Zeilenumbruch\n+b\n", b"a", b"b\n"),
        (b"@@ -1 +1 @@\n", b"-\n+a\n" + MARK, b"\n", b"a"),
    ],
)
def test_marker_takes_the_line_end_away(header: bytes, body: bytes, old: bytes, new: bytes) -> None:
    (hunk,) = read(header, body)
    assert (hunk.old, hunk.new) == (old, new)


@pytest.mark.parametrize(
    ("header", "body", "said"),
    [
        (b"@@ -1 +1 @@\n", MARK + b"-a\n+b\n", "where no line can lack its line end"),
        (b"@@ -1 +1 @@\n", b"-a\n" + 2 * MARK + b"+b\n", "where no line can lack"),
        (b"@@ -1,2 +1,2 @@\n", b" a\n" + MARK + b"-b\n+c\n", "a line follows one that is marked"),
        (b"@@ -1,2 +1 @@\n", b"-a\n" + MARK + b"-b\n+c\n", "a line follows one that is marked"),
        (b"@@ -1 +1,2 @@\n", b"-a\n+b\n" + MARK + b"+c\n", "a line follows one that is marked"),
        (b"@@ -1,2 +1,2 @@\n", b"-a\n+b\n" + MARK + b" c\n", "a line follows one that is marked"),
        (b"@@ -1,2 +1,2 @@\n", b"-a\n" + MARK + b"+b\n c\n", "a line follows one that is marked"),
        (b"@@ -1 +1,2 @@\n", b" a\n+\n" + MARK, "where no line can lack its line end"),
        (b"@@ -1,2 +1,2 @@\n", b"-a\n+b\n\n" + MARK, "where no line can lack its line end"),
        (b"@@ -1 +1 @@\n", b"-a\n+b\n\\ No\n", "is not git's"),
        (b"@@ -1 +1 @@\n", b"-a\n+b\n\\\n", "is not git's"),
        (b"@@ -1 +1 @@\n", b"-a\n+b\n\\No newline at end of file\n", "is not git's"),
    ],
)
def test_marker_in_a_place_where_no_file_ends_is_refused(
    header: bytes, body: bytes, said: str
) -> None:
    assert said in str(refusal(header, body))


# An independent reader.


def git_diff(where: Path, *options: str) -> bytes:
    environment = {name: value for name, value in os.environ.items() if name[:4] != "GIT_"}
    made = subprocess.run(
        ["git", "diff", "--no-index", "--no-prefix", *options, "a", "b"],
        cwd=where,
        env=environment | {"HOME": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"},
        capture_output=True,
        check=False,
    )
    assert made.returncode == 1, made.stderr
    return made.stdout


@pytest.mark.parametrize("context", [1, 2, 3, 5])
def test_same_hunks_as_unidiff_on_diffs_that_git_makes(tmp_path: Path, context: int) -> None:
    chance = random.Random(context)  # noqa: S311
    words = ["", "a", "b", "- ", "-- ", "-- a/f", "++ b/f", "@@ -1 +1 @@", "\\ No newline", "\t"]
    for number in range(60):
        before = chance.choices([*words, *map(str, range(20))], k=chance.randrange(40))
        after = list(before)
        for _ in range(chance.randrange(1, 5)):
            at = chance.randrange(len(after) + 1)
            after[at : at + chance.randrange(3)] = chance.choices(words, k=chance.randrange(3))
        for side, body in (("a", before), ("b", after)):
            (tmp_path / side).mkdir(exist_ok=True)
            end = chance.choice(["\n", "\n", ""])
            text = "\n".join(body) + end
            (tmp_path / side / f"{number:02}").write_text(text, newline="")
    data = git_diff(tmp_path, f"-U{context}")
    ours = parse_patch("x.patch", data)
    theirs = PatchSet(io.StringIO(data.decode(), newline="\n"))
    with_hunks = [file for file in ours.files if file.hunks]
    assert [file.new_path for file in with_hunks] == [file.path for file in theirs]
    assert sum(len(file.hunks) for file in ours.files) > 60
    for mine, other in zip(with_hunks, theirs, strict=True):
        for hunk, expected in zip(mine.hunks, other, strict=True):
            assert (hunk.old_start, hunk.old_count) == (
                expected.source_start,
                expected.source_length,
            )
            assert (hunk.new_start, hunk.new_count) == (
                expected.target_start,
                expected.target_length,
            )
            assert rebuilt(hunk) == [(line.line_type, line.value) for line in expected]


def rebuilt(hunk: Hunk) -> list[tuple[str, str]]:
    """Return a hunk's lines as unidiff has them, the marker as a line of its own."""
    lines = []
    for tag, content in hunk.lines:
        text = content.decode()
        lines.append((tag.decode(), text.removesuffix("\n") + "\n"))
        if not text.endswith("\n"):
            lines.append(("\\", " No newline at end of file\n"))
    return lines
