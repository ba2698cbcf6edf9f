"""A series must not break what compiled; what did not compile before is not its fault."""

from __future__ import annotations

import sys
import zipfile
from typing import TYPE_CHECKING

import pytest
from catalogs import write_catalog
from commands import call
from scenarios import make_tree
from small import make_small
from trees import snapshot

from pkgtools.blob import Blob
from pkgtools.errors import DoesNotApplyError
from pkgtools.patch import parse_patch
from pkgtools.plan import plan_series
from pkgtools.plan.compiling import broken_by
from pkgtools.source import WheelSource, find_tree
from pkgtools.tree.runtime import compile_and_remember, compile_for

if TYPE_CHECKING:
    from pathlib import Path

    from project import Project

    from pkgtools.source import Tree

_CORE = "widget/core.py"


def test_lock_refuses_what_does_not_compile_any_more(project: Project, tmp_path: Path) -> None:
    broken = {_CORE: ("total = 0", "total = = 0")}
    with pytest.raises(DoesNotApplyError) as caught:
        write_catalog(project, tmp_path / "c", broken)
    said = caught.value.message
    assert "src/widget/core.py of widget_kit-1.0-py3-none-any.whl compiles, and does not" in said
    assert "after other.patch: invalid syntax" in said


@pytest.mark.parametrize(
    ("before", "path", "expected"),
    [
        (b"one = 1\n", "a.py", ["a.py"]),
        (b"{{ one }} = 1\n", "a.py", []),  # a template
        (b"print 1\n", "a.py", []),  # another Python's
        (b"one = 1\n", "a.txt", []),
    ],
)
def test_only_what_compiled_before_is_broken(before: bytes, path: str, expected: list[str]) -> None:
    diff = b"--- a/%s\n+++ b/%s\n@@ -1 +1,2 @@\n %s+two = = 2\n"
    patch = parse_patch("x.patch", diff % (path.encode(), path.encode(), before))
    plan = plan_series([patch], lambda name: Blob(before) if name == path else None)
    assert plan.ok
    assert [change.path for change, _ in broken_by(plan)] == expected


def test_two_series_that_break_each_other_are_refused(project: Project, tmp_path: Path) -> None:
    """Each compiles on its own, and every hunk of the second has its place."""
    tree = make_tree(project, "site", tmp_path)
    parameter = {_CORE: ("values, factor):", "values, factor, extra=None):")}
    variable = {_CORE: ("return total\n", "return total\n    global extra\n    extra = 1\n")}
    first = write_catalog(project, tmp_path / "a", parameter, target="first")
    second = write_catalog(project, tmp_path / "b", variable, target="later")
    assert call("apply", "--tree", tree.root, "--catalog", first).code == 0
    before = snapshot(tree.root)
    done = call("apply", "-t", "later", "--tree", tree.root, "--catalog", second)
    assert done.code == 3
    assert "core.py does not compile any more: name 'extra' is parameter and global" in done.err
    assert snapshot(tree.root) == before


_WALRUS = {_CORE: ("total = 0", "total = (first := 0)")}
"""Python 3.8 has it (PEP 572)."""
_OLD_PYTHON = """\
#!/bin/sh
case $1 in
  -c) echo '["{site}/'$3'"]' ;;
  *) exec {python} -I -c 'import ast, builtins, sys
real = compile
builtins.compile = lambda text, path, mode, dont_inherit: real(
    text, path, mode, ast.PyCF_ONLY_AST, _feature_version=7)
exec(sys.argv[1])' "$3" ;;
esac
"""


@pytest.fixture
def walrus(project: Project, tmp_path: Path) -> tuple[Tree, Path]:
    """Install widget for an old Python, and make a catalog that is proven on this one."""
    catalog = write_catalog(project, tmp_path / "c", _WALRUS)
    root = tmp_path / "env/lib/python3.7/site-packages"
    project.install(root)
    python = tmp_path / "env/bin/python"
    python.parent.mkdir()
    python.write_text(_OLD_PYTHON.format(site=root, python=sys.executable))
    python.chmod(0o755)
    return find_tree(root, project.catalog().upstreams[0]), catalog


@pytest.mark.parametrize("verb", [("verify", "--dry-run"), ("apply",)])
def test_the_python_of_the_environment_compiles(
    verb: tuple[str, ...], walrus: tuple[Tree, Path], tmp_path: Path
) -> None:
    tree, catalog = walrus
    before = snapshot(tree.root)
    places = (("--tree", tree.root), ("--python", tmp_path / "env/bin/python"))
    for place in places:
        done = call(*verb, *place, "--catalog", catalog)
        assert done.code == 3, done
        assert "core.py of " in done.out + done.err
        assert "compiles, and does not after other.patch" in done.out + done.err
        assert "next: correct the patch" in done.out + done.err
        assert snapshot(tree.root) == before
    (tmp_path / "env/bin/python").unlink()  # and there is no other: this one has to do
    assert call(*verb, *places[0], "--catalog", catalog).code == 0


