"""Real releases of SGLang, real pip, real uv, and the Kimi K3 commits where they are at hand."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest
from commands import call, run
from crash import SHORT
from project import apply_with_git, git, git_environment, installed
from trees import contents, leftovers, record_problems, snapshot

from pkgtools.blob import blob_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from project import Project

    from pkgtools.catalog import Catalog, Target

    Wheel = Callable[[str], Path]

_PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", "--quiet"]
_K3 = (
    "ee560a2b2df5dafe18fd835d2e546eff019ca5ba",
    "f8493a43a6a30d2a1cad6b0034e2c1b362d920d5",
)


def _environment(where: Path) -> tuple[Path, Path]:
    """Make a virtual environment without pip; return its interpreter and its site-packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", where], check=True)
    (site,) = where.glob("lib/python3*/site-packages")
    return where / "bin/python", site


def _pip(python: Path, *arguments: str | Path) -> None:
    command = [*_PIP[:3], "--python", python, *_PIP[3:], *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _digests(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the content of every file below `root`, by blob id."""
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(files):
            path = Path(folder, name)
            yield path.relative_to(root).as_posix(), blob_id(path.read_bytes())


def _touched(target: Target) -> set[str]:
    paths = {target.upstream.installed_path(path) for path in target.series.paths}
    return {path for path in paths if path is not None}


@pytest.fixture
def wheel(release: Wheel, sglang: Catalog, tmp_path: Path) -> Wheel:
    """Return the wheel of a release, by version; in the short form, only the touched folders."""

    def slim(version: str) -> Path:
        whole = release(version)
        if (made := tmp_path / version / whole.name).exists():
            return made
        touched = _touched(sglang.target(f"v{version}"))
        folders = {folder for path in touched for folder in PurePosixPath(path).parents}

        def is_kept(name: str) -> bool:
            return PurePosixPath(name).parent in folders or ".dist-info/" in name

        made.parent.mkdir()
        with (
            zipfile.ZipFile(whole) as source,
            zipfile.ZipFile(made, "w") as copy,
        ):
            for member in filter(is_kept, source.namelist()):
                data = source.read(member)
                if member.endswith(".dist-info/RECORD"):
                    rows = data.decode().splitlines(keepends=True)
                    data = "".join(r for r in rows if is_kept(r.partition(",")[0])).encode()
                copy.writestr(member, data)
        return made

    return slim if SHORT else release


def test_pip_in_a_virtual_environment_inside_a_checkout(
    wheel: Wheel, sglang: Catalog, tmp_path: Path
) -> None:
    """Install, apply, upgrade over it, apply again, uninstall: nothing stale, nothing left."""
    git(tmp_path, "init", "--quiet")
    python, site = _environment(tmp_path / ".venv")
    empty = dict(_digests(site))
    _pip(python, "install", "--no-deps", wheel("0.5.17"))
    pristine = dict(_digests(site))
    (info,) = site.glob("sglang-*.dist-info")
    assert record_problems(info) == []

    done = run("apply", "--target", "v0.5.17", "--python", python, cwd=tmp_path)
    assert done.code == 0, done.err
    touched = _touched(sglang.target("v0.5.17"))
    assert set(done.out.split()) >= {f"python/{path}" for path in touched}
    assert record_problems(info) == []
    patched = dict(_digests(site))
    changed = {name for name in {*pristine, *patched} if pristine.get(name) != patched.get(name)}
    compiled = {name for name in changed if name.endswith(".pyc")}
    assert changed - compiled == touched | {f"{info.name}/RECORD", f"{info.name}/pkgtools.json"}
    assert not compiled & patched.keys()  # stale, and gone
    assert len(compiled) == len(touched & pristine.keys())
    assert leftovers(site) == []
    assert call("verify", "--python", python, cwd=tmp_path).code == 0

    done = call("reverse", "--python", python, cwd=tmp_path)
    assert done.code == 0, done.err
    assert dict(_digests(site)) == pristine
    assert call("apply", "--target", "v0.5.17", "--python", python, cwd=tmp_path).code == 0

    newer = wheel("0.5.18")
    _pip(python, "install", "--no-deps", "--no-compile", newer)
    (info,) = site.glob("sglang-*.dist-info")
    assert info.name == "sglang-0.5.18.dist-info"
    assert record_problems(info) == []
    with zipfile.ZipFile(newer) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
    expected = {name for name in names if name.startswith("sglang/")}
    assert {name for name in dict(_digests(site)) if name.startswith("sglang/")} == expected
    done = call("status", "--python", python, "--json", cwd=tmp_path)
    assert (done.facts["state"], done.facts["target"]) == ("pristine", "v0.5.18")
    assert done.facts["series"] is None

    assert call("apply", "--target", "v0.5.18", "--python", python, cwd=tmp_path).code == 0
    assert record_problems(info) == []
    _pip(python, "uninstall", "--yes", "sglang")
    assert dict(_digests(site)) == empty
    assert sorted(path.name for path in site.iterdir()) == sorted({n.split("/")[0] for n in empty})


def test_uv_caches_and_other_environments_stay_as_they_are(
    wheel: Wheel, sglang: Catalog, tmp_path: Path
) -> None:
    """Uv links each file of its cache into every environment: a write in place hits them all."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        pytest.skip("uv is not installed")
    cache = tmp_path / "cache"
    sites = []
    for name in ("ours", "theirs"):
        python, site = _environment(tmp_path / name)
        command: list[str | Path] = [
            uv,
            "pip",
            "install",
            "--quiet",
            "--offline",
            "--no-index",
            "--no-deps",
        ]
        command += ["--link-mode", "hardlink", "--python", python, wheel("0.5.17")]
        subprocess.run(command, env={**os.environ, "UV_CACHE_DIR": str(cache)}, check=True)
        sites.append(site)
    ours, theirs = sites
    touched = _touched(sglang.target("v0.5.17"))
    linked = [path for path in touched if (ours / path).exists()]  # the others are new
    assert linked
    for path in linked:
        assert (ours / path).stat().st_ino == (theirs / path).stat().st_ino
    before = dict(_digests(cache)), dict(_digests(theirs)), dict(_digests(ours))
    assert call("apply", "--target", "v0.5.17", "--tree", ours).code == 0
    (info,) = ours.glob("sglang-*.dist-info")
    assert record_problems(info) == []
    assert call("verify", "--tree", ours).code == 0
    assert (dict(_digests(cache)), dict(_digests(theirs))) == before[:2]
    assert dict(_digests(ours)) != before[2]
    assert call("reverse", "--tree", ours).code == 0
    assert (dict(_digests(cache)), dict(_digests(theirs)), dict(_digests(ours))) == before
    for path in linked:
        assert (ours / path).stat().st_ino != (theirs / path).stat().st_ino


@pytest.mark.parametrize("version", [f"0.5.{n}" for n in (14, *range(17, 24))])
def test_every_release_is_patched_as_git_would(
    version: str, release: Wheel, sglang: Catalog, tmp_path: Path
) -> None:
    """What `apply` makes of a release's files is what `git apply` makes of them."""
    target = sglang.target(f"v{version}")
    names = _touched(target)
    with zipfile.ZipFile(release(version)) as wheel:
        for member in wheel.namelist():
            if member in names or ".dist-info/" in member:
                wheel.extract(member, tmp_path / "site")
    shutil.copytree(tmp_path / "site", tmp_path / "oracle/python")
    git(tmp_path / "oracle", "init", "--quiet")
    apply_with_git(tmp_path / "oracle", target.series)
    where: list[str | Path] = ["--tree", tmp_path / "site"]
    done = call("verify", "--dry-run", *where, "--json")
    assert [(v["target"], v["outcome"]) for v in done.facts] == [(f"v{version}", "applies")]
    before = contents(tmp_path / "site")
    assert call("apply", "--target", f"v{version}", *where).code == 0
    for name in names:
        ours, oracle = tmp_path / "site" / name, tmp_path / "oracle/python" / name
        assert ours.read_bytes() == oracle.read_bytes()
        assert name not in before or ours.read_bytes() != before[name].data
    assert call("reverse", *where).code == 0
    assert contents(tmp_path / "site") == before


def test_every_release_is_verified_at_once(release: Wheel, sglang: Catalog) -> None:
    wheels: list[str | Path] = []
    versions = [t.revision.version for t in sglang.targets if t.revision.version]
    for version in versions:
        wheels += ["--wheel", release(version)]
    done = call("verify", "--dry-run", "--allow-missing", "--json", *wheels)
    assert done.code == 0
    outcomes = {v["revision"]: v["outcome"] for v in done.facts}
    assert {outcomes[version] for version in versions} == {"applies"}
    assert {outcomes[commit] for commit in _K3} == {"unverified"}
    assert call("verify", "--dry-run", *wheels).code == 8  # what was not seen does not pass


def _holding(repositories: list[Path], commit: str) -> Path:
    for repository in repositories:
        done = subprocess.run(
            ["git", f"--git-dir={repository}", "cat-file", "-e", commit],
            env=git_environment(),
            capture_output=True,
            check=False,
        )
        if done.returncode == 0:
            return repository
    pytest.skip(f"no repository in PKGTOOLS_SGLANG_GIT holds {commit}")


def _listing(repository: Path) -> list[tuple[str, int, int]]:
    """Return the name, size and time of every file: a repository is too large to compare."""
    return [
        (str(path), path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(repository.rglob("*"))
    ]


@pytest.mark.parametrize("commit", _K3)
def test_a_k3_commit_is_verified_without_a_worktree(commit: str, sglang_git: list[Path]) -> None:
    repository = _holding(sglang_git, commit)
    before = _listing(repository)
    done = call("verify", "--dry-run", "--git", repository, "--rev", commit, "--json")
    assert done.code == 0
    assert [(v["target"], v["outcome"]) for v in done.facts] == [("kimi-k3-ee560a2", "applies")]
    done = call("identify", "--git", repository, "--rev", commit, "--json")
    assert commit in {match["revision"] for match in done.facts["matches"]}
    assert _listing(repository) == before


def test_the_k3_targets_are_verified_from_repositories(sglang_git: list[Path]) -> None:
    where: list[str | Path] = []
    for commit in _K3:
        where += ["--git", _holding(sglang_git, commit)]
    for name in ("kimi-k3-ee560a2", "kimi-k3-f8493a4"):
        done = call("verify", "--dry-run", "--target", name, "--json", *where)
        assert done.code == 0
        assert {v["outcome"] for v in done.facts} == {"applies"}


@pytest.mark.parametrize("commit", _K3)
def test_a_k3_checkout_is_patched_by_each_name(
    commit: str, sglang: Catalog, sglang_git: list[Path], tmp_path: Path
) -> None:
    root = tmp_path / "sglang"
    git(
        tmp_path,
        "clone",
        "--quiet",
        "--shared",
        "--no-checkout",
        _holding(sglang_git, commit),
        root,
    )
    git(root, "sparse-checkout", "set", "python/sglang")
    git(root, "checkout", "--quiet", "--detach", commit)
    pristine = snapshot(root)
    for name in ("kimi-k3-ee560a2", "kimi-k3-f8493a4", "kimi-k3-9acd9cb"):
        done = call("apply", "--target", name, "--tree", root, "--json")
        assert done.code == 0
        assert done.facts["target"] == "kimi-k3-ee560a2"
        paths = sglang.target(name).series.paths
        seen = git(root, "status", "--porcelain", "--ignored", "--untracked-files=all")
        assert sorted(seen.splitlines()) == sorted(
            f" M {path}" if path in pristine else f"?? {path}" for path in paths
        )
        assert call("verify", "--target", name, "--tree", root).code == 0
        assert call("reverse", "--tree", root).code == 0
        assert git(root, "status", "--porcelain", "--ignored") == ""
        assert snapshot(root) == pristine


_METADATA = "Metadata-Version: 2.1\nName: widget-kit\nVersion: 1.0\n"
_WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_BACKEND = f"""
import os, zipfile

def build_editable(folder, settings=None, metadata=None):
    name = "widget_kit-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr("widget_kit.pth", os.path.abspath("src"))
        wheel.writestr("widget_kit-1.0.dist-info/METADATA", {_METADATA!r})
        wheel.writestr("widget_kit-1.0.dist-info/WHEEL", {_WHEEL!r})
        wheel.writestr("widget_kit-1.0.dist-info/RECORD", "")
    return name
"""
_PYPROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""


def test_an_editable_install(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package that Python imports is a checkout: its git directory keeps the receipt."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # of the backend, beside it
    checkout = project.write_checkout(tmp_path / "checkout")
    (checkout / "backend.py").write_text(_BACKEND)
    (checkout / "pyproject.toml").write_text(_PYPROJECT)
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "--message", "packaging")
    python, site = _environment(tmp_path / "venv")
    _pip(python, "install", "--no-deps", "--editable", checkout)
    before = dict(_digests(site))
    where: list[str | Path] = ["--python", python, "--catalog", project.targets]
    done = run("apply", "--target", "w-1.0", *where)
    assert done.code == 0, done.err
    assert contents(checkout / "src") == installed(project.patched["v1.0"])
    assert dict(_digests(site)) == before
    assert len(git(checkout, "status", "--porcelain").splitlines()) == 5
    said = subprocess.run(
        [python, "-B", "-c", "import widget.extra.deep.new as n; print(n.DEEP)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "42\n"
    assert call("reverse", *where).code == 0
    assert git(checkout, "status", "--porcelain", "--ignored") == ""
    _pip(python, "uninstall", "--yes", "widget-kit")
    assert contents(checkout / "src") == installed(project.releases["1.0"])
