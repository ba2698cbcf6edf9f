"""The image of pkgtools itself, built on the Debian of the tests, and at work."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from containers import make_context
from engine import base_image, docker
from image.building import write_base
from image.images import digest, installed_entries, read

from pkgtools import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from project import Project

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def pkgtools_image(tmp_path_factory: pytest.TempPathFactory) -> str:
    context = make_context(tmp_path_factory.mktemp("context"))
    base, tag = base_image("PKGTOOLS_TEST_BASE_SMALL"), "pkgtools-test-pkgtools"
    docker(
        *("build", "--force-rm", "--quiet", f"--tag={tag}", f"--build-arg=PYTHON={base}"),
        *("--build-arg=PIP_NO_INDEX=1", "--build-arg=PIP_FIND_LINKS=/src/wheels"),
        f"--file={context / 'docker' / 'pkgtools.Dockerfile'}",
        "--network=host",  # Debian's packages
        context,
    )
    return tag


def test_a_pipeline_patches_a_layout_in_it(
    pkgtools_image: str, project: Project, tmp_path: Path
) -> None:
    base = write_base(tmp_path / "layout", [installed_entries(project, tmp_path)])
    volumes = (f"--volume={tmp_path}:/images", f"--volume={project.targets.parent}:/catalog:ro")
    run = ("run", "--rm", "--network=none", *volumes, pkgtools_image)
    assert docker(*run, "pkgtools", "--version").endswith(__version__)
    assert docker(*run, "git", "config", "--system", "safe.directory") == "*"
    names = ("--base=oci:/images/layout:base", "--tag=oci:/images/layout:new")
    command = ("build", "image", "-t", "w-1.0", "--catalog=/catalog", "--json")
    built = json.loads(docker(*run, "pkgtools", *command, *names))
    assert digest(read(f"{base.removesuffix(':base')}:new").layers[-1]) == built["layer"]
