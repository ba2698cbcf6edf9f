"""Several patches in one file: as many as there are commits, in their order, or a refusal."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from pkgtools.errors import MalformedError
from pkgtools.patch import in_order, parse_patch, shown_level, split_mails

if TYPE_CHECKING:
    from pathlib import Path

SECTION = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"
OTHER = SECTION.replace(b"/f", b"/g")
PLAIN = OTHER.removeprefix(b"diff --git a/g b/g\n")
A, B, C = (letter * 40 for letter in (b"a", b"b", b"c"))
SUBJECTS = ("Add f", "Index: g", "diff the two", "====", "Property changes on: h", "", "unchanged:")


class History:
    """A repository whose commits are a minute apart."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.count = 0
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str, minute: int = 0) -> bytes:
        """Run git; `minute` dates a commit."""
        date = f"{1_700_000_000 + 60 * minute} +0100"
        env = {
            "PATH": os.environ["PATH"],
            "HOME": os.devnull,
            "GIT_AUTHOR_DATE": date,
            "GIT_COMMITTER_DATE": f"{1_700_000_000 + 60 * self.count} +0100",
        }
        command = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", *words]
        return subprocess.run(
            command, cwd=self.root, env=env, capture_output=True, check=True
        ).stdout

    def commit(self, name: str, text: str, subject: str, *, minute: int | None = None) -> None:
        """Write a file and commit it."""
        self.count += 1
        (self.root / name).write_text(text)
        self.git("add", ".")
        words = ("commit", "-q", "--allow-empty-message", "-m", subject)
        self.git(*words, minute=self.count if minute is None else minute)


def read(data: bytes) -> list[list[str]]:
    """Return the new paths of each patch of a file."""
    found = []
    for part in in_order("x.patch", split_mails(data)):
        level = shown_level("x.patch", part)
        patch = parse_patch("x.patch", part, level.number if level else None)
        found.append([file.new_path for file in patch.files])
    return found


@pytest.fixture(scope="module")
def disjoint(tmp_path_factory: pytest.TempPathFactory) -> History:
    """Return commits that change a file each, and a merge."""
    history = History(tmp_path_factory.mktemp("disjoint"))
    for number, subject in enumerate(SUBJECTS):
        history.commit(f"f{number}", "a\n", subject)
    history.git("checkout", "-q", "-b", "side", "HEAD~2")
    history.commit("side", "a\n", "Add side")
    history.git("checkout", "-q", "main")
    history.git("merge", "-q", "--no-edit", "side")
    history.git("notes", "add", "-m", "a note")
    return history


FORMATS = (
    *("medium", "fuller", "oneline", "short", "full", "reference", "raw", "email", "mboxrd"),
    *("%s", "format:%s", "=%s", "format:Index: %s", "format:diff %s", "%B", "%b", "%n", "format:"),
    *("%H", "%n%h%n", "* %h %s", "%h - %s (%ar)", "%an <%ae>%n%s", "%s%n%n%aI", "%N", "%s%x00"),
)


@pytest.mark.parametrize("form", FORMATS)
def test_log_is_read_as_its_commits_or_refused(disjoint: History, form: str) -> None:
    commits = [[f"f{number}"] for number in range(len(SUBJECTS))]
    for options in ([], ["--stat"], ["--graph"], ["-m"], ["--cc"], ["--reverse"], ["--raw"]):
        log = disjoint.git("log", "-p", f"--format={form}", *options)
        if form not in ("medium", "fuller") or options in (["--graph"], ["-m"]):
            with pytest.raises(MalformedError):
                read(log)
        else:
            found = read(log)
            assert sorted(found) == [*commits, ["side"]], options
            assert [paths for paths in found if paths != ["side"]] == commits, options


@pytest.mark.parametrize("form", ["medium", "oneline", "%H", "short", "--date=relative"])
def test_blob_ids_give_the_order_of_a_log(tmp_path: Path, form: str) -> None:
    """The author's date of a commit that was moved is older than that of the one before it."""
    history = History(tmp_path)
    for number, minute in enumerate((0, 3, 2, 1)):
        history.commit("f", f"{number}\n", f"Write {number}", minute=minute)
    option = form if form.startswith("--") else f"--format={form}"
    for words in ((), ("--reverse",)):
        log = history.git("log", "-p", option, *words)
        parts = in_order("x.patch", split_mails(log))
        assert [f"+{number}\n".encode() in part for number, part in enumerate(parts)] == [True] * 4
    log = re.sub(rb"\nindex \w+\.\.\w+", rb"\nindex 1111111..2222222", log)
    with pytest.raises(MalformedError, match="blob ids of its 4 commits do not show their order"):
        in_order("x.patch", split_mails(log))


