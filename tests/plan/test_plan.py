"""Whole patches and series on whole trees: what changes, and everything that is refused."""

from __future__ import annotations

import base64
import zlib

import pytest
from git_oracle import Tree, plan, result

from pkgtools.blob import DIRECTORY, EXECUTABLE, SYMLINK, Blob, blob_id
from pkgtools.patch import Kind, parse_patch
from pkgtools.plan import Change, Plan, Reason, Rejection, Step, plan_series

A = Blob(b"1\n2\n3\n")
B = Blob(b"one\ntwo\nthree\n")
A_EDITED = Blob(b"1\nTWO\n3\n")
EDIT_A = "@@ -1,3 +1,3 @@\n 1\n-2\n+TWO\n 3\n"
UNDO_A = "@@ -1,3 +1,3 @@\n 1\n-TWO\n+2\n 3\n"


def section(old: str, new: str, *headers: str, hunk: str = "") -> str:
    """Return one section; with a hunk, the lines that name the file on both sides."""
    text = f"diff --git a/{old} b/{new}\n" + "".join(f"{header}\n" for header in headers)
    if hunk:
        created = any(header.startswith("new file") for header in headers)
        deleted = any(header.startswith("deleted") for header in headers)
        text += f"--- {'/dev/null' if created else 'a/' + old}\n"
        text += f"+++ {'/dev/null' if deleted else 'b/' + new}\n{hunk}"
    return text


def edit(path: str, hunk: str = EDIT_A) -> str:
    return section(path, path, hunk=hunk)


def create(path: str, text: str = "new\n", mode: str = "100644") -> str:
    """Return the creation of a file, or of a link to `text`."""
    if not text:
        return section(path, path, f"new file mode {mode}")
    lines = text.splitlines()
    end = "" if text.endswith("\n") else "\\ No newline at end of file\n"
    count = f",{len(lines)}" if len(lines) > 1 else ""
    hunk = f"@@ -0,0 +1{count} @@\n" + "".join(f"+{line}\n" for line in lines) + end
    return section(path, path, f"new file mode {mode}", hunk=hunk)


def delete(path: str, blob: Blob = A) -> str:
    mode = f"deleted file mode {blob.mode:o}"
    if not blob.data:
        return section(path, path, mode)
    lines = blob.data.decode().splitlines()
    end = "" if blob.data.endswith(b"\n") else "\\ No newline at end of file\n"
    body = "".join(f"-{line}\n" for line in lines) + end
    return section(path, path, mode, hunk=f"@@ -1,{len(lines)} +0,0 @@\n{body}")


def move(old: str, new: str, word: str = "rename", hunk: str = "", *headers: str) -> str:
    names = ("similarity index 90%", f"{word} from {old}", f"{word} to {new}")
    return section(old, new, *names, *headers, hunk=hunk)


def accepted(tree: Tree, *patches: str) -> Tree:
    outcome = plan(tree, *(patch.encode() for patch in patches))
    assert outcome.rejections == ()
    assert outcome.ok
    assert not outcome.absorbed
    return result(tree, outcome)


def refused(tree: Tree, *patches: str) -> tuple[Rejection, ...]:
    outcome = plan(tree, *(patch.encode() for patch in patches))
    assert not outcome.ok
    return outcome.rejections


def refusal(tree: Tree, *patches: str) -> tuple[str, Reason, str]:
    """Return the path, reason and message of the only rejection."""
    (rejection,) = refused(tree, *patches)
    return rejection.path, rejection.reason, rejection.message


# One section.


def test_edit_keeps_the_mode_that_the_tree_has() -> None:
    tree = {"d/f": Blob(A.data, EXECUTABLE), "other": B}
    assert accepted(tree, edit("d/f")) == {"d/f": Blob(A_EDITED.data, EXECUTABLE), "other": B}


