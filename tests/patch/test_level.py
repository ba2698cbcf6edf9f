"""How many folders stand before the names of a patch, with `git apply -pN` as the judge."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from pkgtools.errors import MalformedError
from pkgtools.patch import parse_patch, shown_level

if TYPE_CHECKING:
    from pathlib import Path

EDIT = b"@@ -1 +1 @@\n-a\n+b\n"
MODE = b"old mode 100644\nnew mode 100755\n"
ADD = b"@@ -0,0 +1 @@\n+b\n"


def git(cwd: Path, *arguments: str, data: bytes = b"") -> bytes:
    environment = {"PATH": os.environ["PATH"], "HOME": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-c", "user.name=A", "-c", "user.email=a@b", *arguments]
    made = subprocess.run(
        command, cwd=cwd, env=environment, input=data, capture_output=True, check=True
    )
    return made.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository whose index has every kind of change."""
    long = "".join(f"line {number}\n" for number in range(30))
    for name in ("src/a b/one.py", "src/two.py", "src/mode.sh", "src/gone.py", "src/copied.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n{long}")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "before")
    (tmp_path / "src/a b/one.py").write_text(f"changed\n{long}")
    (tmp_path / "src/two.py").rename(tmp_path / "src/a b/2.py")
    (tmp_path / "src/mode.sh").chmod(0o755)
    (tmp_path / "src/gone.py").unlink()
    (tmp_path / "src/copied.py").write_text(f"src/copied.py\n{long}more\n")
    (tmp_path / "src/copy.py").write_text(f"src/copied.py\n{long}")
    (tmp_path / "src/new file.py").write_text("NEW = 1\n")
    (tmp_path / "src/empty.py").touch()
    git(tmp_path, "add", "--all")
    return tmp_path


@pytest.mark.parametrize(
    ("options", "level"),
    [
        ((), 1),
        (("-c", "diff.mnemonicPrefix=true"), 1),
        (("-c", "diff.noprefix=true"), 0),
        (("--src-prefix=x/y/", "--dst-prefix=x/z/"), 2),
        (("--src-prefix=one-1.0/", "--dst-prefix=one-1.1/"), 1),
    ],
)
@pytest.mark.parametrize("renames", [("--no-renames",), ("-M", "-C")])
def test_prefix_of_any_form_is_worked_out(
    repository: Path, options: tuple[str, ...], level: int, renames: tuple[str, ...]
) -> None:
    settings = options if options[:1] == ("-c",) else ()
    rest = () if settings else options
    data = git(repository, *settings, "diff", "--cached", *rest, *renames)
    plain = git(repository, "diff", "--cached", *renames)
    shown = shown_level("x.patch", data)
    assert shown is not None
    assert shown.number == level
    made, wanted = parse_patch("x", data, shown.number), parse_patch("x", plain)
    assert [(f.kind, f.old_path, f.new_path) for f in made.files] == [
        (f.kind, f.old_path, f.new_path) for f in wanted.files
    ]
    git(repository, "reset", "--quiet", "--hard")
    if level > 1 and "-M" in renames:
        return  # git apply strips a folder from the rename lines too, which have no prefix
    git(repository, "apply", f"-p{level}", "--index", data=data)
    assert git(repository, "diff", "--cached", *renames) == plain


@pytest.mark.parametrize(
    "data",
    [
        b"diff --git src/f src/f\nnew file mode 100644\n--- /dev/null\n+++ src/f\n" + ADD,
        b"diff --git src/f src/f\nold mode 100644\nnew mode 100755\n",
        b"--- src/f\n+++ src/f\n" + EDIT,
        b"--- src/f.orig\n+++ src/f\n" + EDIT,
        b"--- /dev/null\n+++ src/f\n" + ADD,
        b"--- a/src/f\n+++ a/src/f\n" + EDIT + b"--- src/g\n+++ src/g\n" + EDIT,
    ],
)
def test_names_without_a_prefix_are_not_guessed(data: bytes) -> None:
    with pytest.raises(MalformedError, match="have no a/ or b/ before them") as caught:
        parse_patch("x.patch", data)
    assert caught.value.remedy is not None
    assert "-p0 behind its name in the series file" in caught.value.remedy


@pytest.mark.parametrize(
    "data",
    [
        b"--- a/f\n+++ b/f\n"
        + EDIT
        + b"--- x/y/g\n+++ z/y/g\n"
        + EDIT.replace(b"a", b"c")
        + b"--- x/q/g\n+++ z/w/g\n"
        + EDIT,
        b"--- a/f\n+++ b/f\n" + EDIT + b"--- /dev/null\n+++ src/g\n" + ADD,
        b"--- a/f\n+++ b/f\n" + EDIT + b"--- src/g\n+++ src/g\n" + EDIT,
        b"diff --git a/f b/f\n" + MODE + b"diff --git src/g src/g\n" + MODE,
    ],
)
def test_sections_of_different_levels_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedError, match=r"folders before the names|some have none"):
        parse_patch("x.patch", data)


def test_absolute_names_are_worked_out() -> None:
    data = b"--- /tmp/x/old/src/f\n+++ /tmp/x/new/src/f\n" + EDIT
    data += b"--- /dev/null\n+++ /tmp/x/new/src/g\n" + ADD
    assert [file.new_path for file in parse_patch("x.patch", data).files] == ["src/f", "src/g"]


def test_new_file_lies_beside_its_siblings() -> None:
    data = b"--- old/f\n+++ new/f\n" + EDIT + b"--- /dev/null\n+++ new/g\n" + ADD
    assert [file.new_path for file in parse_patch("x.patch", data).files] == ["f", "g"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a/f.py.orig", "b/f.py"),
        ("a/f.py", "b/f.py.orig"),
        ("a/f.py~", "b/f.py"),
        ("a/f.py.old", "b/f.py"),
        ("a/f.py.bak", "b/f.py"),
        ("a/f.py-orig", "b/f.py"),
        ("a/f.py", "b/f.py.new"),
        ("./f.py.original", "./f.py"),
    ],
)
def test_backup_on_one_side_is_the_file(tmp_path: Path, old: str, new: str) -> None:
    data = f"--- {old}\n+++ {new}\n".encode() + EDIT
    (file,) = parse_patch("x.patch", data).files
    assert (file.old_path, file.new_path) == ("f.py", "f.py")
    (tmp_path / "f.py").write_text("a\n")
    git(tmp_path, "apply", data=data)
    assert (tmp_path / "f.py").read_text() == "b\n"
