"""The commands about images, as a person and a program see them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import call

from .building import SYSTEM, build, bytes_of, write_base
from .images import SITE, Entry, read, symlink, tar, write_layout

if TYPE_CHECKING:
    from project import Project

DOCS = Path(__file__).resolve().parents[2] / "docs" / "json.md"


def _documented(command: str) -> set[str]:
    """Return the keys that docs/json.md gives a command."""
    (row,) = re.findall(rf"^\| `{command}` \| (.*) \|$", DOCS.read_text(), re.MULTILINE)
    said = re.sub(r"\([^)]*\)", "", row)
    return set(re.findall(r"`([a-z_]+)`", said))


def test_what_json_holds_is_documented(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    base = write_base(tmp_path / "layout", [SYSTEM, widget])
    where = ("--json", "--catalog", project.targets)
    built = call("build", "image", "--target", "w-1.0", "--base", base, *where)
    assert set(built.facts) == _documented("build image")
    inspected = call("image", "inspect", built.facts["reference"], *where)
    assert set(inspected.facts) == _documented("image inspect")
    assert "patching oci:" in built.err
    assert "reading oci:" in inspected.err


def test_what_a_person_sees(project: Project, widget: list[Entry], tmp_path: Path) -> None:
    base = write_base(tmp_path / "layout", [SYSTEM, widget])
    done = call("build", "image", "-t", "w-1.0", "--base", base, "--catalog", project.targets)
    lines = done.out.splitlines()
    other = build(project.catalog(), base)
    assert lines[:5] == [
        f"built {other.reference}",
        f"  id {other.id}",
        f"  digest {other.digest}",
        f"  {base} with w-1.0 (1.0)",
        f"  one layer of {other.layer_bytes} bytes",
    ]
    assert f"  /{SITE}/widget/answer.py" in lines
    assert lines[-1] == f"  /{SITE}/widget/legacy removed"
    more = ("--base", other.reference, "--catalog", project.changed_targets)
    again = call("build", "image", "-t", "w-1.0", *more)
    assert "  instead of an older series, which was undone\n" in again.out


def test_a_label_gives_a_terminal_no_orders(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    """Nor can it look like another label."""
    odd = {"pkgtools.note": "\x1b]0;title\x07\npkgtools.series: sha256:0"}
    base = write_layout(tmp_path / "layout", [tar(widget)], odd)
    done = call("image", "inspect", base, "--catalog", project.targets)
    said = r"  pkgtools.note: \u001b]0;title\u0007\u000apkgtools.series: sha256:0"
    assert done.out.splitlines()[-1] == said


def test_a_folder_gives_a_terminal_no_orders(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    path = f"{SITE}/\x1b]0;/widget_kit-1.0.dist-info"
    entries = [replace(e, path=e.path.replace(SITE, f"{SITE}/\x1b]0;")) for e in widget]
    base = write_layout(tmp_path / "layout", [tar([*entries, symlink(path, "/etc")])])
    where = ("--tree", f"{SITE}/\x1b]0;", "--catalog", project.targets)
    done = call("image", "inspect", base, *where)
    assert done.code == 7
    assert r"site-packages/\u001b]0;/widget_kit-1.0.dist-info of oci:" in done.err
    assert "\x1b" not in done.err
    base = write_layout(tmp_path / "sound", [tar(entries)])
    inspected = call("image", "inspect", base, *where)
    built = call("build", "image", "-t", "w-1.0", "--base", base, *where)
    assert (inspected.code, built.code) == (0, 0)
    assert "\x1b" not in inspected.out + built.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--base", "{base}", "--target", "w-9"], "w-9"),
        (["--base", "{base}", "--python", "python3"], "--python is for images in an engine"),
        (["--base", "{base}", "--push"], "--push needs an image in the Docker engine"),
        (["--base", "oci:nowhere"], "cannot be read"),
        (["--base", "oci:"], "the file or folder is missing"),
        (["--base", "oci::{base}"], "the file or folder is missing"),
        (["--base", "docker-archive:"], "the file or folder is missing"),
        (["--base", "docker-archive:nowhere"], "cannot be read"),
        (
            ["--base", "{base}", "--target", "w-1.0", "--tag", "elsewhere:1"],
            "invalid image name 'elsewhere:1'",
        ),
    ],
)
def test_what_is_refused_before_anything_is_built(
    arguments: list[str], message: str, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    base = write_base(tmp_path / "layout", [widget])
    before = bytes_of(tmp_path)
    given = [word.format(base=base) for word in arguments]
    done = call("build", "image", *given, "--json", "--catalog", project.targets, cwd=tmp_path)
    assert done.code == 2, done.out
    error = done.facts["error"]
    assert (error["code"], error["exit_code"]) == ("usage", 2)
    assert message in error["message"]
    assert bytes_of(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "image"], "missing option '--base'"),
        (["build", "image", "--base", ""], "it is empty"),
        (["build", "image", "--base", "oci:x", "--tag", ""], "it is empty"),
        (["image", "inspect"], "missing argument 'IMAGE'"),
        (["image", "inspect", ""], "it is empty"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_usage_error_is_json(arguments: list[str], message: str) -> None:
    done = call(*arguments, "--json")
    assert (done.code, done.facts["error"]["code"]) == (2, "usage")
    assert message in done.facts["error"]["message"]


def test_an_image_that_lies_is_told_to_a_person(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    honest = build(project.catalog(), write_base(tmp_path / "layout", [widget])).reference
    lying = write_layout(tmp_path / "lying", [tar(widget)], read(honest).labels)
    done = call("image", "inspect", lying, "--catalog", project.targets)
    assert (done.code, done.out) == (8, "")
    assert f"error: {lying}: labels or receipt contradict the files: " in done.err
    assert "  next: build it again from its base, or " in done.err