TEXTS = (
    b"The same for g.\n",
    b"changeset:   1:0123456789ab\nuser:        A\nsummary:     x\n\n",
    b"r123 | ann | 2026-11-30 10:00:00 +0000 (Mon, 30 Nov 2026) | 1 line\n\nWhy.\n\n",
    b"revno: 12\ncommitter: A\nmessage:\n  Why.\ndiff:\n",
    b"From: A <a@example.com>\nSubject: x\n\n",
    b"-- \n2.39.5\n",
    b"Index: speed\n\n",
    b"===\n\n",
    b"\n",
)


@pytest.mark.parametrize("text", TEXTS)
def test_text_between_two_sections_of_git_is_refused(text: bytes) -> None:
    assert len(parse_patch("x.patch", text + SECTION + OTHER + b"\n" + text).files) == 2
    with pytest.raises(
        MalformedError, match=r"x.patch:\d+: .* a second patch can start here"
    ) as no:
        parse_patch("x.patch", SECTION + text + OTHER)
    assert no.value.remedy is not None


PROPERTY = b"\n\nProperty changes on: f\n____________________________\nAdded: svn:eol-style\n"


@pytest.mark.parametrize(
    "text",
    [
        b"diff -r 0123456789ab -r 0123456789ac g\n",
        b"Index: g\n==========\n",
        b"Index: g\n=====\nRCS file: /cvs/m/g,v\nretrieving revision 1.2\ndiff -u -r1.2 g\n",
        b"=== modified file 'g'\n",
        b"Index: g\nIDEA additional info:\nSubsystem: com.intellij.CharsetEP\n<+>UTF-8\n====\n",
        b"only in patch2:\nunchanged:\n",
        b"Common subdirectories: a/d and b/d\ndiff -ru a/g b/g\n",
        PROPERTY + b"## -0,0 +1 ##\n+native\n\\ No newline at end of property\nIndex: g\n===\n",
        PROPERTY + b"Added: svn:mergeinfo\n## -0,0 +0,1 ##\n   Merged /trunk:r2\nIndex: g\n===\n",
        PROPERTY + b"   + native\n\n",
        b"\n\n",
    ],
)
def test_lines_that_programs_write_between_two_sections_are_read(text: bytes) -> None:
    for first in (SECTION, SECTION.removeprefix(b"diff --git a/f b/f\n")):
        assert len(parse_patch("x.patch", first + text + PLAIN).files) == 2
        with pytest.raises(MalformedError, match="a second patch can start"):
            parse_patch("x.patch", first + text + b"A word.\n" + PLAIN)


def test_path_changes_again_from_what_it_became() -> None:
    """As in ``git log --format=``, which writes no line between two commits."""
    ids = [b"diff --git a/f b/f\nindex %b..%b 100644\n" % pair for pair in ((A, B), (B, C))]
    first, second = (SECTION.replace(b"diff --git a/f b/f\n", head) for head in ids)
    assert len(parse_patch("x.patch", first + second).files) == 2
    with pytest.raises(MalformedError, match="f changes again, from another content") as caught:
        parse_patch("x.patch", second + first)
    assert caught.value.remedy is not None


def test_copy_and_edit_of_one_file_in_a_log(tmp_path: Path) -> None:
    """The copy is of the file as it was before the commit."""
    history = History(tmp_path)
    history.commit("f", "a\n" * 9, "One")
    history.commit("f", "b\n" + "a\n" * 8, "Two")
    (tmp_path / "g").write_text("b\n" + "a\n" * 7 + "c\n")
    history.commit("f", "c\n" + "a\n" * 8, "Three")
    log = history.git("log", "-p", "--oneline", "-C", "-C")
    assert b"copy from f" in log
    assert read(log) == [["f"], ["f"], ["f", "g"]]
