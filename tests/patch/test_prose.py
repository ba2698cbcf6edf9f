"""Lines around sections: text is text, and a change that is only named is refused."""

from __future__ import annotations

import base64
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from pkgtools.errors import MalformedError
from pkgtools.patch import parse_patch

if TYPE_CHECKING:
    from pathlib import Path

SECTION = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"
MODE = b"old mode 100644\nnew mode 100755\n"
MAIL = b"From: A <a@example.com>\nSubject: x\n\n"


@pytest.mark.parametrize(
    "line",
    [
        b"Index: f\n===================================================================\n",
        b"diff -Nru a/f b/f\n",
        b"diff -r 0123456789ab f\n",
        b"# a comment\n",
        b"Description: fix it\nForwarded: not-needed\n\n",
        b"\n\n",
        b"---\n f | 2 +-\n 1 file changed\n",
        b"-- \n2.39.5\n\n",
        b"--\nAnn Other\n",
        b"Common subdirectories: a/d and b/d\n",
        b"Property changes on: f\n____\nAdded: svn:eol-style\n",
        b"Only in this release: the fix\n",
        b"commit 0123456789012345678901234567890123456789\nAuthor: A <a@example.com>\n\n    text\n",
        b"    diff --git a/g b/g\n    old mode 100644\n",
        b"> diff --git a/g b/g\n> --- a/g\n> +++ b/g\n",
        b"_______\nlist mailing list\n",
        b"-----BEGIN PGP SIGNATURE-----\n",
    ],
)
@pytest.mark.parametrize("where", ["before", "behind", "mail"])
def test_what_people_write_around_patches_is_text(line: bytes, where: str) -> None:
    data = {
        "before": line + SECTION,
        "behind": SECTION + b"\n" + line,
        "mail": MAIL + line + SECTION,
    }
    assert [file.new_path for file in parse_patch("x.patch", data[where]).files] == ["f"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"Only in b/d: g.py\n", "a file is on one side only"),
        (b"Binary files a/g and b/g differ\n", "does not hold its data"),
        (b"Binary file g.png has changed\n", "does not hold its data"),
        (b"Cannot display: file marked as a binary type.\n", "does not hold its data"),
        (b"Files a/g and b/g differ\n", "files differ"),
        (b"File a/g is a directory while file b/g is a regular file\n", "changes its type"),
        (b"File a/g is a symbolic link while file b/g is a directory\n", "changes its type"),
        (b"Submodule lib 0123456..89abcde:\n", "submodules are not supported"),
        (b"Submodule lib 0123456...89abcde (rewind):\n", "submodules are not supported"),
        (b"Added: svn:executable\n", "name, mode or type changes"),
        (b"=== renamed file 'g' => 'h'\n", "name, mode or type changes"),
        (b"=== modified file 'g' (properties changed: -x to +x)\n", "name, mode or type changes"),
        (b"=== added symlink 'g'\n=== target is 'h'\n", "name, mode or type changes"),
        (b"* Unmerged path g\n", "git names a file with a conflict"),
        (b"*** a/g\n--- b/g\n***************\n*** 1 ****\n! a\n", "this is a context diff"),
        (b"1c1\n< a\n---\n> b\n", "this is a normal diff"),
        (b"@@@ -1,2 -1,2 +1,3 @@@\n", "the combined diff of a merge"),
        (b"\xef\xbb\xbfdiff --git a/g b/g\n" + MODE, "characters before `diff --git`"),
        ("\u200bdiff --git a/g b/g\n".encode() + MODE, "characters before `diff --git`"),
        (b"\0diff --git a/g b/g\n" + MODE, "characters before `diff --git`"),
    ],
)
@pytest.mark.parametrize("where", ["before", "behind", "mail"])
def test_change_that_is_only_named_is_refused(line: bytes, said: str, where: str) -> None:
    data = {
        "before": b"\n" + line + SECTION,
        "behind": SECTION + line,
        "mail": MAIL + line + SECTION,
    }
    with pytest.raises(MalformedError, match=said) as caught:
        parse_patch("x.patch", data[where])
    assert caught.value.remedy is not None


