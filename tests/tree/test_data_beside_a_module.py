"""A patched data file has no bytecode: that of a module of the same stem stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pkgtools.tree.draft import bytecode_of

if TYPE_CHECKING:
    from pathlib import Path


def test_only_a_module_has_bytecode(tmp_path: Path) -> None:
    cache = tmp_path / "__pycache__"
    cache.mkdir()
    compiled = [cache / "a.cpython-311.pyc", cache / "a.cpython-312.opt-1.pyc", tmp_path / "a.pyc"]
    for path in (*compiled, cache / "ab.cpython-311.pyc", cache / "a.txt"):
        path.touch()
    for name in ("a.json", "a.txt", "a.pyi", "a", "a.py.in", "a.so"):
        (tmp_path / name).touch()
        assert list(bytecode_of(tmp_path / name)) == []
    assert list(bytecode_of(tmp_path / "a.py")) == compiled
