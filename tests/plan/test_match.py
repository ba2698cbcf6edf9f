"""Where hunks go: at the stated place, in the only other one, or nowhere."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkgtools.blob import Blob
from pkgtools.patch import Hunk, parse_patch
from pkgtools.plan import Placement, plan_series
from pkgtools.plan.match import Misfit, Text, apply_hunks

MARK = "\\ No newline at end of file\n"


def hunks(*texts: str) -> tuple[Hunk, ...]:
    head = "diff --git a/f b/f\n--- a/f\n+++ b/f\n"
    (file,) = parse_patch("x.patch", (head + "".join(texts)).encode()).files
    return file.hunks


def applied(data: bytes, *texts: str) -> tuple[bytes, list[tuple[int, int]]]:
    """Return the new content and each hunk's line and offset."""
    made, placements, misfits = apply_hunks(data, hunks(*texts))
    assert misfits == ()
    return made, [(placement.line, placement.offset) for placement in placements]


def misfits(data: bytes, *texts: str) -> tuple[Misfit, ...]:
    made, placements, wrong = apply_hunks(data, hunks(*texts))
    assert (made, placements) == (data, ())
    assert wrong
    return wrong


def numbered(first: int, last: int) -> bytes:
    return b"".join(b"%d\n" % number for number in range(first, last + 1))


EDIT_5 = "@@ -4,3 +4,3 @@\n 4\n-5\n+five\n 6\n"


# Text


def plain_search(data: bytes, block: bytes) -> list[int]:
    """Return each offset at which the whole lines of `block` stand in `data`."""
    found = []
    at = data.find(block) if block else -1
    while at >= 0:
        end = at + len(block)
        starts_line = at == 0 or data[at - 1] == 0x0A
        if starts_line and (block.endswith(b"\n") or end == len(data)):
            found.append(at)
        at = data.find(block, at + 1)
    return found


@pytest.mark.parametrize(
    ("data", "block", "offsets"),
    [
        (b"a\nb\na\n", b"a\n", [0, 4]),
        (b"aa\na\n", b"a\n", [3]),
        (b"a\na\na\n", b"a\na\n", [0, 2]),
        (b"a\nb", b"b", [2]),
        (b"a\nb\n", b"b", []),
        (b"b\nbc", b"b", []),
        (b"a\r\nb\r\n", b"b\n", []),
        (b"a\rb\n", b"b\n", []),
        (b"\n\n\n", b"\n\n", [0, 1]),
        (b"a\n", b"", []),
        (b"", b"a\n", []),
    ],
)
def test_block_is_found_as_whole_lines_only(data: bytes, block: bytes, offsets: list[int]) -> None:
    assert list(Text(data).find(block)) == plain_search(data, block) == offsets


@pytest.mark.parametrize(("offset", "line"), [(0, 1), (2, 2), (4, 3)])
def test_lines_are_counted_from_one(offset: int, line: int) -> None:
    assert Text(b"a\nb\nc\n").line_of(offset) == line


_LINES = st.lists(st.sampled_from([b"", b"a", b"b", b"aa", b"a\r"]), max_size=12).map(b"\n".join)


@given(_LINES, _LINES)
def test_the_index_finds_what_a_plain_search_finds(data: bytes, block: bytes) -> None:
    text = Text(data)
    assert list(text.find(block)) == plain_search(data, block)
    for at in text.find(block):
        assert text.line_of(at) == data.count(b"\n", 0, at) + 1
        assert text.offset_of(text.line_of(at)) == at


def _large(count: int, *, fits: bool) -> tuple[bytes, bytes]:
    """Return a patch of so many hunks, and the file, in which all lie 7 lines below."""
    lines = [f"line {number} of the file with some text\n" for number in range(count * 10)]
    out = ["--- a/f.py\n+++ b/f.py\n"]
    for at in range(3, count * 10, 10):
        out.append(f"@@ -{at + 1},7 +{at + 1},7 @@\n")
        before = lines[at : at + 7]
        context = "" if fits else "otherwise "
        out += [f" {context}{line}" for line in before[:3]]
        out.append(f"-{before[3]}+new {before[3]}")
        out += [f" {context}{line}" for line in before[4:]]
    return "".join(out).encode(), "".join(["moved\n"] * 7 + lines).encode()


