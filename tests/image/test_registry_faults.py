"""Registries that break off, lie, forget, and are busy: the image is whole, or has no name."""

from __future__ import annotations

import json
import logging
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from crash import SHORT, Running, fork

from pkgtools.errors import MalformedError, PkgtoolsError, RegistryError, UsageError
from pkgtools.image.registry import blobs as blobs_module
from pkgtools.image.registry import client as client_module
from pkgtools.image.registry import upload as upload_module

from .building import SYSTEM, build, bytes_of, call_build, write_base
from .fake_registry import USER, Asked, FakeRegistry, fake_registry
from .images import digest
from .registries import docker_config
from .test_early_stop import engine_layer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from project import Project

    from .images import Entry

STRIDE = 5 if SHORT else 1
"""From one request that fails to the next."""
BREAKS = ["drop", "half", "lost", 429, 503]


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as running:
        yield running


@pytest.fixture
def other() -> Iterator[FakeRegistry]:
    with fake_registry() as running:
        yield running


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return how long was waited between tries; no time passes."""
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    return waited


@pytest.fixture
def layout(widget: list[Entry], tmp_path: Path) -> str:
    layers = [engine_layer(SYSTEM), engine_layer(widget)]
    return write_base(tmp_path / "layout", layers)


def _known(monkeypatch: pytest.MonkeyPatch, where: Path, number: object) -> None:
    """Use a cache of one's own, so that the layers are read."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(where / f"cache {number}"))


def _at(at: int, kind: object, *, lasting: bool = False) -> Callable[[int, Asked], object]:
    """Return a fault of the request of one number, and those after it."""
    return lambda number, _: kind if number == at or (lasting and number > at) else None


def _base_blobs(registry: FakeRegistry) -> dict[tuple[str, str], bytes]:
    """Return what the base has, without what was pushed on top of it."""
    facts = json.loads(registry.manifests["base", "1"][1])
    named = {entry["digest"] for entry in [facts["config"], *facts["layers"]]}
    return {key: blob for key, blob in registry.blobs.items() if key[1] in named}


def _requests(registry: FakeRegistry, project: Project, base: str, tag: str) -> list[Asked]:
    del registry.asked[:]
    assert build(project.catalog(), base, tag).digest
    return list(registry.asked)


