"""Distributions of every shape: one module, several packages, stubs, namespaces, any layout."""

from __future__ import annotations

import json
import shutil
import zipfile
from dataclasses import dataclass, field
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from commands import call, python
from image.images import SITE, entries_of, tar, unpack, write_layout
from project import compile_module, git, record_row
from trees import contents

from pkgtools.catalog import load_catalog
from pkgtools.image.checks import _compilation
from pkgtools.image.inside import FIND
from pkgtools.image.reference import open_image
from pkgtools.image.tree import extracted, query_of
from pkgtools.source.python import find_package

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Shape:
    """What a distribution holds, and what a patch does to it."""

    package: str
    before: Mapping[str, str]
    """The files by their names in the wheel."""
    after: Mapping[str, str | None]
    """What the patch makes of some; None removes one."""
    prefix: str = "src/"
    layout: Mapping[str, str] = field(default_factory=dict)

    def in_source(self, name: str) -> str:
        """Return a file's place in the source tree."""
        for source, wheel in self.layout.items():
            if name.startswith(wheel):
                return source + name.removeprefix(wheel)
        return self.prefix + name


SHAPES = {
    "module": Shape("widget", {"widget.py": "A = 1\n"}, {"widget.py": "A = 2\n"}),
    "flat module": Shape("widget", {"widget.py": "A = 1\n"}, {"widget.py": "A = 2\n"}, ""),
    "two packages": Shape(
        "widget",
        {"widget/__init__.py": "A = 1\n", "other/__init__.py": "B = 1\n", "third.py": "C = 1\n"},
        {
            "widget/__init__.py": "A = 2\n",
            "other/__init__.py": "B = 2\n",
            "other/new.py": "D = 1\n",
            "third.py": "C = 2\n",
        },
    ),
    "a package goes": Shape(
        "widget",
        {"widget/__init__.py": "A = 1\n", "other/__init__.py": "B = 1\n", "third.py": "C = 1\n"},
        {"other/__init__.py": None, "third.py": None},
    ),
    "stubs": Shape(
        "widget-stubs",
        {"widget-stubs/__init__.pyi": "A: int\n", "widget-stubs/a.pyi": "B: int\n"},
        {"widget-stubs/a.pyi": "B: str\n", "widget-stubs/b.pyi": "C: int\n"},
    ),
    "namespace": Shape(
        "widget",
        {"widget/part/__init__.py": "A = 1\n", "widget/part/a.py": "B = 1\n"},
        {"widget/part/a.py": "B = 2\n", "widget/part/b.py": "C = 1\n"},
    ),
    "data that looks like code": Shape(
        "widget",
        {
            "widget/__init__.py": "A = 1\n",
            "widget/csrc/a.cu": "// 1\n",
            "widget/template/t.py": "{{ a }} = 1\n",
        },
        {
            "widget/csrc/a.cu": "// 2\n",
            "widget/csrc/b.cu": "// 3\n",
            "widget/csrc/new/c.cu": "// 4\n",
            "widget/template/t.py": "{{ a }} = 2\n",
        },
    ),
    "two folders of prefix": Shape(
        "widget",
        {"widget/__init__.py": "A = 1\n"},
        {"widget/__init__.py": "A = 2\n"},
        "python/lib/",
    ),
    "a folder of another name": Shape(
        "widget",
        {"widget/__init__.py": "A = 1\n", "widget/a.py": "B = 1\n"},
        {"widget/a.py": "B = 2\n", "widget/b.py": "C = 1\n"},
        "",
        {"lib/w/": "widget/"},
    ),
    "two folders": Shape(
        "widget",
        {"widget/__init__.py": "A = 1\n", "other/a.py": "B = 1\n", "other/part/c.py": "C = 1\n"},
        {"widget/__init__.py": "A = 2\n", "other/a.py": "B = 2\n", "other/part/c.py": "C = 2\n"},
        layout={"kernel/python/other/": "other/", "parts/": "other/part/"},
    ),
}


@dataclass(frozen=True)
class Life:
    """A wheel, a checkout, a catalog with one target, and the tree that it should make."""

    shape: Shape
    root: Path
    wheel: Path
    targets: Path
    checkout: Path

    def call(self, *words: str | Path) -> str:
        """Run a command that has to succeed."""
        done = call(*words, "--catalog", self.targets)
        assert done.code == 0, done.out + done.err
        return done.out

    def holds(self, where: Path, *, patched: bool, source: bool = False) -> None:
        """Hold a tree against what it should be."""
        files = {**self.shape.before, **(self.shape.after if patched else {})}
        for name in {*self.shape.before, *self.shape.after}:
            path = where / (self.shape.in_source(name) if source else name)
            assert (path.read_text() if path.is_file() else None) == files.get(name), name


