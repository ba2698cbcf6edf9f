"""`pkgtools image test`: what it says of a good image, of a bad one, and of bad checks."""

from __future__ import annotations

import compileall
import shutil
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import uuid4
from xml.etree import ElementTree as ET

import pytest
from commands import Result, call
from engine import base_image, docker

from pkgtools.image import checks
from pkgtools.image.checks import _own
from pkgtools.image.layer import FileKind, Member

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from project import Project

_SITE: Final = "/usr/local/lib/python3.11/dist-packages"


@pytest.fixture(scope="module")
def widget(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Install the synthetic upstream's 1.0 in a small image, patch it, and name the result."""
    base = base_image("PKGTOOLS_TEST_BASE_SMALL")
    context = tmp_path_factory.mktemp("context")
    project.install(context / "site", "1.0")
    (context / "Dockerfile").write_text(f"FROM {base}\nCOPY site {_SITE}\n")
    names = [f"pkgtools-test-{uuid4().hex}:{tag}" for tag in ("base", "patched")]
    docker("build", "--quiet", "--tag", names[0], context)
    built = call(
        *("build", "image", "--target", "w-1.0", "--base", names[0], "--tag", names[1]),
        *("--catalog", project.targets),
    )
    assert built.code == 0, built.err
    yield names[1]
    docker("rmi", "--force", *names)


@pytest.fixture
def catalog(project: Project, tmp_path: Path) -> Path:
    """Copy the catalog, and have it name a script of checks that a test writes."""
    targets = project.copy_catalog(tmp_path / "catalog")
    text = targets.read_text().replace('prefix = "src/"', 'prefix = "src/"\nchecks = "own/run.py"')
    targets.write_text(text)
    (targets.parent / "own").mkdir()
    return targets


def _test(image: str, catalog: Path, script: str, *options: str | Path) -> Result:
    (catalog.parent / "own" / "run.py").write_text(script)
    return call("image", "test", image, "--catalog", catalog, *options)


@pytest.mark.engine
def test_a_good_image(widget: str, catalog: Path, tmp_path: Path) -> None:
    (catalog.parent / "own" / "more").mkdir()
    (catalog.parent / "own" / "more" / "words.txt").write_text("widget/core.py")
    script = """
import json, pathlib, sys
words = pathlib.Path(__file__).with_name("more") / "words.txt"  # the folder came whole
assert (pathlib.Path(sys.argv[1]) / words.read_text()).is_file()
assert not pathlib.Path("/sys/class/net/eth0").exists()
print("noise")
print(json.dumps({"name": "mine", "message": None, "seconds": 0.5}))
"""
    before = docker("image", "inspect", widget)
    report = tmp_path / "report.xml"
    done = _test(widget, catalog, script, "--junit", report)
    assert done.code == 0, done.out + done.err
    assert [line.split()[:2] for line in done.out.splitlines()] == [
        ["ok", "identity"],
        ["ok", "compilation"],
        ["ok", "mine"],
    ]
    suite = ET.parse(report).getroot()[0]  # noqa: S314 - it is our own
    assert (suite.get("tests"), suite.get("failures")) == ("3", "0")
    assert docker("image", "inspect", widget) == before
    assert docker("ps", "--all", "--quiet", "--filter", f"ancestor={widget}") == ""


@pytest.mark.engine
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ('print(\'{"name": "run", "message": "no <good>", "seconds": 1}\')', "no <good>"),
        ("print('no check')", "run.py made no check"),
        ("raise SystemExit('broken off')", "broken off"),
        ("import os; os._exit(7)", "status 7"),
    ],
)
def test_checks_that_do_not_hold(
    widget: str, catalog: Path, tmp_path: Path, script: str, message: str
) -> None:
    report = tmp_path / "report.xml"
    done = _test(widget, catalog, script, "--junit", report, "--json")
    assert done.code == 8
    names = {check["name"]: check["message"] for check in done.facts["checks"]}
    assert (done.facts["passed"], done.facts["target"]) == (False, "w-1.0")
    assert names["identity"] is None
    assert message in names["run"]
    (failure,) = ET.parse(report).getroot().iter("failure")  # noqa: S314 - it is our own
    assert message in (failure.text or "")