def test_mode_changes_with_and_without_content() -> None:
    modes = ("old mode 100644", "new mode 100755")
    assert accepted({"f": A}, section("f", "f", *modes)) == {"f": Blob(A.data, EXECUTABLE)}
    both = section("f", "f", *modes, hunk=EDIT_A)
    assert accepted({"f": A}, both) == {"f": Blob(A_EDITED.data, EXECUTABLE)}


@pytest.mark.parametrize(
    ("text", "mode", "blob"),
    [
        ("new\n", "100644", Blob(b"new\n")),
        ("new\n", "100755", Blob(b"new\n", EXECUTABLE)),
        ("no end", "100644", Blob(b"no end")),
        ("target", "120000", Blob(b"target", SYMLINK)),
        ("", "100644", Blob(b"")),
    ],
)
def test_file_is_created_in_directories_that_are_not_there(
    text: str, mode: str, blob: Blob
) -> None:
    assert accepted({"f": A}, create("d/e/g", text, mode)) == {"f": A, "d/e/g": blob}


@pytest.mark.parametrize("blob", [A, Blob(b"no end"), Blob(b""), Blob(b"f", SYMLINK)])
def test_file_is_deleted(blob: Blob) -> None:
    assert accepted({"d/f": blob, "g": B}, delete("d/f", blob)) == {"g": B}


def test_file_that_becomes_empty_stays() -> None:
    assert accepted({"f": A}, edit("f", "@@ -1,3 +0,0 @@\n-1\n-2\n-3\n")) == {"f": Blob(b"")}
    assert accepted({"f": Blob(b"")}, edit("f", "@@ -0,0 +1 @@\n+1\n")) == {"f": Blob(b"1\n")}


def test_rename_takes_content_and_mode_along() -> None:
    tree = {"f": Blob(A.data, EXECUTABLE)}
    assert accepted(tree, move("f", "d/g")) == {"d/g": tree["f"]}
    edited = {"d/g": Blob(A_EDITED.data, EXECUTABLE)}
    assert accepted(tree, move("f", "d/g", "rename", EDIT_A)) == edited
    modes = ("old mode 100755", "new mode 100644")
    assert accepted(tree, move("f", "d/g", "rename", "", *modes)) == {"d/g": A}


def test_copy_leaves_its_source() -> None:
    assert accepted({"f": A}, move("f", "g", "copy", EDIT_A)) == {"f": A, "g": A_EDITED}


def test_link_is_pointed_elsewhere() -> None:
    no_end = "\\ No newline at end of file\n"
    hunk = f"@@ -1 +1 @@\n-f\n{no_end}+g\n{no_end}"
    link = Blob(b"f", SYMLINK)
    index = "index 1234567..89abcde 120000"
    changed = accepted({"l": link}, section("l", "l", index, hunk=hunk))
    assert changed == {"l": Blob(b"g", SYMLINK)}


def test_plain_diff_is_a_patch() -> None:
    plain = f"--- a/f\n+++ b/f\n{EDIT_A}--- /dev/null\n+++ b/g\n@@ -0,0 +1 @@\n+x\n"
    assert accepted({"f": A}, plain) == {"f": A_EDITED, "g": Blob(b"x\n")}


# Several sections of one patch.


def test_two_sections_on_one_file_follow_each_other() -> None:
    again = edit("f", "@@ -1,3 +1,3 @@\n 1\n TWO\n-3\n+THREE\n")
    assert accepted({"f": A}, edit("f") + again) == {"f": Blob(b"1\nTWO\nTHREE\n")}


def test_created_file_may_be_changed_further_on() -> None:
    change = edit("g", "@@ -1 +1 @@\n-new\n+newer\n")
    assert accepted({}, create("g") + change) == {"g": Blob(b"newer\n")}


