"""Every place where a tree can lie: found, patched there and nowhere else, and reversed."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import call, python
from project import age, git, installed
from scenarios import apply, reverse
from trees import contents, differing, snapshot, timeless

from pkgtools.blob import DIRECTORY, Blob
from pkgtools.catalog import Upstream
from pkgtools.errors import DoesNotApplyError, PkgtoolsError, TreeError, UsageError
from pkgtools.source import find_tree
from pkgtools.source.python import find_package

if TYPE_CHECKING:
    from collections.abc import Callable

    from project import Project


@dataclass(frozen=True)
class Layout:
    """A tree on disk, and what pkgtools should take it for."""

    given: Path
    root: Path
    is_checkout: bool
    home: Path
    dist_info: Path | None = None


def _site_packages(project: Project, where: Path) -> Layout:
    site = where / "site-packages"
    info = project.install(site)
    return Layout(site, site, False, info, info)


def _package_folder(project: Project, where: Path) -> Layout:
    layout = _site_packages(project, where)
    return Layout(layout.root / "widget", layout.root, False, layout.home, layout.dist_info)


def _venv_in_a_checkout(project: Project, where: Path) -> Layout:
    repository = where / "work"
    repository.mkdir()
    git(repository, "init", "--quiet")
    site = repository / ".venv/lib/python3.12/site-packages"
    info = project.install(site)
    return Layout(site, site, False, info, info)


def _venv_in_a_checkout_of_the_upstream(project: Project, where: Path) -> Layout:
    repository = project.write_checkout(where / "widget")
    site = repository / ".venv/lib/python3.12/site-packages"
    info = project.install(site)
    return Layout(site, site, False, info, info)


def _checkout(project: Project, where: Path) -> Layout:
    root = project.write_checkout(where / "checkout")
    return Layout(root, root, True, root / ".git/pkgtools")


def _checkout_of_the_package_name(project: Project, where: Path) -> Layout:
    root = project.write_checkout(where / "widget")
    return Layout(root, root, True, root / ".git/pkgtools")


def _prefix_folder(project: Project, where: Path) -> Layout:
    root = project.write_checkout(where / "checkout")
    return Layout(root / "src", root, True, root / ".git/pkgtools")


def _package_folder_of_a_checkout(project: Project, where: Path) -> Layout:
    root = project.write_checkout(where / "checkout")
    return Layout(root / "src/widget", root, True, root / ".git/pkgtools")


def _linked_worktree(project: Project, where: Path) -> Layout:
    main = project.write_checkout(where / "main")
    git(main, "worktree", "add", "--quiet", "--detach", where / "linked")
    return Layout(where / "linked", where / "linked", True, main / ".git/worktrees/linked/pkgtools")


def _submodule(project: Project, where: Path) -> Layout:
    origin = project.write_checkout(where / "origin")
    outer = where / "outer"
    outer.mkdir()
    git(outer, "init", "--quiet")
    git(
        outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", origin, "vendored"
    )
    home = outer / ".git/modules/vendored/pkgtools"
    return Layout(outer / "vendored", outer / "vendored", True, home)


def _archive(project: Project, where: Path) -> Layout:
    root = project.write_archive(where / "archive")
    return Layout(root, root, True, root / ".pkgtools")


def _archive_in_a_repository(project: Project, where: Path) -> Layout:
    repository = where / "ours"
    repository.mkdir()
    git(repository, "init", "--quiet")
    root = project.write_archive(repository / "third_party/widget")
    return Layout(root, root, True, repository / ".git/pkgtools/third_party/widget")


def _bare_package_folder(project: Project, where: Path) -> Layout:
    site = where / "lib"
    info = project.install(site)
    shutil.rmtree(info)
    return Layout(site / "widget", site, False, site / ".pkgtools")


def _link_to_a_site(project: Project, where: Path) -> Layout:
    layout = _site_packages(project, where)
    (where / "link").symlink_to(layout.root)
    return Layout(where / "link", layout.root, False, layout.home, layout.dist_info)


def _link_to_a_package(project: Project, where: Path) -> Layout:
    """As a developer links a package into an environment that has its .dist-info."""
    elsewhere = where / "elsewhere"
    info = project.install(where / "site-packages")
    elsewhere.mkdir()
    (where / "site-packages/widget").rename(elsewhere / "widget")
    (where / "site-packages/widget").symlink_to(elsewhere / "widget")
    return Layout(where / "site-packages", elsewhere, False, info, info)


def _link_to_a_checkout(project: Project, where: Path) -> Layout:
    root = project.write_checkout(where / "checkout")
    (where / "link").symlink_to(root)
    return Layout(where / "link", root, True, root / ".git/pkgtools")


@pytest.mark.parametrize("refers", [False, True])
def test_a_package_that_is_a_link_into_a_cache_is_refused(
    refers: bool, project: Project, tmp_path: Path
) -> None:
    """As pdm links its cache into environments: what is patched there is patched everywhere."""
    cached = project.install(tmp_path / "cache/lib")
    site = tmp_path / "site"
    site.mkdir()
    (site / "widget").symlink_to(tmp_path / "cache/lib/widget")
    shutil.copytree(cached, site / cached.name)
    if refers:
        (site / cached.name / "REFER_TO").write_text(str(cached))
        shutil.rmtree(cached)
    before = snapshot(tmp_path)
    for verb in (("apply", "--target", "w-1.0"), ("status",), ("reverse",)):
        done = call(*verb, "--tree", site, "--catalog", project.targets)
        assert done.code == 7, done
        assert f"{site / 'widget'} is a symbolic link to " in done.err
        assert "next: " in done.err
    assert snapshot(tmp_path) == before


_LAYOUTS = [
    _site_packages,
    _package_folder,
    _venv_in_a_checkout,
    _venv_in_a_checkout_of_the_upstream,
    _checkout,
    _checkout_of_the_package_name,
    _prefix_folder,
    _package_folder_of_a_checkout,
    _linked_worktree,
    _submodule,
    _archive,
    _archive_in_a_repository,
    _bare_package_folder,
    _link_to_a_site,
    _link_to_a_package,
    _link_to_a_checkout,
]


@pytest.mark.parametrize("make", _LAYOUTS)
def test_a_tree_is_patched_where_it_is(
    make: Callable[[Project, Path], Layout], project: Project, tmp_path: Path
) -> None:
    layout = make(project, tmp_path)
    age(tmp_path)
    upstream = project.catalog().upstreams[0]
    tree = find_tree(layout.given, upstream)
    found = (tree.root, tree.is_checkout, tree.dist_info, tree.home)
    assert found == (layout.root, layout.is_checkout, layout.dist_info, layout.home)
    before = snapshot(tmp_path)
    apply(project, tree)
    after, was = project.patched["v1.0"], project.releases["1.0"]
    if not layout.is_checkout:
        after, was = installed(after), installed(was)
    root = layout.root.relative_to(tmp_path).as_posix()
    touched = {path for path in {*after, *was} if after.get(path) != was.get(path)}
    for path in touched:
        blob = after.get(path)
        there = contents(tmp_path).get(f"{root}/{path}")
        assert there == blob, path
    aside = [
        name
        for name in differing(timeless(before), timeless(snapshot(tmp_path)))
        if name.removeprefix(f"{root}/") not in touched
        and not name.endswith(("/RECORD", "/pkgtools.json"))
        and "/widget/extra" not in name
        and "/widget/legacy" not in name
        and not layout.home.is_relative_to(tmp_path / name)
    ]
    assert aside == []
    assert find_tree(layout.given, upstream) == tree
    reverse(project, tree)
    assert differing(timeless(before), timeless(snapshot(tmp_path))) == []


@pytest.mark.parametrize(
    "make",
    [_checkout, _prefix_folder, _linked_worktree, _submodule, _link_to_a_checkout],
)
def test_a_checkout_stays_clean_beyond_the_patched_files(
    make: Callable[[Project, Path], Layout], project: Project, tmp_path: Path
) -> None:
    layout = make(project, tmp_path)
    tree = find_tree(layout.given, project.catalog().upstreams[0])
    apply(project, tree)
    status = git(layout.root, "status", "--porcelain", "--untracked-files=all", "--ignored")
    assert sorted(status.splitlines()) == [
        " D src/widget/legacy/gone.py",
        " M src/widget/answer.py",
        " M src/widget/core.py",
        " M src/widget/tool.sh",
        "?? src/widget/extra/__init__.py",
        "?? src/widget/extra/deep/new.py",
    ]
    git(layout.root, "stash", "--include-untracked")
    git(layout.root, "stash", "pop")
    reverse(project, tree)
    assert git(layout.root, "status", "--porcelain", "--ignored") == ""
    assert not layout.home.exists()


def test_an_editable_install_is_its_checkout(project: Project, tmp_path: Path) -> None:
    """What pip makes of `pip install --editable`: a .dist-info here, the files there."""
    checkout = project.write_checkout(tmp_path / "checkout")
    site = tmp_path / "site-packages"
    info = site / "widget_kit-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: widget-kit\nVersion: 1.0\n")
    (info / "RECORD").write_text("__editable__.widget.pth,,\nwidget_kit-1.0.dist-info/RECORD,,\n")
    (site / "__editable__.widget.pth").write_text(f"{checkout}/src\n")
    code = "import importlib.util as u, site, sys; site.addsitedir(sys.argv[1]); "
    folder = Path(python(code + "print(u.find_spec('widget').origin)", site).strip()).parent
    before = snapshot(site)
    tree = find_tree(folder, project.catalog().upstreams[0])
    assert (tree.root, tree.is_checkout, tree.home) == (
        checkout,
        True,
        checkout / ".git/pkgtools",
    )
    apply(project, tree)
    assert contents(checkout / "src") == installed(project.patched["v1.0"])
    assert snapshot(site) == before


def test_a_package_is_found_without_being_imported(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Importing a big package takes seconds, and may need a GPU."""
    project.install(tmp_path / "site")
    (tmp_path / "site/widget/__init__.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    assert find_package(sys.executable, "widget") == tmp_path / "site/widget"
    assert find_package(sys.executable, "no_such_package") is None
    (tmp_path / "here/widget").mkdir(parents=True)
    (tmp_path / "here/widget/__init__.py").touch()
    monkeypatch.chdir(tmp_path / "here")
    assert find_package(sys.executable, "widget") == tmp_path / "site/widget"
    monkeypatch.delenv("PYTHONPATH")
    assert find_package(sys.executable, "widget") is None


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("exit 3", "failed to find .* exit status 3"),
        ("echo broken >&2; exit 1", "broken"),
        ("printf ' \\n\\t\\n' >&2; exit 3", "exit status 3"),
        ("printf 'broken\\n \\n' >&2; exit 3", "failed to find '.*': broken$"),
        ("printf '\\377\\n' >&2; exit 3", "\ufffd$"),
        ("echo ' ' >&2; exit 3", "failed to find .* exit status 3"),
        ("echo no JSON", "failed to find"),
        ("true", "failed to find"),
        ("echo 3", "is not a Python interpreter: it printed '3'"),
        ("echo '[[]]'", "is not a Python interpreter"),
        ("printf '[%.0s' $(seq 100000)", "is not a Python interpreter"),
    ],
)
def test_an_interpreter_that_does_not_answer(script: str, message: str, tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    with pytest.raises(UsageError, match=message):
        find_package(str(fake), "widget")
    with pytest.raises(UsageError, match="none failed to find"):
        find_package(str(tmp_path / "none"), "widget")


def test_a_namespace_package_over_two_folders_is_ambiguous(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "widget").mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}/one{os.pathsep}{tmp_path}/two")
    with pytest.raises(UsageError, match="several folders"):
        find_package(sys.executable, "widget")


