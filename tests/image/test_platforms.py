"""Images for several platforms: an index in gives an index out."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from commands import call

from pkgtools.image.stored import LayeredImage

from .building import SYSTEM, bytes_of, call_build
from .images import OCI_TYPES, Entry, compress, config_of, digest, moved, tar
from .registries import docker_registry
from .test_attest import valid_statement
from .test_early_stop import LOCAL, engine_layer
from .test_registry import _judged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from project import Project

    from .registries import Registry

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST, CONFIG, LAYER = OCI_TYPES


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with docker_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


def _image(
    registry: Registry, repository: str, machine: str, layers: list[list[Entry]], created: str
) -> dict[str, Any]:
    """Push an image of a platform without a tag; return its entry in an index."""
    plain = [tar(entries) for entries in layers]
    config = {
        **json.loads(config_of(plain)),
        "architecture": machine.partition("/")[0],
        "created": created,
    }
    blobs = [compress(layer, "gzip") for layer in plain]
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {
            "mediaType": CONFIG,
            **registry.put_blob(repository, json.dumps(config).encode()),
        },
        "layers": [
            {"mediaType": f"{LAYER}+gzip", **registry.put_blob(repository, blob)} for blob in blobs
        ],
    }
    entry = registry.put_manifest(repository, "", manifest)
    architecture, _, variant = machine.partition("/")
    platform = {"os": "linux", "architecture": architecture}
    return {**entry, "platform": platform | ({"variant": variant} if variant else {})}


def _attestation(registry: Registry, repository: str, of: dict[str, Any]) -> dict[str, Any]:
    """Push what buildx says of an image."""
    statement = registry.put_blob(repository, b'{"_type": "https://in-toto.io/Statement/v0.1"}')
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": CONFIG, **registry.put_blob(repository, b"{}")},
        "layers": [{"mediaType": "application/vnd.in-toto+json", **statement}],
    }
    return {
        **registry.put_manifest(repository, "", manifest),
        "platform": {"os": "unknown", "architecture": "unknown"},
        "annotations": {
            "vnd.docker.reference.type": "attestation-manifest",
            "vnd.docker.reference.digest": of["digest"],
        },
    }


@pytest.fixture
def base(registry: Registry, widget: list[Entry], tmp_path: Path) -> str:
    """Return an index: amd64 and arm64 have the same wheel, riscv64 another build of it."""
    repository = f"{tmp_path.name.replace('_', '-')}/base".lower()
    same = [engine_layer(SYSTEM), engine_layer(moved(widget, LOCAL))]
    other = [engine_layer(SYSTEM), engine_layer(_owned(moved(widget, LOCAL)))]
    entries = [
        _image(registry, repository, "amd64", same, "2021-02-03T04:05:06Z"),
        _image(registry, repository, "arm64/v8", same, "2021-02-03T04:09:06Z"),
        _image(registry, repository, "riscv64", other, "2021-02-03T04:05:06Z"),
    ]
    index = {
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [*entries, _attestation(registry, repository, entries[0])],
        "annotations": {"mine": "stay"},
    }
    registry.put_manifest(repository, "1", index)
    return f"docker://{registry.address}/{repository}:1"


def test_each_platform_is_attested(
    registry: Registry, project: Project, base: str, tmp_path: Path
) -> None:
    repository = base.split("/", 3)[3].removesuffix(":1")
    tag = f"docker://{registry.address}/{repository}:attested"
    done = call_build(project, base, "--tag", tag, "--attest", str(tmp_path / "attest"))
    assert done.code == 0, done.err
    index = registry.manifest(repository, "attested")
    digests = {entry["digest"].removeprefix("sha256:") for entry in index["manifests"]}
    subjects = []
    for platform in done.facts["platforms"].values():
        (statement,) = (p for p in platform["attestations"] if p.endswith(".intoto.json"))
        (subject,) = valid_statement(Path(statement).read_bytes())["subject"]
        subjects.append(subject["digest"]["sha256"])
    assert set(subjects) == digests
    assert len(subjects) == len(digests) == 3
    assert len(list((tmp_path / "attest").iterdir())) == 6


def _owned(entries: list[Entry]) -> list[Entry]:
    """Return the package as another build of it installs it: its files belong to another user."""
    return [Entry(e.path, e.data, e.mode, e.kind, e.link, (7, 7), e.mtime) for e in entries]


def test_an_index_gives_an_index(registry: Registry, project: Project, base: str) -> None:
    repository = base.split("/", 3)[3].removesuffix(":1")
    done = call_build(project, base, "--tag", f"docker://{registry.address}/{repository}:new")
    assert done.code == 0, done
    before, after = registry.manifest(repository, "1"), registry.manifest(repository, "new")
    assert after["annotations"] == {"mine": "stay"}
    assert [e["platform"] for e in after["manifests"]] == [
        e["platform"] for e in before["manifests"][:3]
    ]
    assert done.facts["dropped"] == [before["manifests"][3]["digest"]]
    assert list(done.facts["platforms"]) == ["linux/amd64", "linux/arm64/v8", "linux/riscv64"]
    layers = {name: facts["layer"] for name, facts in done.facts["platforms"].items()}
    assert layers["linux/amd64"] == layers["linux/arm64/v8"] != layers["linux/riscv64"]
    for entry in after["manifests"]:
        manifest = registry.manifest(repository, entry["digest"])
        config = json.loads(registry.blob(repository, manifest["config"]["digest"]))
        assert config["config"]["Labels"]["pkgtools.target"] == "w-1.0"
        assert config["architecture"] == entry["platform"]["architecture"]
        assert registry.blob(repository, manifest["layers"][-1]["digest"])
    for platform in layers:
        where = ("--platform", platform, "--json", "--catalog", project.targets)
        said = call("image", "inspect", f"docker://{registry.address}/{repository}:new", *where)
        assert (said.code, said.facts["status"]["target"]) == (0, "w-1.0"), said


def test_one_platform_can_be_picked(
    registry: Registry, project: Project, base: str, tmp_path: Path
) -> None:
    repository = base.split("/", 3)[3].removesuffix(":1")
    tag = f"docker://{registry.address}/{repository}:arm"
    done = call_build(project, base, "--tag", tag, "--platform", "linux/arm64")
    assert done.code == 0, done
    copied = _judged(registry, f"{repository}:arm", tmp_path / "copied")
    assert copied.config["architecture"] == "arm64"
    missing = call_build(project, base, "--tag", tag, "--platform", "linux/s390x")
    assert "has 0 images for linux/s390x" in missing.facts["error"]["message"]
    assert "linux/amd64" in missing.facts["error"]["remedy"]
    odd = call_build(project, base, "--tag", tag, "--platform", "arm64")
    assert (odd.code, "invalid platform" in odd.facts["error"]["message"]) == (2, True)


def test_an_index_goes_into_a_layout_and_into_no_archive(
    project: Project, base: str, tmp_path: Path
) -> None:
    done = call_build(project, base, "--tag", f"oci:{tmp_path}/new:all")
    assert done.code == 0, done
    (entry,) = json.loads((tmp_path / "new" / "index.json").read_bytes())["manifests"]
    assert (entry["mediaType"], entry["digest"]) == (INDEX, done.facts["digest"])
    blobs = bytes_of(tmp_path / "new" / "blobs" / "sha256")
    assert all(digest(raw) == f"sha256:{name}" for name, raw in blobs.items())
    where = ("--platform", "linux/riscv64", "--json", "--catalog", project.targets)
    said = call("image", "inspect", f"oci:{tmp_path}/new:all", *where)
    assert (said.code, said.facts["status"]["target"]) == (0, "w-1.0"), said
    refused = call_build(project, base, "--tag", f"docker-archive:{tmp_path}/new.tar")
    assert refused.code == 2
    assert "--platform: linux/amd64, linux/arm64/v8" in refused.facts["error"]["remedy"]


@pytest.mark.parametrize("place", ["file", "referrers"])
def test_facts_of_an_index_are_those_of_its_platforms(
    place: str,
    registry: Registry,
    project: Project,
    base: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    repository = base.split("/", 3)[3].removesuffix(":1")
    where = str(tmp_path / "facts") if place == "file" else base.removesuffix(":1")
    options = ("--json", "--catalog", project.targets)
    exported = call("image", "facts", base, "-o", where, *options)
    digests = [entry["digest"] for entry in registry.manifest(repository, "1")["manifests"]]
    assert exported.facts["manifests"] == digests[:3]  # the fourth is an attestation
    expected = call_build(project, base, "--tag", f"docker://{registry.address}/{repository}:new")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine"))
    monkeypatch.setattr(LayeredImage, "find", None)  # nothing is read
    done = call_build(
        project, base, "--tag", f"docker://{registry.address}/{repository}:known", "--facts", where
    )
    assert done.code == 0, done
    assert done.facts["digest"] == expected.facts["digest"]


def test_an_index_in_a_layout_gives_an_index(
    registry: Registry, project: Project, base: str, tmp_path: Path
) -> None:
    repository = base.split("/", 3)[3].removesuffix(":1")
    expected = call_build(project, base, "--tag", f"docker://{registry.address}/{repository}:new")
    skopeo = shutil.which("skopeo")
    if skopeo is None:
        pytest.skip("skopeo is not installed: apt-get install skopeo")
    layout = f"oci:{tmp_path / 'layout'}:copied"
    copy = [skopeo, "copy", "--all", "--quiet", "--src-tls-verify=false", base, layout]
    subprocess.run(copy, check=True)
    for tag in ([], ["--tag", f"docker://{registry.address}/{repository}:again"]):
        done = call_build(project, layout, *tag)
        assert done.code == 0, done
        assert {name: each["layer"] for name, each in done.facts["platforms"].items()} == {
            name: each["layer"] for name, each in expected.facts["platforms"].items()
        }
        said = call(
            *("image", "inspect", done.facts["reference"], "--platform", "linux/riscv64"),
            *("--json", "--catalog", project.targets),
        )
        assert (said.code, said.facts["status"]["target"]) == (0, "w-1.0"), said
    assert len(registry.manifest(repository, "again")["manifests"]) == 3
    own = call_build(project, layout, "--tag", layout)
    assert "never overwritten" in own.facts["error"]["message"]
    one = call_build(project, layout, "--platform", "linux/arm64")
    assert "platforms" not in one.facts
    # Another name of the same index is a name of the base, too.
    index = registry.manifest(repository, "1")
    registry.put_manifest(repository, "same", index)
    same = f"docker://{registry.address}/{repository}:same"
    for more in ([], ["--platform", "linux/arm64"]):
        own = call_build(project, base, "--tag", same, *more)
        assert "never overwritten" in own.facts["error"]["message"]


def test_a_person_is_told_what_was_dropped(registry: Registry, project: Project, base: str) -> None:
    repository = base.split("/", 3)[3].removesuffix(":1")
    tag = f"docker://{registry.address}/{repository}:told"
    done = call(
        *("build", "image", "-t", "w-1.0", "--base", base, "--tag", tag),
        *("--catalog", project.targets),
    )
    (dropped,) = (e["digest"] for e in registry.manifest(repository, "1")["manifests"][3:])
    assert f"  dropped the attestation {dropped} of the base" in done.out.splitlines()


def test_a_platform_that_cannot_be_patched_leaves_nothing(
    registry: Registry, project: Project, widget: list[Entry]
) -> None:
    """All platforms are patched, or none; the refusal says which one it was."""
    good = _image(registry, "half", "amd64", [engine_layer(moved(widget, LOCAL))], "")
    bad = _image(registry, "half", "arm64", [engine_layer(SYSTEM)], "")
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [good, bad]}
    registry.put_manifest("half", "1", index)
    done = call_build(project, f"docker://{registry.address}/half:1")
    assert done.code == 2
    assert done.facts["error"]["message"].startswith("linux/arm64: ")
    assert registry.tags("half") == ["1"]