@pytest.mark.parametrize("swapped", [False, True])
def test_copy_reads_its_source_as_it_was_before_the_patch(*, swapped: bool) -> None:
    parts = [edit("f"), move("f", "g", "copy")]
    tree = accepted({"f": A}, "".join(parts[::-1] if swapped else parts))
    assert tree == {"f": A_EDITED, "g": A}


def test_file_is_copied_and_renamed() -> None:
    parts = move("f", "g", "copy") + move("f", "h") + move("f", "i", "copy")
    assert accepted({"f": A}, parts) == {"g": A, "h": A, "i": A}


def test_two_files_swap_their_names() -> None:
    assert accepted({"f": A, "g": B}, move("f", "g") + move("g", "f")) == {"f": B, "g": A}


def test_two_files_swap_their_names_and_change() -> None:
    hunk = "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    patch = move("f", "g", "rename", EDIT_A) + move("g", "f", "rename", hunk)
    assert accepted({"f": A, "g": B}, patch) == {"g": A_EDITED, "f": Blob(b"one\n2\nthree\n")}


def test_three_files_move_around() -> None:
    tree = {"f": A, "g": B, "h": Blob(b"x\n")}
    patch = move("f", "g") + move("g", "h") + move("h", "f")
    assert accepted(tree, patch) == {"g": A, "h": B, "f": Blob(b"x\n")}


@pytest.mark.parametrize("swapped", [False, True])
def test_file_moves_to_the_name_of_a_deleted_one(*, swapped: bool) -> None:
    parts = [delete("g", B), move("f", "g")]
    if swapped:  # then the deletion would be of the file that was just moved there
        assert refusal({"f": A, "g": B}, "".join(parts[::-1]))[:2] == ("g", Reason.OVERLAP)
    else:
        assert accepted({"f": A, "g": B}, "".join(parts)) == {"g": A}


def test_file_becomes_a_link_and_a_link_a_file() -> None:
    link = Blob(b"g", SYMLINK)
    to_link = delete("f") + create("f", "g", "120000")
    to_file = delete("f", link) + create("f", A.data.decode())
    assert accepted({"f": A, "g": B}, to_link) == {"f": link, "g": B}
    assert accepted({"f": link, "g": B}, to_file) == {"f": A, "g": B}


@pytest.mark.parametrize("swapped", [False, True])
def test_file_makes_way_for_a_directory(*, swapped: bool) -> None:
    parts = [delete("d"), create("d/f")]
    tree = accepted({"d": A}, "".join(parts[::-1] if swapped else parts))
    assert tree == {"d/f": Blob(b"new\n")}
    assert accepted({"d": A}, move("d", "d/__init__.py")) == {"d/__init__.py": A}


def test_link_makes_way_for_a_directory() -> None:
    link = Blob(b"e", SYMLINK)
    tree = {"d": link, "e/f": A}
    assert accepted(tree, delete("d", link) + create("d/f")) == {"d/f": Blob(b"new\n"), "e/f": A}


@pytest.mark.parametrize(
    "patch",
    [
        edit("f") + delete("f", A_EDITED),
        edit("f") + move("f", "g"),
        create("g") + delete("g", Blob(b"new\n")),
        create("g") + edit("g", "@@ -1 +1 @@\n-new\n+x\n") + delete("g", Blob(b"x\n")),
    ],
)
def test_section_that_takes_back_an_earlier_one_is_refused(patch: str) -> None:
    # git leaves the file in place here, against the last section
    rejections = refused({"f": A}, patch)
    assert [rejection.reason for rejection in rejections] == [Reason.OVERLAP]
    assert "which an earlier section of it writes" in rejections[0].message


def test_rename_away_leaves_nothing_to_change_or_delete() -> None:
    for after in (edit("f"), delete("f")):
        path, reason, message = refusal({"f": A}, move("f", "g") + after)
        assert (path, reason, message) == ("f", Reason.MISSING, "f is not in the source")


