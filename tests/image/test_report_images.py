"""The images of `report`: their state, and what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from commands import call

from .building import SYSTEM, build, write_base
from .images import Entry, read, write_layout

if TYPE_CHECKING:
    from pathlib import Path

    from project import Project


def test_the_images_of_a_report(project: Project, widget: list[Entry], tmp_path: Path) -> None:
    base = write_base(tmp_path / "base", [SYSTEM, widget])
    honest = build(project.catalog(), base).reference
    image = read(honest)
    lying = write_layout(tmp_path / "lying", image.layers[:-1], image.labels)
    none = f"oci:{tmp_path}/none"
    references = [base, honest, lying, none]
    done = call(
        *("report", "-o", tmp_path / "page", "--catalog", project.targets, "--json"),
        *("--wheel", project.wheel("1.0"), "--wheel", project.wheel("1.1")),
        *(word for reference in references for word in ("--image", reference)),
    )
    assert done.code == 0, done
    found = {each["reference"]: each for each in done.facts["images"]}
    assert (found[base]["state"], found[base]["problem"]) == ("w-1.0, pristine", "")
    assert (found[honest]["state"], found[honest]["problem"]) == ("w-1.0, patched", "")
    assert found[lying]["problem"]
    assert found[none]["state"] == ""
    page = (tmp_path / "page/index.html").read_text()
    assert page.count("is true") == 2


def test_an_image_that_cannot_be_read_is_told(project: Project, tmp_path: Path) -> None:
    done = call(
        *("report", "-o", tmp_path / "page", "--catalog", project.targets),
        *("--wheel", project.wheel("1.0"), "--wheel", project.wheel("1.1")),
        *("--image", f"oci:{tmp_path}/none"),
    )
    assert done.code == 0, done
    assert f"oci:{tmp_path}/none: {tmp_path}/none/index.json cannot be read" in done.err


def test_what_an_image_says_is_printed_with_nothing_that_a_terminal_acts_on(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    base = write_base(tmp_path / "base", [SYSTEM, widget])
    image = read(build(project.catalog(), base).reference)
    labels = image.labels | {"pkgtools.series": "\x1b[2Jsha256:0"}
    done = call(
        *("report", "-o", tmp_path / "page", "--catalog", project.targets),
        *("--wheel", project.wheel("1.0"), "--wheel", project.wheel("1.1")),
        *("--image", write_layout(tmp_path / "odd", image.layers, labels)),
    )
    assert done.code == 0, done
    assert r"series \u001b[2Jsha256:0, the receipt" in done.err
    assert "\x1b" not in done.err


def test_a_page_that_cannot_be_written_is_refused_before_the_work(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pkgtools.cli.report.build_matrix", lambda *_: pytest.fail("work was done"))
    (tmp_path / "file").write_text("")
    (tmp_path / "folder" / "index.html").mkdir(parents=True)
    for folder, reason in (("file", "File exists"), ("file/below", "Not a directory")):
        done = call("report", "-o", tmp_path / folder, "--catalog", project.targets)
        assert done.code == 7, done
        assert f"index.html cannot be written: {reason}" in done.err
    done = call("report", "-o", tmp_path / "folder", "--catalog", project.targets)
    assert "index.html cannot be written: it is a folder" in done.err


def test_a_test_report_that_cannot_be_written_is_refused_before_the_work(
    project: Project, tmp_path: Path
) -> None:
    """The image that is not there would be refused next."""
    done = call(
        *("image", "test", f"oci:{tmp_path}/none", "--junit", tmp_path),
        *("--catalog", project.targets),
    )
    assert f"{tmp_path} cannot be written: it is a folder" in done.err
