"""The engine's side, against a small engine that can be told to misbehave."""

from __future__ import annotations

import errno
import gc
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from commands import Result, call
from scenarios import apply, make_tree
from silent import Silent

from pkgtools.build.image import build_image
from pkgtools.errors import EngineError, UsageError
from pkgtools.image.checks import check_image
from pkgtools.image.inside import COMPILE
from pkgtools.image.model import Runnable
from pkgtools.image.reference import open_image

from .building import call_build
from .fake_engine import Engine, sent, serving
from .images import SITE, Entry, config_of, digest, entries_of, read, symlink, write_archive

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from project import Project


@pytest.fixture
def engine(
    widget: list[Entry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Engine]:
    """Serve an engine with widget:1, which DOCKER_HOST names."""
    made = Engine(tmp_path, widget)
    with serving(made) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "no config"))
        yield made


def _build(project: Project, *more: str, base: str = "widget:1") -> Result:
    return call_build(project, base, *more)


def _refused(done: Result, code: int) -> str:
    assert done.code == code, done.out
    message: str = done.facts["error"]["message"]
    return message


def test_the_layer_is_what_it_is_on_disk(engine: Engine, project: Project, tmp_path: Path) -> None:
    done = _build(project)
    assert done.code == 0, done.err
    digest12 = project.catalog().target("w-1.0").series.digest[7:19]
    assert done.facts["reference"] == f"widget:1-w-1.0-{digest12}"
    base = write_archive(tmp_path / "base.tar", [engine.layer])
    catalog = project.catalog()
    with open_image(base) as image:
        other = build_image(catalog, [catalog.target("w-1.0")], image, Silent())
    assert (done.facts["layer"], done.facts["written"]) == (other.layer, list(other.written))
    config = json.loads(engine.images[done.facts["reference"]])
    assert config["rootfs"] == read(other.reference).config["rootfs"]
    assert done.facts["id"] == digest(engine.images[done.facts["reference"]])
    assert engine.containers == {}


def test_a_thin_load_and_a_whole_one_are_the_same_image(engine: Engine, project: Project) -> None:
    thin = _build(project, "--tag", "thin:1")
    engine.takes_thin = False
    whole = _build(project, "--tag", "whole:1")
    assert (thin.code, whole.code) == (0, 0), whole.out
    assert engine.images["thin:1"] == engine.images["whole:1"]
    assert thin.facts["id"] == whole.facts["id"]
    assert [len(members) for members in engine.loads] == [3, 3, 4]