def test_new_file_may_take_the_name_that_a_rename_leaves() -> None:
    assert accepted({"f": A}, move("f", "g") + create("f")) == {"f": Blob(b"new\n"), "g": A}
    assert accepted({"f": A}, create("f") + move("f", "g")) == {"f": Blob(b"new\n"), "g": A}


# What is in the way.


@pytest.mark.parametrize(
    ("patch", "path"),
    [
        (edit("f"), "f"),
        (delete("f"), "f"),
        (move("f", "g"), "g"),
        (move("f", "g", "copy"), "g"),
    ],
)
def test_missing_file(patch: str, path: str) -> None:
    assert refusal({"h": A}, patch) == (path, Reason.MISSING, "f is not in the source")


@pytest.mark.parametrize("patch", [edit("f"), delete("f"), move("f", "g"), move("f", "g", "copy")])
def test_directory_where_a_file_should_be(patch: str) -> None:
    assert refusal({"f/x": A}, patch)[1:] == (Reason.WRONG_TYPE, "f is a directory")


@pytest.mark.parametrize(
    ("old", "patch", "said"),
    [
        (Blob(b"x", SYMLINK), delete("f"), "f is a symbolic link"),
        (A, delete("f", Blob(b"x", SYMLINK)), "f is not a symbolic link"),
        (
            Blob(b"x", SYMLINK),
            section("f", "f", "index 1234567..89abcde 100644", hunk=EDIT_A),
            "f is a symbolic link",
        ),
        (
            A,
            section("f", "f", "old mode 100644", "new mode 120000", hunk=EDIT_A),
            "a file and a symbolic link do not become each other by a change of mode",
        ),
        (
            A,
            section("f", "f", "new mode 120000", hunk=EDIT_A),
            "a file and a symbolic link do not become each other by a change of mode",
        ),
    ],
)
def test_file_and_link_are_not_taken_for_each_other(old: Blob, patch: str, said: str) -> None:
    assert refusal({"f": old}, patch) == ("f", Reason.WRONG_TYPE, said)


@pytest.mark.parametrize(
    "patch", [create("g"), move("f", "g"), move("f", "g", "copy"), create("g") + create("g")]
)
def test_new_file_does_not_replace_another(patch: str) -> None:
    tree = {"f": A} if patch.count("diff") > 1 else {"f": A, "g": B}
    (rejection,) = refused(tree, patch)
    assert (rejection.path, rejection.reason) == ("g", Reason.EXISTS)
    assert rejection.message.startswith("g exists already")


@pytest.mark.parametrize(
    ("mode", "occupant", "absorbed"),
    [
        ("100644", Blob(b"new\n"), 1),
        ("100755", Blob(b"new\n", EXECUTABLE), 1),
        ("100755", Blob(b"new\n"), None),
        ("100644", Blob(b"new\n", SYMLINK), None),
        ("100644", Blob(b"new"), None),
    ],
)
def test_new_file_that_is_there_already_is_absorbed(
    mode: str, occupant: Blob, absorbed: int | None
) -> None:
    patch = create("g", mode=mode).encode()
    outcome = plan({"g": occupant}, patch)
    assert [rejection.absorbed for rejection in outcome.rejections] == [absorbed]
    assert outcome.absorbed is (absorbed is not None)


@pytest.mark.parametrize("text", ["new\n", ""])
def test_directory_is_not_replaced_by_a_file(text: str) -> None:
    (rejection,) = refused({"d/f": A}, create("d", text))
    assert (rejection.reason, rejection.message) == (Reason.EXISTS, "d is a directory")
    assert rejection.absorbed is None
    # the plan cannot list a directory, so it cannot know that the patch empties this one
    (rejection,) = refused({"d/f": A}, delete("d/f") + create("d"))
    assert rejection.message == "d is a directory"


