"""Refusals: what was expected, what resembles it most and where, and what is there already."""

from __future__ import annotations

import pytest
from git_oracle import plan

from pkgtools.blob import Blob
from pkgtools.plan import Nearest, Reason, Rejection
from pkgtools.plan.explain import absorbed_at, nearest_place, shown_lines

MARK = "\\ No newline at end of file\n"


def rejections(path: str, data: bytes, hunks: str) -> tuple[Rejection, ...]:
    patch = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n{hunks}"
    return plan({path: Blob(data)}, patch.encode()).rejections


def rejection(data: bytes, hunk: str, path: str = "f") -> Rejection:
    (only,) = rejections(path, data, hunk)
    return only


def nearest(data: bytes, block: bytes) -> Nearest:
    place = nearest_place(data, block)
    assert place is not None
    return place


EDIT = "@@ -4,3 +4,3 @@\n four\n-five\n+5\n six\n"
SOURCE = b"one\ntwo\nthree\nfour\nfive\nsix\nseven\n"


# What was expected and what is there.


def test_hunk_that_fits_nowhere_says_what_it_expected_and_what_is_like_it() -> None:
    data = b"zero\n" + SOURCE.replace(b"six", b"6")
    assert rejection(data, EDIT) == Rejection(
        patch="1.patch",
        path="f",
        reason=Reason.NO_MATCH,
        message="hunk 1 matches nowhere; its header says line 4",
        patch_line=4,
        hunk=1,
        stated=4,
        places=(),
        expected=("four", "five", "six"),
        nearest=Nearest(line=5, similarity=0.667, diff=("  four", "  five", "- six", "+ 6")),
        absorbed=None,
    )


def test_hunk_that_fits_twice_says_both_places() -> None:
    found = rejection(b"\n" + SOURCE + SOURCE, EDIT)
    assert found.reason is Reason.AMBIGUOUS
    assert found.message == "hunk 1 matches in 2 places: lines 5 and 12"
    assert found.places == (5, 12)
    assert found.expected == ("four", "five", "six")
    assert (found.nearest, found.absorbed) == (None, None)


def test_three_places_are_all_named() -> None:
    found = rejection(b"\n" + SOURCE * 3, EDIT)
    assert found.message == "hunk 1 matches in 3 places: lines 5 and 12 and 19"


def test_overlap_names_the_other_hunk() -> None:
    (found,) = rejections("f", SOURCE, EDIT + "@@ -5,2 +5,2 @@\n-five\n+fife\n six\n")
    assert found.reason is Reason.OVERLAP
    assert found.message == "hunk 2 would change lines that hunk 1 changes too"
    assert (found.hunk, found.stated, found.places) == (2, 5, (5,))


@pytest.mark.parametrize(
    ("hunk", "where"),
    [
        ("@@ -1,2 +1,3 @@\n+a\n 1\n 2\n", "start of the file"),
        ("@@ -2 +2,2 @@\n 1\n+a\n", "end of the file"),
        ("@@ -1 +1,2 @@\n 1\n+a\n", "start and end of the file"),
        ("@@ -2 +2 @@\n-1\n+a\n", "end of the file, at line 2 without any context"),
    ],
)
def test_lines_in_the_wrong_place_are_named(hunk: str, where: str) -> None:
    found = rejection(b"0\n1\n2\n", hunk)
    assert found.reason is Reason.NO_MATCH
    assert found.message == f"hunk 1 belongs at the {where}; its lines stand at line 2"


def test_patch_applied_twice_says_where_its_result_stands() -> None:
    function = "def f():\n    a = 1\n    return\n"
    insert = "@@ -1,3 +1,4 @@\n def f():\n     a = 1\n+    b = 2\n     return\n"
    once = function.replace("    return", "    b = 2\n    return")
    assert rejection((once + function).encode(), insert).absorbed == 1
    below = insert.replace("-1,3 +1,4", "-2,3 +2,4")
    found = rejection(("#\n" + once + "\n" + function).encode(), below)
    assert found.reason is Reason.AMBIGUOUS
    assert found.message == (
        "hunk 1 matches at line 7 only, but what it makes stands at line 2, "
        "nearer to line 2 of its header"
    )
    assert (found.places, found.absorbed) == ((7,), 2)


