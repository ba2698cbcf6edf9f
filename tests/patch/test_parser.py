"""Sections of a patch file: every header that git writes, mails around them, and plain diffs."""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pkgtools.blob import EXECUTABLE, REGULAR, SYMLINK, blob_id
from pkgtools.errors import MalformedError
from pkgtools.patch import FilePatch, Kind, parse_patch

if TYPE_CHECKING:
    from pathlib import Path

GIT = b"diff --git a/f b/f\n"
NAMES = b"--- a/f\n+++ b/f\n"
NEW = b"--- /dev/null\n+++ b/f\n"
GONE = b"--- a/f\n+++ /dev/null\n"
EDIT = b"@@ -1 +1 @@\n-a\n+b\n"
ADD = b"@@ -0,0 +1 @@\n+b\n"
REMOVE = b"@@ -1 +0,0 @@\n-a\n"
EMPTY = b"e69de29"


def only_file(*parts: bytes) -> FilePatch:
    (file,) = parse_patch("x.patch", b"".join(parts)).files
    return file


def refusal(*parts: bytes) -> MalformedError:
    with pytest.raises(MalformedError) as caught:
        parse_patch("x.patch", b"".join(parts))
    return caught.value


# Git's headers.


def test_modified_file() -> None:
    file = only_file(GIT, b"index 7898192..6178079 100644\n", NAMES, EDIT)
    assert file.kind is Kind.MODIFY
    assert (file.old_path, file.new_path) == ("f", "f")
    assert (file.old_mode, file.new_mode) == (REGULAR, None)
    assert (file.old_id, file.new_id) == ("7898192", "6178079")
    assert [hunk.new for hunk in file.hunks] == [b"b\n"]
    assert file.binary is None
    assert file.line == 1


def test_modified_file_with_two_hunks() -> None:
    file = only_file(GIT, NAMES, EDIT, b"@@ -9 +9 @@ def f():\n-c\n+d\n")
    assert [(hunk.line, hunk.old_start) for hunk in file.hunks] == [(4, 1), (7, 9)]
    assert (file.old_mode, file.old_id, file.new_id) == (None, None, None)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (b"100644", REGULAR),
        (b"100755", EXECUTABLE),
        (b"120000", SYMLINK),
        (b"100664", REGULAR),
        (b"100775", EXECUTABLE),
    ],
)
def test_created_file(mode: bytes, expected: int) -> None:
    file = only_file(GIT, b"new file mode ", mode, b"\nindex 0000000..6178079\n", NEW, ADD)
    assert (file.kind, file.old_path, file.new_path) == (Kind.CREATE, "f", "f")
    assert (file.old_mode, file.new_mode) == (None, expected)


def test_created_empty_file_has_no_hunk() -> None:
    file = only_file(GIT, b"new file mode 100755\nindex 0000000..", EMPTY, b"\n")
    assert (file.kind, file.new_mode, file.hunks) == (Kind.CREATE, EXECUTABLE, ())


def test_deleted_file() -> None:
    file = only_file(GIT, b"deleted file mode 120000\nindex 7898192..0000000\n", GONE, REMOVE)
    assert (file.kind, file.old_path, file.new_path) == (Kind.DELETE, "f", "f")
    assert (file.old_mode, file.new_mode) == (SYMLINK, None)


def test_deleted_empty_file_has_no_hunk() -> None:
    file = only_file(GIT, b"deleted file mode 100644\nindex ", EMPTY, b"..0000000\n")
    assert (file.kind, file.hunks) == (Kind.DELETE, ())


def test_changed_mode() -> None:
    file = only_file(GIT, b"old mode 100644\nnew mode 100755\n")
    assert (file.kind, file.old_mode, file.new_mode) == (Kind.MODIFY, REGULAR, EXECUTABLE)


