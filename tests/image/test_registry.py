"""Images patched in a registry: Debian's docker-registry holds them, skopeo judges the result."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from commands import Result, call

from pkgtools.image.reference import open_image

from .building import SYSTEM, build, call_build, write_base
from .images import DOCKER_TYPES, Entry, moved, read, tar, write_archive, write_layout
from .registries import (
    LOGIN,
    Registry,
    TokenServer,
    docker_config,
    docker_registry,
    self_signed,
)
from .test_early_stop import LOCAL, engine_layer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from project import Project


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with docker_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """Another registry, which asks for a login."""
    with docker_registry(tmp_path_factory.mktemp("other"), login=LOGIN) as running:
        yield running


@pytest.fixture
def layers(widget: list[Entry]) -> list[list[Entry]]:
    """Return the layers of a base as engines write them."""
    return [engine_layer(SYSTEM), engine_layer(moved(widget, LOCAL)), [Entry("etc/hosts", b"x\n")]]


def _login(where: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = docker_config(where / "docker", registry.address, LOGIN)
    monkeypatch.setenv("DOCKER_CONFIG", str(folder))


def _judged(registry: Registry, name: str, where: Path) -> Any:
    login = [f"--src-creds={':'.join(registry.login)}"] if registry.login else []
    return _copied(f"docker://{registry.address}/{name}", where, *login)


def _copied(source: str, where: Path, *options: str) -> Any:
    """Return an image as skopeo copies it; it holds every digest against its bytes."""
    skopeo = shutil.which("skopeo")
    if skopeo is None:
        pytest.skip("skopeo is not installed: apt-get install skopeo")
    command = [skopeo, "copy", "--all", "--quiet", "--src-tls-verify=false", *options, source]
    subprocess.run([*command, f"oci:{where}:copied"], check=True)
    return read(f"oci:{where}:copied")


def test_an_image_is_patched_where_it_lies(
    registry: Registry, project: Project, layers: list[list[Entry]], tmp_path: Path
) -> None:
    layout = write_base(tmp_path / "layout", layers)
    base = registry.push_layout(layout, "one/widget:1")
    before = registry.manifest("one/widget", "1")
    done = call_build(project, base, "--tag", f"docker://{registry.address}/one/widget:1-w")
    assert done.code == 0, done
    expected = build(project.catalog(), layout)
    assert done.facts["layer"] == expected.layer
    assert done.facts["written"] == list(expected.written)
    copied = _judged(registry, "one/widget:1-w", tmp_path / "copied")
    assert copied.layers == read(expected.reference).layers
    assert copied.labels["pkgtools.target"] == "w-1.0"
    name = copied.labels["org.opencontainers.image.base.name"]
    assert name == f"{registry.address}/one/widget:1"
    assert registry.manifest("one/widget", "1") == before
    said = call("image", "inspect", done.facts["reference"], "--catalog", project.targets, "--json")
    assert (said.code, said.facts["digest"]) == (0, done.facts["digest"])
    assert said.facts["status"]["target"] == "w-1.0"


def test_the_default_name_varies_the_tag(
    registry: Registry, project: Project, layers: list[list[Entry]], tmp_path: Path
) -> None:
    base = registry.push_layout(write_base(tmp_path / "layout", layers), "named/widget:2")
    built = build(project.catalog(), base)
    suffix = f"w-1.0-{project.catalog().target('w-1.0').series.short_digest}"
    assert built.reference == f"{base}-{suffix}"
    assert sorted(registry.tags("named/widget")) == ["2", f"2-{suffix}"]


def test_a_base_is_named_by_its_digest(
    registry: Registry, project: Project, layers: list[list[Entry]], tmp_path: Path
) -> None:
    base = registry.push_layout(write_base(tmp_path / "layout", layers), "digest/widget:1")
    with open_image(base) as image:
        digest = str(image.manifest_digest)
    by_digest = f"docker://{registry.address}/digest/widget@{digest}"
    refused = call_build(project, by_digest)
    assert (refused.code, refused.facts["error"]["code"]) == (2, "usage")
    done = call_build(project, by_digest, "--tag", f"docker://{registry.address}/digest/widget:n")
    assert done.code == 0, done
    assert (
        registry.manifest("digest/widget", "n")["annotations"][
            "org.opencontainers.image.base.digest"
        ]
        == digest
    )
    missing = call_build(project, by_digest[:-1] + ("0" if digest[-1:] != "0" else "1"))
    assert (missing.code, "has no image" in missing.facts["error"]["message"]) == (2, True)


def test_the_base_is_never_overwritten(
    registry: Registry, project: Project, layers: list[list[Entry]], tmp_path: Path
) -> None:
    """By its tag, or by another tag of the same manifest."""
    layout = write_base(tmp_path / "layout", layers)
    base = registry.push_layout(layout, "kept/widget:1")
    registry.push_layout(layout, "kept/widget:stable")
    before = registry.manifest("kept/widget", "1")
    for tag in ("1", "stable"):
        done = call_build(project, base, "--tag", f"docker://{registry.address}/kept/widget:{tag}")
        assert "never overwritten" in done.facts["error"]["message"]
        assert registry.manifest("kept/widget", tag) == before


@pytest.mark.parametrize(
    ("source", "target"),
    [
        *(("registry", target) for target in ("same", "mounted", "other", "layout", "archive")),
        *(("docker types", target) for target in ("mounted", "layout")),
        *(("layout", target) for target in ("other", "archive")),
        *(("archive", target) for target in ("mounted", "layout")),
    ],
)
def test_images_move_with_one_layer_more(
    source: str,
    target: str,
    registry: Registry,
    other: Registry,
    project: Project,
    layers: list[list[Entry]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _login(tmp_path, other, monkeypatch)
    plain = [tar(entries) for entries in layers]
    layout = write_base(tmp_path / "layout", layers)
    if source == "docker types":
        layout = write_layout(tmp_path / "typed", plain, types=DOCKER_TYPES)
    name = f"{target}-{source}".replace(" ", "-")
    base = {
        "registry": lambda: registry.push_layout(layout, f"{name}/base:1"),
        "docker types": lambda: registry.push_layout(layout, f"{name}/base:1"),
        "layout": lambda: layout,
        "archive": lambda: write_archive(tmp_path / "base.tar", plain),
    }[source]()
    tag = {
        "same": f"docker://{registry.address}/{name}/base:2",
        "mounted": f"docker://{registry.address}/{name}/new:2",
        "other": f"docker://{other.address}/{name}/new:2",
        "layout": f"oci:{tmp_path / 'new'}:2",
        "archive": f"docker-archive:{tmp_path / 'new.tar'}:widget:2",
    }[target]
    done = call_build(project, base, "--tag", tag)
    assert done.code == 0, done
    assert done.facts["layer"] == build(project.catalog(), layout).layer
    if target in ("layout", "archive"):
        made = read(tag)
        _copied(tag, tmp_path / "copied")
    else:
        judge = other if target == "other" else registry
        made = _judged(judge, tag.split("/", 3)[3], tmp_path / "copied")
    assert made.layers[:-1] == plain
    assert made.labels["pkgtools.target"] == "w-1.0"
    said = call("image", "inspect", tag, "--catalog", project.targets, "--json")
    assert said.code == 0, said
    assert said.facts["status"]["target"] == "w-1.0"


def _refused(project: Project, base: str, *more: str) -> Result:
    done = call_build(project, base, *more)
    assert done.code != 0
    assert LOGIN[1] not in done.out + done.err
    return done


def test_a_login_is_asked_for(
    other: Registry,
    project: Project,
    layers: list[list[Entry]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base = other.push_layout(write_base(tmp_path / "layout", layers), "closed/widget:1")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "none"))
    done = _refused(project, base)
    assert (done.code, done.facts["error"]["code"]) == (7, "registry")
    assert done.facts["error"]["remedy"] == f"log in: docker login {other.address}"
    wrong = docker_config(tmp_path / "wrong", other.address, ("tester", "guess"))
    monkeypatch.setenv("DOCKER_CONFIG", str(wrong))
    done = _refused(project, base)
    assert "status 401" in done.facts["error"]["message"]
    assert "guess" not in done.out + done.err
    login = docker_config(tmp_path / "right", other.address, LOGIN) / "config.json"
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(login))
    assert call_build(project, base).code == 0
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "missing"))
    assert "REGISTRY_AUTH_FILE" in _refused(project, base).facts["error"]["message"]


def test_a_credential_helper_is_asked(
    other: Registry,
    project: Project,
    layers: list[list[Entry]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base = other.push_layout(write_base(tmp_path / "layout", layers), "helped/widget:1")
    helper = tmp_path / "bin" / "docker-credential-tests"
    helper.parent.mkdir()
    answer = {"ServerURL": other.address, "Username": LOGIN[0], "Secret": LOGIN[1]}
    helper.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(answer)}\nEND\n")
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{helper.parent}:/usr/bin:/bin")
    config = tmp_path / "docker" / "config.json"
    config.parent.mkdir()
    config.write_text(json.dumps({"credHelpers": {other.address: "tests"}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(config.parent))
    assert call_build(project, base).code == 0
    helper.write_text(f"#!/bin/sh\necho {LOGIN[1]}; exit 3\n")
    assert "cannot be read: " in _refused(project, base).facts["error"]["message"]


def test_a_report_reads_registries_and_a_test_asks_for_an_engine(
    registry: Registry, project: Project, layers: list[list[Entry]], tmp_path: Path
) -> None:
    base = registry.push_layout(write_base(tmp_path / "layout", layers), "told/widget:1")
    made = build(project.catalog(), base).reference
    done = call(
        *("report", "-o", tmp_path / "page", "--catalog", project.targets, "--json"),
        *("--wheel", project.wheel("1.0"), "--wheel", project.wheel("1.1")),
        *("--image", base, "--image", made),
    )
    assert done.code == 0, done
    found = {each["reference"]: each["state"] for each in done.facts["images"]}
    assert found == {base: "w-1.0, pristine", made: "w-1.0, patched"}
    tested = call("image", "test", made, "--catalog", project.targets)
    assert (tested.code, "is not in a Docker engine" in tested.err) == (2, True)
    assert "next: copy it into the engine: skopeo copy docker://" in tested.err


def test_a_registry_with_tls_is_held_against_its_authority(
    project: Project, layers: list[list[Entry]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = self_signed(tmp_path / "tls")
    with docker_registry(tmp_path / "registry", certificate=certificate) as registry:
        base = registry.push_layout(write_base(tmp_path / "layout", layers), "widget:1")
        refused = call_build(project, base)
        assert (refused.code, refused.facts["error"]["code"]) == (7, "registry")
        assert "certificate" in refused.facts["error"]["message"]
        assert "REQUESTS_CA_BUNDLE" in refused.facts["error"]["remedy"]
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate[0]))
        done = call_build(project, base, "--tag", f"docker://{registry.address}/widget:2")
        assert done.code == 0, done
        assert registry.manifest("widget", "2")["layers"][-1]["digest"] == done.facts["layer"]


def test_certificates_lie_where_docker_and_podman_have_them(
    project: Project, layers: list[list[Entry]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The registry asks for a client's certificate, too; openssl made both."""
    server, client = self_signed(tmp_path / "tls"), self_signed(tmp_path / "client")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with docker_registry(tmp_path / "registry", certificate=server, client=client) as registry:
        base = registry.push_layout(write_base(tmp_path / "layout", layers), "widget:1")
        folder = tmp_path / "config" / "containers" / "certs.d" / registry.address
        folder.mkdir(parents=True)
        shutil.copy(server[0], folder / "ca.crt")
        refused = _refused(project, base)  # without the client's
        assert "client.cert" in refused.facts["error"]["remedy"]
        for path, name in zip(client, ("client.cert", "client.key"), strict=True):
            shutil.copy(path, folder / name)
        done = call_build(project, base, "--tag", f"docker://{registry.address}/widget:2")
        assert done.code == 0, done
        (folder / "client.key").write_text("no key")
        refused = _refused(project, base)
        assert str(folder / "client.cert") in refused.facts["error"]["message"]


