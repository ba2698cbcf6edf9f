"""Where the package lies in an image, and what it may be before it is patched."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from commands import call
from project import installed
from silent import Silent
from trees import contents, record_problems

from pkgtools.build.image import build_image
from pkgtools.errors import (
    DoesNotApplyError,
    ForeignError,
    PartialError,
    PkgtoolsError,
    TreeError,
    UsageError,
)
from pkgtools.image.package import PackageQuery
from pkgtools.image.reference import open_image

from .building import SYSTEM, build, bytes_of, write_base
from .images import (
    OWNER,
    SITE,
    Entry,
    entries_of,
    folder,
    installed_entries,
    moved,
    read,
    symlink,
    tar,
    unpack,
    whiteout,
    write_layout,
)

if TYPE_CHECKING:
    from pathlib import Path

    from project import Project

SITES = {
    "a system's Python": "usr/lib/python3/dist-packages",
    "a local Python": "usr/local/lib/python3.12/site-packages",
    "a virtual environment": "opt/venv/lib/python3.11/site-packages",
    "a folder with a space": "opt/my venv/lib/python3.11/site-packages",
}


@pytest.mark.parametrize("name", SITES)
def test_an_installed_package_is_found(
    name: str, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    base = write_base(tmp_path / "layout", [moved(widget, SITES[name])])
    built = build(project.catalog(), base)
    unpack(built.reference, tmp_path / "rootfs")
    site = tmp_path / "rootfs" / SITES[name]
    assert record_problems(site / "widget_kit-1.0.dist-info") == []
    assert read(built.reference).labels["pkgtools.tree"] == f"/{SITES[name]}"
    assert b"42" in (site / "widget" / "answer.py").read_bytes()


@pytest.mark.parametrize("kind", ["gzip", "archive"])
def test_a_package_without_init_is_found(
    kind: str, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    """A namespace package (PEP 420), which `apply` takes too."""
    namespace = [e for e in widget if "/widget/__init__" not in e.path]
    other = Entry(f"opt/app/{SITE}/widget/answer.py", b"ANSWER = 41\n")  # not installed
    base = write_base(tmp_path / "base", [[*namespace, other]], kind)
    built = build(project.catalog(), base)
    site = unpack(built.reference, tmp_path / "rootfs")
    assert b"42" in (site / "widget" / "answer.py").read_bytes()
    written = [m for m in read(built.reference).top.values() if ".wh." not in m.name]
    assert {m.uid for m in written} == {OWNER[0]}
    beside = [e for e in namespace if ".dist-info" not in e.path]
    for layers in ([beside], [beside, [Entry("opt/widget/__init__.py")]]):
        base = write_base(tmp_path / "beside", layers)
        assert build(project.catalog(), base, tree=f"/{SITE}/widget").written
        shutil.rmtree(tmp_path / "beside")


@pytest.mark.parametrize("kind", ["gzip", "archive"])
def test_a_module_behind_an_extension_module_is_refused(
    kind: str, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    """The file of a wheel or tree with one is refused too: patching it would change nothing."""
    built = Entry(f"{SITE}/widget/core.cpython-312-x86_64-linux-gnu.so", b"\177ELF")
    beside = Entry(f"{SITE}/widget/core_fast.so", b"\177ELF")
    assert build(project.catalog(), write_base(tmp_path / "a", [widget, [beside]], kind)).written
    with pytest.raises(DoesNotApplyError, match=r"core\.py is compiled into core\.cpython-312"):
        build(project.catalog(), write_base(tmp_path / "b", [widget, [built]], kind))


@pytest.mark.parametrize(
    ("name", "marker", "fits"),
    [
        ("a local Python", "python_version == '3.12' and sys_platform == 'linux'", True),
        ("a virtual environment", "python_version == '3.12'", False),
        ("a system's Python", "python_version >= '3.0'", False),  # its place does not tell
        ("a local Python", "platform_machine == 'x86_64'", False),
    ],
)
def test_a_target_for_some_environments(
    name: str, marker: str, fits: bool, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    base = write_base(tmp_path / "layout", [moved(widget, SITES[name])])
    catalog = project.catalog()
    target = replace(catalog.target("w-1.0"), marker=marker)
    with open_image(base) as image:
        if fits:
            assert build_image(catalog, [target], image, Silent()).written
            return
        with pytest.raises(DoesNotApplyError, match=f"w-1.0 is for {marker}, and .* has "):
            build_image(catalog, [target], image, Silent())


def test_a_folder_of_the_packages_name_inside_it(project: Project) -> None:
    """What a path is in the package is told by each folder of that name, not by the last."""
    catalog = project.catalog()
    query = PackageQuery(catalog.upstreams[0], frozenset({"widget/sub/widget/a.py"}))
    assert query.wants("usr/lib/widget/sub/widget/a.py")
    assert not query.wants("usr/lib/sub/widget/a.py")


def test_two_copies_need_the_users_word(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    venv = SITES["a virtual environment"]
    base = write_base(tmp_path / "layout", [widget, moved(widget, venv)])
    with pytest.raises(UsageError, match=rf"in /{venv}, /{SITE}$") as refused:
        build(project.catalog(), base)
    assert refused.value.remedy == "say which one is meant with --tree"
    for tree in (f"/{venv}", venv, f"/{venv}/", f"{venv}/widget"):
        built = build(project.catalog(), base, tree=tree)
        assert all(path.startswith(f"{venv}/") for path in [*built.written, *built.removed])


@pytest.mark.parametrize("tree", ["/nowhere", "/", "/usr", f"/{SITE}/widget/extra", "../.."])
def test_a_tree_that_is_none(
    tree: str, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    base = write_base(tmp_path / "layout", [widget])
    with pytest.raises(UsageError, match="has no package 'widget' in"):
        build(project.catalog(), base, tree=tree)


def test_a_package_at_the_root(project: Project, widget: list[Entry], tmp_path: Path) -> None:
    entries = [replace(e, path=e.path.removeprefix(f"{SITE}/")) for e in widget]
    base = write_base(tmp_path / "layout", [entries])
    built = build(project.catalog(), base, tree="/")
    assert "widget/answer.py" in built.written
    assert "widget_kit-1.0.dist-info/pkgtools.json" in built.written


@pytest.mark.parametrize("layers", [[], [SYSTEM]], ids=["empty", "a system"])
def test_an_image_without_the_package(
    layers: list[list[Entry]], project: Project, tmp_path: Path
) -> None:
    base = write_base(tmp_path / "layout", layers)
    with pytest.raises(UsageError, match="has no package 'widget' installed"):
        build(project.catalog(), base)


def test_a_package_that_was_removed(project: Project, widget: list[Entry], tmp_path: Path) -> None:
    base = write_base(tmp_path / "layout", [widget, [whiteout(f"{SITE}/widget")]])
    with pytest.raises(UsageError, match="has no package 'widget' installed"):
        build(project.catalog(), base)


def test_what_is_left_of_an_older_version_does_not_count(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    old = [Entry(f"{SITE}/widget_kit-0.9.dist-info/REQUESTED")]
    built = build(project.catalog(), write_base(tmp_path / "layout", [old, widget]))
    assert f"{SITE}/widget_kit-1.0.dist-info/pkgtools.json" in built.written


def test_two_dist_infos_are_refused(project: Project, widget: list[Entry], tmp_path: Path) -> None:
    other = [Entry(f"{SITE}/widget_kit-0.9.dist-info/METADATA", b"Name: widget-kit\n")]
    with pytest.raises(TreeError, match="it is unclear which one is installed"):
        build(project.catalog(), write_base(tmp_path / "layout", [other, widget]))


CHECKOUT = "opt/widget"
GIT = [folder(f"{CHECKOUT}/.git"), Entry(f"{CHECKOUT}/.git/HEAD", b"ref: refs/heads/main\n")]
HOMES = {
    "with .git": (GIT, f"{CHECKOUT}/.git/pkgtools/pkgtools.json"),
    "without .git": ([], f"{CHECKOUT}/.pkgtools/pkgtools.json"),
    "in a git checkout of another": (
        [Entry("opt/.git/HEAD", b"ref: refs/heads/main\n")],
        "opt/.git/pkgtools/widget/pkgtools.json",
    ),
}


@pytest.fixture
def checkout(project: Project, tmp_path: Path) -> list[Entry]:
    """Return a source tree, installed editable: a finder beside it knows the way."""
    tree = project.write_archive(tmp_path / "tree")
    finder = Entry(f"{SITE}/__editable__.widget_kit-1.0.pth", f"/{CHECKOUT}/src\n".encode())
    paper = Entry(f"{SITE}/widget_kit-1.0.dist-info/METADATA", b"Name: widget-kit\n")
    return [*entries_of(tree, CHECKOUT), finder, paper]


@pytest.mark.parametrize("name", HOMES)
def test_an_editable_install_is_patched_where_it_lies(
    name: str, project: Project, checkout: list[Entry], tmp_path: Path
) -> None:
    more, receipt = HOMES[name]
    base = write_base(tmp_path / "layout", [[*checkout, *more]])
    built = build(project.catalog(), base)
    unpack(built.reference, tmp_path / "rootfs")
    source = tmp_path / "rootfs" / CHECKOUT / "src"
    assert contents(source) == installed(project.patched["v1.0"])
    assert receipt in built.written
    done = call(
        *("status", "--json", "--tree", source.parent, "--catalog", project.targets),
    )
    assert (done.facts["state"], done.facts["target"]) == ("patched", "w-1.0")
    with pytest.raises(UsageError, match=r"is patched with w-1\.0 already"):
        build(project.catalog(), built.reference)
    changed = build(project.changed_catalog(), built.reference)
    assert changed.replaced == project.catalog().target("w-1.0").series.digest


def test_a_git_file_is_never_followed(
    project: Project, checkout: list[Entry], tmp_path: Path
) -> None:
    """It names a git directory of this machine, in whose place nothing may be written."""
    outside = tmp_path / "outside.git"
    outside.mkdir()
    (outside / "HEAD").write_text("ref: refs/heads/main\n")
    pointer = Entry(f"{CHECKOUT}/.git", f"gitdir: {outside}\n".encode())
    built = build(project.catalog(), write_base(tmp_path / "layout", [[*checkout, pointer]]))
    assert [path.name for path in outside.iterdir()] == ["HEAD"]
    assert f"{CHECKOUT}/.pkgtools/pkgtools.json" in built.written


def test_a_git_link_is_never_followed(
    project: Project, checkout: list[Entry], tmp_path: Path
) -> None:
    outside = tmp_path / "outside.git"
    outside.mkdir()
    (outside / "HEAD").write_text("ref: refs/heads/main\n")
    link = symlink(f"{CHECKOUT}/.git", str(outside))
    built = build(project.catalog(), write_base(tmp_path / "layout", [[*checkout, link]]))
    assert [path.name for path in outside.iterdir()] == ["HEAD"]
    assert f"{CHECKOUT}/.pkgtools/pkgtools.json" in built.written


@pytest.mark.parametrize("kind", ["gzip", "archive"])
def test_an_older_series_is_undone(
    kind: str, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    older = project.catalog()
    first = build(older, write_base(tmp_path / "base", [widget], kind))
    second = build(project.changed_catalog(), first.reference)
    assert second.replaced == older.target("w-1.0").series.digest
    site = unpack(second.reference, tmp_path / "rootfs")
    files = {
        name: blob
        for name, blob in contents(site).items()
        if ".dist-info/" not in name and not name.endswith(".pyc")
    }
    assert files == installed(project.patched["changed"])
    assert record_problems(site / "widget_kit-1.0.dist-info") == []
    assert len(read(second.reference).layers) == 3
    done = call("reverse", "--tree", site, "--catalog", project.changed_targets)
    assert done.code == 0, done.err
    plain = {p: d for p, d in bytes_of(site).items() if not p.endswith(".pyc")}
    base = "archive" if kind == "archive" else "gzip"
    fresh = unpack(write_base(tmp_path / "fresh", [widget], base), tmp_path / "before")
    assert plain == {p: d for p, d in bytes_of(fresh).items() if not p.endswith(".pyc")}


def test_the_same_series_is_refused(project: Project, widget: list[Entry], tmp_path: Path) -> None:
    first = build(project.catalog(), write_base(tmp_path / "base", [widget]))
    with pytest.raises(UsageError, match=r"is patched with w-1\.0 already") as refused:
        build(project.catalog(), first.reference)
    assert refused.value.remedy == "give the image that it was built on: base"


def _edited(entries: list[Entry], name: str, data: bytes) -> list[Entry]:
    return [replace(e, data=data) if e.path == f"{SITE}/widget/{name}" else e for e in entries]


def test_a_base_that_cannot_be_patched(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    patched = installed(project.patched["v1.0"])["widget/answer.py"].data
    answers: dict[type[PkgtoolsError], list[Entry]] = {
        PartialError: _edited(widget, "answer.py", patched),
        ForeignError: _edited(widget, "answer.py", b"something else\n"),
        DoesNotApplyError: installed_entries(project, tmp_path, "1.1"),
    }
    for number, (error, entries) in enumerate(answers.items()):
        base = write_base(tmp_path / f"layout {number}", [entries])
        before = bytes_of(tmp_path)
        with pytest.raises(error):
            build(project.catalog(), base)
        assert bytes_of(tmp_path) == before


def test_an_image_edited_since_is_refused(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    first = build(project.catalog(), write_base(tmp_path / "base", [widget]))
    edit = [Entry(f"{SITE}/widget/answer.py", b"ANSWER = 40\n")]
    layers = [*read(first.reference).layers]
    base = write_layout(tmp_path / "edited", [*layers, tar(edit)])
    with pytest.raises(ForeignError, match=r"edited since w-1\.0 was applied"):
        build(project.changed_catalog(), base)