def test_changed_mode_and_content() -> None:
    modes = b"old mode 100755\nnew mode 100644\n"
    file = only_file(GIT, modes, b"index 7898192..6178079\n", NAMES, EDIT)
    assert (file.old_mode, file.new_mode, len(file.hunks)) == (EXECUTABLE, REGULAR, 1)


@pytest.mark.parametrize("kind", [Kind.RENAME, Kind.COPY])
def test_moved_file_without_and_with_a_change(kind: Kind) -> None:
    word = kind.value.encode()
    head = b"diff --git a/f b/d/g\nsimilarity index 90%%\n%s from f\n%s to d/g\n" % (word, word)
    plain = only_file(head)
    assert (plain.kind, plain.old_path, plain.new_path) == (kind, "f", "d/g")
    assert (plain.old_mode, plain.new_mode, plain.hunks) == (None, None, ())
    index = b"index 7898192..6178079 100644\n"
    edited = only_file(head, index, b"--- a/f\n+++ b/d/g\n", EDIT)
    assert (edited.old_path, edited.new_path, len(edited.hunks)) == ("f", "d/g", 1)
    modes = b"old mode 100644\nnew mode 100755\n"
    assert only_file(head, modes).new_mode == EXECUTABLE


def test_rewritten_file() -> None:
    file = only_file(GIT, b"dissimilarity index 99%\nindex 7898192..6178079 100644\n", NAMES, EDIT)
    assert (file.kind, len(file.hunks)) == (Kind.MODIFY, 1)


def test_changed_type_is_a_deletion_and_a_creation() -> None:
    patch = parse_patch(
        "x.patch",
        GIT
        + b"deleted file mode 100644\nindex 7898192..0000000\n"
        + GONE
        + REMOVE
        + GIT
        + b"new file mode 120000\nindex 0000000..6178079\n"
        + NEW
        + b"@@ -0,0 +1 @@\n+b\n\\ No newline at end of file\n",
    )
    assert [(file.kind, file.line) for file in patch.files] == [(Kind.DELETE, 1), (Kind.CREATE, 8)]
    assert patch.files[1].hunks[0].new == b"b"
    assert patch.paths == {"f"}