@pytest.mark.parametrize(
    "lines",
    [
        MODE,
        b"similarity index 100%\n",
        b"rename from g\nrename to h\n",
        b"copy from g\ncopy to h\n",
        b"GIT binary patch\n",
        b"index 0123456..89abcde 100644\n\n",
        b"textdiff --git a/g b/g\n" + MODE,
        b"--- a/g\n+++ b/g\n\n",
        b"+a line too many\n",
        b"-a line too many\n",
        b"+    a line too many\n",
        b" context\n- a = 1\n",
    ],
)
@pytest.mark.parametrize("before", [b"", MAIL + b"---\n"])
def test_part_of_a_section_outside_one_is_refused(lines: bytes, before: bytes) -> None:
    for data in (before + lines + SECTION, before + SECTION + b"\n" + lines):
        with pytest.raises(MalformedError, match="line of a diff is outside"):
            parse_patch("x.patch", data)


@pytest.mark.parametrize("before", [b"", b"Why.\n\n", MAIL + b"---\n", MAIL + b"---\n\n"])
@pytest.mark.parametrize(
    "text",
    [
        b"Changes in v2:\n- With a typo\n- Another, which is\n  longer\n",
        b"- the first\n\n- `the` second\n",
        b"this drops the\n-mlong-double-64 option, or\n+x\n",
    ],
)
def test_lists_and_options_in_the_text_are_no_diff(before: bytes, text: bytes) -> None:
    (file,) = parse_patch("x.patch", before + text + b"\n" + SECTION).files
    assert file.new_path == "f"
    with pytest.raises(MalformedError, match="line of a diff is outside"):
        parse_patch("x.patch", before + SECTION + b"\n" + text)


LANGUAGES = [
    "bg",
    "cs",
    "de",
    "el",
    "es",
    "fr",
    "ga",
    "hu",
    "id",
    "ja",
    "pt_BR",
    "ru",
    "tr",
    "vi",
    "zh_CN",
    "zh_TW",
]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", ["e", "g"])
@pytest.mark.parametrize("content", ["only here\n", None])
def test_what_diff_names_in_another_language_is_refused(
    content: str | None, name: str, language: str, tmp_path: Path
) -> None:
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "f").write_text(f"{side}\n")
        if content is None:
            (tmp_path / side / name).write_text(f"{side}\0")
    if content is not None:
        (tmp_path / "b" / name).write_text(content)
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "LANGUAGE": language}
    made = subprocess.run(
        ["diff", "-ru", "a", "b"], cwd=tmp_path, env=env, capture_output=True, check=False
    ).stdout
    with pytest.raises(MalformedError, match="does not hold"):
        parse_patch("x.patch", b"Why.\n\n" + made)


@pytest.mark.parametrize(
    "text",
    [
        b"Nur in a: g\n\n",
        b"# Nur in a: g\n",
        b"Description: in a: g\n",
        b"This is a fix for: g\n",
        b"In lib/a: g\n",
    ],
)
def test_comment_above_the_first_section_is_text(text: bytes) -> None:
    section = b"diff -ru a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"
    assert len(parse_patch("x.patch", text + section).files) == 1


def test_mode_that_filterdiff_left_is_passed_over() -> None:
    new = b"--- /dev/null\n+++ b/g\n@@ -0,0 +1 @@\n+b\n"
    assert len(parse_patch("x.patch", SECTION + b"new file mode 100644\n" + new).files) == 2
    with pytest.raises(MalformedError, match="line of a diff is outside"):
        parse_patch("x.patch", SECTION + b"new file mode 100755\n" + new)


def test_names_of_a_section_are_those_above_its_hunks(tmp_path: Path) -> None:
    """People edit these and forget `diff --git`; git apply takes them too."""
    data = SECTION.replace(b"diff --git a/f b/f", b"diff --git a/old/f b/old/f")
    assert [file.new_path for file in parse_patch("x.patch", data).files] == ["f"]
    (tmp_path / "f").write_bytes(b"a\n")
    command = ["git", "apply", "--unidiff-zero", "-"]
    subprocess.run(command, cwd=tmp_path, input=data, check=True, env=os.environ)
    assert (tmp_path / "f").read_bytes() == b"b\n"
    for one in (data.replace(b"+++ b/f", b"+++ b/g"), data.replace(b"--- a/f", b"--- a/g")):
        with pytest.raises(MalformedError, match="differs from 'old/f' in the header above it"):
            parse_patch("x.patch", one)