def test_one_token_covers_the_base_and_the_result(
    project: Project, layers: list[list[Entry]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docker-registry checks the signature, the scope and the time of each token."""
    with (
        TokenServer(tmp_path / "tokens").running() as tokens,
        docker_registry(tmp_path / "registry", tokens=tokens.settings) as registry,
    ):
        names = ("base/widget", "new/widget")
        registry.bearer = tokens.token([f"repository:{name}:pull,push" for name in names])
        base = registry.push_layout(write_base(tmp_path / "layout", layers), "base/widget:1")
        tag = f"docker://{registry.address}/new/widget:2"
        assert "log in" in _refused(project, base, "--tag", tag).facts["error"]["remedy"]
        _login(tmp_path, registry, monkeypatch)
        del tokens.scopes[:]
        done = call_build(project, base, "--tag", tag)
        assert done.code == 0, done
        assert tokens.scopes[-1] == [
            "repository:base/widget:pull",
            "repository:new/widget:pull,push",
        ]
        assert len(tokens.scopes) == 2  # the first to read alone, before the result is named
        assert registry.manifest("new/widget", "2")["annotations"]["pkgtools.target"] == "w-1.0"
        # A token that has expired in between is asked for anew: the registry allows 60 s.
        tokens.lifetime = -120
        refused = _refused(project, base, "--tag", tag)
        assert "status 401" in refused.facts["error"]["message"]
