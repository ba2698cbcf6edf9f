"""Path names: git's quoting, the strip level, dates behind names, and which names are safe."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pkgtools.errors import MalformedError
from pkgtools.patch import FilePatch, parse_patch
from pkgtools.patch.paths import (
    PathError,
    git_pairs,
    header_name,
    is_epoch,
    rest_name,
    safe_path,
    strip,
    strip_or_none,
    unquote,
)

examples = settings(deadline=None, derandomize=True, database=None)


@pytest.mark.parametrize(
    ("quoted", "name"),
    [
        (rb'"plain"', b"plain"),
        (rb'"a\tb\nc\rd"', b"a\tb\nc\rd"),
        (rb'"\a\b\f\v"', b"\a\b\f\v"),
        (rb'"say \"hi\" \\o/"', rb'say "hi" \o/'),
        (rb'"gr\303\274\303\237"', "grüß".encode()),
        (rb'"\000\177\377"', b"\0\177\377"),
        (rb'"\1234"', b"S4"),
        ('"grüß"'.encode(), "grüß".encode()),
        (b'""', b""),
    ],
)
def test_quoted_name_is_read_as_git_writes_it(quoted: bytes, name: bytes) -> None:
    assert unquote(quoted) == (name, b"")
    assert unquote(quoted + b" rest") == (name, b" rest")


@pytest.mark.parametrize("quoted", [b'"open', b'"open\\"', rb'"\x41"', rb'"\400"', rb'"\8"'])
def test_quoting_that_git_does_not_write_is_refused(quoted: bytes) -> None:
    with pytest.raises(PathError):
        unquote(quoted)


@examples
@given(st.binary())
def test_what_is_quoted_byte_by_byte_comes_back(name: bytes) -> None:
    quoted = b'"' + b"".join(b"\\%03o" % byte for byte in name) + b'"'
    assert unquote(quoted) == (name, b"")


@pytest.mark.parametrize(
    ("rest", "name"),
    [
        (b"a/d/f\n", b"a/d/f"),
        (b"a/with space\t\n", b"a/with space"),
        (b"a/f\t2024-01-02 03:04:05.678 +0900\n", b"a/f"),
        (rb'"a/tab\there"' + b"\n", b"a/tab\there"),
        (rb'"a/tab\there"' + b"\t2024-01-02\n", b"a/tab\there"),
        (b"/dev/null\n", b"/dev/null"),
        (b"/dev/null\t1970-01-01 00:00:00 +0000\n", b"/dev/null"),
    ],
)
def test_name_line_ends_at_the_tab(rest: bytes, name: bytes) -> None:
    assert header_name(rest) == name


@pytest.mark.parametrize("rest", [b"a/f\r\n", b"a/f\vg\n", b"a/\x1bf\n"])
def test_control_character_must_be_quoted(rest: bytes) -> None:
    with pytest.raises(PathError, match="control character"):
        header_name(rest)
    with pytest.raises(PathError, match="control character"):
        rest_name(rest)


@pytest.mark.parametrize(
    "date",
    [
        b"2024-01-02 03:04:05 +0900",
        b"2021-08-14 01:44:55.714195094 -0700",
        b"2024-01-02 03:04:05",
        b"2024-01-02 03:04:05.5 +05:30",
    ],
)
@pytest.mark.parametrize("gap", [b" ", b"  ", b"        ", b" \t"])
def test_date_behind_spaces_is_no_part_of_the_name(date: bytes, gap: bytes) -> None:
    assert header_name(b"b/f" + gap + date + b"\n") == b"b/f"


@pytest.mark.parametrize(
    "rest",
    [
        b"b/f 24-01-02 03:04:05\n",
        b"b/f 2024-01-02 03:04\n",
        b"b/f  Tue Jan  2 03:04:05 2024\n",
        b"b/f (revision 12)\n",
        b"b/f    (working copy)\n",
    ],
)
def test_what_looks_like_a_date_is_not_taken_for_a_name(rest: bytes) -> None:
    with pytest.raises(PathError, match="the tab between the name and its date was lost"):
        header_name(rest)


@pytest.mark.parametrize(
    ("rest", "name"),
    [
        (b"with space\n", b"with space"),
        (b"2024-01-02 03:04:05\n", b"2024-01-02 03:04:05"),
        (rb'"a\"b"' + b"\n", b'a"b'),
    ],
)
def test_rename_line_holds_nothing_but_the_name(rest: bytes, name: bytes) -> None:
    assert rest_name(rest) == name


@pytest.mark.parametrize(
    ("date", "yes"),
    [
        (b"1970-01-01 00:00:00 +0000", True),
        (b"1970-01-01 00:00:00.000000000 +0000", True),
        (b"1970-01-01 09:00:00 +0900", True),
        (b"1970-01-01 05:30:00 +05:30", True),
        (b"1969-12-31 19:00:00 -0500", True),
        (b"1969-12-31 20:30:00 -0330", True),
        (b"1970-01-01 00:00:00 +0900", False),
        (b"1969-12-31 19:00:00 +0500", False),
        (b"1970-01-01 01:00:00,000000000 +0100", True),
        (b"1970-01-01 00:00:00 UTC", True),
        (b"1970-01-01 01:00:00", True),
        (b"1970-01-01 00:07:00", False),
        (b"Thu Jan  1 00:00:00 1970", True),
        (b"Thu Jan 01 00:00:00 1970 +0000", True),
        (b"Thu Jan  1 09:00:00 1970", True),
        (b"Thu Jan  1 01:00:00 1970 +0100", True),
        (b"Wed Dec 31 16:00:00 1969", True),
        (b"Wed Dec 31 19:00:00 1969 -0500", True),
        (b"Thu Jan  1 00:00:00 CET 1970", True),
        (b"Thu Jan  1 00:00:00 1970 +0100", False),
        (b"Thu Jan  1 00:00:01 1970", False),
        (b"Thu Jan  1 20:00:00 1970", False),
        (b"Fri Jan  2 00:00:00 1970", False),
        (b"Tue Nov 14 22:13:20 2023", False),
        (b"1970-01-01 00:00:00.5 +0000", False),
        (b"1970-01-01 00:00:01 +0000", False),
        (b"2024-01-01 00:00:00 +0000", False),
        (b"", False),
    ],
)
def test_date_of_a_missing_file_is_the_start_of_1970_anywhere(date: bytes, yes: bool) -> None:
    assert is_epoch(b"--- a/f\t" + date + b"\n") is yes
    assert is_epoch(b"--- a/f  " + date + b"\n") is yes


@pytest.mark.parametrize(
    ("rest", "name"),
    [
        (b"a/f b/f\n", b"f"),
        (b"a/d/f b/d/f\n", b"d/f"),
        (b"x/f y/f\n", b"f"),
        (b"a/two words b/two words\n", b"two words"),
        (b"a/x b/x b/x b/x\n", b"x b/x"),
        (b"a/end  b/end \n", b"end "),
        (rb'"a/t\tb" "b/t\tb"' + b"\n", b"t\tb"),
        (rb'"a/\303\274" ' + "b/ü\n".encode(), "ü".encode()),
        ("a/ü ".encode() + rb'"b/\303\274"' + b"\n", "ü".encode()),
        (b"a/f b/g\n", None),
        (rb'"a/\303\274" b/u' + b"\n", None),
        (b"f f\n", None),
        (b"a/f\n", None),
        (b"\n", None),
    ],
)
def test_diff_line_names_a_file_where_both_sides_agree(rest: bytes, name: bytes | None) -> None:
    both = ((strip_or_none(a, 1), strip_or_none(b, 1)) for a, b in git_pairs(rest[:-1]))
    assert next((a for a, b in both if a == b and a is not None), None) == name


@pytest.mark.parametrize(
    ("name", "rest"), [(b"a/f", b"f"), (b"python/pkg/f", b"pkg/f"), (b"a//f", b"/f")]
)
def test_first_component_is_stripped(name: bytes, rest: bytes) -> None:
    assert strip(name, 1) == rest


@pytest.mark.parametrize("name", [b"f", b"", b"a/"])
def test_name_without_a_first_component_is_refused(name: bytes) -> None:
    with pytest.raises(PathError, match="has no a/ or b/ before it"):
        strip(name, 1)


@pytest.mark.parametrize(
    "name",
    [
        "f",
        "d/e/f.py",
        "with space",
        " f",
        "tab\there",
        'quo"te',
        "back\\slash",
        "grüß",
        "日本/語.py",
        "...",
        "..f",
        ".github/f",
        ".gitignore",
        "d/.gitattributes",
        "git~2",
        "x.git",
        "C:f",
        "-rf",
        "a\u2028b",
    ],
)
def test_name_inside_the_tree_is_kept(name: str) -> None:
    assert safe_path(name.encode()) == name


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (b"../f", "could leave the tree"),
        (b"d/../../f", "could leave the tree"),
        (b"d/..", "could leave the tree"),
        (b"./f", "could leave the tree"),
        (b"d//f", "could leave the tree"),
        (b"d/", "could leave the tree"),
        (b"", "could leave the tree"),
        (b"/etc/passwd", "is absolute"),
        (b".git/hooks/post-checkout", "reaches into a git directory"),
        (b"d/.GIT/config", "reaches into a git directory"),
        (b".git", "reaches into a git directory"),
        (b".git /config", "reaches into a git directory"),
        (b".git. ./config", "reaches into a git directory"),
        (b".git::$INDEX_ALLOCATION/config", "reaches into a git directory"),
        (b"GIT~1/config", "reaches into a git directory"),
        (".g\u200cit/config".encode(), "reaches into a git directory"),
        ("\ufeff.git/config".encode(), "reaches into a git directory"),
        (b"new\nline", "holds a line end or NUL"),
        (b"return\r", "holds a line end or NUL"),
        (b"nul\0", "holds a line end or NUL"),
        (b"\xff\xfe", "is not UTF-8"),
    ],
)
def test_name_that_leaves_the_tree_or_cannot_be_listed_is_refused(name: bytes, said: str) -> None:
    with pytest.raises(PathError, match=said):
        safe_path(name)


def only_file(data: bytes) -> FilePatch:
    (file,) = parse_patch("x.patch", data).files
    return file


@pytest.mark.parametrize("name", ["d/f", "with space", "x b/x", "grüß", "tab\there", 'quo"te'])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_name_is_the_same_in_every_header_line(name: str, *, ascii_only: bool) -> None:
    plain = not any(letter in name for letter in '\t"') and (name.isascii() or not ascii_only)

    def quote(side: str) -> bytes:
        raw = side.encode() + name.encode()
        if plain:
            return raw
        special = {0x09: b"\\t", 0x22: b'\\"'}
        body = b"".join(
            special.get(byte, bytes([byte]) if byte < 0x80 or not ascii_only else b"\\%03o" % byte)
            for byte in raw
        )
        return b'"' + body + b'"'

    end = b"\t\n" if " " in name else b"\n"
    hunk = b"@@ -1 +1 @@\n-a\n+b\n"
    git = b"diff --git %s %s\n" % (quote("a/"), quote("b/"))
    names = b"--- " + quote("a/") + end + b"+++ " + quote("b/") + end
    mode = b"old mode 100644\nnew mode 100755\n"
    assert only_file(git + names + hunk).new_path == name
    assert only_file(names + hunk).new_path == name
    assert only_file(git + mode).new_path == name
    rename = b"rename from f\nrename to %s\n" % quote("")
    assert only_file(b"diff --git a/f %s\n" % quote("b/") + rename).new_path == name
    copy = b"copy from %s\ncopy to g\n" % quote("")
    assert only_file(b"diff --git %s b/g\n" % quote("a/") + copy).old_path == name


HOSTILE = [
    b"../f",
    b"d/../../f",
    b"/etc/passwd",
    b".git/config",
    b"d//f",
    b'"new\\nline"',
    b'"../\\146"',
]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_part_of_a_patch_may_name_a_path_outside(name: bytes) -> None:
    def quote(side: bytes) -> bytes:
        return b'"' + side + name[1:] if name.startswith(b'"') else side + name

    hunk = b"@@ -0,0 +1 @@\n+a\n"
    names = b"--- /dev/null\n+++ " + quote(b"b/") + b"\n"
    git = b"diff --git " + quote(b"a/") + b" " + quote(b"b/") + b"\n"
    moved = b"similarity index 100%%\n%s from %s\n%s to %s\n"
    for data in (
        git + b"new file mode 100644\n" + names + hunk,
        git + b"deleted file mode 100644\n",
        git + b"old mode 100644\nnew mode 100755\n",
        names + hunk,
        b"diff --git a/f b/f\n" + moved % (b"rename", b"f", b"rename", name),
        b"diff --git a/f b/f\n" + moved % (b"rename", name, b"rename", b"f"),
        b"diff --git a/f b/f\n" + moved % (b"copy", b"f", b"copy", name),
        b"diff --git a/f b/f\n" + moved % (b"copy", name, b"copy", b"f"),
    ):
        with pytest.raises(MalformedError) as caught:
            parse_patch("x.patch", data)
        assert caught.value.exit_code == 6


def test_refusal_of_a_path_says_where_it_stands() -> None:
    with pytest.raises(MalformedError) as caught:
        parse_patch("x.patch", b"mail\n\n--- a/../f\n+++ b/../f\n@@ -1 +1 @@\n-a\n+b\n")
    assert str(caught.value) == (
        "x.patch:3: the path '../f' has a component '..' and could leave the tree"
    )
    assert caught.value.remedy == "paths in a patch stay inside the source tree"