def test_lines_are_shown_with_what_cannot_be_seen() -> None:
    assert shown_lines(b"a\nb\r\nc\rd\n\x0ce\n\xff\n") == ("a", "b\\r", "c\rd", "\x0ce", "\\xff")
    assert shown_lines(b"a\nb") == ("a", "b (no newline at end of file)")
    assert shown_lines(b"a\r") == ("a\\r (no newline at end of file)",)
    assert shown_lines(b"") == ()


def test_file_with_other_line_ends_shows_them() -> None:
    found = rejection(SOURCE.replace(b"\n", b"\r\n"), EDIT)
    assert found.nearest is not None
    assert found.nearest.line == 4
    assert found.nearest.similarity == 0
    assert "- four" in found.nearest.diff
    assert "+ four\\r" in found.nearest.diff


def test_missing_end_of_the_last_line_is_shown() -> None:
    found = rejection(b"one\ntwo", "@@ -1,2 +1,2 @@\n-one\n+1\n two\n")
    assert found.nearest is not None
    assert found.nearest.diff == ("  one", "- two", "+ two (no newline at end of file)")


# The nearest place.


def test_nearest_place_has_most_lines_in_common() -> None:
    data = b"a\nx\ny\nz\n" + b"#\n" * 20 + b"a\nb\nc\nz\n"
    place = nearest(data, b"a\nb\nc\nd\n")
    assert (place.line, place.similarity) == (25, 0.75)
    assert place.diff == ("  a", "  b", "  c", "- d", "+ z")


def test_nearest_place_is_found_by_any_line_of_it() -> None:
    place = nearest(b"#\n#\n#\n1\n2\nc\n#\n", b"a\nb\nc\n")
    assert place.line == 4


def test_nearest_place_looks_past_indentation() -> None:
    place = nearest(b"#\nif x:\n    a = 1\n    b = 2\n", b"a = 1\nb = 2\n")
    assert place.line == 3
    assert place.similarity == 0
    assert place.diff == ("- a = 1", "- b = 2", "+     a = 1", "+     b = 2")


@pytest.mark.parametrize(
    ("data", "block"),
    [
        (b"a\nb\n", b"x\ny\n"),
        (b"", b"a\n"),
        (b"a\n", b""),
        (b"\n\n\n", b"\n\n"),
        (b"}\n" * 60, b"}\n"),
    ],
)
def test_nothing_resembles_a_block_of_other_or_common_lines(data: bytes, block: bytes) -> None:
    assert nearest_place(data, block) is None


def test_line_of_the_nearest_place_counts_as_the_file_does() -> None:
    assert nearest(b"a\rb\x0cc\n\x85\nx\ny\n", b"x\nz\n").line == 3


def test_large_hunk_is_explained() -> None:
    # by difflib.ndiff, which is cubic here, this would not end
    old = [f"value_{number} = {number * 7919 % 1000}\n" for number in range(4000)]
    new = [f"value_{number} = {number * 6007 % 1000}\n" for number in range(4000)]
    old[0] = new[0] = "anchor\n"
    assert nearest("".join(new).encode(), "".join(old).encode()).line == 1


# Absorbed: the file holds what the hunk makes.


def test_hunk_that_is_there_already_says_where() -> None:
    found = rejection(b"zero\n" + SOURCE.replace(b"five", b"5"), EDIT)
    assert (found.reason, found.absorbed) == (Reason.NO_MATCH, 5)


def test_hunk_that_is_half_there_is_not_absorbed() -> None:
    hunk = "@@ -4,3 +4,4 @@\n four\n-five\n+5\n+5.5\n six\n"
    assert rejection(SOURCE.replace(b"five", b"5"), hunk).absorbed is None


def test_only_the_hunks_that_are_there_are_absorbed() -> None:
    data = SOURCE.replace(b"two", b"2").replace(b"five", b"V")
    first, second = rejections("f", data, "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n" + EDIT)
    assert (first.absorbed, second.absorbed) == (1, None)


def test_result_that_stands_twice_proves_nothing() -> None:
    data = SOURCE.replace(b"five", b"5") * 2
    assert rejection(data, EDIT).absorbed is None


def test_blank_result_proves_nothing() -> None:
    assert absorbed_at("f", b"\n\n", b"a\n", b"\n\n") is None
    assert absorbed_at("f", b"a\n", b"a\n", b"") is None


