"""Facts of images from another machine: in a file, and as referrers in a registry."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import zstandard
from commands import call

from pkgtools.errors import PkgtoolsError
from pkgtools.image.exchange import FactsFile
from pkgtools.image.facts import facts_key
from pkgtools.image.reference import open_image
from pkgtools.image.tree import query_of

from .building import SYSTEM, build, call_build, write_base
from .fake_registry import FakeRegistry, fake_registry
from .images import Entry, moved
from .registries import docker_registry
from .test_early_stop import LOCAL, engine_layer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from project import Project


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as running:
        yield running


@pytest.fixture
def layout(widget: list[Entry], tmp_path: Path) -> str:
    layers = [engine_layer(SYSTEM), engine_layer(moved(widget, LOCAL))]
    return write_base(tmp_path / "layout", layers)


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that moves to a machine without a cache."""
    machines = iter(range(9))

    def move() -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"machine {next(machines)}"))

    return move


def _export(project: Project, image: str, place: str | Path) -> dict[str, Any]:
    done = call(
        *("image", "facts", image, "-o", place, "--json", "--catalog", project.targets),
    )
    assert done.code == 0, done
    facts: dict[str, Any] = done.facts
    return facts


def test_facts_in_a_file_cost_no_layer_byte(
    registry: FakeRegistry,
    project: Project,
    layout: str,
    tmp_path: Path,
    fresh: Callable[[], None],
) -> None:
    base = registry.push_layout(layout, "base:1")
    first = call_build(project, base, "--tag", f"docker://{registry.address}/base:first")
    fresh()
    exported = _export(project, base, tmp_path / "facts")
    assert exported["manifests"] == [first.facts["base_digest"]]
    assert (tmp_path / "facts").stat().st_size < 100_000
    for tag in ("second", "third"):  # the second leaves nothing in the cache
        fresh()
        del registry.asked[:]
        new = f"docker://{registry.address}/base:{tag}"
        done = call_build(project, base, "--tag", new, "--facts", str(tmp_path / "facts"))
        assert done.code == 0, done
        assert registry.layers_read() == []
        assert done.facts["id"] == first.facts["id"]
    done = call_build(project, base, "--tag", f"docker://{registry.address}/base:fourth")
    assert registry.layers_read()  # nobody's word was kept
    assert done.facts["id"] == first.facts["id"]


@pytest.mark.parametrize("has_api", [True, False])
@pytest.mark.parametrize("repository", ["base", "team/sglang"])
def test_the_next_machine_starts_with_what_is_attached(
    repository: str,
    has_api: bool,
    registry: FakeRegistry,
    project: Project,
    layout: str,
    fresh: Callable[[], None],
) -> None:
    """Facts can lie beside the image, and in another repository than a base of others."""
    registry.referrers = has_api
    base = registry.push_layout(layout, "base:1")
    place = f"docker://{registry.address}/{repository}"
    exported = _export(project, base, place)
    assert _export(project, base, place) == exported  # once more changes nothing
    fallback = exported["manifests"][0].replace(":", "-")
    assert ((repository, fallback) in registry.manifests) is not has_api
    fresh()
    del registry.asked[:]
    new = f"docker://{registry.address}/base:new"
    done = call_build(project, base, "--tag", new, "--facts", place)
    assert done.code == 0, done
    assert registry.layers_read() == []
    assert registry.whole("base", "new")


def test_a_real_registry_holds_facts(
    project: Project, layout: str, tmp_path: Path, fresh: Callable[[], None]
) -> None:
    with docker_registry(tmp_path / "registry") as registry:
        base = registry.push_layout(layout, "base:1")
        place = f"docker://{registry.address}/base"
        (referrer,) = _export(project, base, place)["referrers"]
        manifest = registry.manifest("base", referrer)
        digest = registry.get("base/manifests/1").headers["Docker-Content-Digest"]
        assert manifest["subject"]["digest"] == digest
        assert manifest["artifactType"] == "application/vnd.pkgtools.image-facts"
        index = registry.manifest("base", digest.replace(":", "-"))
        assert [entry["digest"] for entry in index["manifests"]] == [referrer]
        fresh()
        log = tmp_path / "registry" / "log"
        before = log.stat().st_size
        done = call_build(project, base, "--tag", f"{place}:new", "--facts", place)
        assert done.code == 0, done
        asked = log.read_text()[before:]
        layers = [entry["digest"] for entry in registry.manifest("base", "1")["layers"]]
        assert "GET /v2/base/blobs/" in asked
        assert not any(f"GET /v2/base/blobs/{layer}" in asked for layer in layers)


def test_facts_of_another_image_are_not_used(
    project: Project, layout: str, widget: list[Entry], tmp_path: Path, registry: FakeRegistry
) -> None:
    other = write_base(tmp_path / "other", [engine_layer(moved(widget, LOCAL))])
    place = f"docker://{registry.address}/facts"
    for name in (str(tmp_path / "facts"), place):
        _export(project, other, name)
        done = call_build(project, layout, "--facts", name)
        assert done.code == 0, done


def test_facts_of_an_archive_or_an_image_by_tag_have_no_place(
    project: Project, layout: str, widget: list[Entry], tmp_path: Path
) -> None:
    archive = write_base(tmp_path, [widget], "archive")
    options = ("--json", "--catalog", project.targets)
    done = call("image", "facts", archive, "-o", tmp_path / "facts", *options)
    assert "has no manifest that facts" in done.facts["error"]["message"]
    done = call("image", "facts", layout, "-o", "docker://127.0.0.1:1/facts:v1", *options)
    assert (done.code, "facts are stored in a repository" in done.facts["error"]["message"]) == (
        2,
        True,
    )
    done = call("image", "facts", layout, "-o", tmp_path / "missing" / "facts", *options)
    assert (done.code, "cannot be written" in done.facts["error"]["message"]) == (2, True)
    done = call_build(project, layout, "--facts", str(tmp_path / "missing"))
    assert (done.code, "cannot be read" in done.facts["error"]["message"]) == (2, True)