def test_full_ids_of_the_index_line_are_kept() -> None:
    old, new = b"1" * 40, b"2" * 40
    file = only_file(GIT, b"index ", old, b"..", new, b" 100644\n", NAMES, EDIT)
    assert (file.old_id, file.new_id) == (old.decode(), new.decode())


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ((b"old mode 100644\n",), "this section changes nothing"),
        ((b"new mode 100755\n",), "this section changes nothing"),
        ((b"old mode 100644\nnew mode 100644\n",), "this section changes nothing"),
        ((), "this section changes nothing"),
        ((b"similarity index 100%\n",), "this section changes nothing"),
        ((b"new file mode 100644\n", NAMES, ADD), "`new file mode` line go together"),
        ((NEW, ADD), "`new file mode` line go together"),
        ((b"deleted file mode 100644\n", NAMES, REMOVE), "`deleted file mode` line go together"),
        ((GONE, REMOVE), "`deleted file mode` line go together"),
        ((b"new file mode 100644\n", NEW, EDIT), "a new file's hunk has old lines"),
        ((b"deleted file mode 100644\n", GONE, EDIT), "a deleted file's hunk has new lines"),
        ((b"new file mode 100644\n", NEW, ADD, ADD), "has one hunk at most"),
        ((b"new file mode 100644\ndeleted file mode 100644\n",), "both create and delete"),
        ((b"new file mode 100644\nrename from f\nrename to f\n",), "both create and rename"),
        ((b"rename from g\nrename to f\ncopy from g\ncopy to f\n",), "both rename and copy"),
        ((b"rename from g\n",), "a rename or copy names only one side"),
        ((b"copy to g\n",), "a rename or copy names only one side"),
        ((b"new file mode 160000\n",), "submodules are not supported"),
        ((b"index 7898192..6178079 160000\n", NAMES, EDIT), "submodules are not supported"),
        ((b"new file mode 040000\n",), "this is not the mode of a file"),
        ((b"new file mode 000644\n",), "this is not the mode of a file"),
        ((b"new file mode 644\n",), "this is not the mode of a file"),
        ((b"new file mode 0o100644\n",), "this is not the mode of a file"),
        ((b"new file mode -20000\n",), "this is not the mode of a file"),
        ((b"new file mode rw-r--r--\n",), "this is not the mode of a file"),
        ((b"index 7898192..xyz 100644\n", NAMES, EDIT), "this index line is malformed"),
        ((b"index 7898192\n", NAMES, EDIT), "this index line is malformed"),
        ((NAMES,), "the content of this section is missing"),
        ((b"index 7898192..6178079 100644\n", EDIT), "a hunk without a file header"),
        ((b"new file mode 100644\nindex 0000000..6178079\n",), "the content of this section is"),
        ((b"deleted file mode 100644\nindex 7898192..0000000\n",), "the content of this section"),
        ((b"old mode 100644\nnew mode 100755\nindex 7898192..6178079\n",), "the content of this"),
        ((b"--- a/f\n", EDIT), "of the --- and +++ lines, one is missing"),
        ((b"+++ b/f\n", EDIT), "of the --- and +++ lines, one is missing"),
        ((b"--- a/g\n+++ b/f\n", EDIT), "the name 'g' differs from 'f' in the header above it"),
        ((b"--- a/f\n+++ b/g\n", EDIT), "the name 'g' differs from 'f' in the header above it"),
        ((NAMES, b"junk\n", EDIT), "the content of this section is missing"),
        (
            (b"old mode 100644\nnew mode 100755\njunk\n", EDIT),
            "a hunk without a file header",
        ),
        ((b"old mode 100644\nnew mode 100755",), "the file ends in the middle of a line"),
        ((b"new file mode 100644",), "the file ends in the middle of a line"),
        ((b"--- a/f\n+++ b/f",), "the file ends in the middle of a line"),
    ],
)
def test_section_that_is_cut_or_contradicts_itself_is_refused(
    parts: tuple[bytes, ...], said: str
) -> None:
    assert said in str(refusal(GIT, *parts))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"diff --git a/f b/g\n", "the patch does not say the name of this file"),
        (b"diff --git f f\n", "the names in the patch have no a/ or b/ before them"),
        (b'diff --git "a/f b/f\n', "a quoted path has no closing quote"),
    ],
)
def test_section_without_a_name_is_refused(line: bytes, said: str) -> None:
    assert said in str(refusal(line, b"old mode 100644\nnew mode 100755\n"))


def test_names_that_differ_need_a_rename_or_a_copy() -> None:
    error = refusal(b"diff --git a/f b/g\n--- a/f\n+++ b/g\n", EDIT)
    assert "the old and the new name differ and the patch says neither rename nor copy" in str(
        error
    )


# The way of the file.


@pytest.mark.parametrize(
    "data",
    [
        GIT + NAMES + EDIT,
        GIT + b"old mode 100644\nnew mode 100755\n",
        GIT + b"rename from g\nrename to f\n",
        NAMES + EDIT,
        b"Subject: [PATCH] x\n\n---\n" + GIT + NAMES + EDIT,
    ],
)
def test_patch_that_was_converted_to_crlf_is_read(data: bytes) -> None:
    (file,) = parse_patch("x.patch", data.replace(b"\n", b"\r\n")).files
    assert file == replace(only_file(data), lost_line_ends=True)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_new_file_of_a_converted_patch_is_told_by_its_id(end: bytes) -> None:
    known = b"index 0000000..%s\n" % blob_id(b"b" + end).encode()[:7]
    data = (GIT + b"new file mode 100644\n" + known + NEW + ADD).replace(b"\n", b"\r\n")
    assert only_file(data).hunks[0].new == b"b" + end
    for unknown in (b"index 0000000..0123456\n", b""):
        error = refusal(
            data.replace(known.replace(b"\n", b"\r\n"), unknown.replace(b"\n", b"\r\n"))
        )
        assert "the line ends of the new file f are unclear" in str(error)


