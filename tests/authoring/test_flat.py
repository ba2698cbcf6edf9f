"""`new`, `import`, `export` and `refresh`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from commands import call
from project import git
from small import Small, make_small
from trees import snapshot

from pkgtools.catalog import load_series

if TYPE_CHECKING:
    from pathlib import Path

A = "".join(f"A_{n} = {n}\n" for n in range(12))
A1 = A.replace("A_3 = 3", "A_3 = 0")
A2 = A1.replace("A_9 = 9", "A_9 = 0")


@pytest.fixture
def small(tmp_path: Path) -> Small:
    """Build a release and two patches on one file."""
    return make_small(
        tmp_path / "small",
        {"1.0": {"a.py": A, "b.py": A}},
        [("one", {"a.py": A1}), ("two", {"a.py": A2, "new.py": "NEW = 1\n"})],
    )


def _options(small: Small) -> list[str | Path]:
    return ["--catalog", small.catalog, "--wheel", small.wheel("1.0")]


def _patched(small: Small, where: Path) -> Path:
    git(small.repository, "worktree", "add", "--quiet", "--detach", where, "v1.0")
    for patch in load_series(small.series).patches:
        git(where, "apply", small.series / patch.name)
    return where


def test_export_is_the_whole_series(small: Small, tmp_path: Path) -> None:
    done = call("export", "--series", "one", "-o", tmp_path / "all.diff", *_options(small))
    assert done.code == 0, done.err
    tree = tmp_path / "tree"
    git(small.repository, "worktree", "add", "--quiet", tree, "v1.0")
    git(tree, "apply", tmp_path / "all.diff")
    assert (tree / "src/widget/a.py").read_text() == A2
    assert (tree / "src/widget/new.py").read_text() == "NEW = 1\n"


def test_an_import_of_an_unknown_upstream_names_the_known(small: Small, tmp_path: Path) -> None:
    words = "import", small.series, "-o", tmp_path / "new", "--from", "1.0", "--upstream", "gadget"
    done = call(*words, "--json", *_options(small))
    assert done.code == 2
    assert "no upstream 'gadget'" in done.facts["error"]["message"]
    assert "widget" in done.facts["error"]["remedy"]
    alone = call("import", small.series, "-o", tmp_path / "new", "--upstream", "widget", "--json")
    assert (alone.code, alone.facts["error"]["message"]) == (2, "--upstream needs --from")
    assert not (tmp_path / "new").exists()


def test_an_export_that_cannot_be_written_says_what_to_do(small: Small, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    path = tmp_path / "file" / "all.diff"
    done = call("export", "--series", "one", "-o", path, "--json", *_options(small))
    assert done.code == 7
    assert f"{path} cannot be written" in done.facts["error"]["message"]
    assert done.facts["error"]["remedy"] == "name another file"


@pytest.mark.parametrize("command", ["import", "port"])
def test_a_series_that_cannot_be_written_says_what_to_do(
    small: Small, tmp_path: Path, command: str
) -> None:
    (tmp_path / "file").write_text("in the way")
    folder = tmp_path / "file" / "new"
    words = ["--series", "one", "--to", "1.0"] if command == "port" else [small.series]
    done = call(command, *words, "-o", folder, "--json", *_options(small))
    assert done.code == 7
    assert f"{folder} cannot be written" in done.facts["error"]["message"]
    assert done.facts["error"]["remedy"] == "name another folder with -o"


def test_import_keeps_the_bytes_and_checks_the_source(small: Small, tmp_path: Path) -> None:
    call("export", "--series", "one", "-o", tmp_path / "all.diff", *_options(small))
    new = tmp_path / "new"
    done = call("import", tmp_path / "all.diff", "-o", new, "--from", "1.0", *_options(small))
    assert done.code == 0, done.err
    assert (new / "series").read_text() == "0001-all.patch\n"
    assert (new / "0001-all.patch").read_bytes() == (tmp_path / "all.diff").read_bytes()
    folder = call("import", small.series, "-o", tmp_path / "copy", "--catalog", small.catalog)
    assert folder.code == 0
    for patch in load_series(tmp_path / "copy").patches:
        assert patch.data == (small.series / patch.name).read_bytes()
    twice = call(
        "import", new, small.series, "-o", tmp_path / "x", "--from", "1.0", *_options(small)
    )
    assert twice.code == 3
    assert not (tmp_path / "x").exists()
    (tmp_path / "empty").mkdir()
    nothing = call("import", tmp_path / "empty", "-o", tmp_path / "x", *_options(small))
    assert nothing.code == 2
    assert "next: name the patch files" in nothing.err


def test_refresh_takes_an_edit_and_nothing_else(small: Small, tmp_path: Path) -> None:
    tree = _patched(small, tmp_path / "tree")
    before = {p.name: p.data for p in load_series(small.series).patches}
    options = _options(small)
    same = call("refresh", "--series", "one", "--tree", tree, *options, "--json")
    assert same.facts["rewritten"] == []
    (tree / "src/widget/a.py").write_text(A2.replace("A_11 = 11", "A_11 = 0"))
    done = call("refresh", "--series", "one", "--tree", tree, *options, "--json")
    assert done.facts["rewritten"] == ["0002-two.patch"]
    after = {p.name: p.data for p in load_series(small.series).patches}
    assert after["0001-one.patch"] == before["0001-one.patch"]
    made = small.made(small.series, "1.0")
    assert made["src/widget/a.py"] == A2.replace("A_11 = 11", "A_11 = 0").encode()
    wrong = call(
        "refresh", "--series", "one", "--tree", tree, "--patch", "0001-one.patch", *options
    )
    assert wrong.code == 0, "there is no edit left to take"
    (tree / "src/widget/a.py").write_text(A2)
    wrong = call(
        "refresh", "--series", "one", "--tree", tree, "--patch", "0001-one.patch", *options
    )
    assert wrong.code == 2
    assert "0002-two.patch" in wrong.err
    none = call("refresh", "--series", "one", "--patch", "three", *options)
    assert none.code == 2
    assert "next: name one of: 0001-one.patch, 0002-two.patch" in none.err


def test_refresh_writes_hunks_where_they_lie(small: Small) -> None:
    patch = small.series / "0001-one.patch"
    right = patch.read_bytes()
    patch.write_bytes(right.replace(b"@@ -1,7 +1,7 @@", b"@@ -3,7 +3,7 @@"))
    assert patch.read_bytes() != right
    done = call("refresh", "--series", "one", *_options(small), "--json")
    assert done.facts["rewritten"] == ["0001-one.patch"]
    assert b"@@ -1,7 +1,7 @@" in patch.read_bytes()


def test_new_makes_a_patch_of_what_is_beyond(small: Small, tmp_path: Path) -> None:
    tree = _patched(small, tmp_path / "tree")
    words: list[str | Path] = ["new", "0003-three.patch", "--series", "one", "--tree", tree]
    words += ["-m", "three: b"]
    nothing = call(*words, *_options(small))
    assert nothing.code == 2
    assert "next: edit it first" in nothing.err
    (tree / "src/widget/b.py").write_text(A1)
    (tree / "src/widget/sub").mkdir()
    (tree / "src/widget/sub/c.py").write_text("C = 1\n")
    done = call(*words, *_options(small))
    assert done.code == 0, done.err
    patches = load_series(small.series).patches
    assert [p.name for p in patches] == ["0001-one.patch", "0002-two.patch", "0003-three.patch"]
    assert patches[-1].subject == "three: b"
    made = small.made(small.series, "1.0")
    assert made["src/widget/b.py"] == A1.encode()
    assert made["src/widget/sub/c.py"] == b"C = 1\n"
    again = call(*words, *_options(small))
    assert again.code == 2
    assert "next: name another" in again.err


def test_new_takes_a_message_of_several_lines_as_a_mail_has_it(
    small: Small, tmp_path: Path
) -> None:
    tree = _patched(small, tmp_path / "tree")
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "the series")
    (tree / "src/widget/b.py").write_text(A1)
    words: list[str | Path] = ["new", "0003-three", "--series", "one", "--tree", tree]
    for wrong in (["-m", " "], ["-m", "x", "--author", "a\nb <c>"], ["-m", "x\n--- y"]):
        assert call(*words, *wrong, *_options(small)).code == 2
    done = call(*words, "-m", "three: b\nbecause of a", *_options(small))
    assert done.code == 0, done.err
    assert load_series(small.series).patches[-1].subject == "three: b"
    git(tree, "checkout", "--quiet", "--", ".")
    git(tree, "am", "--quiet", small.series / "0003-three.patch")
    assert git(tree, "log", "-1", "--format=%B").strip() == "three: b\n\nbecause of a"


@pytest.mark.parametrize("name", ["../three", "three four", "#three"])
def test_new_writes_nothing_under_a_name_that_no_list_can_hold(
    small: Small, tmp_path: Path, name: str
) -> None:
    tree = _patched(small, tmp_path / "tree")
    (tree / "src/widget/b.py").write_text(A1)
    before = snapshot(small.root / "catalog")
    words: list[str | Path] = ["new", name, "--series", "one", "--tree", tree, "-m", "three"]
    done = call(*words, *_options(small), "--json")
    assert done.code == 2
    assert "invalid patch name" in done.facts["error"]["message"]
    assert "limit.patch" in done.facts["error"]["remedy"]
    assert snapshot(small.root / "catalog") == before
