"""`pkgtools merge-file`: alone, and as the merge driver of a real `git merge`."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from commands import Result, call
from project import git

if TYPE_CHECKING:
    from pathlib import Path

BASE = "call(\n    a=1,\n)\n\nx = 1\n"
OURS = BASE.replace("a=1,\n", "a=1,\n    ours=2,\n")
THEIRS = BASE.replace("a=1,\n", "a=1,\n    theirs=3,\n")
BOTH = BASE.replace("a=1,\n", "a=1,\n    ours=2,\n    theirs=3,\n")


def _put(folder: Path, *texts: str | bytes, suffix: str = ".py") -> list[Path]:
    paths = [folder / f"{name}{suffix}" for name in ("base", "ours", "theirs")]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return paths


def _merge(*arguments: str | Path) -> Result:
    return call("merge-file", *arguments)


def test_the_result_is_written_into_ours(tmp_path: Path) -> None:
    base, ours, theirs = _put(tmp_path, BASE, OURS, THEIRS)
    ours.chmod(0o755)
    done = _merge(base, ours, theirs)
    assert (done.code, done.out, done.err) == (0, "", "")
    assert ours.read_text() == BOTH
    assert ours.stat().st_mode & 0o777 == 0o755
    assert (base.read_text(), theirs.read_text()) == (BASE, THEIRS)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["base.py", "ours.py", "theirs.py"]


def test_the_result_is_printed(tmp_path: Path) -> None:
    base, ours, theirs = _put(tmp_path, BASE, OURS, THEIRS)
    done = _merge("-p", base, ours, theirs)
    assert (done.code, done.out) == (0, BOTH)
    assert ours.read_text() == OURS


def test_a_link_stays_and_its_file_is_merged(tmp_path: Path) -> None:
    base, ours, theirs = _put(tmp_path, BASE, OURS, THEIRS)
    (tmp_path / "link.py").symlink_to("ours.py")
    assert _merge(base, tmp_path / "link.py", theirs).code == 0
    assert (tmp_path / "link.py").is_symlink()
    assert ours.read_text() == BOTH


@pytest.mark.parametrize("suffix", [".txt", ".py"])
@pytest.mark.parametrize("diff3", [[], ["--diff3"]])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_a_conflict_is_written_as_git_writes_it(
    tmp_path: Path, suffix: str, diff3: list[str], end: str, *, last: bool
) -> None:
    texts = [f"a = 1\nx = {n}" + "\n" * last for n in (1, 2, 3)]
    paths = _put(tmp_path, *(text.replace("\n", end).encode() for text in texts), suffix=suffix)
    base, ours, theirs = paths
    options = ["-L", "mine", "-L", "old", "-L", "new", "--marker-size", "9", *diff3]
    command = ["git", "-c", "merge.conflictStyle=merge", "merge-file", "-p"]
    command += [*options[:6], "--marker-size=9", *diff3]
    expected = subprocess.run(
        [*command, ours, base, theirs], cwd=tmp_path, capture_output=True, check=False
    )
    assert expected.returncode == 1
    done = _merge(*options, base, ours, theirs)
    assert done.code == 1
    assert ours.read_bytes() == expected.stdout
    assert (": conflict: " in done.err) is (suffix == ".py")


def test_a_script_without_a_suffix_is_python(tmp_path: Path) -> None:
    head = "#!/usr/bin/env python3\n"
    base, ours, theirs = _put(tmp_path, head + BASE, head + OURS, head + THEIRS, suffix="")
    assert _merge("-p", base, ours, theirs).out == head + BOTH
    base, ours, theirs = _put(tmp_path, BASE, OURS, THEIRS, suffix="")
    assert _merge("-p", base, ours, theirs).code == 1
    assert _merge("-p", "--path", "kit/a.py", base, ours, theirs).out == BOTH


def test_json_has_the_reasons(tmp_path: Path) -> None:
    base, ours, theirs = _put(
        tmp_path, BASE, OURS.replace("x = 1", "x = 2"), THEIRS.replace("x = 1", "x = 3")
    )
    done = _merge("--json", base, ours, theirs)
    assert done.code == 1
    assert done.facts["conflicts"] == 1
    one, other = done.facts["chunks"]
    assert (one["line"], one["how"]) == (3, "merged")
    assert "insertion-beside-insertion" in one["rules"]
    assert (other["line"], other["how"]) == (6, "conflict")
    assert other["reason"] == "both change the same expression"


def test_names_that_an_older_git_does_not_fill_in(tmp_path: Path) -> None:
    """Before 2.44, git passes %X, %S and %Y as they are."""
    paths = _put(tmp_path, "a = 1\n", "a = 2\n", "a = 3\n")
    labels = ["-L", "%X", "-L", "old", "-L", "%Y"]
    done = _merge("-p", "--diff3", "--path", "a.py", *labels, *paths)
    markers = [line for line in done.out.splitlines() if line[0] in "<|>"]
    assert markers == ["<<<<<<< ours", "||||||| old", ">>>>>>> theirs"]


def test_two_replacements_of_a_value_are_named_so(tmp_path: Path) -> None:
    texts = [f"def f(x):\n    return {value}\n" for value in ("x", "x * 2", "x + 1")]
    done = _merge("--json", *_put(tmp_path, *texts))
    assert [each["reason"] for each in done.facts["chunks"]] == [
        "both replace or remove the identifier"
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("theirs.py", b"a\0b", "theirs.py is binary"),
        ("base.py", None, "base.py: it cannot be read: No such file"),
    ],
)
def test_what_cannot_be_merged_is_no_conflict(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    base, ours, theirs = _put(tmp_path, BASE, OURS, THEIRS)
    (tmp_path / name).unlink() if content is None else (tmp_path / name).write_bytes(content)
    done = _merge(base, ours, theirs)
    assert done.code == 255
    assert message in done.err
    assert ours.read_text() == OURS


@pytest.mark.parametrize(
    "words", [["one"], ["-p", "--json", "a", "b", "c"], ["--marker-size", "0", "a", "b", "c"]]
)
def test_a_usage_error_is_no_conflict(words: list[str]) -> None:
    done = _merge(*words)
    assert done.code == 255
    assert done.err.startswith("error: ") != ('"code": "not-merged"' in done.out)


def test_git_merges_two_branches_with_the_driver(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch", "main", "repo")
    repo = tmp_path / "repo"
    driver = f"{sys.executable} -m pkgtools merge-file --marker-size %L --path %P %O %A %B"
    git(repo, "config", "merge.pkgtools.name", "merge Python by structure")
    git(repo, "config", "merge.pkgtools.driver", driver)
    (repo / ".gitattributes").write_text("*.py merge=pkgtools\n")

    def commit(call_text: str, value: int) -> None:
        (repo / "a b.py").write_text(call_text)
        (repo / "c.py").write_text(f"a = 1\nx = {value}\n")
        (repo / "a b.py").chmod(0o755)
        git(repo, "add", "--all")
        git(repo, "commit", "--quiet", "--message", "one")

    commit(BASE, 1)
    git(repo, "checkout", "--quiet", "-b", "side")
    commit(THEIRS, 3)
    git(repo, "checkout", "--quiet", "main")
    commit(OURS, 2)
    done = subprocess.run(
        ["git", "-c", "user.name=n", "-c", "user.email=e@x", "merge", "side"],
        cwd=repo,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 1
    assert (repo / "a b.py").read_text() == BOTH
    assert (repo / "a b.py").stat().st_mode & 0o111
    marked = "a = 1\n<<<<<<< ours\nx = 2\n=======\nx = 3\n>>>>>>> theirs\n"
    assert (repo / "c.py").read_text() == marked
    assert git(repo, "diff", "--name-only", "--diff-filter=U").split() == ["c.py"]
