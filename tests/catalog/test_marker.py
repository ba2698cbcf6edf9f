"""Targets for some environments: other patches on other Pythons and platforms."""

from __future__ import annotations

import platform
import shutil
import sys
from typing import TYPE_CHECKING

import pytest
from commands import call
from packaging.markers import default_environment
from packaging.tags import Tag, sys_tags
from small import Small, make_small

from pkgtools.catalog.marker import VARIABLES, environment_of_tag, holds
from pkgtools.source.python import environment

if TYPE_CHECKING:
    from pathlib import Path

_HERE = ".".join(platform.python_version_tuple()[:2])
_TARGETS = f"""
[[target]]
name = "this-python"
upstream = "widget"
series = "this"
release = {{ version = "1.0", tag = "v1.0" }}
marker = 'python_version == "{_HERE}"'

[[target]]
name = "older-pythons"
upstream = "widget"
series = "older"
release = {{ version = "1.0", tag = "v1.0" }}
marker = 'python_version < "{_HERE}" and sys_platform != "win32"'
"""


@pytest.fixture
def small(tmp_path: Path) -> Small:
    """Build a release with two targets: one patch for both, one for some Pythons alone."""
    made = make_small(
        tmp_path / "small",
        {"1.0": {"a.py": "A = 1\n", "b.py": "B = 1\n"}},
        [("both", {"a.py": "A = 2\n"}), ("some", {"b.py": "B = 2\n"})],
    )
    shelf = made.series.parent
    for name in ("0001-both.patch", "0002-some.patch"):
        shutil.move(made.series / name, shelf)
    shutil.rmtree(made.series)
    for name, lines in (("this", "../0001-both.patch\n"), ("older", "../0001-both.patch\n")):
        (shelf / name).mkdir()
        (shelf / name / "series").write_text(lines)
    with (shelf / "older/series").open("a") as listing:
        listing.write("../0002-some.patch\n")
    text = made.catalog.read_text().partition("[[target]]")[0]
    made.catalog.write_text(text + _TARGETS)
    done = call("lock", "--catalog", made.catalog, "--wheel", made.wheel("1.0"))
    assert done.code == 0, done.err
    return made


def _unpacked(small: Small) -> Path:
    site = small.root / "site-packages"
    shutil.unpack_archive(small.wheel("1.0"), site, "zip")
    return site


def test_the_target_whose_marker_holds_is_taken(small: Small) -> None:
    where = ("--tree", _unpacked(small), "--catalog", small.catalog)
    done = call("apply", *where, "--json")
    assert done.code == 0, done.err
    assert "this-python" in done.out
    assert (small.root / "site-packages/widget/b.py").read_text() == "B = 1\n"
    assert call("verify", *where).code == 0
    assert call("reverse", *where).code == 0


def test_a_target_for_another_environment_is_refused(small: Small) -> None:
    where = ("--tree", _unpacked(small), "--catalog", small.catalog, "--target", "older-pythons")
    for verb in (("apply",), ("verify", "--dry-run")):
        done = call(*verb, *where)
        assert done.code == 3, done.out
        assert f'python_version < "{_HERE}"' in done.out + done.err
        assert f"has python_version {_HERE}, sys_platform {sys.platform}" in done.out + done.err


def test_every_outcome_has_its_lockfile_and_is_verified(small: Small) -> None:
    """A wheel for every Python is of both targets; one for a Python only of those that fit."""
    options = ("--catalog", small.catalog, "--json", "--wheel")
    done = call("verify", "--dry-run", *options, small.wheel("1.0"), "--target", "older-pythons")
    assert done.code == 0, done.out
    assert call("lock", "--check", *options, small.wheel("1.0")).code == 0
    digits = _HERE.replace(".", "")
    exact = small.wheel("1.0").with_name(f"widget_kit-1.0-cp{digits}-cp{digits}-win_amd64.whl")
    shutil.copy(small.wheel("1.0"), exact)
    out = small.root / "out"
    named = ("--target", "older-pythons")
    done = call("build", "wheel", "-o", out, *named, "--catalog", small.catalog, "--wheel", exact)
    assert done.code == 3, done.out
    assert f"has python_version {_HERE}, sys_platform win32" in done.err
    for target, wheel in (("this-python", exact), ("older-pythons", small.wheel("1.0"))):
        done = call("build", "wheel", "-o", out, *options, wheel, "--target", target)
        assert done.code == 0, done.out


def test_targets_shows_the_marker(small: Small) -> None:
    done = call("targets", "--catalog", small.catalog)
    assert f'  for       python_version == "{_HERE}"\n' in done.out


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        ("python_version <", "is not a marker"),
        ("python_full_version < '3.12'", "a target cannot depend on python_full_version"),
        ("extra == 'x'", "a target cannot depend on extra"),
    ],
)
def test_a_marker_that_no_target_can_have(small: Small, marker: str, said: str) -> None:
    text = small.catalog.read_text().replace(f"'python_version == \"{_HERE}\"'", f'"{marker}"')
    small.catalog.write_text(text)
    done = call("targets", "--catalog", small.catalog)
    assert done.code == 6
    assert said in done.err
    assert "target[0].marker" in done.err


def test_an_interpreter_tells_what_packaging_tells() -> None:
    ours, theirs = environment(sys.executable), {**default_environment()}
    assert ours == {name: theirs[name] for name in VARIABLES}


def test_a_tag_tells_nothing_that_is_not_so() -> None:
    here = environment(sys.executable)
    for tag in sys_tags():
        told = environment_of_tag(tag)
        if tag.interpreter == f"cp{_HERE.replace('.', '')}" and tag.abi == tag.interpreter:
            assert told.items() <= here.items(), tag
            assert len(told) == (len(here) if tag.platform != "any" else 2), tag


@pytest.mark.parametrize(
    ("tag", "marker", "answer"),
    [
        (Tag("py3", "none", "any"), "python_version < '3.12'", None),
        (Tag("cp38", "abi3", "manylinux2014_aarch64"), "python_version < '3.12'", None),
        (Tag("cp38", "abi3", "manylinux2014_aarch64"), "platform_machine == 'aarch64'", True),
        (Tag("cp312", "cp312", "macosx_11_0_universal2"), "platform_machine == 'arm64'", None),
        (Tag("cp312", "cp312", "macosx_11_0_arm64"), "sys_platform == 'darwin'", True),
        (Tag("cp310", "cp310", "win32"), "python_version < '3.9' or os_name == 'nt'", True),
        (Tag("cp310", "cp310", "win_arm64"), "platform_machine == 'ARM64'", True),
        (Tag("cp310", "cp310", "musllinux_1_2_x86_64"), "python_version < '3.9'", False),
        (Tag("pp310", "pypy310_pp73", "any"), "implementation_name == 'pypy'", None),
    ],
)
def test_what_a_wheel_is_for(tag: Tag, marker: str, answer: bool | None) -> None:
    assert holds(marker, environment_of_tag(tag)) is answer