def test_a_patched_tree_of_an_older_python_fails_verify(
    walrus: tuple[Tree, Path], tmp_path: Path
) -> None:
    """With a receipt, and without one."""
    tree, catalog = walrus
    python = tmp_path / "env/bin/python"
    python.rename(tmp_path / "away")
    place = ("--tree", tree.root, "--catalog", catalog)
    assert call("apply", *place).code == 0
    (tmp_path / "away").rename(python)
    done = call("verify", *place)
    assert (done.code, "core.py does not compile" in done.err) == (8, True)
    (tree.home / "pkgtools.json").unlink()
    assert call("verify", "--series-only", *place).code == 8


@pytest.mark.parametrize("required", [">=3.99", "<3", "nonsense", ">=3.8", ""])
def test_a_wheel_says_which_python_it_is_for(
    required: str, project: Project, tmp_path: Path
) -> None:
    """Of a Python that is not there nothing is known, and nothing is blamed."""
    lines = f"Name: widget-kit\nVersion: 1.0\nRequires-Python: {required}\n"
    path = tmp_path / project.wheel("1.0").name
    with zipfile.ZipFile(project.wheel("1.0")) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            data = lines.encode() if name.endswith("/METADATA") else old.read(name)
            new.writestr(name, data)
    source = WheelSource(path, project.catalog().upstreams[0])
    files = {"x.py": Blob(b"x = = 1\n"), "y.py": Blob(b"y = 1\n")}
    is_here = required in ("nonsense", ">=3.8", "")
    assert list(compile_for(source)(files)) == (["x.py"] if is_here else [])


_MATCH = b"match 1:\n    case 1: pass\n"
"""Python 3.10 has it (PEP 634)."""


@pytest.mark.parametrize(("required", "errors"), [(">=3.9", ["m.py"]), (">=3.10", [])])
def test_syntax_that_not_every_allowed_python_has(
    required: str, errors: list[str], project: Project, tmp_path: Path
) -> None:
    tree = make_tree(project, "archive", tmp_path)
    (tree.root / "pyproject.toml").write_text(f'[project]\nrequires-python = "{required}"\n')
    files = {"m.py": Blob(_MATCH), "x.py": Blob(b"x = 1\n")}
    assert list(compile_for(tree)(files)) == errors


def test_a_port_to_a_release_for_older_pythons_is_refused(tmp_path: Path) -> None:
    edits = [("one", {"a.py": _MATCH.decode()})]
    small = make_small(tmp_path / "s", {"1.0": {"a.py": ""}, "1.1": {"a.py": ""}}, edits)
    wheel = small.wheel("1.1")
    with zipfile.ZipFile(wheel) as old:
        files = {name: old.read(name) for name in old.namelist()}
    for required, code in ((">=3.9", 3), (">=3.10", 0)):
        with zipfile.ZipFile(wheel, "w") as new:
            for name, data in files.items():
                added = f"Requires-Python: {required}\n".encode()
                new.writestr(name, added + data if name.endswith("/METADATA") else data)
        done = small.port("--series", "one", "--to", wheel, "-o", tmp_path / "new")
        assert done.code == code, done
        assert (tmp_path / "new").exists() == (code == 0)
        said = "src/widget/a.py of widget_kit-1.1-py3-none-any.whl does not compile after 0001-one"
        assert (said in done.err) == (code == 3)


def test_a_checkout_says_which_python_it_is_for(project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, "archive", tmp_path)
    files = {"x.py": Blob(b"x = = 1\n")}
    assert list(compile_for(tree)(files)) == ["x.py"]
    (tree.root / "pyproject.toml").write_text('[project]\nrequires-python = ">=3.99"\n')
    assert compile_for(tree)(files) == {}


def test_what_compiles_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    files = {"x.py": Blob(b"x = = 1\n"), "y.py": Blob(b"y = 1\n")}
    assert list(compile_and_remember(files)) == ["x.py"]
    (path,) = (tmp_path / "pkgtools/compiled").iterdir()
    assert path.read_text().split() == [files["y.py"].id]
    assert list(compile_and_remember(files)) == ["x.py"]
    assert path.read_text().split() == [files["y.py"].id]


def test_a_new_file_that_does_not_compile_is_not_said_to_have_compiled(tmp_path: Path) -> None:
    small = make_small(tmp_path, {"1.0": {"a.py": "A = 1\n"}}, [("one", {"t.py": "{{ a }} = 1\n"})])
    done = call("lock", "--catalog", small.catalog, "--wheel", small.wheel("1.0"))
    assert done.code == 3, done
    assert "src/widget/t.py, which 0001-one.patch adds, does not compile: " in done.err