def test_a_folder_without_the_package_is_refused(project: Project, tmp_path: Path) -> None:
    upstream = project.catalog().upstreams[0]
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file", tmp_path / "none"):
        with pytest.raises(UsageError) as caught:
            find_tree(path, upstream)
        assert str(path) in caught.value.message
        assert caught.value.remedy


def test_two_dist_infos_are_ambiguous(project: Project, tmp_path: Path) -> None:
    """What a crashed installer leaves: which of the two is there cannot be told."""
    project.install(tmp_path)
    shutil.copytree(tmp_path / "widget_kit-1.0.dist-info", tmp_path / "widget_kit-0.9.dist-info")
    with pytest.raises(TreeError, match=r"0\.9.* and .*1\.0"):
        project.tree(tmp_path)


def test_a_dist_info_that_is_only_a_shell_is_none(project: Project, tmp_path: Path) -> None:
    """An uninstall leaves the folder when something lies in it that RECORD does not list."""
    info = project.install(tmp_path)
    shell = tmp_path / "widget_kit-0.9.dist-info"
    shell.mkdir()
    (shell / "notes.txt").touch()
    assert project.tree(tmp_path).dist_info == info


@pytest.mark.parametrize("name", ["Widget.Kit", "widget_kit", "widget-kit", "WIDGET__KIT"])
def test_a_dist_info_is_known_by_its_normalised_name(
    name: str, project: Project, tmp_path: Path
) -> None:
    info = project.install(tmp_path)
    named = info.rename(tmp_path / f"{name}-1.0.dist-info")
    shutil.copytree(named, tmp_path / "widget-1.0.dist-info")  # another distribution
    assert project.tree(tmp_path).dist_info == named