def _seconds(count: int, *, fits: bool) -> float:
    """Return the processor's time for a plan, the shorter of two."""
    data, file = _large(count, fits=fits)
    patch = parse_patch("x.patch", data)
    taken = []
    for _ in range(2):
        start = time.process_time()
        plan = plan_series([patch], {"f.py": Blob(file)}.get)
        taken.append(time.process_time() - start)
        assert plan.ok == fits
    return min(taken)


@pytest.mark.parametrize(("fits", "count"), [(True, 500), (False, 300)])
def test_time_grows_with_the_number_of_hunks(count: int, *, fits: bool) -> None:
    """Linear is 8 times as long here, and quadratic 64 times; a busy machine adds to both."""
    assert _seconds(8 * count, fits=fits) < 32 * _seconds(count, fits=fits)


# The stated place.


def test_hunk_goes_to_its_stated_place() -> None:
    made = numbered(1, 4) + b"five\n" + numbered(6, 9)
    assert applied(numbered(1, 9), EDIT_5) == (made, [(4, 0)])


def test_stated_place_counts_though_there_are_twins() -> None:
    twins = b"x\ny\nz\n" * 3
    made, places = applied(twins, "@@ -4,3 +4,3 @@\n x\n-y\n+Y\n z\n")
    assert made == b"x\ny\nz\nx\nY\nz\nx\ny\nz\n"
    assert places == [(4, 0)]


def test_two_hunks_at_their_places() -> None:
    second = "@@ -10,3 +11,2 @@\n 10\n-11\n 12\n"
    first = "@@ -2,2 +2,3 @@\n 2\n+2.5\n 3\n"
    made, places = applied(numbered(1, 15), first, second)
    assert made == b"1\n2\n2.5\n" + numbered(3, 10) + numbered(12, 15)
    assert places == [(2, 0), (10, 0)]


def test_hunks_may_touch() -> None:
    made, _ = applied(
        numbered(1, 6), "@@ -2,2 +2,2 @@\n-2\n+two\n 3\n", "@@ -4,2 +4,2 @@\n-4\n+four\n 5\n"
    )
    assert made == b"1\ntwo\n3\nfour\n5\n6\n"


def test_placement_says_how_far_it_is_from_the_header() -> None:
    assert Placement(hunk=1, stated=4, line=9).offset == 5
    assert Placement(hunk=1, stated=4, line=1).offset == -3


# Offsets.


@pytest.mark.parametrize("more", [1, 7, 300])
def test_hunk_moves_down_with_its_lines(more: int) -> None:
    data = b"new\n" * more + numbered(1, 9)
    made, places = applied(data, EDIT_5)
    assert made == b"new\n" * more + numbered(1, 4) + b"five\n" + numbered(6, 9)
    assert places == [(4 + more, more)]


def test_hunk_moves_up_with_its_lines() -> None:
    made, places = applied(numbered(3, 9), EDIT_5)
    assert made == b"3\n4\nfive\n" + numbered(6, 9)
    assert places == [(2, -2)]


def test_each_hunk_has_an_offset_of_its_own() -> None:
    second = "@@ -12,3 +12,3 @@\n 12\n-13\n+thirteen\n 14\n"
    data = b"0\n" + numbered(1, 8) + b"8.5\n" + numbered(9, 15)
    _, places = applied(data, EDIT_5, second)
    assert places == [(5, 1), (14, 2)]


def test_hunks_may_have_changed_places() -> None:
    second = "@@ -12,3 +12,3 @@\n 12\n-13\n+thirteen\n 14\n"
    made, places = applied(numbered(10, 15) + numbered(1, 9), EDIT_5, second)
    assert made == (b"10\n11\n12\nthirteen\n14\n15\n" + numbered(1, 4) + b"five\n" + numbered(6, 9))
    assert places == [(10, 6), (3, -9)]


def test_two_possible_places_are_both_named() -> None:
    twins = b"new\n" + b"x\ny\nz\n\n" * 2
    assert misfits(twins, "@@ -1,3 +1,3 @@\n x\n-y\n+Y\n z\n") == (Misfit(1, ()),)
    assert misfits(twins, "@@ -3,3 +3,3 @@\n x\n-y\n+Y\n z\n") == (Misfit(1, (2, 6)),)


def test_twins_are_not_told_apart_by_which_is_nearer() -> None:
    data = b"new\n" + numbered(1, 9) + b"\n" * 200 + numbered(3, 7)
    assert misfits(data, EDIT_5) == (Misfit(1, (5, 212)),)