@pytest.mark.parametrize("data", [GIT + NAMES + EDIT, NAMES + EDIT])
def test_patch_that_was_converted_in_part_is_refused(data: bytes) -> None:
    error = refusal(data.replace(b"f\n", b"f\r\n"))
    assert "end in CRLF: the file was converted on its way" in str(error)
    assert error.remedy is not None
    assert ".gitattributes" in error.remedy


@pytest.mark.parametrize("signature", [b"-- \r\n2.39.5\r\n\r\n", b"--\r\n2.39.5\r\n", b"-- \r\n"])
def test_signature_with_crlf_is_no_part_of_the_hunk(signature: bytes) -> None:
    assert only_file(GIT, NAMES, EDIT, signature) == only_file(GIT, NAMES, EDIT)


def test_patch_on_a_crlf_file_is_no_converted_patch() -> None:
    file = only_file(GIT, NAMES, b"@@ -1,2 +1,2 @@\n-a\r\n+b\r\n c\r\n")
    assert (file.hunks[0].old, file.hunks[0].new) == (b"a\r\nc\r\n", b"b\r\nc\r\n")


@pytest.mark.parametrize("data", [b"", b"\n", b"a mail without a patch\n"])
def test_file_without_a_diff_is_refused(data: bytes) -> None:
    assert str(refusal(data)) == "x.patch:1: there is no diff in this file"


@pytest.mark.parametrize("before", [b"", b"mail\n\n"])
def test_hunk_without_a_header_is_refused(before: bytes) -> None:
    assert "a hunk without a file header" in str(refusal(before, EDIT, GIT, NAMES, EDIT))


# Plain diffs.


def test_plain_diff() -> None:
    dates = b"--- a/f\t2024-01-01 00:00:00.0 +0000\n+++ b/f\t2024-01-02 00:00:00.0 +0000\n"
    file = only_file(b"diff -ru a/f b/f\n", dates, EDIT)
    assert (file.kind, file.old_path, file.new_path) == (Kind.MODIFY, "f", "f")
    assert (file.old_mode, file.new_mode, file.old_id) == (None, None, None)
    assert file.line == 2


@pytest.mark.parametrize(
    ("names", "hunk", "kind"),
    [
        (NEW, ADD, Kind.CREATE),
        (GONE, REMOVE, Kind.DELETE),
        (
            b"--- a/f\t1970-01-01 00:00:00 +0000\n+++ b/f\t2024-01-01 00:00:00 +0000\n",
            ADD,
            "create",
        ),
        (
            b"--- a/f\t2024-01-01 00:00:00 +0000\n+++ b/f\t1970-01-01 00:00:00 +0000\n",
            REMOVE,
            "delete",
        ),
        (
            b"--- a/f\t2024-01-01 00:00:00 +0000\n+++ b/f\t2024-01-01 00:00:00 +0000\n",
            ADD,
            "create",
        ),
        (
            b"--- a/f\t2024-01-01 00:00:00 +0000\n+++ b/f\t2024-01-01 00:00:00 +0000\n",
            REMOVE,
            "modify",
        ),
    ],
)
def test_plain_diff_says_by_null_or_by_date_that_a_file_comes_or_goes(
    names: bytes, hunk: bytes, kind: Kind
) -> None:
    file = only_file(names, hunk)
    assert (file.kind, file.old_path, file.new_path) == (kind, "f", "f")


EPOCHS = [b"1970-01-01 09:00:00.000000000 +0900", b"Thu Jan 01 00:00:00 1970 +0000"]
DATE = b"2024-01-01 00:00:00.000000000 +0000"