@pytest.mark.parametrize("shift", [0, 2])
def test_a_break_at_any_request_costs_time_alone(
    shift: int,
    registry: FakeRegistry,
    project: Project,
    layout: str,
    waits: list[float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base = registry.push_layout(layout, "base:1")
    monkeypatch.setattr(upload_module, "_CHUNK", 4000)
    expected = build(project.catalog(), layout).layer
    _known(monkeypatch, tmp_path, "whole")
    count = len(_requests(registry, project, base, f"docker://{registry.address}/new:whole"))
    for at in range(0, count, STRIDE):
        _known(monkeypatch, tmp_path, at)
        kind, start = BREAKS[(at + shift) % len(BREAKS)], len(registry.asked)
        registry.fault = _at(start + at, kind)
        built = build(project.catalog(), base, f"docker://{registry.address}/new{at}:1")
        assert built.layer == expected
        assert registry.whole(f"new{at}", "1"), at
    assert len(waits) > count // STRIDE // 2  # a blob whose push was broken off may be there
    assert max(waits) <= 60


def test_a_registry_that_is_gone_leaves_nothing_with_a_name(
    registry: FakeRegistry,
    project: Project,
    layout: str,
    waits: list[float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base = registry.push_layout(layout, "base:1")
    _known(monkeypatch, tmp_path, "whole")
    count = len(_requests(registry, project, base, f"docker://{registry.address}/base:new"))
    del registry.manifests["base", "new"]
    before, blobs = registry.tags(), _base_blobs(registry)
    for at in range(0, count, STRIDE):
        registry.blobs = dict(blobs)
        _known(monkeypatch, tmp_path, at)
        kind, start = ("drop", 503)[at % 2], len(registry.asked)
        registry.fault = _at(start + at, kind, lasting=True)
        done = call_build(project, base, "--tag", f"docker://{registry.address}/base:new")
        assert (done.code, done.facts["error"]["code"]) == (7, "registry"), done
        assert done.facts["error"]["remedy"]
        assert registry.tags() == before
    assert waits


@pytest.mark.parametrize("kind", BREAKS)
def test_layers_stream_between_registries_through_breaks(
    kind: object,
    registry: FakeRegistry,
    other: FakeRegistry,
    project: Project,
    layout: str,
    waits: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In parts of some kilobytes, with a break at every fourth request of both sides."""
    monkeypatch.setattr(upload_module, "_CHUNK", 700)
    base = registry.push_layout(layout, "base:1")
    other.fault = registry.fault = lambda number, _: kind if number % 4 == 3 else None
    build(project.catalog(), base, f"docker://{other.address}/copy:1")
    assert other.whole("copy", "1")
    assert other.uploads == {} or kind in {"lost", "half", "drop"}
    assert waits
    registry.ranges = False  # the registry begins a blob again, whatever is asked
    other.blobs.clear()
    build(project.catalog(), base, f"docker://{other.address}/copy:2")
    assert other.whole("copy", "2")


def _killing(
    at: int, children: list[Running], started: threading.Event
) -> Callable[[int, Asked], object]:
    """Return a fault that kills a child when it sends the request of one number."""

    def kill(number: int, _: Asked) -> object:
        if number != at:
            return None
        started.wait(10)
        children[0].kill()
        return "drop"

    return kill


def test_a_build_that_is_killed_leaves_nothing_with_a_name(
    registry: FakeRegistry,
    project: Project,
    layout: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base = registry.push_layout(layout, "base:1")
    tag = f"docker://{registry.address}/base:new"
    _known(monkeypatch, tmp_path, "whole")
    count = len(_requests(registry, project, base, tag))
    del registry.manifests["base", "new"]
    before, catalog, blobs = registry.tags(), project.catalog(), _base_blobs(registry)
    for at in range(0, count, STRIDE):
        registry.blobs = dict(blobs)
        _known(monkeypatch, tmp_path, at)
        start, started = len(registry.asked), threading.Event()
        children: list[Running] = []

        registry.fault = _killing(start + at, children, started)
        children.append(fork(partial(build, catalog, base, tag)))
        started.set()
        children[0].wait()
        assert registry.tags() == before, at
    registry.fault = lambda _number, _asked: None
    build(catalog, base, tag)
    assert registry.whole("base", "new")


def test_known_facts_cost_no_layer_byte(
    registry: FakeRegistry, project: Project, layout: str
) -> None:
    base = registry.push_layout(layout, "base:1")
    first = build(project.catalog(), base, f"docker://{registry.address}/base:first")
    assert len(registry.layers_read()) == 1  # the one with the package; the system's is below
    del registry.asked[:]
    again = build(project.catalog(), base, f"docker://{registry.address}/base:again")
    assert registry.layers_read() == []
    assert again.layer == first.layer


def _changed(kind: str, path: str) -> Any:
    def body(asked: Asked, raw: bytes) -> bytes:
        if path not in asked.path or asked.method != "GET" or not raw:
            return raw
        return {"other": raw[:-1] + bytes([raw[-1] ^ 1]), "short": raw[: len(raw) // 2]}[kind]

    return body


@pytest.mark.parametrize("kind", ["other", "short"])
@pytest.mark.parametrize("what", ["manifests/1", "config", "layer"])
def test_a_lie_is_refused(
    kind: str,
    what: str,
    registry: FakeRegistry,
    project: Project,
    layout: str,
    waits: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "_READ_SECONDS", 0.2)
    base = registry.push_layout(layout, "base:1")
    manifest = json.loads(registry.manifests["base", "1"][1])
    path = {"config": manifest["config"]["digest"], "layer": manifest["layers"][-1]["digest"]}
    registry.body = _changed(kind, path.get(what, what))
    before = registry.tags()
    with pytest.raises((MalformedError, RegistryError)) as refused:
        build(project.catalog(), base)
    assert refused.value.remedy
    assert registry.tags() == before
    assert len(waits) < 20


def test_a_layer_of_another_size_is_refused(
    registry: FakeRegistry, project: Project, layout: str
) -> None:
    base = registry.push_layout(layout, "base:1")
    manifest = json.loads(registry.manifests["base", "1"][1])
    for size in (0, 10, manifest["layers"][-1]["size"] + 1):
        manifest["layers"][-1]["size"] = size
        raw = json.dumps(manifest).encode()
        kind = registry.manifests["base", "1"][0]
        registry.manifests["base", "odd"] = registry.manifests["base", digest(raw)] = (kind, raw)
        with pytest.raises(MalformedError, match=r"digest|its descriptor says"):
            build(project.catalog(), base.replace(":1", ":odd"))


@pytest.mark.usefixtures("waits")
@pytest.mark.parametrize("path", ["/manifests/", "config", "/token", "403"])
def test_an_answer_without_end_is_refused(
    path: str, registry: FakeRegistry, project: Project, layout: str
) -> None:
    base = registry.push_layout(layout, "base:1")
    config = json.loads(registry.manifests["base", "1"][1])["config"]["digest"]
    if path == "403":
        registry.fault = lambda _, asked: 403 if asked.path != "/v2/" else None
    registry.tokens = path == "/token"
    wanted = {"config": config, "403": "/manifests/"}.get(path, path)
    registry.endless = lambda asked: wanted in asked.path
    with pytest.raises(RegistryError):
        build(project.catalog(), base)


@pytest.mark.usefixtures("waits")
def test_an_endless_layer_is_read_to_its_size(
    registry: FakeRegistry, project: Project, layout: str
) -> None:
    base = registry.push_layout(layout, "base:1")
    layer = json.loads(registry.manifests["base", "1"][1])["layers"][-1]["digest"]
    registry.endless = lambda asked: layer in asked.path
    with pytest.raises(MalformedError):
        build(project.catalog(), base)


@pytest.mark.usefixtures("waits")
@pytest.mark.parametrize("what", ["manifests/1", "config", "layer", "nothing"])
def test_an_answer_that_hardly_comes_is_refused(
    what: str,
    registry: FakeRegistry,
    project: Project,
    layout: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base = registry.push_layout(layout, "base:1")
    manifest = json.loads(registry.manifests["base", "1"][1])
    path = {"config": manifest["config"]["digest"], "layer": manifest["layers"][-1]["digest"]}
    registry.slow = lambda asked: path.get(what, what) in asked.path
    if what == "nothing":  # for the time that a read may take
        registry.slow = lambda asked: threading.Event().wait(0.2) and asked.path == "/v2/"
    monkeypatch.setattr(client_module, "_READ_SECONDS", 0.1)
    monkeypatch.setattr(client_module, "_BODY_SECONDS", 0.1)
    monkeypatch.setattr(blobs_module, "_SLOW_SECONDS", 0.1)
    with pytest.raises(RegistryError) as refused:
        build(project.catalog(), base)
    assert refused.value.remedy


def test_a_redirect_loop_ends(registry: FakeRegistry, project: Project, layout: str) -> None:
    base = registry.push_layout(layout, "base:1")
    registry.elsewhere = registry.address
    with pytest.raises(RegistryError, match="redirects more than 5 times"):
        build(project.catalog(), base)


def _log_in(registry: FakeRegistry, where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = docker_config(where / "docker", registry.address, USER)
    monkeypatch.setenv("DOCKER_CONFIG", str(folder))
    registry.tokens = True


def test_other_hosts_get_no_credentials(
    registry: FakeRegistry,
    project: Project,
    layout: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Blobs lie on another host, and uploads go to one; ~/.netrc is not read either."""
    (tmp_path / ".netrc").write_text("default login netrc password netrc\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    with fake_registry("localhost") as store:
        base = registry.push_layout(layout, "base:1")
        store.blobs = registry.blobs
        registry.elsewhere = store.address
        _log_in(registry, tmp_path, monkeypatch)
        registry.upload_address, store.uploads = store.address, registry.uploads
        build(project.catalog(), base, f"docker://{registry.address}/base:new")
        assert {asked.method for asked in store.asked} >= {"GET", "PUT"}
        assert not [asked for asked in store.asked if "Authorization" in asked.headers]
    signed_in = [a for a in registry.asked if "Authorization" in a.headers]
    assert all(USER[1] not in str(a.headers) for a in signed_in)
    basic = [a for a in signed_in if a.headers["Authorization"].startswith("Basic")]
    assert {asked.path for asked in basic} == {"/token"}


@pytest.mark.parametrize("uses", [1, 2, 3, 7])
def test_a_token_that_expires_is_renewed(
    uses: int,
    registry: FakeRegistry,
    project: Project,
    layout: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base = registry.push_layout(layout, "team/base:1")
    _log_in(registry, tmp_path, monkeypatch)
    registry.token_uses = uses
    build(project.catalog(), base, f"docker://{registry.address}/team/new:1")
    assert registry.whole("team/new", "1")
    assert registry.scopes[-1] == ["repository:team/base:pull", "repository:team/new:pull,push"]


def test_credentials_are_in_no_error_log_or_cache(
    registry: FakeRegistry,
    project: Project,
    layout: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    known_images: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The registry repeats what it was sent, as some do in their errors."""
    caplog.set_level(logging.DEBUG)
    base = registry.push_layout(layout, "base:1")
    _log_in(registry, tmp_path, monkeypatch)
    build(project.catalog(), base, f"docker://{registry.address}/base:new")
    registry.body = lambda asked, raw: (
        json.dumps(
            {"errors": [{"code": "DENIED", "message": asked.headers.get("Authorization")}]}
        ).encode()
        if asked.path.endswith("manifests/1")
        else raw
    )
    registry.fault = lambda _, asked: (
        403 if asked.path.endswith("manifests/1") and ("Authorization" in asked.headers) else None
    )
    done = call_build(project, base, "--tag", f"docker://{registry.address}/base:newer")
    assert "DENIED" in done.facts["error"]["message"]
    said = [done.out, done.err, caplog.text, *map(repr, bytes_of(known_images).values())]
    for secret in filter(None, (USER[1], *registry.issued)):
        assert not [text for text in said if secret in text]


def test_what_a_busy_registry_asks_for_is_waited(
    registry: FakeRegistry, project: Project, layout: str, waits: list[float]
) -> None:
    base = registry.push_layout(layout, "base:1")
    for tag, (said, waited) in enumerate(
        (("7", 7), ("86400", 60), ("Fri, 31 Dec 2199 23:59:59 GMT", 60), ("x", 0.25))
    ):
        registry.retry_after = said
        start = len(registry.asked)
        registry.fault = _at(start + 1, 429)
        del waits[:]
        build(project.catalog(), base, f"docker://{registry.address}/base:new{tag}")
        assert waits == [waited]


@pytest.mark.usefixtures("waits")
def test_a_host_without_tls_must_be_named(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []

    def send(_: object, request: Any, **__: object) -> None:
        sent.append(request.url)
        raise OSError(111, "Connection refused")

    monkeypatch.setattr("requests.adapters.HTTPAdapter.send", send)
    base = "docker://registry.example:5000/widget:1"
    with pytest.raises(RegistryError, match=r"registry\.example:5000 does not answer"):
        build(project.catalog(), base)
    assert set(sent) == {"https://registry.example:5000/v2/widget/manifests/1"}
    del sent[:]
    monkeypatch.setenv("PKGTOOLS_PLAIN_HTTP", "other.example, registry.example:5000")
    with pytest.raises(RegistryError):
        build(project.catalog(), base)
    assert set(sent) == {"http://registry.example:5000/v2/widget/manifests/1"}


@pytest.mark.parametrize(
    "name",
    [
        "docker://",
        "docker:///x",
        "docker://host.example/",
        "docker://host.example/Widget",
        "docker://host.example/x:",
        "docker://host.example/x@sha256:12",
        "docker://host.example/x:a b",
        "docker://user:word@host.example/x",
        "docker://host.example/../x",
        "docker://host.example/x?y",
    ],
)
def test_a_name_of_no_registry_is_refused(name: str, project: Project) -> None:
    with pytest.raises(UsageError, match="invalid image name"):
        build(project.catalog(), name)


@pytest.mark.usefixtures("waits")
def test_the_kinds_of_refusal_are_those_of_a_user(project: Project) -> None:
    done = call_build(project, "docker://127.0.0.1:1/x:1")
    assert (done.code, done.facts["error"]["code"]) == (7, "registry")
    assert "Connection refused" in done.facts["error"]["message"]
    assert issubclass(RegistryError, PkgtoolsError)