@pytest.mark.engine
def test_an_image_that_was_edited(widget: str, catalog: Path, tmp_path: Path) -> None:
    edited = f"{widget}-edited"
    (tmp_path / "core.py").write_text("def (\n")
    (tmp_path / "Dockerfile").write_text(f"FROM {widget}\nCOPY core.py {_SITE}/widget/core.py\n")
    docker("build", "--quiet", "--tag", edited, tmp_path)
    good = 'print(\'{"name": "run", "message": null, "seconds": 1}\')'
    try:
        done = _test(edited, catalog, good, "--json")
    finally:
        docker("rmi", "--force", edited)
    assert done.code == 8
    identity, compilation, own = done.facts["checks"]
    assert "core.py" in identity["message"]
    assert "undo the edits" in identity["remedy"]
    assert "invalid syntax" in compilation["message"]
    assert own["message"] is None


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ('{"/a.py": "", "/b.py": ""}', None),
        ('{"/a.py": "", "/b.py": "invalid syntax"}', "/b.py: invalid syntax"),
        ('{"/a.py": ""}', "/b.py: not looked at"),
        ("{}", "/a.py: not looked at"),
        ("[1]", "the image's Python answered '[1]'"),
        ("[" * 100_000, "the image's Python answered '["),
        ("", "the image's Python answered ''"),
    ],
)
def test_what_compilation_makes_of_an_answer(
    answer: str, message: str | None, tmp_path: Path
) -> None:
    """The image's Python may say anything."""

    class Image:
        def run(self, _: object) -> list[str]:
            return ["", answer]

    members = {name: Member(name, FileKind.FILE) for name in ("b.py", "a.py", "tool.sh")}
    part = SimpleNamespace(members=members, tree=SimpleNamespace(home=tmp_path))
    found = checks._compilation(cast("Any", Image()), cast("Any", part))
    assert found == message or (message is not None and (found or "").startswith(message))


@pytest.mark.engine
def test_an_image_on_disk_cannot_run(catalog: Path, tmp_path: Path, widget: str) -> None:
    archive = tmp_path / "image.tar"
    docker("save", "--output", archive, widget)
    done = _test(f"docker-archive:{archive}", catalog, "")
    assert done.code == 2
    assert "docker-daemon:" in done.err


@pytest.mark.engine
def test_a_patched_sglang_holds_and_its_base_does_not() -> None:
    base = base_image("PKGTOOLS_TEST_BASE")
    patched = f"pkgtools-test-{uuid4().hex}:patched"
    try:
        built = call("build", "image", "--target", "v0.5.23", "--base", base, "--tag", patched)
        assert built.code == 0, built.err
        good = call("image", "test", patched, "--json")
        bad = call("image", "test", base, "--target", "v0.5.23", "--json")
    finally:
        docker("rmi", "--force", patched)
    assert good.code == 0, good.out
    assert (good.facts["passed"], good.facts["target"]) == (True, "v0.5.23")
    found, held = (
        {check["name"]: check["message"] is None for check in done.facts["checks"]}
        for done in (good, bad)
    )
    assert found.keys() == held.keys()
    assert bad.code == 8
    # 0.5.23 has the 64-bit offsets itself, and its files compile.
    assert {name for name in held if held[name]} == {"compilation", "guard-offsets"}


@pytest.mark.engine
def test_a_base_that_does_not_serve() -> None:
    """The release is installed in it, and nothing that it needs."""
    base = base_image("PKGTOOLS_TEST_BASE_SMALL")
    done = call("image", "test", base, "--target", "v0.5.23", "--json")
    checks = {check["name"]: check for check in done.facts["checks"]}
    assert checks.pop("compilation")["message"] is None
    assert "pkgtools apply --target v0.5.23" in checks.pop("identity")["remedy"]
    assert len(checks) == 5
    for check in checks.values():
        assert "ModuleNotFoundError" in check["message"]
        assert "build on a base that serves" in check["remedy"]


def test_the_packaged_catalog_brings_its_checks_and_recipes(tmp_path: Path) -> None:
    """A wheel of pkgtools, installed anywhere, can test an image, and its report is whole."""
    from pkgtools.catalog import find_catalog  # noqa: PLC0415
    from pkgtools.cli.report import _recipes  # noqa: PLC0415

    root = find_catalog(tmp_path).parent
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    subprocess.run([*build, "--directory", tmp_path], cwd=root, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    shutil.unpack_archive(wheel, tmp_path / "unpacked", "zip")
    packaged = tmp_path / "unpacked" / "pkgtools" / "_catalog"
    # As an installer does; the added files of a series are the same with bytecode beside them.
    assert compileall.compile_dir(packaged / "patches", quiet=1)
    assert list((packaged / "patches").rglob("*.pyc"))
    done = call("targets", "--catalog", packaged / "targets.toml", "--json")
    assert done.code == 0, done.err
    assert done.facts == call("targets", "--catalog", root / "targets.toml", "--json").facts
    assert (packaged / "checks" / "guards" / "proofs.py").is_file()
    assert _recipes(packaged).keys() == _recipes(root).keys() != set()


def test_a_line_that_is_nested_too_deep_is_no_check(tmp_path: Path) -> None:
    lines = ['{"x":' + "[" * 100_000, '{"name": "a", "message": null, "seconds": 1}']
    image: Any = SimpleNamespace(run=lambda *_: iter(lines))
    (check,) = _own(image, tmp_path / "inside.py", "/site")
    assert (check.name, check.message) == ("a", None)