@pytest.mark.parametrize("epoch", EPOCHS)
def test_file_that_is_only_dated_1970_is_there(epoch: bytes) -> None:
    for old, new in ((epoch, epoch), (epoch, DATE), (DATE, epoch)):
        file = only_file(b"--- a/f\t", old, b"\n+++ b/f\t", new, b"\n", EDIT)
        assert file.kind is Kind.MODIFY
    file = only_file(b"--- a/f\t", epoch, b"\n+++ b/f\t", DATE, b"\n", REMOVE)
    assert file.kind is Kind.MODIFY
    file = only_file(b"--- a/f\t", epoch, b"\n+++ b/f\t", epoch, b"\n", ADD)
    assert file.kind is Kind.CREATE


@pytest.mark.parametrize("epoch", EPOCHS)
def test_file_that_is_emptied_or_removed_is_refused_where_both_dates_are_1970(
    epoch: bytes,
) -> None:
    error = refusal(b"--- a/f\t", epoch, b"\n+++ b/f\t", epoch, b"\n", REMOVE)
    assert "it is unclear whether the file is emptied or removed" in str(error)
    assert error.remedy is not None


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/St_Johns", "Pacific/Auckland"])
def test_files_that_diff_calls_missing_come_and_go(tmp_path: Path, zone: str) -> None:
    for side, name in (("a", "gone"), ("b", "new")):
        (tmp_path / side).mkdir()
        (tmp_path / side / name).write_text("a\n")
    made = subprocess.run(
        ["diff", "-ruN", "a", "b"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "TZ": zone},
        capture_output=True,
        check=False,
    )
    patch = parse_patch("x.patch", made.stdout)
    assert {(f.kind, f.new_path) for f in patch.files} == {("delete", "gone"), ("create", "new")}


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (b"--- f\n+++ f\n", "the names in the patch have no a/ or b/ before them"),
        (b"--- a/f.py\n+++ b/g.py\n", "neither rename nor copy"),
        (b"--- a/f.py\n+++ b/f.pyi\n", "neither rename nor copy"),
        (b"--- /dev/null\n+++ /dev/null\n", "the patch does not say the name"),
    ],
)
def test_plain_diff_must_name_one_file(names: bytes, said: str) -> None:
    assert said in str(refusal(names, EDIT))


def test_plain_and_git_sections_may_stand_in_one_file() -> None:
    plain = b"Index: g\n=====\n--- a/g\n+++ b/g\n"
    other = plain.replace(b"g", b"h")
    patch = parse_patch("x.patch", plain + EDIT + b"\n" + GIT + NAMES + EDIT + other + EDIT)
    assert [file.new_path for file in patch.files] == ["g", "f", "h"]


# Mails.


def mail(body: bytes = b"", subject: bytes = b"[PATCH] one thing") -> bytes:
    return (
        b"From 1111111111111111111111111111111111111111 Mon Sep 17 00:00:00 2001\n"
        b"From: A U Thor <author@example.com>\n"
        b"Date: Tue, 14 Nov 2023 22:13:20 +0000\n"
        b"Subject: "
        + subject
        + b"\n\n"
        + body
        + b"---\n f | 2 +-\n 1 file changed\n\n"
        + GIT
        + NAMES
        + EDIT
        + b"-- \n2.39.5\n\n"
    )


def test_mail_is_kept_byte_by_byte() -> None:
    data = mail(b"Why.\n\nSigned-off-by: A\n")
    patch = parse_patch("0001-x.patch", data)
    assert patch.data == data
    assert patch.digest == hashlib.sha256(data).hexdigest()
    assert patch.name == "0001-x.patch"
    assert patch.files[0].line == 13


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (b"[PATCH] one thing", "one thing"),
        (b"[PATCH v2 1/3] [RFC] one thing", "one thing"),
        (b"one [thing]", "one [thing]"),
        (b"[PATCH] a long\n subject", "a long subject"),
        (b"[PATCH] =?UTF-8?q?gr=C3=BC=C3=9Fe?=", "grüße"),
        ("[PATCH] grüße".encode(), "grüße"),
        (b"[PATCH] gr\xfc\xdfe", "gr\ufffd\ufffde"),
    ],
)
def test_subject_is_unfolded_and_decoded(subject: bytes, expected: str) -> None:
    assert parse_patch("x.patch", mail(subject=subject)).subject == expected


