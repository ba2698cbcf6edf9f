"""A real Docker engine: skipped where there is none."""

from __future__ import annotations

import json
import secrets
from datetime import datetime
from typing import TYPE_CHECKING

import pytest
from commands import call
from engine import base_image, docker, has_engine

from pkgtools.image.engine import EngineImage
from pkgtools.image.layer import FileKind, Member, write_layer
from pkgtools.image.model import NewImage
from pkgtools.image.reference import open_image

from .building import call_build, write_base
from .images import SITE, Entry, digest, entries_of, moved, read, symlink, tar
from .registries import docker_registry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from project import Project

DEBIAN = "usr/lib/python3/dist-packages"
VENV = "opt/venv"


@pytest.fixture(scope="module")
def repository() -> Iterator[str]:
    """Return a name for images of this run; they are removed behind it."""
    if not has_engine():
        pytest.skip("no Docker engine answers")
    name = f"pkgtools-test-{secrets.token_hex(4)}"
    yield name
    made = _made(name)
    if made:
        docker("rmi", *made)


def _made(repository: str) -> list[str]:
    every = docker("images", "--format", "{{.Repository}}:{{.Tag}}").splitlines()
    return [image for image in every if repository in image]


@pytest.fixture
def _no_container_left(repository: str) -> Iterator[None]:
    """Look for containers of this run's images: others may use the engine at the same time."""
    yield
    filters = [word for image in _made(repository) for word in ("--filter", f"ancestor={image}")]
    assert not filters or docker("ps", "--all", "--quiet", *filters) == ""


pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("_no_container_left")]