def test_one_hunk_away_from_its_place_makes_twins_of_the_others_matter() -> None:
    data = b"x\ny\nz\n" * 2 + b"new\n" + numbered(1, 9)
    first = "@@ -1,3 +1,3 @@\n x\n-y\n+Y\n z\n"
    second = "@@ -4,3 +4,3 @@\n x\n-y\n+Y\n z\n"
    third = "@@ -10,3 +10,3 @@\n 4\n-5\n+five\n 6\n"
    assert misfits(data, first, second, third) == (Misfit(2, (1, 4)),)


def test_headers_that_disagree_with_each_other_are_no_stated_place() -> None:
    twins = b"x\ny\nz\n" * 3
    edited_by_hand = "@@ -4,3 +7,3 @@\n x\n-y\n+Y\n z\n"
    assert misfits(twins, edited_by_hand) == (Misfit(1, (1, 4, 7)),)
    assert applied(b"0\n" + twins[:6], "@@ -2,3 +5,3 @@\n x\n-y\n+Y\n z\n")[1] == [(2, 0)]


# No fuzz.


@pytest.mark.parametrize(
    "data",
    [
        b"1\n2\n3\n4 \n5\n6\n7\n",
        b"1\n2\n3\n4\n5\n 6\n7\n",
        b"1\n2\n3\n4\n5\n\n6\n7\n",
        b"1\n2\n3\n4\n5\n",
        b"1\n2\n3\n5\n6\n7\n",
        numbered(1, 9).replace(b"\n", b"\r\n"),
        b"",
    ],
)
def test_context_must_match_whole_and_exactly(data: bytes) -> None:
    assert misfits(data, EDIT_5) == (Misfit(1, ()),)


def test_crlf_must_be_in_the_patch_as_well() -> None:
    data = numbered(1, 9).replace(b"\n", b"\r\n")
    made, _ = applied(data, EDIT_5.replace("\n", "\r\n").replace("@@\r\n", "@@\n"))
    assert made == data.replace(b"5", b"five")


def test_every_hunk_that_does_not_fit_is_named() -> None:
    data = b"0\n" + b"x\ny\nz\n" * 2 + numbered(1, 9)
    wrong = misfits(
        data,
        "@@ -2,3 +2,3 @@\n 8\n-5\n+five\n 6\n",
        "@@ -20,3 +20,3 @@\n x\n-y\n+Y\n z\n",
        "@@ -40,3 +40,3 @@\n 4\n-5\n+five\n 6\n",
        "@@ -60,3 +60,3 @@\n 4\n-5\n+fife\n 6\n",
    )
    assert wrong == (Misfit(1, ()), Misfit(2, (2, 5)), Misfit(4, (11,), overlaps=3))


# Anchors.


def test_hunk_at_line_one_stays_at_the_start_of_the_file() -> None:
    at_start = "@@ -1,2 +1,3 @@\n+zero\n 1\n 2\n"
    assert applied(numbered(1, 5), at_start) == (b"zero\n" + numbered(1, 5), [(1, 0)])
    assert misfits(b"0\n" + numbered(1, 5), at_start) == (Misfit(1, ()),)


def test_start_of_the_file_tells_twins_apart() -> None:
    wrong_new_start = "@@ -1,2 +4,3 @@\n+zero\n 1\n 2\n"
    data = numbered(1, 2) + numbered(1, 5)
    assert applied(data, wrong_new_start) == (b"zero\n" + data, [(1, 0)])


def test_hunk_without_context_behind_it_stays_at_the_end_of_the_file() -> None:
    at_end = "@@ -4,2 +4,3 @@\n 4\n 5\n+six\n"
    assert applied(numbered(1, 5), at_end)[0] == numbered(1, 5) + b"six\n"
    assert applied(b"0\n" + numbered(1, 5), at_end)[1] == [(5, 1)]
    assert misfits(numbered(1, 6), at_end) == (Misfit(1, ()),)


def test_end_of_the_file_tells_twins_apart() -> None:
    at_end = "@@ -8,2 +8,3 @@\n 4\n 5\n+six\n"
    made, places = applied(numbered(1, 5) * 2, at_end)
    assert made == numbered(1, 5) * 2 + b"six\n"
    assert places == [(9, 1)]


def test_hunk_that_replaces_everything_needs_exactly_that_file() -> None:
    whole = "@@ -1,2 +1 @@\n-1\n-2\n+3\n"
    assert applied(numbered(1, 2), whole)[0] == b"3\n"
    for data in (numbered(1, 3), b"0\n" + numbered(1, 2), b""):
        assert misfits(data, whole) == (Misfit(1, ()),)