def test_subject_of_a_patch_without_a_mail_is_its_name() -> None:
    assert parse_patch("x.patch", GIT + NAMES + EDIT).subject == "x.patch"


@pytest.mark.parametrize(
    "body",
    [
        b"    --- a/g\n    +++ b/g\n    @@ -1 +1 @@\n    -a\n    +b\n",
        b"> --- a/g\n> +++ b/g\n> @@ -1 +1 @@\n",
        b"--- a/g is older than\n+++ b/g, see there\n",
        b"--- a/g\n\n+++ b/g\n\n-- \nme\n",
        b"@@ -1 and so on\n",
        b"+1 from me\n- and one more\n-- \n2.39.5\n",
        b"index 1234567..89abcde 100644\nrename from a\nnew file mode 100644\n",
        b"GIT binary patch\n\\ No newline at end of file\nliteral 10\n",
    ],
)
def test_text_that_only_looks_like_a_diff_is_text(body: bytes) -> None:
    patch = parse_patch("x.patch", mail(body))
    assert [file.new_path for file in patch.files] == ["f"]


def test_diff_in_the_text_is_one_for_git_apply_and_refused_here() -> None:
    error = refusal(mail(b"--- a/g\n+++ b/g\n" + EDIT + b"\n"))
    assert "text between two sections" in str(error)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"@@ -1,2 +1,2 @@ shows it\n", "x.patch:6: a hunk without a file header"),
        (
            b"Binary files a/g and b/g differ\n",
            "x.patch:6: a binary file differs, but the patch does not hold its data",
        ),
        (b"diff --cc g\n", "x.patch:6: the combined diff of a merge cannot be applied"),
    ],
)
def test_part_of_a_diff_in_the_text_is_refused(body: bytes, said: str) -> None:
    assert str(refusal(mail(body))) == said


def test_mailbox_of_two_patches_is_refused() -> None:
    second = mail().replace(b"a/f", b"a/g").replace(b"b/f", b"b/g")
    error = refusal(mail() + second)
    assert str(error) == "x.patch:1: the file holds 2 patches, of one commit each"
    assert error.remedy == "make a file of each: pkgtools import x.patch -o DIR"


# What real git writes.