def test_a_link_inside_the_tree_is_not_followed(project: Project, tmp_path: Path) -> None:
    root = project.write_archive(tmp_path / "archive")
    outside = tmp_path / "outside"
    (root / "src/widget/legacy").rename(outside)
    (root / "src/widget/legacy").symlink_to(outside)
    before = snapshot(tmp_path)
    with pytest.raises(TreeError, match="is a symbolic link: pkgtools neither reads nor writes"):
        apply(project, project.tree(root))
    assert snapshot(tmp_path) == before


def test_a_file_that_is_a_link_is_no_known_file(project: Project, tmp_path: Path) -> None:
    """As `uv --link-mode symlink` installs: the cache's file must not be written."""
    root = project.write_archive(tmp_path / "archive")
    cached = tmp_path / "cached.py"
    (root / "src/widget/core.py").rename(cached)
    (root / "src/widget/core.py").symlink_to(cached)
    before = snapshot(tmp_path)
    with pytest.raises(PkgtoolsError) as caught:
        apply(project, project.tree(root))
    assert caught.value.exit_code == 5
    assert "src/widget/core.py" in caught.value.message
    assert snapshot(tmp_path) == before


def test_what_is_neither_file_nor_link_is_refused(project: Project, tmp_path: Path) -> None:
    root = project.write_archive(tmp_path / "archive")
    (root / "src/widget/core.py").unlink()
    os.mkfifo(root / "src/widget/core.py")
    with pytest.raises(TreeError, match="Not a regular file"):
        project.tree(root).read("src/widget/core.py")


