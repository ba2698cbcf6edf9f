"""The image of a recipe, held against its target by `recipe validate --image`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from silent import Silent

from pkgtools.errors import PkgtoolsError
from pkgtools.recipe.load import load_recipe
from pkgtools.recipe.validate import STEPS, Deployment

from .building import SYSTEM, build, write_base
from .images import Entry, read, write_layout

if TYPE_CHECKING:
    from project import Project

_K3: Final = Path(__file__).parents[2] / "docker/recipes/kimi-k3-capture.toml"


def _deployment(project: Project, image: str, target: str = "w-1.0") -> Deployment:
    loaded = load_recipe(_K3)
    loaded.recipe.image, loaded.recipe.target = image, target
    return Deployment(loaded, project.catalog(), None, sys.executable, Silent())


def test_the_image_of_a_recipe(project: Project, widget: list[Entry], tmp_path: Path) -> None:
    base = write_base(tmp_path / "base", [SYSTEM, widget])
    honest = build(project.catalog(), base).reference
    _, check = STEPS["patches"]
    evidence = check(_deployment(project, honest))
    assert getattr(evidence, "reference", None) == honest
    image = read(honest)
    lying = write_layout(tmp_path / "lying", image.layers[:-1], image.labels)
    for reference, target, message in (
        (base, "w-1.0", "is w-1.0, pristine; it should be w-1.0, patched"),
        (honest, "w-dev", "is w-1.0, patched; it should be w-dev, patched"),
        (lying, "w-1.0", "contradict the files"),
        (f"oci:{tmp_path}/none", "w-1.0", "none"),
    ):
        with pytest.raises(PkgtoolsError, match=re.escape(message)):
            check(_deployment(project, reference, target))