def test_hunk_without_context_is_not_moved_to_the_end_of_the_file() -> None:
    # git takes any hunk without context behind it for one at the end, and removes the wrong line
    assert misfits(b"\n\n-- \n\n", "@@ -2 +1,0 @@\n-\n") == (Misfit(1, ()),)
    assert applied(b"\n-- \n\n", "@@ -3 +2,0 @@\n-\n")[0] == b"\n-- \n"
    assert misfits(b"0\n\n-- \n\n", "@@ -3 +2,0 @@\n-\n") == (Misfit(1, ()),)


def test_hunk_without_a_preimage_needs_an_empty_file() -> None:
    fill = "@@ -0,0 +1,2 @@\n+1\n+2\n"
    assert applied(b"", fill) == (b"1\n2\n", [(1, 0)])
    assert misfits(b"\n", fill) == (Misfit(1, ()),)


def test_empty_file_is_filled_once() -> None:
    fill = "@@ -0,0 +1 @@\n+1\n"
    assert misfits(b"", fill, fill) == (Misfit(2, (1,), overlaps=1),)


# The end of the last line.


def test_line_without_its_end_matches_at_the_end_only() -> None:
    add_end = f"@@ -2 +2 @@\n-2\n{MARK}+2\n"
    assert applied(b"1\n2", add_end)[0] == b"1\n2\n"
    assert misfits(b"1\n2\n", add_end) == (Misfit(1, ()),)
    # git would take the "2" here for the end of the file, and join it with the next line
    context = f"@@ -1,2 +1,2 @@\n-1\n+one\n 2\n{MARK}"
    assert applied(b"1\n2", context)[0] == b"one\n2"
    assert misfits(b"1\n2\n3\n", context) == (Misfit(1, ()),)


def test_line_end_may_be_taken_away() -> None:
    assert applied(b"1\n2\n", f"@@ -1,2 +1,2 @@\n 1\n-2\n+2\n{MARK}")[0] == b"1\n2"
    assert misfits(b"1\n2", f"@@ -1,2 +1,2 @@\n 1\n-2\n+2\n{MARK}") == (Misfit(1, ()),)


# Overlaps.


def test_two_hunks_on_one_line_overlap() -> None:
    other = "@@ -5,3 +5,3 @@\n 5\n-6\n+six\n 7\n"
    assert misfits(numbered(1, 9), EDIT_5, other) == (Misfit(2, (5,), overlaps=1),)


def test_same_hunk_twice_overlaps() -> None:
    assert misfits(numbered(1, 9), EDIT_5, EDIT_5) == (Misfit(2, (4,), overlaps=1),)


def test_no_hunk_matches_what_another_one_adds() -> None:
    first = "@@ -1,2 +1,4 @@\n 1\n+x\n+y\n 2\n"
    second = "@@ -9,2 +11,2 @@\n-x\n+X\n y\n"
    assert misfits(numbered(1, 5), first, second) == (Misfit(2, ()),)


# A patch that is there already.

INSERT = "@@ -2,3 +2,4 @@\n def f():\n+    b = 2\n     a = 1\n     return\n"
FUNCTION = b"def f():\n    a = 1\n    return\n"


def test_patch_applied_twice_does_not_go_into_a_twin() -> None:
    source = b"#\n" + FUNCTION + b"\n" + FUNCTION
    once, places = applied(source, INSERT)
    assert places == [(2, 0)]
    # the only pre-image is now the second function's; git takes it
    assert misfits(once, INSERT) == (Misfit(1, (7,), present=2),)
    assert misfits(b"\n\n" + once, INSERT) == (Misfit(1, (9,), present=4),)


def test_twin_that_has_the_change_farther_away_does_not_matter() -> None:
    made = FUNCTION.replace(b"def f():\n", b"def f():\n    b = 2\n")
    source = b"#\n#\n" + FUNCTION + b"\n" * 9 + made
    assert applied(source, INSERT)[1] == [(3, 1)]


def test_removal_applied_twice_does_not_go_into_a_twin() -> None:
    block = b"a\nb\nc\n"
    remove = "@@ -2,3 +2,2 @@\n a\n-b\n c\n"
    once, _ = applied(b"#\n" + block + block, remove)
    assert once == b"#\na\nc\na\nb\nc\n"
    assert misfits(once, remove) == (Misfit(1, (4,), present=2),)
    # mere context elsewhere proves nothing
    assert applied(b"#\n#\n#\n" + block + b"a\nc\n", remove)[1] == [(4, 2)]
