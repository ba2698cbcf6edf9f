"""Every kind of change that a patch can make, all the way: lock, apply, verify, reverse."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest
from commands import call
from project import (
    build_wheel,
    git,
    installed,
    make_series,
    put,
    remove,
    set_mode,
    substitute,
    write_files,
)
from trees import contents, differing, record_problems, snapshot, timeless

from pkgtools.blob import EXECUTABLE, REGULAR, SYMLINK, Blob
from pkgtools.source import find_tree

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from project import Edit, Files, Project

_IMAGE = bytes(range(256)) * 20


def rename(old: str, new: str) -> Edit:
    """Return the edit that moves a file."""

    def edit(files: Files) -> None:
        files[new] = files.pop(old)

    return edit


def _path(name: str) -> str:
    return f"src/widget/{name}"


_KINDS: dict[str, Sequence[Edit]] = {
    "modify": [substitute(_path("other.py"), b"OTHER = 1", b"OTHER = 2")],
    "create": [put(_path("new.py"), b"NEW = 1\n")],
    "create empty": [put(_path("new/__init__.py"), b"")],
    "delete": [remove(_path("other.py"))],
    "empty": [put(_path("other.py"), b"")],
    "fill": [put(_path("nothing.py"), b"SOMETHING = 1\n")],
    "rename": [rename(_path("other.py"), _path("another.py"))],
    "rename into a new folder": [rename(_path("other.py"), _path("deep/er/other.py"))],
    "rename and modify": [
        rename(_path("core.py"), _path("kernel.py")),
        substitute(_path("kernel.py"), b"LIMIT = 32", b"LIMIT = 64"),
    ],
    "swap": [
        put(_path("one.py"), b"TWO = 2\n" * 9),
        put(_path("two.py"), b"ONE = 1\n" * 9),
    ],
    "executable": [set_mode(_path("tool.sh"), EXECUTABLE)],
    "no longer executable": [set_mode(_path("run.sh"), REGULAR)],
    "executable and modify": [
        put(_path("tool.sh"), b"#!/bin/sh\nexec python -m widget --fast\n", EXECUTABLE)
    ],
    "create executable": [put(_path("new.sh"), b"#!/bin/sh\n", EXECUTABLE)],
    "binary": [put(_path("image.bin"), _IMAGE[::-1])],
    "create binary": [put(_path("new.bin"), b"\0\1\2" * 1000)],
    "delete binary": [remove(_path("image.bin"))],
    "create a link": [put(_path("extra/link.py"), b"../core.py", SYMLINK)],
    "from a file to a link": [
        put(_path("other.py"), b"core.py", SYMLINK),
    ],
    "no newline at the end": [put(_path("other.py"), b'"""Something else."""\n\nOTHER = 1')],
    "newline at the end": [put(_path("open.py"), b"OPEN = 1\n")],
    "CRLF": [substitute(_path("dos.py"), b"TWO = 2\r\n", b"TWO = 3\r\n")],
    "names": [
        put(_path("with space.py"), b"A = 2\n"),
        put(_path('comma,quote".py'), b"B = 2\n"),
        put(_path("umläut.py"), b"C = 2\n"),
    ],
    "everything of a file": [
        rename(_path("run.sh"), _path("bin/walk.sh")),
        set_mode(_path("bin/walk.sh"), REGULAR),
        put(_path("core.py"), b"# all new\n" * 30),
        remove(_path("legacy/gone.py")),
    ],
}


def _before(project: Project) -> Files:
    """Return a release that holds something of each kind."""
    files = dict(project.releases["1.0"])
    more = {
        "nothing.py": Blob(b""),
        "run.sh": Blob(b"#!/bin/sh\nexec python -m widget --run\n", EXECUTABLE),
        "image.bin": Blob(_IMAGE),
        "open.py": Blob(b"OPEN = 1"),
        "dos.py": Blob(b"ONE = 1\r\nTWO = 2\r\n"),
        "one.py": Blob(b"ONE = 1\n" * 9),
        "two.py": Blob(b"TWO = 2\n" * 9),
        "with space.py": Blob(b"A = 1\n"),
        'comma,quote".py': Blob(b"B = 1\n"),
        "umläut.py": Blob(b"C = 1\n"),
    }
    return files | {_path(name): blob for name, blob in more.items()}


@pytest.fixture(scope="module")
def upstream(project: Project, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Files]:
    """Make a repository with that release."""
    files = _before(project)
    repository = tmp_path_factory.mktemp("kinds") / "upstream"
    write_files(repository, files)
    git(repository, "init", "--quiet")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "widget 1.0")
    return repository, git(repository, "rev-parse", "HEAD").strip(), files


def _layouts(files: Files, where: Path, project: Project) -> list[Path]:
    """Unpack the release as a package and as a checkout."""
    wheel = build_wheel(where / "wheel", files, "1.0")
    site = where / "site"
    files_of_wheel = installed(files)
    write_files(site, files_of_wheel)
    project.install(where / "other")
    (where / "other/widget_kit-1.0.dist-info").rename(site / "widget_kit-1.0.dist-info")
    rows = _record_of(wheel)
    (site / "widget_kit-1.0.dist-info/RECORD").write_bytes(rows)
    (site / "widget_kit-1.0.dist-info/INSTALLER").unlink()
    write_files(where / "archive", files)
    return [site, where / "archive"]


def _record_of(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read("widget_kit-1.0.dist-info/RECORD")


@pytest.mark.parametrize("kind", _KINDS)
def test_a_kind_of_change(
    kind: str, upstream: tuple[Path, str, Files], project: Project, tmp_path: Path
) -> None:
    repository, base, files = upstream
    targets = project.copy_catalog(tmp_path / "catalog")
    folder = targets.parent / "patches/widget/kind"
    after = make_series(repository, base, files, [(kind, _KINDS[kind])], folder)
    text = targets.read_text()
    head = text[: text.index("[[target]]")].replace('default = "w-1.1"\n', "")
    targets.write_text(
        f'{head}[[target]]\nname = "kind"\nupstream = "widget"\nseries = "kind"\n'
        'release = { version = "1.0", tag = "v1.0" }\n'
    )
    site, archive = _layouts(files, tmp_path, project)
    wheel = tmp_path / "wheel/widget_kit-1.0-py3-none-any.whl"
    done = call("lock", "--catalog", targets, "--wheel", wheel)
    assert done.code == 0, done.err
    for root, expected in ((site, installed(after)), (archive, after)):
        before = snapshot(root)
        where = ("--tree", root, "--catalog", targets)
        assert call("identify", *where, "--json").facts["state"] == "pristine"
        done = call("apply", *where, "--target", "kind")
        assert done.code == 0, done.err
        found = contents(root)
        assert {path: found.get(path) for path in expected} == expected
        gone = (installed(files) if root is site else files).keys() - expected.keys()
        assert not gone & found.keys()
        if root is site:
            assert record_problems(site / "widget_kit-1.0.dist-info") == []
        done = call("verify", *where)
        assert done.code == 0, done.err
        assert call("status", *where, "--json").facts["state"] == "patched"
        assert call("apply", *where, "--target", "kind").code == 0
        assert contents(root) == found
        done = call("reverse", *where)
        assert done.code == 0, done.err
        assert differing(timeless(before), timeless(snapshot(root))) == []


@pytest.mark.parametrize("kind", _KINDS)
def test_git_agrees(kind: str, upstream: tuple[Path, str, Files], tmp_path: Path) -> None:
    """`git apply` of the same patch file on the same files makes the same tree."""
    repository, base, files = upstream
    after = make_series(repository, base, files, [(kind, _KINDS[kind])], tmp_path / "series")
    root = tmp_path / "tree"
    write_files(root, files)
    git(root, "init", "--quiet")
    (patch,) = (tmp_path / "series").glob("*.patch")
    git(root, "apply", patch)
    assert contents(root) == after


def test_a_link_out_of_the_tree_is_refused(
    upstream: tuple[Path, str, Files], project: Project, tmp_path: Path
) -> None:
    """Git writes it; whoever opens it then writes elsewhere."""
    repository, base, files = upstream
    for number, leads in enumerate((b"../../../etc/passwd", b"/etc/passwd")):
        targets = project.copy_catalog(tmp_path / f"catalog{number}")
        folder = targets.parent / "patches/widget/kind"
        step = ("link", [put(_path("link"), leads, SYMLINK)])
        make_series(repository, base, files, [step], folder)
        targets.write_text(targets.read_text().replace('series = "v1.0"', 'series = "kind"'))
        done = call(
            "lock", "--target", "w-1.0", "--catalog", targets, "--wheel", project.wheel("1.0")
        )
        assert done.code == 3
        assert "leads out of the tree" in done.err


def test_a_found_tree_is_the_same_for_all(project: Project, tmp_path: Path) -> None:
    """`_layouts` and `install` make trees of one kind."""
    site, archive = _layouts(_before(project), tmp_path, project)
    unpacked = find_tree(site, project.catalog().upstreams[0])
    assert unpacked.dist_info is not None
    assert record_problems(unpacked.dist_info) == []
    assert find_tree(archive, project.catalog().upstreams[0]).is_checkout
