"""`import` of patches as people have them: mailboxes, odd prefixes, parts for other files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from commands import call
from project import git
from small import Small, make_small

from pkgtools.catalog import load_series
from pkgtools.errors import MalformedError
from pkgtools.patch import split_mails

if TYPE_CHECKING:
    from pathlib import Path

A = "".join(f"A_{n} = {n}\n" for n in range(12))
EDIT = "@@ -1,4 +1,4 @@\n-A_0 = 0\n+A_0 = 5\n A_1 = 1\n A_2 = 2\n A_3 = 3\n"
ADD = "@@ -0,0 +1 @@\n+NEW = 1\n"


@pytest.fixture
def small(tmp_path: Path) -> Small:
    """Build a release with two files."""
    return make_small(tmp_path / "small", {"1.0": {"a.py": A, "b.py": A}}, [("one", {"a.py": "A"})])


def _import(small: Small, output: Path, *words: str | Path) -> list[str | Path]:
    return ["import", *words, "-o", output, "--json", "--catalog", small.catalog]


def _from(small: Small) -> list[str | Path]:
    return ["--from", "1.0", "--wheel", small.wheel("1.0")]


def _commits(small: Small) -> Path:
    """Commit an edit, a rename of the file and a copy of the result, and return the repository."""
    tree = small.root / "tree"
    git(small.repository, "worktree", "add", "--quiet", "--detach", tree, "v1.0")
    package = tree / "src/widget"
    (package / "a.py").write_text(A.replace("A_3 = 3", "A_3 = 0"))
    git(tree, "commit", "--quiet", "--all", "--message", "One: an edit!", "--date=2020-01-01")
    git(tree, "mv", "src/widget/a.py", "src/widget/c.py")
    git(tree, "commit", "--quiet", "--message", "Two, a rename", "--date=2020-01-02")
    git(tree, "mv", "src/widget/c.py", "src/widget/d.py")
    (package / "e.py").write_text((package / "d.py").read_text() + "E = 1\n")
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "Three: a copy", "--date=2020-01-03")
    return tree


def test_mailbox_becomes_a_patch_a_mail_as_for_git_am(small: Small, tmp_path: Path) -> None:
    tree = _commits(small)
    mailbox = tmp_path / "1234.patch"
    mailbox.write_text(git(tree, "format-patch", "v1.0", "-C", "-C", "--stdout"))
    new = tmp_path / "new"
    done = call(*_import(small, new, mailbox), *_from(small))
    assert done.code == 0, done.out
    names = ["0001-One-an-edit", "0002-Two-a-rename", "0003-Three-a-copy"]
    assert done.facts["patches"] == [f"{name}.patch" for name in names]
    made = small.made(new, "1.0")
    assert made.pop("src/widget/a.py") is None
    for path, data in made.items():
        assert (
            data == (tree / path).read_bytes() if data is not None else not (tree / path).exists()
        )
    assert {"src/widget/d.py", "src/widget/e.py"} <= made.keys()
    mails = b"".join((new / name).read_bytes() for name in done.facts["patches"])
    assert mails == mailbox.read_bytes()


def test_series_file_that_names_a_mailbox_is_refused(small: Small) -> None:
    tree = _commits(small)
    mailbox = small.series / "0001-one.patch"
    mailbox.write_text(git(tree, "format-patch", "v1.0", "--stdout"))
    done = call("lock", "--json", "--catalog", small.catalog, "--wheel", small.wheel("1.0"))
    assert done.code == 6
    assert "holds 3 patches" in done.facts["error"]["message"]
    assert "pkgtools import" in done.facts["error"]["remedy"]


def test_cover_letter_is_named(small: Small, tmp_path: Path) -> None:
    tree = _commits(small)
    mailbox = tmp_path / "series.mbox"
    mailbox.write_text(git(tree, "format-patch", "v1.0", "--cover-letter", "--stdout"))
    done = call(*_import(small, tmp_path / "new", mailbox))
    assert done.code == 6
    assert f"{mailbox} (patch 1 of 4):1: there is no diff" in done.facts["error"]["message"]


def _folder(small: Small, tmp_path: Path) -> Path:
    tree = small.root / "tree"
    git(small.repository, "worktree", "add", "--quiet", "--detach", tree, "v1.0")
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(1, 12):
        (tree / "src/widget/a.py").write_text(f"STEP = {number}\n")
        git(tree, "commit", "--quiet", "--all", "--message", f"step {number}")
        git(tree, "diff", "HEAD^", "HEAD", f"--output={folder / f'{number}-step.patch'}")
    return folder


def test_numbers_without_zeros_are_numbers(small: Small, tmp_path: Path) -> None:
    folder = _folder(small, tmp_path)
    done = call(*_import(small, tmp_path / "new", folder), *_from(small))
    assert done.code == 0, done.out
    assert done.facts["patches"] == [f"{number}-step.patch" for number in range(1, 12)]


def test_files_in_the_shells_order_are_refused(small: Small, tmp_path: Path) -> None:
    files = sorted(_folder(small, tmp_path).iterdir())
    done = call(*_import(small, tmp_path / "new", *files))
    assert done.code == 2
    assert "10-step.patch is named before" in done.facts["error"]["message"]
    in_order = sorted(files, key=lambda path: int(path.name.partition("-")[0]))
    assert call(*_import(small, tmp_path / "new", *in_order), *_from(small)).code == 0


@pytest.mark.parametrize(
    ("old", "new", "level"),
    [
        ("src/widget/a.py", "src/widget/a.py", 0),
        ("src/widget/a.py.orig", "src/widget/a.py", 0),
        ("widget-1.0/src/widget/a.py", "widget-1.0/src/widget/a.py", 1),
        ("x/widget-1.0/src/widget/a.py", "x/widget-1.0/src/widget/a.py", 2),
        ("a/x/src/widget/a.py", "b/x/src/widget/a.py", 2),
        ("/tmp/a/src/widget/a.py", "/tmp/b/src/widget/a.py", 3),
        ("/tmp/a/x/src/widget/a.py", "/tmp/b/x/src/widget/a.py", 4),
    ],
)
def test_source_shows_how_many_folders_stand_before_the_names(
    small: Small, tmp_path: Path, old: str, new: str, level: int
) -> None:
    patch = tmp_path / "x.diff"
    beside = new.replace("a.py", "new.py")
    patch.write_text(f"--- {old}\n+++ {new}\n{EDIT}--- /dev/null\n+++ {beside}\n{ADD}")
    done = call(*_import(small, tmp_path / "out", patch), *_from(small))
    assert done.code == 0, done.out
    assert done.facts["levels"] == ({} if level == 1 else {"0001-x.patch": level})
    made = small.made(tmp_path / "out", "1.0")
    assert made["src/widget/new.py"] == b"NEW = 1\n"
    tree = tmp_path / "tree"
    git(small.repository, "worktree", "add", "--quiet", "--detach", tree, "v1.0")
    git(tree, "apply", f"-p{level}", patch)
    assert (tree / "src/widget/a.py").read_bytes() == made["src/widget/a.py"]
    assert (tree / "src/widget/new.py").is_file()


@pytest.mark.parametrize(
    ("name", "level"), [("src/widget/new.py", 0), ("x/src/widget/new.py", 1), ("x/y/new.py", None)]
)
def test_new_file_goes_to_a_folder_that_is_there(
    small: Small, tmp_path: Path, name: str, level: int | None
) -> None:
    patch = tmp_path / "x.diff"
    patch.write_text(f"--- /dev/null\n+++ {name}\n{ADD}")
    done = call(*_import(small, tmp_path / "out", patch), *_from(small))
    if level is None:
        assert done.code == 6
        assert "-p" in done.facts["error"]["remedy"]
        return
    assert done.code == 0, done.out
    assert set(small.made(tmp_path / "out", "1.0")) == {"src/widget/new.py"}


def test_level_is_asked_for_and_can_be_said(small: Small, tmp_path: Path) -> None:
    patch = tmp_path / "x.diff"
    patch.write_text(f"--- /dev/null\n+++ src/widget/new.py\n{ADD}")
    assert call(*_import(small, tmp_path / "out", patch)).code == 6
    done = call(*_import(small, tmp_path / "out", patch, "-p", "0"))
    assert done.code == 0, done.out
    assert (tmp_path / "out" / "series").read_text() == "0001-x.patch -p0\n"
    assert set(small.made(tmp_path / "out", "1.0")) == {"src/widget/new.py"}


def test_refresh_writes_a_patch_without_a_prefix_with_one(small: Small) -> None:
    patch = small.series / "0001-one.patch"
    # Three lines below their place: refresh writes them where they lie.
    hunk = "@@ -6,3 +6,3 @@\n A_2 = 2\n-A_3 = 3\n+A_3 = 0\n A_4 = 4\n"
    patch.write_text(f"--- src/widget/a.py\n+++ src/widget/a.py\n{hunk}")
    (small.series / "series").write_text("# mine\n0001-one.patch -p0  # no prefix\n")
    before = small.made(small.series, "1.0")
    done = call(
        "refresh",
        "--series",
        "one",
        "--catalog",
        small.catalog,
        "--wheel",
        small.wheel("1.0"),
        "--json",
    )
    assert done.facts["rewritten"] == ["0001-one.patch"]
    assert (small.series / "series").read_text() == "# mine\n0001-one.patch  # no prefix\n"
    assert small.made(small.series, "1.0") == before
    assert load_series(small.series).patches[0].level == 1


def test_refresh_keeps_the_bytes_of_a_message(small: Small) -> None:
    patch = small.series / "0001-one.patch"
    head = (
        b"From: A <a@example.com>\nSubject: [PATCH] one\n\n"
        b"a lone \r here\rand a line end of DOS\r\nform feed \x0c and \x1c\xe9\n\n---\n"
    )
    diff = f"--- a/src/widget/a.py\n+++ b/src/widget/a.py\n{EDIT}".encode()
    patch.write_bytes(head + diff)
    options: list[str | Path] = [
        "--catalog",
        small.catalog,
        "--wheel",
        small.wheel("1.0"),
        "--json",
    ]
    tree = small.root / "tree"
    git(small.repository, "worktree", "add", "--quiet", "--detach", tree, "v1.0")
    git(tree, "apply", patch)
    with (tree / "src/widget/a.py").open("a") as file:
        file.write("MORE = 1\n")
    done = call("refresh", "--series", "one", "--tree", tree, *options)
    assert done.facts["rewritten"] == ["0001-one.patch"]
    assert patch.read_bytes().startswith(head + b"diff --git ")
    assert b"+MORE = 1" in patch.read_bytes()


@pytest.mark.parametrize(
    "tail", [b"-- \n2.39.5\n\n", b"\n# why \xff: a remark\r\n", b"__\nlist mailing list\n"]
)
@pytest.mark.parametrize("head", [b"From: A <a@example.com>\nSubject: one\n\n---\n", b"# one\n"])
def test_text_behind_a_diff_survives(
    small: Small, tmp_path: Path, head: bytes, tail: bytes
) -> None:
    patch = small.series / "0001-one.patch"
    edit = EDIT.replace("@@ -1,4 +1,4 @@", "@@ -2,4 +2,4 @@")  # so that refresh corrects it
    sections = [f"--- a/src/widget/{n}.py\n+++ b/src/widget/{n}.py\n{edit}".encode() for n in "ab"]
    patch.write_bytes(head + b"".join(sections) + tail)
    options: list[str | Path] = ["--catalog", small.catalog, "--wheel", small.wheel("1.0")]
    done = call("refresh", "--series", "one", *options, "--json")
    assert done.facts["rewritten"] == ["0001-one.patch"]
    assert patch.read_bytes().startswith(head + b"diff --git ")
    assert patch.read_bytes().endswith(b"\n" + tail)
    mails = tmp_path / "mails"
    done = call("export", "--series", "one", "--format", "mail", "-o", mails, *options)
    assert done.code == 0, done.err
    assert next(mails.glob("*.patch")).read_bytes().endswith(b"\n" + tail)


def test_message_of_a_converted_patch_keeps_its_bytes(small: Small) -> None:
    patch = small.series / "0001-one.patch"
    head = b"From: A <a@example.com>\r\nSubject: one\r\n\r\nWhy.\r\n---\r\n"
    tail = b"-- \r\n2.39.5\r\n"
    edit = EDIT.replace("@@ -1,4 +1,4 @@", "@@ -2,4 +2,4 @@")
    section = f"--- a/src/widget/a.py\n+++ b/src/widget/a.py\n{edit}".replace("\n", "\r\n")
    patch.write_bytes(head + section.encode() + tail)
    made = small.made(small.series, "1.0")
    options: list[str | Path] = ["--catalog", small.catalog, "--wheel", small.wheel("1.0")]
    done = call("refresh", "--series", "one", *options, "--json")
    assert done.facts["rewritten"] == ["0001-one.patch"]
    assert patch.read_bytes().startswith(head + b"diff --git ")
    assert patch.read_bytes().endswith(b"\n" + tail)
    assert small.made(small.series, "1.0") == made
    (blob,) = made.values()
    assert blob is not None
    assert b"\r" not in blob


@pytest.mark.parametrize("how", [(), ("--reverse",), ("--date=iso",), ("--format=fuller",)])
def test_log_becomes_a_patch_a_commit(small: Small, tmp_path: Path, how: tuple[str, ...]) -> None:
    tree = _commits(small)
    log = tmp_path / "log.patch"
    log.write_text(git(tree, "log", "-p", "--stat", "-C", "-C", *how, "v1.0.."))
    done = call(*_import(small, tmp_path / "new", log), *_from(small))
    assert done.code == 0, done.out
    names = ["0001-One-an-edit", "0002-Two-a-rename", "0003-Three-a-copy"]
    assert done.facts["patches"] == [f"{name}.patch" for name in names]
    assert b"".join(sorted(p.read_bytes() for p in (tmp_path / "new").glob("*.patch"))) == b"".join(
        sorted(split_mails(log.read_bytes()))
    )
    (small.series / "0001-one.patch").write_bytes(log.read_bytes())
    with pytest.raises(MalformedError, match="holds 3 patches, of one commit each"):
        load_series(small.series)


@pytest.mark.parametrize("how", ["--format=%n%h%n", "--format=%s"])
def test_log_of_an_unknown_form_is_refused(small: Small, tmp_path: Path, how: str) -> None:
    log = tmp_path / "log.patch"
    log.write_text(git(_commits(small), "log", "-p", how, "v1.0.."))
    done = call(*_import(small, tmp_path / "new", log), *_from(small))
    assert done.code == 6, done.out
    assert "git format-patch" in done.facts["error"]["remedy"]


def test_refresh_writes_an_encoded_mail_decoded(small: Small) -> None:
    patch = small.series / "0001-one.patch"
    patch.write_bytes(
        b"From: A <a@example.com>\nSubject: [PATCH] =?utf-8?q?caf=C3=A9?=\nMIME-Version: 1.0\n"
        b"Content-Type: text/plain; charset=utf-8\n"
        b"Content-Transfer-Encoding: quoted-printable\n\nCaf=C3=A9.\n---\n"
        b"--- a/src/widget/a.py\n+++ b/src/widget/a.py\n@@ -2,4 +2,4 @@\n"
        b" A_4 =3D 4\n-A_5 =3D 5\n+A_5 =3D 'caf=C3=A9'\n A_6 =3D 6\n A_7 =3D 7\n"
    )
    made = small.made(small.series, "1.0")
    words: list[str | Path] = ["--catalog", small.catalog, "--wheel", small.wheel("1.0"), "--json"]
    done = call("refresh", "--series", "one", *words)
    assert done.facts["rewritten"] == ["0001-one.patch"]
    assert small.made(small.series, "1.0") == made
    assert "Café.\n---\n".encode() in patch.read_bytes()
    assert load_series(small.series).patches[0].subject == "café"
    tree = small.root / "tree"
    git(small.repository, "worktree", "add", "--quiet", "--detach", tree, "v1.0")
    git(tree, "am", "--quiet", patch)
    assert (tree / "src/widget/a.py").read_bytes() == made["src/widget/a.py"]


def _patch_of_more(tmp_path: Path) -> Path:
    patch = tmp_path / "x.patch"
    parts = [
        f"Index: {path}\ndiff -u a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n{EDIT}"
        for path in ("docs/b.rst", "src/widget/a.py", "tests/test_a.py", "setup.py")
    ]
    patch.write_text("Subject: more\nFrom: A <a@example.com>\n\nWhy.\n---\n" + "".join(parts))
    return patch


def test_every_file_outside_the_package_is_named(small: Small, tmp_path: Path) -> None:
    patch = _patch_of_more(tmp_path)
    done = call(*_import(small, tmp_path / "out", patch), *_from(small))
    assert done.code == 3
    assert "docs/b.rst, setup.py, tests/test_a.py" in done.facts["error"]["message"]
    assert "--package-only" in done.facts["error"]["remedy"]
    (small.series / "0001-one.patch").write_bytes(patch.read_bytes())
    done = call("lock", "--json", "--catalog", small.catalog, "--wheel", small.wheel("1.0"))
    assert done.code == 3
    assert "docs/b.rst, setup.py, tests/test_a.py" in done.facts["error"]["message"]


def test_parts_outside_the_package_are_kept_apart(small: Small, tmp_path: Path) -> None:
    patch, out = _patch_of_more(tmp_path), tmp_path / "out"
    done = call(*_import(small, out, patch, "--package-only"), *_from(small))
    assert done.code == 0, done.out
    outside = ["docs/b.rst", "setup.py", "tests/test_a.py"]
    assert done.facts["outside"] == {"0001-x.patch": outside}
    inner, outer = (out / "0001-x.patch").read_text(), (out / "outside/0001-x.patch").read_text()
    assert set(small.made(out, "1.0")) == {"src/widget/a.py"}
    assert load_series(out / "outside").patches[0].paths == set(outside)
    head, *sections = patch.read_text().split("Index: ")
    assert inner == head + "Index: " + sections[1]
    assert outer == head + "".join("Index: " + s for s in (sections[0], *sections[2:]))
    plain = call(
        "import", patch, "-o", tmp_path / "x", "--package-only", "--catalog", small.catalog
    )
    assert "0001-x.patch: docs/b.rst" in plain.out


def test_patch_for_other_files_alone_is_no_part_of_the_series(small: Small, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name, path in (("1-docs", "docs/a.rst"), ("2-code", "src/widget/a.py")):
        (folder / f"{name}.patch").write_text(f"--- a/{path}\n+++ b/{path}\n{EDIT}")
    done = call(*_import(small, tmp_path / "out", folder, "--package-only"), *_from(small))
    assert done.facts["patches"] == ["2-code.patch"]
    assert done.facts["outside"] == {"1-docs.patch": ["docs/a.rst"]}


def test_move_between_the_package_and_other_files_is_refused(small: Small, tmp_path: Path) -> None:
    patch = tmp_path / "x.patch"
    patch.write_text(
        "diff --git a/src/widget/a.py b/tools/a.py\nsimilarity index 100%\n"
        "rename from src/widget/a.py\nrename to tools/a.py\n"
    )
    done = call(*_import(small, tmp_path / "out", patch, "--package-only"))
    assert done.code == 6
    assert "src/widget/a.py moves to tools/a.py" in done.facts["error"]["message"]


@pytest.mark.parametrize("targets", ["series", "none"])
def test_first_series_of_a_new_catalog(small: Small, tmp_path: Path, targets: str) -> None:
    catalog = tmp_path / "catalog"
    (catalog / "patches").mkdir(parents=True)
    text = small.catalog.read_text()
    if targets == "none":
        text = text.partition("[[target]]")[0]
    (catalog / "targets.toml").write_text(text)
    patch = tmp_path / "x.patch"
    patch.write_text(f"--- a/src/widget/a.py\n+++ b/src/widget/a.py\n{EDIT}")
    words: list[str | Path] = ["import", patch, "-o", catalog / "patches/widget/one", *_from(small)]
    done = call(*words, "--catalog", catalog / "targets.toml")
    assert done.code == 0, done.err
    assert load_series(catalog / "patches/widget/one").patches


def test_a_missing_patch_file_says_what_to_name(tmp_path: Path) -> None:
    done = call("import", tmp_path / "gone.patch", "-o", tmp_path / "new")
    assert done.code == 2
    assert f"error: {tmp_path / 'gone.patch'} does not exist" in done.err
    assert "next: name the patch files" in done.err


def test_a_link_says_to_download_it(tmp_path: Path) -> None:
    done = call("import", "https://example.org/pull/1.patch", "-o", tmp_path / "new")
    assert done.code == 2
    assert "next: download it first, for example with `curl -LO URL`" in done.err


@pytest.mark.parametrize("whole", [True, False])
def test_a_source_that_has_the_series(small: Small, tmp_path: Path, *, whole: bool) -> None:
    """As a patched tree that --from names: the hunks' places say nothing then."""
    root = tmp_path / "site"
    small.put_release("1.0", root, "site")
    edited = A.replace("A_0 = 0", "A_0 = 5")
    (root / "widget/a.py").write_text(edited)
    patch = tmp_path / "x.patch"
    patch.write_text(f"--- a/src/widget/a.py\n+++ b/src/widget/a.py\n{EDIT}")
    if not whole:
        patch.write_text(f"{patch.read_text()}--- a/src/widget/b.py\n+++ b/src/widget/b.py\n{EDIT}")
    where = ("--from", root, "--catalog", small.catalog)
    done = call("import", patch, "-o", tmp_path / "new", *where)
    assert done.code == 3
    assert ("has every change of the series already" in done.err) is whole
    assert ("already there at line 1 (absorbed)" in done.err) is not whole
