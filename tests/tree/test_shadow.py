"""Extension modules that hide a patched file are named by every command."""

from __future__ import annotations

import shutil
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import call, python
from project import record_row
from scenarios import apply, make_tree
from trees import snapshot

if TYPE_CHECKING:
    from project import Project

    from pkgtools.source import Tree


def _shadow(tree: Tree, suffix: str) -> None:
    """Put an extension module beside widget/answer.py, as a wheel of compiled Python has it."""
    module = tree.root / tree.name(f"src/widget/answer{suffix}")
    module.write_bytes(b"\x7fELF")
    if tree.dist_info is not None:
        with (tree.dist_info / "RECORD").open("ab") as record:
            record.write(record_row(f"widget/{module.name}", b"\x7fELF"))


@pytest.mark.parametrize("suffix", EXTENSION_SUFFIXES)
def test_an_installed_extension_module_is_named(
    suffix: str, project: Project, tmp_path: Path
) -> None:
    tree = make_tree(project, "site", tmp_path)
    found = "import importlib.util as u; print(u.find_spec('widget.answer').origin)"
    assert python(found, cwd=tree.root).strip().endswith("answer.py")
    _shadow(tree, suffix)
    assert python(found, cwd=tree.root).strip().endswith(suffix)  # what Python says
    before = snapshot(tmp_path)
    where = ("--tree", tree.root, "--catalog", project.targets)
    for command in (("apply", "-t", "w-1.0"), ("verify", "--dry-run")):
        done = call(*command, *where)
        assert done.code == 3, command
        assert f"src/widget/answer.py is compiled into answer{suffix}" in done.out + done.err
    assert snapshot(tmp_path) == before


def test_one_that_came_later_fails_verify(project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, "site", tmp_path)
    apply(project, tree)
    _shadow(tree, ".abi3.so")
    done = call("verify", "--tree", tree.root, "--catalog", project.targets)
    assert done.code == 8
    assert "answer.abi3.so, which Python imports instead" in done.err
    where = ("--tree", tree.root, "--catalog", project.targets)
    shown = call("status", *where)
    assert "note: src/widget/answer.py is compiled into answer.abi3.so" in shown.out
    named = call("identify", *where)
    assert "note: src/widget/answer.py is compiled into answer.abi3.so" in named.out
    facts = call("identify", *where, "--json").facts
    assert facts["shadowed"] == {"src/widget/answer.py": "answer.abi3.so"}
    (tree.home / "pkgtools.json").unlink()
    adopted = call("adopt", "-t", "w-1.0", *where)
    assert adopted.code == 0
    assert "note: src/widget/answer.py is compiled into answer.abi3.so" in adopted.err


def test_in_a_wheel_it_is_named(project: Project, tmp_path: Path) -> None:
    built = call(
        *("build", "wheel", "-t", "w-1.0", "--wheel", project.wheel("1.0"), "-o", tmp_path),
        *("--catalog", project.targets, "--json"),
    )
    patched = Path(built.facts["path"])
    pristine = project.wheel("1.0")
    for wheel, verb in ((pristine, "lock"), (patched, "verify"), (patched, "identify")):
        copy = tmp_path / "copy" / wheel.name
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(wheel, copy)
        with zipfile.ZipFile(copy, "a") as archive:
            archive.writestr("widget/answer.abi3.so", b"\x7fELF")
        more = ("-t", "w-1.0") if verb == "lock" else ()
        targets = project.copy_catalog(tmp_path / verb)
        done = call(verb, "--wheel", copy, "--catalog", targets, *more)
        said = done.out + done.err
        assert "src/widget/answer.py is compiled into widget/answer.abi3.so" in said
        assert (done.code == 0) == (verb != "verify")


def test_in_a_checkout_it_is_to_be_built_again(project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, "checkout", tmp_path)
    _shadow(tree, ".abi3.so")
    done = call("apply", "-t", "w-1.0", "--tree", tree.root, "--catalog", project.targets)
    assert done.code == 0
    assert "note: src/widget/answer.py is compiled into answer.abi3.so" in done.err