@pytest.mark.parametrize("occupant", [A, Blob(b"e", SYMLINK)])
@pytest.mark.parametrize("path", ["d/f", "d/e/f"])
@pytest.mark.parametrize("kind", ["create", "rename", "copy"])
def test_nothing_is_written_below_a_file_or_a_link(occupant: Blob, path: str, kind: str) -> None:
    patch = create(path) if kind == "create" else move("g", path, kind)
    tree = {"d": occupant, "g": A, "e/h": A}
    assert refusal(tree, patch) == (path, Reason.UNSAFE, "d is not a directory")


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("link", [True, False])
def test_patch_does_not_write_through_its_own_link(*, swapped: bool, link: bool) -> None:
    parts = [create("d", "e", "120000") if link else create("d"), create("d/f")]
    rejections = refused({"e/g": A}, "".join(parts[::-1] if swapped else parts))
    assert {rejection.reason for rejection in rejections} == {Reason.UNSAFE}
    assert {rejection.message for rejection in rejections} == {"d is not a directory"}
    assert "d/f" in {rejection.path for rejection in rejections}


@pytest.mark.parametrize("order", [("d", "d/f"), ("d/f", "d")])
def test_series_does_not_write_through_its_own_link(order: tuple[str, str]) -> None:
    made = {"d": create("d", "e", "120000"), "d/f": create("d/f")}
    rejections = refused({"e/g": A}, made[order[0]], made[order[1]])
    assert [(r.patch, r.path, r.reason) for r in rejections] == [
        ("2.patch", order[1], Reason.UNSAFE)
    ]


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("l", "/etc/passwd"),
        ("l", ".."),
        ("l", "../x"),
        ("d/l", "../../x"),
        ("d/l", "./../../x"),
        ("d/e/l", "..//..//../x"),
        ("l", "d/../../x"),
        ("d/l", "e/../f"),
        ("l", "nul\0"),
    ],
)
def test_link_out_of_the_tree_is_refused(path: str, target: str) -> None:
    said = f"the symbolic link {path} leads out of the tree"
    assert refusal({"f": A}, create(path, target, "120000")) == (path, Reason.UNSAFE, said)


@pytest.mark.parametrize(
    ("path", "target"),
    [("l", "f"), ("l", "."), ("d/l", "../f"), ("d/l", ".."), ("d/e/l", "../../f"), ("l", "d/...")],
)
def test_link_inside_the_tree_is_kept(path: str, target: str) -> None:
    tree = accepted({"f": A}, create(path, target, "120000"))
    assert tree[path] == Blob(target.encode(), SYMLINK)


def test_link_is_checked_where_it_is_moved_to() -> None:
    tree = {"d/l": Blob(b"../f", SYMLINK)}
    assert accepted(tree, move("d/l", "d/m")) == {"d/m": tree["d/l"]}
    assert refusal(tree, move("d/l", "l"))[1] is Reason.UNSAFE
    assert accepted({"l": Blob(b"/x", SYMLINK)}, delete("l", Blob(b"/x", SYMLINK))) == {}


def test_deleted_file_must_hold_exactly_what_the_patch_says() -> None:
    (rejection,) = refused({"f": Blob(A.data + b"4\n")}, delete("f"))
    assert rejection.reason is Reason.NO_MATCH
    assert "belongs at the start and end of the file" in rejection.message
    assert refusal({"f": A}, delete("f", Blob(b""))) == (
        "f",
        Reason.NOT_EMPTIED,
        "the file holds more than the patch",
    )


# Binary files.

OLD, NEW = bytes(range(10)), bytes(range(5, 30))
DELTA = b"\x0a\x0c\x0212" + b"\x90\x0a"
DELTA_MADE = b"12" + OLD