def _wheel(folder: Path, files: Mapping[str, str]) -> Path:
    info = "widget_kit-1.0.dist-info"
    members = {
        **files,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: widget-kit\nVersion: 1.0\n",
    }
    members[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    rows = b"".join(record_row(name, text.encode()) for name, text in members.items())
    members[f"{info}/RECORD"] = rows.decode() + f"{info}/RECORD,,\n"
    path = folder / "widget_kit-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


@pytest.fixture(scope="module", params=SHAPES)
def upstream(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Life:
    """Build the upstream and its catalog, once for each shape."""
    shape = SHAPES[request.param]
    root = tmp_path_factory.mktemp("upstream")
    checkout = root / "checkout"
    checkout.mkdir()
    git(checkout, "init", "--quiet")
    for files in (shape.before, shape.after):
        for name, text in files.items():
            path = checkout / shape.in_source(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            if text is not None:
                path.write_text(text)
        git(checkout, "add", "--all")
        git(checkout, "commit", "--quiet", "--message", "one")
    series = root / "catalog/patches/widget/one"
    series.mkdir(parents=True)
    (series / "1.patch").write_text(git(checkout, "format-patch", "-1", "--stdout"))
    (series / "series").write_text("1.patch\n")
    git(checkout, "checkout", "--quiet", "HEAD^")
    git(checkout, "tag", "v1.0")
    layout = [f'"{source}" = "{wheel}"' for source, wheel in shape.layout.items()]
    targets = root / "catalog/targets.toml"
    targets.write_text(
        'default = "one"\n[[upstream]]\nname = "widget"\ngit = "https://git.example.invalid/widget"\n'
        f'distribution = "widget-kit"\npackage = "{shape.package}"\nprefix = "{shape.prefix}"\n'
        f"layout = {{ {', '.join(layout)} }}\n"
        '[[target]]\nname = "one"\nupstream = "widget"\nseries = "one"\n'
        'release = { version = "1.0", tag = "v1.0" }\n'
    )
    made = Life(shape, root, _wheel(root, shape.before), targets, checkout)
    made.call("lock", "--wheel", made.wheel)
    return made


@pytest.fixture
def life(upstream: Life, tmp_path: Path) -> Life:
    """Copy the upstream and its catalog, to be changed."""
    shutil.copytree(upstream.root, tmp_path, symlinks=True, dirs_exist_ok=True)
    wheel, targets, checkout = (
        tmp_path / path.relative_to(upstream.root)
        for path in (upstream.wheel, upstream.targets, upstream.checkout)
    )
    return Life(upstream.shape, tmp_path, wheel, targets, checkout)


def _site(life: Life, wheel: Path) -> Path:
    site = life.root / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def test_an_installed_distribution(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    site = _site(life, life.wheel)
    before = contents(site)
    tree = ("--tree", site)
    life.call("verify", "--dry-run", *tree)
    life.call("apply", *tree)
    life.holds(site, patched=True)
    life.call("verify", *tree)
    rows = {
        line.split(",")[0]
        for line in (site / "widget_kit-1.0.dist-info/RECORD").read_text().split()
    }
    assert rows == {p.relative_to(site).as_posix() for p in site.rglob("*") if p.is_file()}
    life.call("status", *tree)
    life.call("reverse", *tree)
    assert contents(site) == before
    monkeypatch.setenv("PYTHONPATH", str(site))
    place = find_package(None, life.shape.package)
    assert place in (site / life.shape.package, site / "widget.py", site / "widget/__init__.py")
    life.call("apply", "--tree", place)
    life.holds(site, patched=True)


def test_a_wheel(life: Life) -> None:
    life.call("build", "wheel", "--wheel", life.wheel, "-o", life.root / "out")
    (made,) = (life.root / "out").glob("*.whl")
    site = _site(life, made)
    life.holds(site, patched=True)
    rows = {
        line.split(",")[0] for line in next(site.glob("*.dist-info/RECORD")).read_text().split()
    }
    assert rows == {p.relative_to(site).as_posix() for p in site.rglob("*") if p.is_file()}


def test_a_checkout(life: Life) -> None:
    life.call("lock", "--check", "--git", life.checkout)
    life.call("apply", "--tree", life.checkout)
    life.holds(life.checkout, source=True, patched=True)
    life.call("verify", "--tree", life.checkout)
    life.call("reverse", "--tree", life.checkout)
    life.holds(life.checkout, source=True, patched=False)
    assert git(life.checkout, "status", "--porcelain") == ""


def test_a_source_tree_without_git(life: Life) -> None:
    """An unpacked sdist, or `COPY . .` in a Dockerfile."""
    flat = life.root / "flat"
    for name, text in life.shape.before.items():
        path = flat / life.shape.in_source(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    life.call("apply", "--tree", flat)
    life.holds(flat, source=True, patched=True)
    life.call("reverse", "--tree", flat)
    life.holds(flat, source=True, patched=False)


def test_an_image(life: Life) -> None:
    """The package manager's bytecode is listed, and another package's lies beside it."""
    site = _site(life, life.wheel)
    for path in sorted(site.rglob("*.py")):
        if not path.read_text().startswith("{{"):  # pip passes over what does not compile
            compile_module(path)
    (site / "__pycache__").mkdir(exist_ok=True)
    (site / "__pycache__/beside.cpython-312.pyc").write_bytes(b"")
    base = write_layout(life.root / "layout", [tar(entries_of(site))])
    life.call("build", "image", "--base", base, "--tag", f"oci:{life.root / 'layout'}:new")
    unpack(f"oci:{life.root / 'layout'}:new", life.root / "rootfs")
    made = life.root / "rootfs" / SITE
    life.holds(made, patched=True)
    assert (made / "__pycache__/beside.cpython-312.pyc").exists()
    life.call("image", "inspect", f"oci:{life.root / 'layout'}:new")
    catalog = load_catalog(life.targets)
    query = query_of(catalog, catalog.upstreams[0])
    with (
        open_image(f"oci:{life.root / 'layout'}:new") as image,
        extracted(image, query, image.find(query)) as part,
    ):
        assert _compilation(cast("Any", _Python(life.root / "rootfs")), part) is None


@dataclass(frozen=True)
class _Python:
    """The Python of an image that was unpacked."""

    root: Path

    def run(self, words: list[str]) -> list[str]:
        option, code, *paths = words
        assert option == "-c"
        said = python(code, *(f"{self.root}{path}" for path in paths))
        return said.replace(str(self.root), "").splitlines()


@pytest.mark.parametrize("upstream", ["module", "two packages"], indirect=True)
@pytest.mark.parametrize("suffix", EXTENSION_SUFFIXES)
def test_a_single_module_behind_an_extension_module_in_an_image(life: Life, suffix: str) -> None:
    module = "third" if "third.py" in life.shape.after else "widget"
    site = _site(life, life.wheel)
    with (site / "widget_kit-1.0.dist-info/RECORD").open("ab") as record:
        for name in (f"{module}{suffix}", f"{module}s{suffix}"):
            (site / name).write_bytes(b"\x7fELF")
            record.write(record_row(name, b"\x7fELF"))
    code = f"import importlib.util as u; print(u.find_spec({module!r}).origin)"
    assert python(code, cwd=site).strip() == str(site / f"{module}{suffix}")  # what Python says
    entries = entries_of(site)
    modules = [entry for entry in entries if entry.path.endswith(".so")]
    rest = [entry for entry in entries if entry not in modules]
    for name, layers in {"one": [entries], "below": [modules, rest]}.items():
        base = write_layout(life.root / name, [tar(layer) for layer in layers])
        words = ("--base", base, "--tag", f"{base}:new", "--catalog", life.targets)
        done = call("build", "image", *words)
        assert done.code == 3, done.out + done.err
        assert f"{module}.py is compiled into {module}{suffix}" in done.err
    base = write_layout(life.root / "others", [tar([e for e in entries if e != modules[0]])])
    life.call("build", "image", "--base", base, "--tag", f"oci:{life.root / 'others'}:new")


@pytest.mark.parametrize("upstream", ["module", "two packages"], indirect=True)
def test_an_images_python_names_what_hides_a_single_module(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = _site(life, life.wheel)
    hiding = {f"{path.stem}.abi3.so" for path in site.glob("*.py")}
    for name in hiding:
        (site / name).write_bytes(b"\x7fELF")
    monkeypatch.setenv("PYTHONPATH", str(site))
    said = python(FIND, life.shape.package, "", json.dumps(sorted(life.shape.before)), "[]")
    folders, names = (json.loads(line) for line in [*filter(None, said.splitlines())][-3:-1])
    assert folders == [str(site)]
    assert hiding <= {Path(name).name for name in names}
