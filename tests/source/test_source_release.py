"""Releases that pip brings into a cache, and wheels that were given."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import call
from crash import fork, in_child
from project import build_wheel
from silent import Silent

from pkgtools.errors import SourceUnavailableError
from pkgtools.source import release as releases
from pkgtools.source.release import cached_wheel, release_wheel

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from project import Project

    from pkgtools.catalog import Upstream


_SAYS = (
    "echo 'ERROR: Could not find a version that satisfies the requirement x==1.0 (from versions:"
)
_NONE, _SOME, _NEAR, _ODD = (
    f"{_SAYS} {versions})' >&2"
    for versions in (
        "none",
        "0.1, 0.2rc1, 0.9.post1",
        "0.8, 0.9, 0.10, 1.0.1, 2.0, 10.0",
        "0.9, 0.9-odd-r12",
    )
)
_GONE = "echo 'ERROR: No matching distribution found for x==1.0' >&2"
_RETRY = "echo 'WARNING: Retrying (Retry(total=0)) after connection broken by ...' >&2"


class Listener(Silent):
    """Remembers what was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def task(self, text: str) -> AbstractContextManager[None]:
        """Remember it."""
        self.told.append(text)
        return super().task(text)


@pytest.fixture
def upstream(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Upstream:
    """Return the upstream, with an empty cache, and pip told to look into a folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(project.wheel("1.0").parent))
    return project.catalog().upstreams[0]


def test_pip_is_asked_once(
    upstream: Upstream, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = Listener()
    assert cached_wheel(upstream, "1.0", {}) is None
    path = release_wheel(upstream, "1.0", {}, listener)
    assert path.read_bytes() == project.wheel("1.0").read_bytes()
    assert [entry.name for entry in path.parent.glob("tmp*")] == []
    monkeypatch.setattr(sys, "executable", "/none")
    assert release_wheel(upstream, "1.0", {}, listener) == path
    assert listener.told == ["downloading widget-kit 1.0"]


def test_a_release_that_pip_does_not_have(upstream: Upstream) -> None:
    with pytest.raises(SourceUnavailableError, match=r"widget-kit==9\.9: .*No matching") as caught:
        release_wheel(upstream, "9.9", {}, Silent())
    assert "--wheel" in str(caught.value.remedy)
    assert cached_wheel(upstream, "9.9", {}) is None


def test_a_wheel_of_another_digest_is_not_kept(upstream: Upstream, project: Project) -> None:
    known = {project.wheel("1.0").name: "0" * 64}
    with pytest.raises(SourceUnavailableError, match="the lockfile has 0000"):
        release_wheel(upstream, "1.0", known, Silent())
    assert cached_wheel(upstream, "1.0", {}) is None
    assert release_wheel(upstream, "1.0", {"another.whl": "0" * 64}, Silent()).exists()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("printf ' \\n\\n' >&2; exit 3", "exit status 3"),
        ("printf 'no such index\\n \\n' >&2; exit 3", "no such index$"),
        ("exit 0", "downloaded nothing"),
        (f"{_NONE}; {_GONE}; exit 1", "1.0: ERROR: No matching distribution found for x==1.0$"),
        (f"{_SOME}; {_GONE}; exit 1", "found for x==1.0; pip finds 0.2rc1, 0.9.post1$"),
        (f"{_ODD}; {_GONE}; exit 1", "1.0: ERROR: No matching distribution found for x==1.0$"),
        (f"{_NEAR}; {_GONE}; exit 1", "found for x==1.0; pip finds 0.9, 0.10, 1.0.1, 2.0$"),
        (
            f"{_RETRY}; {_NONE}; {_GONE}; exit 1",
            "1.0: the package index did not answer; ERROR: No ",
        ),
    ],
)
def test_a_pip_that_says_nothing(
    script: str, message: str, upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = tmp_path / "bin/pip"
    pip.parent.mkdir()
    pip.write_text(f"#!/bin/sh\n{script}\n")
    pip.chmod(0o755)
    monkeypatch.setattr(releases, "find_spec", lambda _name: None)
    monkeypatch.setenv("PATH", f"{pip.parent}:/usr/bin:/bin")
    with pytest.raises(SourceUnavailableError, match=message):
        release_wheel(upstream, "1.0", {}, Silent())
    assert releases.released_versions(upstream) == []


def test_without_pip_it_says_so(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "find_spec", lambda _name: None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SourceUnavailableError, match="pip is not installed") as caught:
        release_wheel(upstream, "1.0", {}, Silent())
    assert "--wheel" in str(caught.value.remedy)


@pytest.mark.usefixtures("_no_home")
def test_no_cache_at_all(project: Project) -> None:
    upstream = project.catalog().upstreams[0]
    assert cached_wheel(upstream, "1.0", {}) is None
    with pytest.raises(SourceUnavailableError, match="no home") as caught:
        release_wheel(upstream, "1.0", {}, Silent())
    assert "XDG_CACHE_HOME" in str(caught.value.remedy)


def test_a_cache_that_cannot_be_written(upstream: Upstream, tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(b"in the way")
    with pytest.raises(SourceUnavailableError, match="cannot be written") as caught:
        release_wheel(upstream, "1.0", {}, Silent())
    assert "XDG_CACHE_HOME" in str(caught.value.remedy)


def test_a_killed_download_is_not_taken_for_a_wheel(
    upstream: Upstream, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed_halfway(command: list[str], **_: object) -> None:
        name = project.wheel("1.0").name
        Path(command[command.index("--dest") + 1], name).write_bytes(b"PK")
        os.kill(os.getpid(), signal.SIGKILL)

    def killed_at_the_end(_path: Path) -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        return ""

    for patched, act in (("subprocess.run", killed_halfway), ("sha256", killed_at_the_end)):
        with monkeypatch.context() as patch:
            patch.setattr(f"pkgtools.source.release.{patched}", act)
            assert in_child(lambda: release_wheel(upstream, "1.0", {}, Silent())).killed
        assert cached_wheel(upstream, "1.0", {}) is None
    path = release_wheel(upstream, "1.0", {}, Silent())
    assert path.read_bytes() == project.wheel("1.0").read_bytes()


def test_two_downloads_at_once_make_one(upstream: Upstream, tmp_path: Path) -> None:
    told = tmp_path / "told"

    def work() -> None:
        listener = Listener()
        release_wheel(upstream, "1.0", {}, listener)
        with told.open("a") as file:
            file.write("".join(f"{text}\n" for text in listener.told))

    for child in [fork(work) for _ in range(3)]:
        assert not child.wait().failed
    assert told.read_text() == "downloading widget-kit 1.0\n"


def test_wheels_of_two_upstreams(project: Project, tmp_path: Path) -> None:
    """Each target takes its own; one that is nobody's is refused."""
    targets = project.copy_catalog(tmp_path / "catalog")
    text = targets.read_text()
    widget = text[text.index("[[upstream]]") : text.index("[[target]]")]
    other = widget.replace('"widget"', '"gadget"').replace("widget-kit", "gadget-kit")
    targets.write_text(text.replace("[[upstream]]", f"{other}\n[[upstream]]", 1))
    gadget = tmp_path / "gadget_kit-1.0-py3-none-any.whl"
    shutil.copy(build_wheel(tmp_path / "w", dict(project.releases["1.0"]), "1.0"), gadget)
    arguments = ("verify", "--dry-run", "--allow-missing", "--catalog", targets, "--json")
    wheels = [project.wheel("1.0"), gadget, project.wheel("1.1")]
    done = call(*arguments, *(word for path in wheels for word in ("--wheel", path)))
    assert done.code == 0
    assert [v["target"] for v in done.facts if v["outcome"] == "applies"] == ["w-1.0", "w-1.1"]
    stranger = gadget.rename(tmp_path / "nobodys-1.0-py3-none-any.whl")
    done = call(*arguments, "--wheel", project.wheel("1.0"), "--wheel", stranger)
    assert done.code == 2
    assert str(stranger) in done.facts["error"]["message"]


def test_of_several_wheels_of_a_release_each_is_verified(project: Project, tmp_path: Path) -> None:
    other = tmp_path / "widget_kit-1.0-cp312-cp312-manylinux_2_34_x86_64.whl"
    shutil.copy(project.wheel("1.0"), other)
    wheels = ("--wheel", project.wheel("1.0"), "--wheel", other)
    done = call(
        "verify", "--dry-run", "--target", "w-1.0", "--catalog", project.targets, *wheels, "--json"
    )
    assert [v["source"] for v in done.facts] == [project.wheel("1.0").name, other.name]
    assert {v["outcome"] for v in done.facts} == {"applies"}


def test_the_versions_of_any_pip(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = tmp_path / "pip"
    pip.write_text(
        "#!/bin/sh\ncase \"$*\" in *--json*) echo 'no such option: --json' >&2; exit 2;; esac\n"
        "echo 'widget-kit (1.2)'\necho 'Available versions: 1.2, 1.1, 1.0rc1'\n"
    )
    pip.chmod(0o755)
    monkeypatch.setattr(releases, "_pip", lambda: [str(pip)])
    assert releases.released_versions(upstream) == ["1.2", "1.1", "1.0rc1"]