def _first(facts: dict[str, Any]) -> dict[str, Any]:
    member: dict[str, Any] = next(iter(facts["members"].values()))
    return member


def _outside(facts: dict[str, Any]) -> None:
    facts["members"]["../../outside"] = {**_first(facts), "path": "../../outside"}


def _below_a_file(facts: dict[str, Any]) -> None:
    member = next(m for path, m in facts["members"].items() if path.endswith("answer.py"))
    path = f"{member['path']}/widget/answer.py"
    facts["members"][path] = {**member, "path": path}


def _elsewhere(facts: dict[str, Any]) -> None:
    facts["members"]["etc/passwd"] = {**_first(facts), "path": "etc/passwd", "data": b"root"}


def _more_names(facts: dict[str, Any]) -> None:
    facts["names"].append("etc/hosts")


def _owner(facts: dict[str, Any]) -> None:
    _first(facts)["uid"] = 2**63


def _time(facts: dict[str, Any]) -> None:
    _first(facts)["mtime"] = -1


def _kind(facts: dict[str, Any]) -> None:
    _first(facts)["kind"] = "socket"


def _null(facts: dict[str, Any]) -> None:
    path = _first(facts)["path"] + "\0"
    facts["members"][path] = {**_first(facts), "path": path}


def _two_paths(facts: dict[str, Any]) -> None:
    _first(facts)["path"] += "x"


def _changed(raw: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    facts = msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(raw))
    (package,) = facts["packages"].values()
    change(package)
    return zstandard.ZstdCompressor().compress(msgspec.msgpack.encode(facts))


HOSTILE: dict[str, Callable[[bytes], bytes]] = {
    **{
        change.__name__: lambda raw, change=change: _changed(raw, change)  # type: ignore[misc]
        for change in (
            *(
                _outside,
                _below_a_file,
                _elsewhere,
                _more_names,
                _owner,
                _time,
                _kind,
                _null,
                _two_paths,
            ),
        )
    },
    "empty": lambda _: b"",
    "cut short": lambda raw: raw[:-20],
    "not packed": lambda _: b"facts" * 100,
    "a bomb": lambda _: zstandard.ZstdCompressor().compress(bytes(65 * 1024 * 1024)),
    "no size": lambda raw: zstandard.ZstdCompressor(write_content_size=False).compress(raw),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_facts_are_refused(
    name: str, project: Project, layout: str, tmp_path: Path, fresh: Callable[[], None]
) -> None:
    path = tmp_path / "facts"
    _export(project, layout, path)
    path.write_bytes(HOSTILE[name](path.read_bytes()))
    fresh()
    done = call_build(project, layout, "--facts", str(path))
    assert done.code == 6, done
    assert done.facts["error"]["remedy"]
    assert not (tmp_path / "outside").exists()


def test_facts_cannot_have_another_revision_patched(
    project: Project, layout: str, tmp_path: Path, fresh: Callable[[], None]
) -> None:
    """What a series touches must be a known revision's, whoever says what it is."""
    path = tmp_path / "facts"
    _export(project, layout, path)

    def edit(facts: dict[str, Any]) -> None:
        for path, member in facts["members"].items():
            if path.endswith("widget/answer.py"):
                member["data"] = b"ANSWER = 40\n"

    path.write_bytes(_changed(path.read_bytes(), edit))
    fresh()
    done = call_build(project, layout, "--facts", str(path))
    assert done.facts["error"]["code"] == "foreign", done


def test_any_damage_to_facts_is_refused_or_harmless(
    project: Project, layout: str, tmp_path: Path
) -> None:
    path = tmp_path / "facts"
    _export(project, layout, path)
    raw = zstandard.ZstdDecompressor().decompress(path.read_bytes())
    catalog = project.catalog()
    query = query_of(catalog, catalog.upstreams[0])
    refused = 0
    with open_image(layout) as image:
        for at in range(0, len(raw), 37):
            damaged = raw[:at] + bytes([raw[at] ^ 0x55]) + raw[at + 1 :]
            facts = FactsFile("facts", zstandard.ZstdCompressor().compress(damaged))
            try:
                found = facts.package(image, facts_key(image.identity or (), query), query)
            except PkgtoolsError:
                refused += 1
            else:
                assert found is None or found.folder
    assert refused


@pytest.mark.parametrize("what", ["index", "manifest", "blob"])
def test_a_repository_that_lies_is_refused(
    what: str, registry: FakeRegistry, project: Project, layout: str, fresh: Callable[[], None]
) -> None:
    place = f"docker://{registry.address}/facts"
    (referrer,) = _export(project, layout, place)["referrers"]
    kind, raw = registry.manifests["facts", referrer]
    if what == "index":
        (tag,) = (tag for name, tag in registry.tags() if name == "facts")
        registry.manifests["facts", tag] = (kind, b'{"manifests": [{"digest": "../x"}]}')
    elif what == "manifest":
        registry.manifests["facts", referrer] = (kind, raw + b" ")
    else:
        registry.blobs["facts", json.loads(raw)["layers"][0]["digest"]] = b"other"
    fresh()
    done = call_build(project, layout, "--facts", place)
    assert (done.code, done.facts["error"]["code"]) == (6, "malformed"), done
    assert build(project.catalog(), layout).layer  # without facts
