"""The bytecode of an image's changed modules, where the whole image does not show it."""

from __future__ import annotations

import subprocess
import sys
import venv
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from pkgtools.build import bytecode
from pkgtools.build.bytecode import compiler
from pkgtools.errors import CheckFailedError, TreeError

if TYPE_CHECKING:
    from pathlib import Path

MODULES = {f"m{number}.py": f"X = {'1 + ' * number}1\n" for number in range(5)}
TAG = sys.implementation.cache_tag
_ALONE = """
import py_compile, sys
py_compile.compile(*sys.argv[1:], invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
"""


def _part(root: Path, modules: dict[str, str]) -> Any:
    for name, source in modules.items():
        (root / name).write_text(source)
    tree = SimpleNamespace(file=root.joinpath, label="an image")
    members = {f"__pycache__/m.{TAG}.pyc": None}
    return SimpleNamespace(root=root, tree=tree, members=members)


def _compiled(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / "__pycache__").iterdir()}


def test_every_changed_module_is_compiled_the_same_each_time(tmp_path: Path) -> None:
    roots = [tmp_path / "one", tmp_path / "two"]
    for root, order in zip(roots, (sorted(MODULES), sorted(MODULES, reverse=True)), strict=True):
        root.mkdir()
        with compiler(_part(root, MODULES)) as compile_again:
            compile_again([*order, "gone.py", "data.txt"])
    found = _compiled(roots[0])
    assert found == _compiled(roots[1])
    assert set(found) == {name.replace(".py", f".{TAG}.pyc") for name in MODULES}
    alone = tmp_path / "alone.pyc"
    arguments = [str(roots[0] / "m4.py"), str(alone), "/m4.py"]
    subprocess.run([sys.executable, "-I", "-c", _ALONE, *arguments], check=True)
    assert found[f"m4.{TAG}.pyc"] == alone.read_bytes()


@pytest.mark.parametrize("bad", MODULES)
def test_a_module_that_does_not_compile_is_refused(bad: str, tmp_path: Path) -> None:
    """Whichever process it falls to."""
    part = _part(tmp_path, {**MODULES, bad: "def (\n"})
    with (
        pytest.raises(CheckFailedError, match="a patched module does not compile") as refused,
        compiler(part) as compile_again,
    ):
        compile_again(list(MODULES))
    assert "invalid syntax" in refused.value.message
    assert refused.value.remedy


def test_a_compiler_that_is_not_needed_ends(tmp_path: Path) -> None:
    with compiler(_part(tmp_path, MODULES)) as compile_again:
        processes = cast("Any", compile_again).args[0]
    assert processes
    assert all(process.returncode is not None for process in processes)


def test_a_base_without_bytecode_needs_no_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)  # no process can start
    part = _part(tmp_path, MODULES)
    part.members = {"__pycache__/m.cpython-30.pyc": None}
    with compiler(part) as compile_again:
        compile_again(list(MODULES))
    assert sorted(tmp_path.iterdir()) == [tmp_path / name for name in MODULES]


@pytest.mark.parametrize(
    ("script", "reason"),
    [("import os; os.abort()", "status -6"), ("raise ImportError('no zlib')", "no zlib")],
)
def test_a_compiler_that_ended_early_is_told(
    script: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not as a pipe that is broken, which a command takes for a reader that is gone."""
    monkeypatch.setattr(bytecode, "_SCRIPT", script)
    with compiler(_part(tmp_path, MODULES)) as compile_again:
        for process in cast("Any", compile_again).args[0]:
            process.wait()
        with pytest.raises(TreeError, match=f"ended early: .*{reason}"):
            compile_again(list(MODULES))


def test_the_environments_pth_files_run_no_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "venv", symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (site / "hook.pth").write_text("import os; os._exit(9)\n")
    assert subprocess.run([python, "-I", "-c", ""], check=False).returncode == 9
    monkeypatch.setattr("sys.executable", str(python))
    (tmp_path / "root").mkdir()
    with compiler(_part(tmp_path / "root", MODULES)) as compile_again:
        compile_again(list(MODULES))
    assert len(_compiled(tmp_path / "root")) == len(MODULES)


def test_a_python_that_does_not_start_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where no process more is allowed."""

    def refuse(*_arguments: object, **_options: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("subprocess.Popen", refuse)
    part = _part(tmp_path, MODULES)
    with pytest.raises(TreeError, match="Resource temporarily") as refused, compiler(part):
        pass
    assert sys.executable in refused.value.message
    assert refused.value.remedy
