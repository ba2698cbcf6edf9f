"""The image that is built: what is in it, and what an unpacked one is to every other verb."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import call, run
from project import Project, git, installed
from trees import contents, record_problems

from pkgtools.errors import UsageError
from pkgtools.image.labels import labels_of
from pkgtools.image.reference import open_image

from .building import SYSTEM, build, bytes_of, write_base
from .images import (
    CREATED_SECONDS,
    OWNER,
    SITE,
    Entry,
    entries_of,
    folder,
    installed_entries,
    read,
    symlink,
    tar,
    unpack,
    whiteout,
    write_layout,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

KINDS = ["gzip", "zstd", "plain", "archive"]
COMPILED = f"{SITE}/widget/__pycache__/answer.{sys.implementation.cache_tag}.pyc"


@pytest.mark.parametrize("kind", KINDS)
def test_its_files_are_what_the_series_makes(
    kind: str, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    built = build(project.catalog(), write_base(tmp_path / "base", [SYSTEM, widget], kind))
    site = unpack(built.reference, tmp_path / "rootfs")
    files = {
        name: blob
        for name, blob in contents(site).items()
        if ".dist-info/" not in name and not name.endswith(".pyc")
    }
    assert files == installed(project.patched["v1.0"])
    assert record_problems(site / "widget_kit-1.0.dist-info") == []
    assert (site / "widget_kit-1.0.dist-info" / "pkgtools.json").is_file()
    assert (tmp_path / "rootfs" / "etc" / "os-release").read_bytes() == b"ID=widget\n"


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_its_base_and_one_layer(
    kind: str, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    reference = write_base(tmp_path / "base", [SYSTEM, widget], kind)
    base = read(reference)
    built = build(project.catalog(), reference)
    new = read(built.reference)
    assert new.blobs[:-1] == base.blobs
    assert len(new.layers) == len(base.layers) + 1
    assert new.config["rootfs"]["diff_ids"][:-1] == base.config["rootfs"]["diff_ids"]
    assert new.config["config"]["Env"] == base.config["config"]["Env"]
    assert [step["created_by"] for step in new.config["history"]] == [
        "COPY rootfs /",
        "COPY rootfs /",
        "pkgtools build image --target w-1.0",
    ]
    assert built.layer_bytes == len(new.layers[-1])
    assert built.layer == new.config["rootfs"]["diff_ids"][-1]


def test_its_layer_has_what_changed_and_nothing_else(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    built = build(project.catalog(), write_base(tmp_path / "base", [SYSTEM, widget]))
    tag = sys.implementation.cache_tag
    files = ["widget_kit-1.0.dist-info/RECORD", "widget_kit-1.0.dist-info/pkgtools.json"]
    for name, before in installed(project.patched["v1.0"]).items():
        if installed(project.releases["1.0"]).get(name) != before:
            files.append(name)
            if name.endswith(".py"):
                above, _, module = name.removesuffix(".py").rpartition("/")
                files.append(f"{above}/__pycache__/{module}.{tag}.pyc")
    folders = {"widget/extra", "widget/extra/deep"}
    folders |= {f"{name}/__pycache__" for name in folders}
    assert list(built.written) == sorted(f"{SITE}/{name}" for name in [*files, *folders])
    assert built.removed == (f"{SITE}/widget/legacy",)
    hidden = f"{SITE}/widget/.wh.legacy"
    assert sorted(read(built.reference).top) == sorted([*built.written, hidden])


def test_a_file_that_is_removed_beside_others(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    """Its folder stays: what else lies in it is not the series' business."""
    more = [Entry(f"{SITE}/widget/legacy/kept.txt", b"kept"), folder(f"{SITE}/widget/legacy/empty")]
    built = build(project.catalog(), write_base(tmp_path / "base", [[*widget, *more]]))
    caches = f"{SITE}/widget/legacy/__pycache__"
    assert built.removed == (caches, f"{SITE}/widget/legacy/gone.py")
    site = unpack(built.reference, tmp_path / "rootfs")
    assert sorted(path.name for path in (site / "widget" / "legacy").iterdir()) == [
        "empty",
        "kept.txt",
    ]