@pytest.fixture(scope="module")
def with_python(
    widget: list[Entry], repository: str, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """Make an image whose Python finds widget: on its PATH, and in a virtual environment."""
    base = base_image("PKGTOOLS_TEST_BASE_SMALL")
    folder = tmp_path_factory.mktemp("context")
    tag = docker("run", "--rm", "--entrypoint", "python3", base, "-c", _VERSION)
    venv_site = f"{VENV}/lib/python{tag}/site-packages"
    layers = {
        "system": moved(widget, DEBIAN),
        "venv": [
            *moved(widget, venv_site),
            symlink(f"{VENV}/bin/python", "/usr/bin/python3"),
            Entry(f"{VENV}/pyvenv.cfg", b"home = /usr/bin\n"),
        ],
    }
    for name, entries in layers.items():
        (folder / f"{name}.tar").write_bytes(tar(entries))
        path = "ENV PATH=/nowhere\n" if name == "venv" else ""
        dockerfile = f"FROM {base}\nADD {name}.tar /\n{path}LABEL team=ours\n"
        (folder / "Dockerfile").write_text(dockerfile)
        docker("build", "--quiet", "--tag", f"{repository}:{name}", str(folder))
    return f"{repository}:system"


_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


def _layers(image: str) -> list[str]:
    layers: list[str] = json.loads(docker("inspect", "--format", "{{json .RootFS.Layers}}", image))
    return layers


def _id(image: str) -> str:
    return docker("inspect", "--format", "{{.Id}}", image)


def _labels(image: str) -> dict[str, str]:
    labels: dict[str, str] = json.loads(
        docker("inspect", "--format", "{{json .Config.Labels}}", image)
    )
    return labels


def test_two_builds_are_one_image(project: Project, with_python: str, repository: str) -> None:
    first = call_build(project, with_python, "--tag", f"{repository}:first")
    second = call_build(project, with_python, "--tag", f"{repository}:second")
    assert (first.code, second.code) == (0, 0), first.out + second.out
    ids = {_id(f"{repository}:first"), _id(f"{repository}:second")}
    assert ids == {first.facts["id"]}
    assert _layers(f"{repository}:first") == [*_layers(with_python), first.facts["layer"]]
    answer = "import widget.answer, widget.extra.deep.new as n; print(widget.answer.ANSWER, n.DEEP)"
    run = ("run", "--rm", "--network=none", "--entrypoint", "python3", f"{repository}:first")
    assert docker(*run, "-c", answer) == "42 42"
    labels = _labels(f"{repository}:first")
    assert (labels["team"], labels["pkgtools.target"]) == ("ours", "w-1.0")
    done = call("image", "inspect", f"{repository}:first", "--json", "--catalog", project.targets)
    assert (done.code, done.facts["labels"]) == (
        0,
        {k: v for k, v in labels.items() if k != "team"},
    )


@pytest.fixture(scope="module")
def rootfs(widget: list[Entry], repository: str) -> str:
    """Make an image of widget alone: small, and without a Python that could be asked."""
    name = f"{repository}:rootfs"
    docker("import", "-", name, stdin=tar(widget))
    return name


def test_a_whole_load_is_the_same_image(rootfs: str, repository: str) -> None:
    with open_image(rootfs) as image:
        assert isinstance(image, EngineImage)
        layer = write_layer([Member("new", FileKind.FILE, data=b"new")], [f"{SITE}/widget/tool.sh"])
        when = image.config.created
        new = NewImage(image.config.extended(layer, {"a": "b"}, "test", when), layer, {})
        thin = image.store(new, f"{repository}:thin")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(EngineImage, "_load_thin", lambda *_: False)
            whole = image.store(new, f"{repository}:whole")
    assert thin.id == whole.id == new.config.digest
    assert _layers(f"{repository}:thin") == _layers(f"{repository}:whole")
    assert _labels(f"{repository}:whole") == {"a": "b"}


def test_a_virtual_environment_needs_its_name(
    project: Project, with_python: str, repository: str
) -> None:
    assert with_python
    base = f"{repository}:venv"
    done = call_build(project, base)
    assert done.code == 2, done.out
    assert "does not run python3 or python" in done.facts["error"]["message"]
    done = call_build(project, base, "--python", f"/{VENV}/bin/python")
    assert done.code == 0, done.out
    assert all(path.startswith(f"{VENV}/lib/python") for path in done.facts["written"])


def test_an_image_without_python_is_built_without_the_engine(
    project: Project, rootfs: str, tmp_path: Path
) -> None:
    done = call_build(project, rootfs)
    assert done.code == 2, done.out
    assert done.facts["error"]["remedy"].startswith("name its interpreter with --python; ")
    docker("save", "--output", str(tmp_path / "base.tar"), rootfs)
    made = call_build(project, f"docker-archive:{tmp_path / 'base.tar'}")
    assert made.code == 0, made.out
    _, path, loaded = made.facts["reference"].split(":", 2)
    assert docker("load", "--input", path) == f"Loaded image: {loaded}"
    assert loaded.startswith(f"{rootfs}-w-1.0-")
    assert _layers(loaded) == [*_layers(rootfs), made.facts["layer"]]
    assert docker("inspect", "--format", "{{.Id}}", loaded) == made.facts["id"]


def test_the_layer_is_what_it_is_on_disk(
    project: Project, widget: list[Entry], with_python: str, repository: str, tmp_path: Path
) -> None:
    done = call_build(project, with_python, "--tag", f"{repository}:again")
    created = docker("inspect", "--format", "{{.Created}}", with_python)
    base = write_base(tmp_path / "layout", [moved(widget, DEBIAN)])
    epoch = _seconds(created)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", str(epoch))
        other = call_build(project, base)
    assert done.facts["written"] == other.facts["written"]
    assert done.facts["layer"] == other.facts["layer"]
    assert digest(read(other.facts["reference"]).layers[-1]) == done.facts["layer"]


def _seconds(created: str) -> int:
    return int(datetime.fromisoformat(created).timestamp())


def test_an_editable_install_is_found_by_the_images_python(
    project: Project, with_python: str, repository: str, tmp_path: Path
) -> None:
    source = project.write_checkout(tmp_path / "source")
    entries = [
        *entries_of(source, "opt/widget"),
        Entry(f"{DEBIAN}/widget.pth", b"/opt/widget/src\n"),
    ]
    removed = f"RUN rm -r /{DEBIAN}/widget /{DEBIAN}/widget_kit-1.0.dist-info\n"
    (tmp_path / "more.tar").write_bytes(tar(entries))
    (tmp_path / "Dockerfile").write_text(f"FROM {with_python}\n{removed}ADD more.tar /\n")
    docker("build", "--quiet", "--tag", f"{repository}:editable", str(tmp_path))
    done = call_build(project, f"{repository}:editable", "--tag", f"{repository}:edited")
    assert done.code == 0, done.out
    assert "opt/widget/.git/pkgtools/pkgtools.json" in done.facts["written"]
    assert "opt/widget/src/widget/answer.py" in done.facts["written"]
    again = call_build(project, f"{repository}:edited", "--tag", f"{repository}:twice")
    assert "is patched with w-1.0 already" in again.facts["error"]["message"]


@pytest.fixture
def registry(repository: str, tmp_path: Path) -> Iterator[str]:
    """Return the address of a docker-registry on this machine."""
    assert repository
    with docker_registry(tmp_path / "registry") as running:
        yield running.address


def test_a_pushed_image_comes_back_as_it_was(
    project: Project, rootfs: str, repository: str, registry: str, tmp_path: Path
) -> None:
    name = f"{registry}/{repository}:pushed"
    docker("save", "--output", str(tmp_path / "base.tar"), rootfs)
    made = call_build(project, f"docker-archive:{tmp_path / 'base.tar'}").facts
    _, path, loaded = made["reference"].split(":", 2)
    docker("load", "--input", path)
    docker("tag", loaded, name)
    with open_image(name) as image:
        assert isinstance(image, EngineImage)
        pushed = image.push(name)
    docker("rmi", name, loaded)
    by_digest = f"{registry}/{repository}@{pushed}"
    docker("pull", "--quiet", by_digest)
    assert _id(by_digest) == made["id"]
    docker("tag", by_digest, name)
    docker("rmi", by_digest)
    docker("save", "--output", str(tmp_path / "back.tar"), name)
    back = f"docker-archive:{tmp_path / 'back.tar'}"
    found = call("image", "inspect", back, "--json", "--catalog", project.targets)
    assert (found.code, found.facts["status"]["target"]) == (0, "w-1.0")


def test_an_image_patched_in_a_registry_runs_where_it_is_pulled(
    project: Project, with_python: str, repository: str, registry: str
) -> None:
    """The engine judges what was pushed: it pulls the image, runs it and tests it."""
    base, new = (f"{registry}/{repository}:{tag}" for tag in ("in-registry", "patched"))
    docker("tag", with_python, base)
    docker("push", "--quiet", base)
    docker("rmi", base)
    site = f"/{DEBIAN}"  # PATH has no bin folder that belongs to it
    made = call_build(project, f"docker://{base}", "--tag", f"docker://{new}", "--tree", site)
    assert made.code == 0, made.out
    docker("pull", "--quiet", new)
    assert _id(new) == made.facts["id"]
    assert _layers(new) == [*_layers(with_python), made.facts["layer"]]
    answer = "import widget.answer; print(widget.answer.ANSWER)"
    run = ("run", "--rm", "--network=none", "--entrypoint", "python3", new)
    assert docker(*run, "-c", answer) == "42"
    tested = call("image", "test", new, "--json", "--catalog", project.targets)
    assert tested.code == 0, tested.out
    assert [check["name"] for check in tested.facts["checks"]] == ["identity", "compilation"]
    assert tested.facts["passed"]


def test_a_registry_that_is_not_there(project: Project, with_python: str, repository: str) -> None:
    name = f"127.0.0.1:1/{repository}:nowhere"
    done = call_build(project, with_python, "--tag", name, "--push")
    assert (done.code, done.facts["error"]["code"]) == (7, "engine")
    assert name in done.facts["error"]["message"]
    assert done.facts["error"]["details"]["id"] == _id(name)
