"""The images of `report`: their state, and what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    assert page.count("say the same") == 2