def test_byte_order_mark_at_the_start_is_passed_over() -> None:
    data = b"\xef\xbb\xbfdiff --git a/g b/g\n" + MODE + SECTION
    patch = parse_patch("x.patch", data)
    assert [file.new_path for file in patch.files] == ["g", "f"]
    assert patch.data == data


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_named(codec: str) -> None:
    body = base64.encodebytes(SECTION.decode().encode(codec))
    mail = MAIL[:-1] + b"Content-Transfer-Encoding: base64\n\n" + body
    with pytest.raises(MalformedError, match="the file is UTF-16"):
        parse_patch("x.patch", mail)
    with pytest.raises(MalformedError, match="the file is UTF-16") as caught:
        parse_patch("x.patch", SECTION.decode().encode(codec))
    assert caught.value.remedy is not None


def git(cwd: Path, *arguments: str) -> bytes:
    environment = {"PATH": os.environ["PATH"], "HOME": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-c", "user.name=A", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, check=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with one change that is not committed."""
    (tmp_path / "f").write_text("a\n" + "    a\n" * 8)
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "before")
    (tmp_path / "f").write_text("a\n    b\n" + "    a\n" * 7)
    return tmp_path


def test_colours_are_named(repository: Path) -> None:
    for options in ([], ["--ws-error-highlight=all"], ["--color-moved"]):
        with pytest.raises(MalformedError, match="colour codes") as caught:
            parse_patch("x.patch", git(repository, "diff", "--color", *options))
        assert caught.value.remedy is not None


def test_merge_is_refused_and_function_context_is_read(repository: Path) -> None:
    whole = git(repository, "diff", "--function-context")
    assert parse_patch("x.patch", whole).files[0].hunks[0].old_count == 9
    git(repository, "commit", "--quiet", "--all", "--message", "one")
    git(repository, "checkout", "--quiet", "-b", "other", "HEAD^")
    (repository / "f").write_text("a\n    c\n" + "    a\n" * 7)
    git(repository, "commit", "--quiet", "--all", "--message", "two")
    git(repository, "merge", "--quiet", "--strategy=ours", "main")
    (repository / "f").write_text("a\n    d\n" + "    a\n" * 7)
    git(repository, "commit", "--quiet", "--all", "--amend", "--message", "merge")
    for options in (["-c"], ["--cc"]):
        with pytest.raises(MalformedError, match="the combined diff of a merge"):
            parse_patch("x.patch", git(repository, "show", *options))


@pytest.mark.parametrize("how", ["log", "short"])
def test_submodule_is_refused(repository: Path, how: str) -> None:
    for commit in ("1" * 40, "2" * 40):
        git(repository, "update-index", "--add", "--cacheinfo", f"160000,{commit},lib")
        git(repository, "commit", "--quiet", "--message", commit)
    data = git(repository, "diff", f"--submodule={how}", "HEAD^", "HEAD")
    with pytest.raises(MalformedError, match="submodules are not supported"):
        parse_patch("x.patch", data)
    mode = data.replace(b" 160000\n", b"\n")
    with pytest.raises(MalformedError, match="submodules are not supported"):
        parse_patch("x.patch", mode)


def compare(cwd: Path, *options: str) -> bytes:
    """Compare the folders a and b with diff(1)."""
    made = subprocess.run(["diff", *options, "a", "b"], cwd=cwd, capture_output=True, check=False)
    assert made.returncode == 1
    return made.stdout


def test_diff_names_what_it_does_not_hold(tmp_path: Path) -> None:
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "f").write_text(f"{side}\n")
        (tmp_path / side / "binary").write_bytes(b"\0" + side.encode())
    (tmp_path / "b" / "new").write_text("new\n")
    with pytest.raises(MalformedError, match="does not hold its data"):
        parse_patch("x.patch", compare(tmp_path, "-ruN"))
    (tmp_path / "b" / "binary").unlink()
    (tmp_path / "a" / "binary").unlink()
    assert len(parse_patch("x.patch", compare(tmp_path, "-ruN")).files) == 2
    with pytest.raises(MalformedError, match="one side only"):
        parse_patch("x.patch", compare(tmp_path, "-ru"))
    with pytest.raises(MalformedError, match="files differ"):
        parse_patch("x.patch", compare(tmp_path, "-rq", "-x", "new"))
    for options, said in ((["-rc"], "context diff"), (["-r"], "normal diff")):
        with pytest.raises(MalformedError, match=said):
            parse_patch("x.patch", compare(tmp_path, *options, "-x", "new"))
    (tmp_path / "b" / "new").unlink()
    (tmp_path / "b" / "f").unlink()
    (tmp_path / "b" / "f").mkdir()
    with pytest.raises(MalformedError, match="changes its type"):
        parse_patch("x.patch", compare(tmp_path, "-ru"))