def removed(data: bytes, before: bytes, after: bytes) -> int | None:
    return absorbed_at("f", data, before, after)


def test_removal_between_lines_that_have_closed_up_is_absorbed() -> None:
    assert removed(b"0\na\nb\nd\ne\n", b"a\nb\nc\nd\ne\n", b"a\nb\nd\ne\n") == 2


@pytest.mark.parametrize(
    "data",
    [
        b"a\nb\nC\nd\ne\n",  # the line is there, but not as the patch knows it
        b"a\nb\nd\ne\na\nb\nd\ne\n",
        b"b\nd\n",
        b"a\nb\nd\ne\n0\na\nb\nc\nd\ne\n",  # closed up in one place, whole in another
    ],
)
def test_removal_is_not_absorbed_by_look_alikes(data: bytes) -> None:
    assert removed(data, b"a\nb\nc\nd\ne\n", b"a\nb\nd\ne\n") is None


def test_removal_at_an_end_of_the_file_looks_already_applied_and_is_not() -> None:
    # all that is left of the hunk is context, which stands in the unchanged file as well
    assert removed(b"a\nb\nC\n", b"a\nb\nc\n", b"a\nb\n") is None
    assert removed(b"A\nb\nc\n", b"a\nb\nc\n", b"b\nc\n") is None
    assert removed(b"0\na\nb\n", b"a\nb\nc\n", b"a\nb\n") == 2
    assert removed(b"b\nc\n0\n", b"a\nb\nc\n", b"b\nc\n") == 1
    at_end = rejection(b"1\n2\n3 # new\n", "@@ -1,3 +1,2 @@\n 1\n 2\n-3\n")
    assert at_end.absorbed is None


PYTHON = b"""\
def scale(x, factor):
    # Multiply.
    if factor > 65535:  # too large
        raise ValueError("# is no comment here")
    return x * factor
"""
HUNK = """\
@@ -1,2 +1,4 @@
 def scale(x, factor):
+    if factor > 65535:
+        raise ValueError("# is no comment here")
     return x * factor
"""


def test_python_is_compared_without_comments() -> None:
    assert rejection(PYTHON, HUNK, "f.py").absorbed == 1
    assert rejection(PYTHON, HUNK, "f.txt").absorbed is None


def test_comments_of_the_patch_do_not_count_either() -> None:
    commented = HUNK.replace("+1,4", "+1,6").replace(
        "+    if", "+    # Two lines of\n+    # our own.\n+    if"
    )
    assert rejection(PYTHON, commented, "f.py").absorbed == 1


def test_line_of_an_absorbed_python_hunk_counts_comment_lines() -> None:
    assert rejection(b"# a\n# b\n\n" + PYTHON, HUNK.replace("-1,2", "-2,2"), "f.py").absorbed == 4


@pytest.mark.parametrize(
    "data",
    [
        PYTHON.replace(b"65535", b"65536"),
        PYTHON.replace(b"# is no", b"#is no"),
        PYTHON.replace(b"        raise", b"    raise"),
        PYTHON.replace(b"    return", b"    x += 1\n    return"),
        PYTHON.replace(b"    return", b"\n    return"),
        PYTHON + PYTHON,
    ],
)
def test_python_must_be_the_same_but_for_comments(data: bytes) -> None:
    assert rejection(data, HUNK, "f.py").absorbed is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a = 1\n", b"a = 1  # one\n"),
        (b"a = 1\n", b"# one\na = 1\n"),
        (b"a = 1  # one\nb = 2\n", b"a = 1\n"),
    ],
)
def test_change_that_adds_no_code_is_not_absorbed_by_code(before: bytes, after: bytes) -> None:
    assert absorbed_at("f.py", b"a = 1  # I\n", before, after) is None


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ('x = "#"', 'x = "#"  # c'),
        ("x = '\\'#'", "x = '\\'#' # c"),
        ("x = '\"#'", "x = '\"#'#c"),
        ('x = "it\'s #1"', 'x = "it\'s #1"  # c'),
    ],
)
def test_hash_in_a_string_is_no_comment(line: str, same: str) -> None:
    assert absorbed_at("f.py", f"{same}\n".encode(), b"", f"{line}\n".encode()) == 1
    other = line.replace("#", "# ")
    assert absorbed_at("f.py", f"{other}\n".encode(), b"", f"{line}\n".encode()) is None