def test_a_whole_load_needs_space(
    engine: Engine, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    engine.takes_thin = False
    monkeypatch.setattr("pkgtools.image.engine.write_archive", full)
    done = _build(project)
    assert "temporary files" in _refused(done, 7)
    assert "TMPDIR" in done.facts["error"]["remedy"]


def _calls(engine: Engine, project: Project, *more: str) -> list[str]:
    """Return the calls of a build in which nothing breaks."""
    assert _build(project, *more).code == 0
    calls = list(engine.calls)
    engine.calls.clear()
    return calls


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("halfway", [False, True], ids=["before", "halfway"])
def test_an_engine_that_breaks_off_at_any_call(
    lasting: bool, halfway: bool, engine: Engine, project: Project, known_images: Path
) -> None:
    calls = _calls(engine, project, "--push")

    def kind(call: str) -> str:
        return re.sub("pkgtools-[0-9a-f]+|sha256:[0-9a-f]+", "*", call)

    numbers = {kind(call): number for number, call in enumerate(calls)}
    assert len(numbers) > 10
    for number in numbers.values():
        engine.calls.clear()
        engine.containers.clear()
        shutil.rmtree(known_images, ignore_errors=True)  # or it is not asked again
        engine.break_at, engine.lasting, engine.halfway = number, lasting, halfway
        done = _build(project, "--push")
        what = calls[number]
        is_harmless = done.code == 0 and (what.startswith("DELETE") or what == "GET /_ping")
        if not is_harmless:
            message = _refused(done, 7)
            assert "engine" in message, what
        if not lasting and not what.startswith("DELETE"):
            assert engine.containers == {}, what


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_by_a_run_that_is_stopped(
    number: signal.Signals, options: list[str], engine: Engine, project: Project, tmp_path: Path
) -> None:
    """By a user, a CI job's end, or a connection's."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    engine.holds = COMPILE
    command = ["env", f"--default-signal={number.name[3:]}"]  # nohup and & ignore some
    command += [sys.executable, "-m", "pkgtools", "image", "test", "widget:1"]
    command += [*options, "--target", "w-1.0", "--catalog", str(project.targets)]
    process = subprocess.Popen(
        command,
        env={**os.environ, "TMPDIR": str(scratch)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + 60
        while not (len(engine.calls) > 1 and engine.calls[-1].endswith("/logs") and _held(engine)):
            assert time.monotonic() < until, engine.calls
            time.sleep(0.01)
        assert list(scratch.iterdir())
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    finally:
        process.kill()
        engine.released.set()
    assert engine.containers == {}
    assert list(scratch.iterdir()) == []


def _held(engine: Engine) -> bool:
    return any(made["Cmd"][1] == engine.holds for made in engine.containers.values())


def test_an_image_is_looked_through_once(engine: Engine, project: Project) -> None:
    made = [call for call in _calls(engine, project) if "/containers/create" in call]
    again = [call for call in _calls(engine, project) if "/containers/create" in call]
    assert (len(made), again) == (1, [])


def test_images_that_share_their_layers_are_looked_through_once(
    engine: Engine, project: Project
) -> None:
    """Labels and commands do not change where Python finds the package; the environment can."""
    facts = json.loads(engine.images["widget:1"])
    facts["config"]["Labels"] = {"team": "ours"}
    engine.images["labelled:1"] = json.dumps(facts).encode()
    facts["config"]["Env"] = ["PYTHONPATH=/elsewhere"]
    engine.images["elsewhere:1"] = json.dumps(facts).encode()
    first = _build(project)
    for base, reads in (("labelled:1", 0), ("elsewhere:1", 1)):
        engine.calls.clear()
        again = _build(project, base=base)
        assert again.facts["layer"] == first.facts["layer"]
        assert sum("/containers/create" in call for call in engine.calls) == reads


def test_an_older_series_takes_no_container_more(
    engine: Engine, project: Project, tmp_path: Path
) -> None:
    """Its receipt names files that are gone: that they are not there was said already."""
    tree = make_tree(project, "site", tmp_path)
    apply(project, tree)
    engine.entries = entries_of(tree.root)
    engine.__post_init__()
    again = ("--target", "w-1.0", "--base", "widget:1", "--catalog", project.changed_targets)
    done = call("build", "image", "--json", *again)
    assert done.facts["replaced"]
    assert sum("/containers/create" in call for call in engine.calls) == 1


def test_the_word_of_one_engine_is_not_anothers(
    engine: Engine, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An id is what an engine says; what was found in one must not reach images of another."""
    assert _build(project).code == 0
    (tmp_path / "other").mkdir()
    other = Engine(tmp_path / "other", [Entry(f"{SITE}/nothing", b"")])
    other.images = dict(engine.images)
    with serving(other) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        done = _build(project)
    assert any("/containers/create" in call for call in other.calls), done.out


def test_another_platform_of_the_same_id_is_another_image(engine: Engine, project: Project) -> None:
    """An engine with containerd's store has an index's id, and pulls one platform or another."""
    engine.index = digest(b"an index of two platforms")
    assert _build(project, "--tag", "one:1").code == 0
    engine.entries = [*engine.entries, Entry("etc/arm64")]
    engine.__post_init__()
    engine.calls.clear()
    assert _build(project, "--tag", "other:1").code == 0
    assert any("/containers/create" in call for call in engine.calls)


# The SDK leaves a socket to the collector where nothing listens.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "host", ["tcp://127.0.0.1:1", "unix:///nowhere.sock", "nonsense://x", "tcp://"]
)
def test_no_engine_at_all(host: str, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    done = _build(project)
    gc.collect()
    assert "the Docker engine failed" in _refused(done, 7)
    assert "oci:" in done.facts["error"]["remedy"]


@pytest.mark.parametrize(
    "host", ["tcp://builder:PORT", "tcp://builder:99999", "tcp://[::1", "tcp://[zz]:1"]
)
def test_an_address_that_is_none(
    host: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    done = _build(project)
    assert "the configuration of the Docker engine cannot be read" in _refused(done, 7)
    assert "DOCKER_HOST" in done.facts["error"]["remedy"]


@pytest.mark.parametrize("name", ["config.json", "meta.json"])
@pytest.mark.parametrize("raw", ["[]", '{"auths": 1, "currentContext": 5}'])
def test_settings_of_docker_that_are_damaged(
    raw: str, name: str, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.delenv("DOCKER_CONTEXT", raising=False)
    _write_context(tmp_path, "mine", "tcp://127.0.0.1:1")
    (tmp_path / "config.json").write_text('{"currentContext": "mine"}')
    (damaged,) = tmp_path.rglob(name)
    damaged.write_text(raw)
    done = _build(project)
    assert "the configuration of the Docker engine cannot be read" in _refused(done, 7)


def test_an_engine_over_ssh_needs_its_library(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "paramiko", None)
    monkeypatch.setenv("DOCKER_HOST", "ssh://nobody@127.0.0.1:1")
    done = _build(project)
    assert "paramiko" in _refused(done, 7) + str(done.facts["error"]["remedy"])


def _write_context(where: Path, name: str, host: str) -> None:
    """Write a context as `docker context create` does."""
    meta = where / "contexts" / "meta" / digest(name.encode())[7:]
    meta.mkdir(parents=True)
    facts = {"Name": name, "Metadata": {}, "Endpoints": {"docker": {"Host": host}}}
    (meta / "meta.json").write_text(json.dumps(facts))


def test_contexts_are_honoured_as_the_docker_command_does(
    widget: list[Entry], project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DOCKER_HOST, then DOCKER_CONTEXT, then the configuration's current one."""
    engines = [Engine(tmp_path, widget) for _ in range(3)]
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "config"))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.delenv("DOCKER_CONTEXT", raising=False)
    with serving(engines[0]) as host, serving(engines[1]) as named, serving(engines[2]) as current:
        _write_context(tmp_path / "config", "named", named)
        _write_context(tmp_path / "config", "current", current)
        (tmp_path / "config" / "config.json").write_text('{"currentContext": "current"}')
        assert _build(project).code == 0
        assert [len(engine.loads) for engine in engines] == [0, 0, 1]
        monkeypatch.setenv("DOCKER_CONTEXT", "named")
        assert _build(project).code == 0
        assert [len(engine.loads) for engine in engines] == [0, 1, 1]
        monkeypatch.setenv("DOCKER_HOST", host)
        assert _build(project).code == 0
        assert [len(engine.loads) for engine in engines] == [1, 1, 1]
        monkeypatch.delenv("DOCKER_HOST")
        monkeypatch.setenv("DOCKER_CONTEXT", "gone")
        assert "gone" in _refused(_build(project), 7)


@pytest.mark.parametrize("tag", ["widget:1", "widget:2", "other"])
def test_no_name_of_the_base_is_taken(tag: str, engine: Engine, project: Project) -> None:
    engine.images["widget:2"] = engine.images["other:latest"] = engine.images["widget:1"]
    before = dict(engine.images)
    assert f"{tag} is a name of the base" in _refused(_build(project, "--tag", tag), 2)
    assert engine.images == before


@pytest.mark.parametrize(
    "tag",
    [
        "docker-archive:x.tar",
        "oci:layout:x",
        "Mine:1",
        "mine 1",
        "mine@sha256:" + "0" * 64,
        "a:b:c",
    ],
)
def test_what_is_no_name_in_an_engine_is_refused(
    tag: str, engine: Engine, project: Project
) -> None:
    """An archive above all: an engine takes it for a repository, and no file comes about."""
    before = dict(engine.images)
    done = _build(project, "--tag", tag)
    assert f"invalid image name {tag!r}" in _refused(done, 2)
    assert "--tag" in done.facts["error"]["remedy"]
    assert engine.images == before
    assert not engine.loads


@pytest.mark.parametrize(
    "tag", ["a/b__c/d-e:1_2.3-X", "localhost/x", "r.example:5000/x:1", "[::1]/x:1"]
)
def test_every_name_of_an_engine_is_taken(tag: str, engine: Engine, project: Project) -> None:
    assert _build(project, "--tag", tag).code == 0
    assert (tag if ":" in tag.rpartition("/")[2] else f"{tag}:latest") in engine.images


def test_a_name_that_its_id_starts_with_is_a_name(engine: Engine, project: Project) -> None:
    letters = digest(engine.images["widget:1"])[7:11]
    assert "has no tag to add a suffix to" in _refused(_build(project, base=letters), 2)
    engine.images[f"{letters}:latest"] = engine.images["widget:1"]
    ids = set()
    for name in (letters, f"{letters}:latest"):
        done = _build(project, base=name)
        assert done.code == 0, done.out
        assert done.facts["reference"].startswith(f"{letters}:latest-w-1.0-")
        ids.add(done.facts["id"])
    assert len(ids) == 1


def test_the_name_of_another_image_is_moved(engine: Engine, project: Project) -> None:
    engine.images["mine:latest"] = config_of([])
    done = _build(project, "--tag", "mine")
    assert done.code == 0
    assert digest(engine.images["mine:latest"]) == done.facts["id"]


def test_a_push_says_what_the_registry_has(engine: Engine, project: Project) -> None:
    done = _build(project, "--push", "--tag", "registry.example:5000/widget:new")
    assert done.facts["digest"] == digest(engine.images["registry.example:5000/widget:new"])


def test_an_engine_that_keeps_short_logs(engine: Engine, project: Project) -> None:
    """The daemon's own log-opts count for every container that says nothing of them."""
    engine.log_size = 100
    assert _build(project).code == 0


def test_what_the_images_python_may_say(engine: Engine, project: Project) -> None:
    """It is the image's, so it may say anything."""
    own = json.dumps([f"/{SITE}"])
    for answer in ("", "nonsense", "[]", "{}", f"{own}\n[]\n!", "[" * 100_000 + "\n[]\nAA=="):
        engine.answer = answer
        assert "did not tell where 'widget' is" in _refused(_build(project), 2), answer
    for path in ("/../../etc", "../x", "/usr/../../x"):
        files = sent([Entry("etc/widget/__init__.py")])
        engine.answer = f"{json.dumps([path])}\n[]\n{files}"
        assert "no package 'widget'" in _refused(_build(project), 2), path
    engine.answer = f"{own}\n[]\n{sent([Entry('../widget/__init__.py')])}"
    assert "leads out of the image" in _refused(_build(project), 6)
    assert engine.containers == {}


def test_what_the_images_python_may_send(engine: Engine) -> None:
    """It can have answered well before: what a receipt names is asked for afterwards."""
    with open_image("widget:1") as image:
        for answer in ("", "nonsense!", "é"):
            engine.answer = answer
            with pytest.raises(UsageError, match="did not tell what is at /etc/x") as caught:
                image.read(["etc/x"])
            assert "docker-archive:" in str(caught.value.remedy)
    assert engine.containers == {}


@pytest.mark.parametrize("answer", ["", "nonsense", "[]", "[" * 100_000])
def test_a_python_that_does_not_say_what_it_compiles(
    answer: str, engine: Engine, project: Project
) -> None:
    catalog = project.catalog()
    with open_image("widget:1") as image:
        assert isinstance(image, Runnable)
        checks = check_image(catalog, catalog.target("w-1.0"), image, Silent())
        assert next(checks).name == "identity"
        engine.answer = answer
        compilation = next(checks)
    assert compilation.name == "compilation"
    assert "the image's Python answered" in str(compilation.message)


def test_an_image_without_a_python(engine: Engine, project: Project) -> None:
    engine.python = None
    assert "does not run python3 or python" in _refused(_build(project), 2)
    engine.python = "/opt/venv/bin/python"
    assert _refused(_build(project), 2)
    assert _build(project, "--python", "/opt/venv/bin/python").code == 0
    engine.python = "python"
    assert _build(project, "--tag", "another").code == 0
    assert engine.containers == {}


def test_an_engine_that_starts_nothing(engine: Engine, project: Project) -> None:
    engine.start_fails = "no space left on device"
    assert "no space left" in _refused(_build(project), 7)
    # podman's answer where the program is missing
    engine.start_fails = "crun: executable file `python3` not found in $PATH"
    assert "does not run python3 or python" in _refused(_build(project), 2)
    assert engine.containers == {}


def test_a_link_for_the_receipt_is_refused(engine: Engine, project: Project) -> None:
    link = symlink(f"{SITE}/widget_kit-1.0.dist-info/pkgtools.json", "/etc/passwd")
    engine.entries = [*engine.entries, link]
    assert "is not a file" in _refused(_build(project), 7)
    assert engine.containers == {}


def test_no_such_image(engine: Engine, project: Project) -> None:
    done = _build(project, base="gadget:1")
    assert "the engine has no image gadget:1" in _refused(done, 2)
    assert done.facts["error"]["remedy"] == "docker pull gadget:1"
    assert engine.containers == {}


@pytest.mark.parametrize(
    "base", ["/", "../../version", "Widget:1", "widget 1", "widget:1#x", "caf\udce9", "widget@x"]
)
def test_what_is_no_name_of_an_image_is_not_asked_for(
    base: str, engine: Engine, project: Project
) -> None:
    assert "invalid image name" in _refused(_build(project, base=base), 2)
    assert engine.calls == []


@pytest.mark.parametrize("form", ["sha256:{}", "{}", "{:.12}"])
def test_an_id_is_no_name(form: str, engine: Engine, project: Project) -> None:
    """None to vary, and none that a registry has the base by."""
    base = form.format(digest(engine.images["widget:1"]).removeprefix("sha256:"))
    assert "--tag" in _build(project, base=base).facts["error"]["remedy"]
    assert _build(project, "--tag", "new:1", base=base).code == 0
    labels = json.loads(engine.images["new:1"])["config"]["Labels"]
    assert "org.opencontainers.image.base.name" not in labels


def test_inspect_reads_what_build_made(engine: Engine, project: Project) -> None:
    done = call("image", "inspect", "widget:1", "--json", "--catalog", project.targets)
    assert (done.code, done.facts["status"]["state"]) == (0, "pristine")
    engine.break_at, engine.lasting = 0, True
    with pytest.raises(EngineError):
        open_image("widget:1")
