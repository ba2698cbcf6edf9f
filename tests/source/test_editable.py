"""Editable installs of each build backend: the checkout is what is patched, or the reason is said.

``make test`` installs the backends into the folder that ``PKGTOOLS_BACKENDS`` names::

    pip install --target DIR --group backends
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from project import git

from pkgtools.catalog import Upstream
from pkgtools.errors import PkgtoolsError, TreeError, UsageError
from pkgtools.source import find_tree
from pkgtools.source.python import find_package

if TYPE_CHECKING:
    from collections.abc import Mapping

BACKENDS = Path(os.environ.get("PKGTOOLS_BACKENDS", "/nonexistent"))


@dataclass(frozen=True)
class Backend:
    """A build backend, and how it is told to install a project as editable."""

    module: str
    toml: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    prefix: str = "src/"
    refusal: str | None = None
    """What is said where the checkout cannot be patched through it."""


_FOUND = {
    "setuptools": Backend("setuptools.build_meta"),
    "setuptools, flat": Backend("setuptools.build_meta", prefix=""),
    "setuptools, compat": Backend("setuptools.build_meta", settings={"editable_mode": "compat"}),
    "setuptools, strict": Backend(
        "setuptools.build_meta",
        settings={"editable_mode": "strict"},
        refusal="an editable install of setuptools in its strict mode",
    ),
    "hatchling": Backend(
        "hatchling.build", '[tool.hatch.build.targets.wheel]\npackages = ["src/widget"]\n'
    ),
    "hatchling, exact": Backend(
        "hatchling.build",
        '[tool.hatch.build.targets.wheel]\npackages = ["src/widget"]\ndev-mode-exact = true\n',
    ),
    "pdm": Backend("pdm.backend"),
    "pdm, editables": Backend("pdm.backend", '[tool.pdm.build]\neditable-backend = "editables"\n'),
    "flit": Backend("flit_core.buildapi", '[tool.flit.module]\nname = "widget"\n'),
    "poetry": Backend(
        "poetry.core.masonry.api",
        '[tool.poetry]\npackages = [{ include = "widget", from = "src" }]\n',
    ),
    "uv": Backend("uv_build", '[tool.uv.build-backend]\nmodule-name = "widget"\n'),
    "meson-python": Backend("mesonpy", refusal="is imported by a loader, not from a folder"),
}
_MESON = """\
project('widget-kit', version: '1.0')
import('python').find_installation(pure: true).install_sources(
  ['src/widget/__init__.py'], subdir: 'widget')
"""


def _checkout(root: Path, backend: Backend) -> Path:
    package = root / backend.prefix / "widget"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('"""Widgets."""\n')
    (root / "meson.build").write_text(_MESON)
    (root / "pyproject.toml").write_text(
        f'[build-system]\nrequires = []\nbuild-backend = "{backend.module}"\n'
        f'[project]\nname = "widget-kit"\nversion = "1.0"\ndescription = "x"\n{backend.toml}'
    )
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "one")
    return root


def _install(checkout: Path, backend: Backend, where: Path) -> Path:
    """Do what pip does for ``pip install --editable``, and return the interpreter (PEP 660)."""
    (checkout / "dist").mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", where], check=True)
    python = where / "bin/python"
    code = f"import {backend.module} as b; print(b.build_editable('dist', {backend.settings!r}))"
    path = f"{BACKENDS / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        [python, "-c", code],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(BACKENDS), "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (site,) = (where / "lib").glob("python*/site-packages")
    with zipfile.ZipFile(checkout / "dist" / done.stdout.strip().splitlines()[-1]) as wheel:
        wheel.extractall(site)
    shutil.copytree(BACKENDS / "editables", site / "editables")
    return python


@pytest.mark.skipif(
    not BACKENDS.is_dir(), reason="PKGTOOLS_BACKENDS is not a folder: `make test` makes it"
)
@pytest.mark.parametrize("name", _FOUND)
def test_an_editable_install_is_its_checkout_or_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    backend = _FOUND[name]
    checkout = _checkout(tmp_path / "checkout", backend)
    python = _install(checkout, backend, tmp_path / "venv")
    upstream = Upstream("widget", "-", "widget-kit", "widget", backend.prefix)
    if backend.refusal is not None:
        with pytest.raises(PkgtoolsError, match=backend.refusal) as refused:
            find_tree(find_package(str(python), "widget") or tmp_path, upstream)
        assert refused.value.remedy is not None
        return
    folder = find_package(str(python), "widget")
    assert folder == checkout / backend.prefix / "widget"
    imported = subprocess.run(
        [python, "-c", "import widget; print(widget.__file__)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(imported.stdout.strip()) == folder / "__init__.py"
    tree = find_tree(folder, upstream)
    assert (tree.root, tree.is_checkout) == (checkout, True)
    assert tree.home == checkout / ".git/pkgtools"


def test_links_of_setuptools_are_refused(tmp_path: Path) -> None:
    """What its strict mode makes: a folder of links in the checkout, named in a .pth file."""
    checkout = _checkout(tmp_path / "checkout", Backend("setuptools.build_meta"))
    links = checkout / "build/__editable__.widget_kit-1.0-py3-none-any"
    (links / "widget").mkdir(parents=True)
    (links / "widget/__init__.py").hardlink_to(checkout / "src/widget/__init__.py")
    upstream = Upstream("widget", "-", "widget-kit", "widget", "src/")
    for given in (links, links / "widget"):
        with pytest.raises(TreeError, match="in its strict mode") as refused:
            find_tree(given, upstream)
        assert f"--tree {checkout}" in str(refused.value.remedy)


def test_a_loader_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As meson-python's: the place that it tells is none."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.machinery as m, sys\n"
        "class F:\n"
        "  def find_spec(self, name, path=None, target=None):\n"
        "    spec = m.ModuleSpec(name, None, is_package=True) if name == 'widget' else None\n"
        "    if spec: spec.submodule_search_locations = [__file__ + '/widget']\n"
        "    return spec\n"
        "sys.meta_path.insert(0, F())\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(UsageError, match="imported by a loader, not from a folder") as refused:
        find_package(sys.executable, "widget")
    assert "--tree" in str(refused.value.remedy)