def binary(old: bytes | None, new: bytes | None, data: bytes | None = None, **ids: str) -> str:
    """Return a binary section of `f`; with `data`, a delta."""
    before = ids.get("before", "0" * 40 if old is None else blob_id(old))
    after = ids.get("after", "0" * 40 if new is None else blob_id(new))
    kind, body = ("literal", new or b"") if data is None else ("delta", data)
    packed = zlib.compress(body)
    lines = ""
    for at in range(0, len(packed), 52):
        part = packed[at : at + 52]
        letter = chr(len(part) + (64 if len(part) <= 26 else 70))
        lines += letter + base64.b85encode(part + b"\0" * (-len(part) % 4)).decode() + "\n"
    mode = "new file mode 100644\n" if old is None else ""
    mode = "deleted file mode 100644\n" if new is None else mode
    head = f"diff --git a/f b/f\n{mode}index {before}..{after}\nGIT binary patch\n"
    return f"{head}{kind} {len(body)}\n{lines}\n"


def test_binary_file_is_made_changed_and_deleted() -> None:
    assert accepted({}, binary(None, NEW)) == {"f": Blob(NEW)}
    assert accepted({"f": Blob(OLD)}, binary(OLD, NEW)) == {"f": Blob(NEW)}
    assert accepted({"f": Blob(OLD)}, binary(OLD, DELTA_MADE, DELTA)) == {"f": Blob(DELTA_MADE)}
    assert accepted({"f": Blob(OLD)}, binary(OLD, None)) == {}


def test_binary_change_needs_the_very_blob() -> None:
    path, reason, message = refusal({"f": Blob(OLD + b"x")}, binary(OLD, NEW))
    assert (path, reason) == ("f", Reason.WRONG_CONTENT)
    assert message == f"the content is {blob_id(OLD + b'x')}, the patch is for {blob_id(OLD)}"
    assert refusal({"f": Blob(b"x")}, binary(OLD, None))[1] is Reason.WRONG_CONTENT


def test_binary_change_must_make_the_blob_that_it_promises() -> None:
    promise = "1" * 40
    for patch, tree in (
        (binary(OLD, NEW, after=promise), {"f": Blob(OLD)}),
        (binary(None, NEW, after=promise), {}),
        (binary(OLD, DELTA_MADE, DELTA, after=promise), {"f": Blob(OLD)}),
    ):
        path, reason, message = refusal(tree, patch)
        assert (path, reason) == ("f", Reason.WRONG_CONTENT)
        assert message == f"the binary change does not make the promised {promise}"


def test_deletion_of_a_binary_file_promises_nothing_else() -> None:
    assert refusal({"f": Blob(OLD)}, binary(OLD, None, after="1" * 40))[1] is Reason.WRONG_CONTENT


def test_corrupt_delta_is_a_refusal() -> None:
    patch = binary(OLD, NEW, b"\x0a\x05\x03abc")
    assert refusal({"f": Blob(OLD)}, patch)[2] == "the delta makes 3 bytes, it promises 5"


def test_binary_change_that_is_there_already_is_absorbed() -> None:
    outcome = plan({"f": Blob(NEW)}, binary(OLD, NEW).encode())
    assert [r.absorbed for r in outcome.rejections] == [1]
    assert outcome.absorbed


# Series.


def test_each_patch_finds_what_the_ones_before_it_left() -> None:
    second = edit("f", "@@ -1,3 +1,4 @@\n 1\n TWO\n+2.5\n 3\n")
    third = move("f", "g") + create("f")
    fourth = delete("g", Blob(b"1\nTWO\n2.5\n3\n"))
    assert accepted({"f": A}, edit("f"), second, third) == {
        "f": Blob(b"new\n"),
        "g": Blob(b"1\nTWO\n2.5\n3\n"),
    }
    assert accepted({"f": A}, edit("f"), second, third, fourth) == {"f": Blob(b"new\n")}


def test_order_of_the_series_counts() -> None:
    second = edit("f", "@@ -1,3 +1,4 @@\n 1\n TWO\n+2.5\n 3\n")
    assert [r.patch for r in refused({"f": A}, second, edit("f"))] == ["1.patch", "2.patch"]