class Repository:
    """A throw-away repository, cut off from the user's configuration."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.git("init", "--quiet")

    def git(self, *arguments: str) -> bytes:
        environment = {name: value for name, value in os.environ.items() if name[:4] != "GIT_"}
        environment |= {"HOME": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
        who = ("-c", "user.name=A", "-c", "user.email=a@example.com")
        made = subprocess.run(
            ["git", *who, *arguments],
            cwd=self.top,
            env=environment,
            capture_output=True,
            check=True,
        )
        return made.stdout

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path)
    long = "".join(f"line {number}\n" for number in range(30))
    for name in ("edited", "renamed", "copied from", "mode", "deleted", 'quo"ted\t', "grüß"):
        (tmp_path / name).write_text(f"{name}\n{long}")
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    (tmp_path / "dos").write_bytes(b"a\r\nb\r\nc\r\n")
    (tmp_path / "bare").write_bytes(b"a\nb")
    (tmp_path / "link").symlink_to("edited")
    (tmp_path / "retyped").write_text("edited\n")
    repository.commit("before")
    (tmp_path / "edited").write_text(f"changed\n{long}")
    (tmp_path / "renamed").rename(tmp_path / "new name")
    (tmp_path / "copied to").write_text((tmp_path / "copied from").read_text())
    (tmp_path / "copied from").write_text(f"copied from\n{long}more\n")
    (tmp_path / "mode").chmod(0o755)
    (tmp_path / "deleted").unlink()
    (tmp_path / 'quo"ted\t').write_text(long)
    (tmp_path / "grüß").write_text(long)
    (tmp_path / "binary").write_bytes(bytes(range(256)) + b"more")
    (tmp_path / "new binary").write_bytes(b"\0" * 100)
    (tmp_path / "dos").write_bytes(b"a\r\nB\r\nc\r\n")
    (tmp_path / "bare").write_bytes(b"a\nb\n")
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("mode")
    (tmp_path / "retyped").unlink()
    (tmp_path / "retyped").symlink_to("edited")
    (tmp_path / "empty").touch()
    repository.commit(
        "A subject that is long enough to be folded, w\u00efth a letter beyond ASCII\n\nBody"
    )
    return repository


EXPECTED = {
    ("bare", Kind.MODIFY),
    ("binary", Kind.MODIFY),
    ("copied from", Kind.MODIFY),
    ("copied to", Kind.COPY),
    ("deleted", Kind.DELETE),
    ("dos", Kind.MODIFY),
    ("edited", Kind.MODIFY),
    ("empty", Kind.CREATE),
    ("grüß", Kind.MODIFY),
    ("link", Kind.MODIFY),
    ("mode", Kind.MODIFY),
    ("new binary", Kind.CREATE),
    ("new name", Kind.RENAME),
    ('quo"ted\t', Kind.MODIFY),
    ("retyped", Kind.DELETE),
    ("retyped", Kind.CREATE),
}


@pytest.mark.parametrize("quote", ["true", "false"])
@pytest.mark.parametrize("options", [(), ("--full-index", "-U1"), ("--attach",)])
def test_mail_that_git_writes_is_read(
    repository: Repository, quote: str, options: tuple[str, ...]
) -> None:
    make = ("-c", f"core.quotePath={quote}", "format-patch", "-1", "--stdout", "-C", "--binary")
    data = repository.git(*make, *options)
    patch = parse_patch("x.patch", data)
    assert {(file.new_path, file.kind) for file in patch.files} == EXPECTED
    assert len(patch.files) == len(EXPECTED)
    assert patch.subject == "A subject that is long enough to be folded, wïth a letter beyond ASCII"
    assert patch.data == data
    by_name = {file.new_path: file for file in patch.files}
    assert by_name["copied to"].old_path == "copied from"
    assert by_name["new name"].old_path == "renamed"
    assert by_name["mode"].new_mode == EXECUTABLE
    assert by_name["dos"].hunks[0].new == b"a\r\nB\r\nc\r\n"
    assert (by_name["bare"].hunks[0].old, by_name["bare"].hunks[0].new) == (b"a\nb", b"a\nb\n")
    assert by_name["link"].hunks[0].new == b"mode"
    binary, new_binary = by_name["binary"].binary, by_name["new binary"].binary
    assert binary is not None
    assert binary.apply(bytes(range(256))) == bytes(range(256)) + b"more"
    assert new_binary is not None
    assert new_binary.apply(b"") == b"\0" * 100


def test_two_files_that_swap_their_names_are_two_renames(repository: Repository) -> None:
    first, second = repository.top / "numbers", repository.top / "words"
    first.write_text("".join(f"{number}\n" for number in range(40)))
    second.write_text("words, words\n" * 40)
    repository.commit("before")
    first.rename(repository.top / "x")
    second.rename(first)
    (repository.top / "x").rename(second)
    repository.commit("swap")
    patch = parse_patch("x.patch", repository.git("diff", "-B", "-M", "HEAD^", "HEAD"))
    assert {(f.kind, f.old_path, f.new_path) for f in patch.files} == {
        (Kind.RENAME, "numbers", "words"),
        (Kind.RENAME, "words", "numbers"),
    }