def test_reading(project: Project, tmp_path: Path) -> None:
    root = project.write_archive(tmp_path / "archive")
    (root / "src/widget/link").symlink_to("core.py")
    tree = project.tree(root)
    assert tree.read("src/widget/link") == Blob(b"core.py", 0o120000)
    assert tree.read("src/widget") == Blob(b"", DIRECTORY)
    assert tree.read("src/widget/none.py") is None
    assert tree.read("src/widget/core.py/below") is None
    project.install(tmp_path / "site")
    site = project.tree(tmp_path / "site")
    assert site.read("src/widget") == Blob(b"", DIRECTORY)
    assert site.read("src") == Blob(b"", DIRECTORY)
    with pytest.raises(DoesNotApplyError, match="only a source checkout"):
        site.read("README.md")
    with pytest.raises(DoesNotApplyError, match="only a source checkout"):
        site.read("src/widgets/core.py")


def test_a_series_that_touches_more_than_the_package_needs_a_checkout(
    project: Project, tmp_path: Path
) -> None:
    """A wheel has no README.md: refused, with what to give instead."""
    targets = project.copy_catalog(tmp_path / "catalog")
    folder = targets.parent / "patches/widget/v1.0"
    first = folder / "0001-answer-the-right-one.patch"
    first.write_text(first.read_text().replace("src/widget/answer.py", "docs/answer.py"))
    project.install(tmp_path / "site")
    done = call("lock", "--target", "w-1.0", "--catalog", targets, "--wheel", project.wheel("1.0"))
    assert done.code == 3, done
    assert "docs/answer.py" in done.err
    assert "source checkout only" in done.err


def test_a_flat_source_tree_without_git_is_a_checkout(tmp_path: Path) -> None:
    # An unpacked sdist has neither .git nor .dist-info, and a series may touch its setup.py.
    flat = Upstream("widget", "https://example.invalid", "widget-kit", "widget", "")
    for place, is_checkout in (("unpacked", True), ("site-packages", False)):
        (tmp_path / place / "widget").mkdir(parents=True)
        (tmp_path / place / "setup.py").write_text("x\n")
        assert find_tree(tmp_path / place, flat).is_checkout is is_checkout
    assert find_tree(tmp_path / "unpacked", flat).read("setup.py") == Blob(b"x\n")