def test_owners_and_permissions_stay_and_new_files_are_the_packages(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    odd = [
        Entry(e.path, e.data, 0o640, owner=(7, 8)) if e.path.endswith("/answer.py") else e
        for e in widget
    ]
    top = read(build(project.catalog(), write_base(tmp_path / "base", [odd])).reference).top
    owned = {
        name.removeprefix(f"{SITE}/"): (info.uid, info.gid, info.mode)
        for name, info in top.items()
        if ".wh." not in name and "__pycache__" not in name and not info.isdir()
    }
    assert owned.pop("widget/answer.py") == (7, 8, 0o640)
    assert owned.pop("widget/tool.sh") == (*OWNER, 0o755)
    assert set(owned.values()) == {(*OWNER, 0o644)}
    assert {info.mtime for name, info in top.items() if ".wh." not in name} == {CREATED_SECONDS}
    assert not any(info.uname or info.gname for info in top.values())


def test_python_uses_the_new_bytecode(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    """Not the base's, though the source has its size and could have its time."""
    built = build(project.catalog(), write_base(tmp_path / "base", [widget]))
    site = unpack(built.reference, tmp_path / "rootfs")
    before = bytes_of(site)
    said = _import_answer(site)
    assert said.stdout == "42\n"
    compiled = tmp_path / "rootfs" / COMPILED
    assert f"{compiled} matches {site / 'widget' / 'answer.py'}" in said.stderr
    assert "wrote" not in said.stderr
    assert bytes_of(site) == before
    assert built.written.count(COMPILED) == 1


def test_bytecode_of_an_edited_module_is_not_used(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    built = build(project.catalog(), write_base(tmp_path / "base", [widget]))
    source = unpack(built.reference, tmp_path / "rootfs") / "widget" / "answer.py"
    status = source.stat()
    source.write_bytes(source.read_bytes().replace(b"42", b"99"))
    os.utime(source, (status.st_atime, status.st_mtime))
    assert _import_answer(source.parent.parent).stdout == "99\n"


def test_bytecode_names_its_source_as_the_image_does(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    built = build(project.catalog(), write_base(tmp_path / "base", [widget]))
    site = unpack(built.reference, tmp_path / "rootfs")
    compiled = (tmp_path / "rootfs" / COMPILED).read_bytes()
    assert f"/{SITE}/widget/answer.py".encode() in compiled
    assert str(site).encode() not in compiled


@pytest.mark.parametrize("tag", [None, "cpython-399"])
def test_no_bytecode_where_the_base_has_none_of_this_python(
    tag: str | None, project: Project, tmp_path: Path
) -> None:
    base = installed_entries(project, tmp_path, compiled=False)
    stale = f"{SITE}/widget/__pycache__/answer.{tag}.pyc"
    if tag:
        base.append(Entry(stale, b"of another Python"))
    built = build(project.catalog(), write_base(tmp_path / "base", [base]))
    assert not any(path.endswith(".pyc") for path in built.written)
    assert (os.path.dirname(stale) in built.removed) is (tag is not None)  # noqa: PTH120
    site = unpack(built.reference, tmp_path / "rootfs")
    assert not list(site.rglob("answer.*.pyc"))


def _import_answer(site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-v", "-c", _ANSWER, site],
        capture_output=True,
        text=True,
        check=True,
    )


_ANSWER = "import sys; sys.path.insert(0, sys.argv[1]); import widget.answer as a; print(a.ANSWER)"


def test_an_unpacked_one_verifies_and_reverses_to_the_base(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    reference = write_base(tmp_path / "base", [SYSTEM, widget])
    before = bytes_of(unpack(reference, tmp_path / "before"))
    site = unpack(build(project.catalog(), reference).reference, tmp_path / "rootfs")
    where = ("--tree", site, "--catalog", project.targets)
    done = call("verify", "--target", "w-1.0", *where)
    assert done.code == 0, done.err
    done = call("reverse", *where)
    assert done.code == 0, done.err
    assert bytes_of(site) == before


def test_pip_uninstalls_what_was_unpacked(project: Project, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv")
    site = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    before = {path for path in bytes_of(site) if "__pycache__" not in path}
    base = write_base(tmp_path / "base", [installed_entries(project, tmp_path)])
    made = unpack(build(project.catalog(), base).reference, tmp_path / "rootfs")
    shutil.copytree(made, site, dirs_exist_ok=True)
    pip = [sys.executable, "-m", "pip", "--python", str(tmp_path / "venv")]
    subprocess.run([*pip, "uninstall", "--yes", "widget-kit"], capture_output=True, check=True)
    assert {path for path in bytes_of(site) if "__pycache__" not in path} == before
    assert not (site / "widget").exists()


def _elsewhere(tmp_path: Path) -> dict[str, Mapping[str, str]]:
    checkout = tmp_path / "a checkout"
    checkout.mkdir()
    git(checkout, "init", "--quiet")
    (tmp_path / "other").mkdir()
    return {
        "another TMPDIR": {"TMPDIR": str(tmp_path / "other")},
        "a TMPDIR in a checkout": {"TMPDIR": str(checkout)},
        "another hash seed": {"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LC_ALL": "C"},
    }


def test_the_same_digest_wherever_and_whenever(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    environments = _elsewhere(tmp_path)
    found = set()
    for number, (what, env) in enumerate({"as it is": {}, **environments}.items()):
        base = write_base(tmp_path / f"base {number}", [SYSTEM, widget])
        where = tmp_path / f"cwd {number}"
        where.mkdir(mode=0o700)
        shutil.move(tmp_path / f"base {number}", where / "layout")
        old = os.umask(0o077 if number % 2 else 0o002)
        try:
            done = run(
                *("build", "image", "--target", "w-1.0", "--base", "oci:layout:base", "--json"),
                *("--catalog", project.targets),
                cwd=where,
                env=env,
            )
        finally:
            os.umask(old)
        assert done.code == 0, (what, base, done.err)
        found.add((done.facts["id"], done.facts["digest"], done.facts["layer"]))
    assert len(found) == 1
    checkout = Path(environments["a TMPDIR in a checkout"]["TMPDIR"])
    assert not (checkout / ".git" / "pkgtools").exists()
    assert [path.name for path in checkout.iterdir()] == [".git"]


def test_a_second_build_changes_nothing(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    base = write_base(tmp_path / "base", [widget])
    first = build(project.catalog(), base)
    layout = bytes_of(tmp_path / "base")
    assert build(project.catalog(), base) == first
    assert bytes_of(tmp_path / "base") == layout


def test_the_epoch_of_the_source_is_honoured(
    project: Project, widget: list[Entry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = write_base(tmp_path / "base", [widget])
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1600000000")
    new = read(build(project.catalog(), base).reference)
    assert new.config["created"] == "2020-09-13T12:26:40Z"
    assert {i.mtime for name, i in new.top.items() if ".wh." not in name} == {1_600_000_000}


@pytest.mark.parametrize("epoch", ["yesterday", "1e9", "9" * 30, "-1", str(2**40)])
def test_an_epoch_that_is_none_is_refused(
    epoch: str,
    project: Project,
    widget: list[Entry],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base = write_base(tmp_path / "base", [widget])
    before = bytes_of(tmp_path / "base")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    with pytest.raises(UsageError, match="SOURCE_DATE_EPOCH"):
        build(project.catalog(), base)
    assert bytes_of(tmp_path / "base") == before


def test_what_it_says_of_itself(project: Project, widget: list[Entry], tmp_path: Path) -> None:
    reference = write_base(tmp_path / "base", [widget])
    new = read(build(project.catalog(), reference).reference)
    target = project.catalog().target("w-1.0")
    said = {
        "pkgtools.upstream": "widget",
        "pkgtools.target": "w-1.0",
        "pkgtools.revision": "1.0",
        "pkgtools.series": target.series.digest,
        "pkgtools.patches": " ".join(patch.name for patch in target.series.patches),
        "pkgtools.tree": f"/{SITE}",
        "org.opencontainers.image.base.name": "base",  # not where its layout lies
    }
    assert said.items() <= new.labels.items()
    assert new.labels.items() == new.manifest["annotations"].items()
    assert new.labels["org.opencontainers.image.base.digest"].startswith("sha256:")


def test_a_commits_image_says_so_in_ocis_words(project: Project, tmp_path: Path) -> None:
    """A source tree at a commit: the word that every scanner reads."""
    checkout = project.write_archive(tmp_path / "tree", "dev")
    base = write_base(tmp_path / "base", [entries_of(checkout, "opt/widget")])
    new = read(build(project.catalog(), base, target="w-dev").reference)
    commits = [project.commits[name] for name in ("dev", "dev-base")]
    assert new.labels["pkgtools.revision"].split() == commits
    assert "org.opencontainers.image.revision" not in new.labels  # two commits: it says neither
    catalog = project.catalog()
    with open_image(base) as image:
        one = labels_of(catalog.target("w-dev"), commits[:1], image, "opt/widget")
        release = labels_of(catalog.target("w-1.0"), ["1.0"], image, "opt/widget")
    assert one["org.opencontainers.image.revision"] == commits[0]
    assert "org.opencontainers.image.revision" not in release


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("pkgtools.target", "w-1.0"),
        ("org.opencontainers.image.revision", "dev"),
        ("pkgtools.revision", "dev"),
        ("pkgtools.target", "another catalog's"),
        ("org.opencontainers.image.revision", "0" * 40),
    ],
)
def test_labels_narrow_the_target_and_files_decide(
    label: str, value: str, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    """The catalog's default is w-1.1."""
    said = {label: project.commits.get(value, value)}
    base = write_layout(tmp_path / "layout", [tar(widget)], said)
    done = call("build", "image", "--base", base, "--json", "--catalog", project.targets)
    if value == "w-1.0":
        assert done.facts["target"] == "w-1.0"
    elif value == "dev":
        assert done.code in (3, 5), done
        assert done.facts["error"]["details"]["target"] == "w-dev"
    else:
        assert done.facts["error"]["details"]["target"] == "w-1.1"


def test_a_link_to_a_module_that_is_not_touched_stays(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    top = [symlink(f"{SITE}/widget/alias.py", "answer.py"), whiteout("etc/os-release")]
    built = build(project.catalog(), write_base(tmp_path / "base", [SYSTEM, widget, top]))
    site = unpack(built.reference, tmp_path / "rootfs")
    assert (site / "widget" / "alias.py").readlink() == Path("answer.py")
    assert not (tmp_path / "rootfs" / "etc" / "os-release").exists()


@pytest.mark.parametrize("kind", ["gzip", "archive"])
def test_it_is_what_apply_makes_of_the_same_package(
    kind: str, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    """To the folder: one that the series empties could be imported as a namespace package."""
    base = write_base(tmp_path / "base", [SYSTEM, widget], kind)
    applied = unpack(base, tmp_path / "applied")
    done = call("apply", "--target", "w-1.0", "--tree", applied, "--catalog", project.targets)
    assert done.code == 0, done.err
    made = unpack(build(project.catalog(), base).reference, tmp_path / "made")
    expected, found = _modes(applied), _modes(made)
    assert expected == {name: mode for name, mode in found.items() if "__pycache__" not in name}


def _modes(site: Path) -> dict[str, int]:
    return {
        path.relative_to(site).as_posix(): path.lstat().st_mode
        for path in site.rglob("*")
        if "__pycache__" not in path.parts
    }


def test_a_new_folder_is_the_packages(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    """So that who owns the package can uninstall it."""
    top = read(build(project.catalog(), write_base(tmp_path / "base", [widget])).reference).top
    folders = {name: info for name, info in top.items() if info.isdir()}
    assert sorted(folders) == [
        f"{SITE}/widget/extra",
        f"{SITE}/widget/extra/__pycache__",
        f"{SITE}/widget/extra/deep",
        f"{SITE}/widget/extra/deep/__pycache__",
    ]
    assert {(i.uid, i.gid, i.mode) for i in folders.values()} == {(*OWNER, 0o755)}