def test_change_holds_every_state_and_its_patches() -> None:
    second = edit("f", "@@ -1,3 +1,3 @@\n 1\n-TWO\n+Two\n 3\n")
    unrelated = create("g", mode="100755")
    outcome = plan({"f": A, "h": B}, *(p.encode() for p in (edit("f"), unrelated, second)))
    assert outcome.changes == (
        Change(
            "f",
            before=A,
            after=Blob(b"1\nTwo\n3\n"),
            between=(A_EDITED,),
            patches=("1.patch", "3.patch"),
            sets_mode=False,
        ),
        Change(
            "g",
            before=None,
            after=Blob(b"new\n", EXECUTABLE),
            between=(),
            patches=("2.patch",),
            sets_mode=False,
        ),
    )


def test_change_says_whether_a_mode_is_set() -> None:
    to_executable = section("f", "f", "old mode 100644", "new mode 100755")
    to_regular = section("f", "f", "old mode 100755", "new mode 100644")
    (change,) = plan({"f": A}, to_executable.encode()).changes
    assert change.sets_mode
    assert change.before == A
    (change,) = plan({"f": A}, to_executable.encode(), to_regular.encode()).changes
    assert change.sets_mode
    assert change.before == change.after


def test_change_that_is_undone_keeps_its_states() -> None:
    (change,) = plan({"f": A}, edit("f").encode(), edit("f", UNDO_A).encode()).changes
    assert (change.before, change.between, change.after) == (A, (A_EDITED,), A)


def test_file_that_comes_and_goes_is_a_change_of_nothing_into_nothing() -> None:
    outcome = plan({}, create("g").encode(), delete("g", Blob(b"new\n")).encode())
    assert outcome.ok
    (change,) = outcome.changes
    assert (change.before, change.between, change.after) == (None, (Blob(b"new\n"),), None)


def test_patch_that_makes_no_difference_is_no_change() -> None:
    to_executable = section("f", "f", "old mode 100644", "new mode 100755").encode()
    assert plan({"f": Blob(A.data, EXECUTABLE)}, to_executable).changes == ()


def test_steps_say_how_each_file_fared() -> None:
    tree = {"f": Blob(b"0\n" + b"#\n" * 9 + A.data), "g": B}
    moved = edit("f", "@@ -3,3 +3,3 @@\n 1\n-2\n+TWO\n 3\n")
    outcome = plan(tree, (moved + edit("g")).encode())
    first, second = outcome.steps
    assert (first.patch, first.path, first.kind, first.rejected) == (
        "1.patch",
        "f",
        Kind.MODIFY,
        False,
    )
    assert [(p.hunk, p.stated, p.line, p.offset) for p in first.placements] == [(1, 3, 11, 8)]
    assert second == Step("1.patch", "g", Kind.MODIFY, (), rejected=True)


# Everything is reported.


def test_every_file_that_does_not_fit_is_reported() -> None:
    tree = {"bad": B, "good": A, "there": A}
    first = edit("bad") + edit("good") + create("there")
    second = edit("gone") + delete("absent") + create("ok")
    assert [(r.patch, r.path, r.reason) for r in refused(tree, first, second)] == [
        ("1.patch", "bad", Reason.NO_MATCH),
        ("1.patch", "there", Reason.EXISTS),
        ("2.patch", "gone", Reason.MISSING),
        ("2.patch", "absent", Reason.MISSING),
    ]


def test_every_hunk_that_does_not_fit_is_reported() -> None:
    hunks = "@@ -1,3 +1,3 @@\n 1\n-x\n+y\n 3\n@@ -9,3 +9,3 @@\n 9\n-x\n+y\n 11\n"
    rejections = refused({"f": A}, edit("f", hunks))
    assert [(r.hunk, r.stated, r.patch_line) for r in rejections] == [(1, 1, 4), (2, 9, 9)]


def test_patch_on_a_file_that_failed_before_is_not_tried() -> None:
    later = edit("f", "@@ -1,3 +1,3 @@\n 1\n-TWO\n+Two\n 3\n")
    elsewhere = edit("g", "@@ -1,3 +1,3 @@\n one\n-x\n+y\n three\n")
    tree = {"f": B, "g": B}
    rejections = refused(tree, edit("f"), later + elsewhere, move("f", "h"), edit("h"))
    assert [(r.patch, r.path, r.reason) for r in rejections] == [
        ("1.patch", "f", Reason.NO_MATCH),
        ("2.patch", "f", Reason.DEPENDS),
        ("2.patch", "g", Reason.NO_MATCH),
        ("3.patch", "h", Reason.DEPENDS),
        ("4.patch", "h", Reason.DEPENDS),
    ]
    assert "an earlier patch of the series does not apply" in rejections[1].message


def test_refused_file_does_not_stop_the_others() -> None:
    outcome = plan({"f": B, "g": A}, (edit("f") + edit("g")).encode())
    assert [(step.path, step.rejected) for step in outcome.steps] == [("f", True), ("g", False)]
    assert not outcome.ok


def test_patch_on_an_absorbed_one_is_tried() -> None:
    second = edit("f", "@@ -1,3 +1,3 @@\n 1\n-TWO\n+Two\n 3\n")
    (rejection,) = refused({"f": A_EDITED}, edit("f"), second)
    assert (rejection.patch, rejection.absorbed) == ("1.patch", 1)


def test_everything_absorbed_is_told_from_some() -> None:
    tree = {"f": A_EDITED, "g": A_EDITED}
    assert plan(tree, (edit("f") + edit("g")).encode()).absorbed
    assert not plan({"f": A_EDITED, "g": B}, (edit("f") + edit("g")).encode()).absorbed
    assert not Plan((), (), ()).absorbed


# Purity.


def test_source_is_asked_once_for_each_path_and_only_for_those() -> None:
    asked: list[str] = []
    tree = {"f": A, "g": B}

    def read(path: str) -> Blob | None:
        asked.append(path)
        return Blob(b"", DIRECTORY) if path == "d" else tree.get(path)

    texts = (edit("f"), edit("f", UNDO_A) + create("d/h"), edit("f"))
    patches = [parse_patch(f"{n}.patch", text.encode()) for n, text in enumerate(texts)]
    assert plan_series(patches, read).ok
    assert sorted(asked) == ["d", "d/h", "f"]


def test_same_input_gives_the_same_plan() -> None:
    patch = (create("d") + create("d/f") + create("d/e/f") + edit("x")).encode()
    assert plan({"e": A}, patch) == plan({"e": A}, patch)


@pytest.mark.parametrize(("old", "end"), [(b"a\nb\n", b"\n"), (b"a\r\nb\r\n", b"\r\n")])
def test_a_converted_patch_has_the_line_ends_of_the_file(old: bytes, end: bytes) -> None:
    ids = b"index %s..%s 100644\n" % (
        Blob(old).id.encode(),
        Blob(b"c%sb%s" % (end, end)).id.encode(),
    )
    names = b"diff --git a/f b/f\n%s--- a/f\n+++ b/f\n"
    for head in (names % b"", names % ids):
        data = (head + b"@@ -1,2 +1,2 @@\n-a\n+c\n b\n").replace(b"\n", b"\r\n")
        outcome = plan({"f": Blob(old)}, data)
        assert outcome.ok, outcome.rejections
        assert result({"f": Blob(old)}, outcome) == {"f": Blob(b"c%sb%s" % (end, end))}
    other = data.replace(ids[48:55], b"0123456")
    for tree, patch in (({"f": Blob(b"a\nb\r\n")}, data), ({"f": Blob(old)}, other)):
        (rejection,) = plan(tree, patch).rejections
        assert rejection.reason is Reason.WRONG_CONTENT
        assert "converted to CRLF" in rejection.message
