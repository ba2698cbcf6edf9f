"""A person's day with a package: init, six edits, a port with a conflict, a wheel, an upgrade.

Every refusal on the way says what to do next.
"""

from __future__ import annotations

import re
import shutil
import zipfile
from typing import TYPE_CHECKING

import pytest
from commands import Result, call
from trees import record_problems, snapshot, timeless

from pkgtools.catalog import load_catalog

if TYPE_CHECKING:
    from pathlib import Path

    from project import Project


class Day:
    """An environment, a catalog, and the commands on them."""

    def __init__(self, project: Project, root: Path) -> None:
        self.project = project
        self.site = root / "site"
        self.catalog = root / "catalog"
        self.package = self.site / "widget"
        self._wheels: list[str | Path] = []
        for version in ("1.0", "1.1"):
            self._wheels += ["--wheel", project.wheel(version)]

    def run(self, verb: str, *words: str | Path) -> Result:
        """Run a command; one that is refused says what to do next."""
        options: list[str | Path] = ["--catalog", self.catalog]
        if verb in ("new", "refresh", "lock", "port", "drop", "reorder", "checkout"):
            options += self._wheels
        if verb in ("new", "apply", "adopt", "status", "verify", "reverse"):
            options += ["--tree", self.site]
        done = call(verb, *words, *options)
        assert done.code == 0 or "next: " in done.err + done.out, done.err
        return done

    def does(self, verb: str, *words: str | Path) -> Result:
        """Run a command that has to work."""
        done = self.run(verb, *words)
        assert done.code == 0, done.err
        return done

    def edit(self, name: str, old: str, new: str) -> None:
        """Edit a file of the installed package."""
        path = self.package / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def new(self, name: str) -> None:
        """Make a patch of what was edited, and settle the environment."""
        self.does("new", name, "--series", "v1.0", "-m", f"{name}: a reason")
        self.does("lock")
        self.does("adopt", "--target", "v1.0")
        self.does("verify")


@pytest.fixture
def day(project: Project, tmp_path: Path) -> Day:
    project.install(tmp_path / "site")
    return Day(project, tmp_path)


def test_a_day(day: Day, tmp_path: Path) -> None:
    before = timeless(snapshot(day.site))
    assert call("init", "--wheel", day.project.wheel("1.0"), "-o", day.catalog).code == 0
    day.does("apply")
    _edit_six_times(day)
    targets = load_catalog(day.catalog / "targets.toml").target("v1.0")
    assert len(targets.series.patches) == 6
    assert day.run("drop", "fix", "--series", "v1.0").code == 3  # the docs are in the same lines
    day.does("rename", "docs", "answer-docs.patch", "--series", "v1.0")
    day.does("apply")
    (info,) = day.site.glob("*.dist-info")
    assert record_problems(info) == []
    day.does("reverse")
    assert timeless(snapshot(day.site)) == before
    day.does("apply")
    _port(day)
    made = call(
        "build",
        "wheel",
        "--target",
        "v1.1",
        "-o",
        tmp_path / "wheels",
        "--wheel",
        day.project.wheel("1.1"),
        "--catalog",
        day.catalog,
    )
    assert made.code == 0, made.err
    with zipfile.ZipFile(next((tmp_path / "wheels").glob("*.whl"))) as wheel:
        assert b"ANSWER = 42" in wheel.read("widget/answer.py")
    _upgrade(day)


def _edit_six_times(day: Day) -> None:
    day.edit("answer.py", "ANSWER = 41", "ANSWER = 42")
    assert day.run("verify").code != 0
    day.new("fix")
    (day.package / "extra.py").write_text("EXTRA = 1\n")
    day.new("module")
    (day.package / "legacy" / "gone.py").unlink()
    day.new("deletion")
    (day.package / "other.py").rename(day.package / "another.py")
    day.new("rename")
    day.edit("core.py", "def clip(values, limit=LIMIT):", "def clip(values, *, limit=LIMIT):")
    day.new("signature")
    day.edit("answer.py", "The answer.", "The right answer.")
    day.new("docs")


def _port(day: Day) -> None:
    """Upstream reworded the sentence that the docs patch rewords too: a person decides."""
    asked = day.run("port", "--series", "v1.0", "--to", "1.1", "--write")
    assert asked.code == 3
    (conflict,) = (day.catalog / "patches" / "widget-kit").glob("*.port/conflicts/widget/*.py")
    waiting = call("port", "--continue", "--catalog", day.catalog)
    assert (waiting.code, "next: edit them" in waiting.err) == (3, True)
    text = conflict.read_text()
    conflict.write_text(re.sub(r"(?s)<<<<<<<.*>>>>>>>[^\n]*\n", '"""The right one."""\n', text))
    assert call("port", "--continue", "--write", "--catalog", day.catalog).code == 0
    day.does("lock")
    day.does("targets")


def _upgrade(day: Day) -> None:
    """Install the next release as pip does: the files of the old one go, patched or not."""
    shutil.rmtree(day.site)
    day.project.install(day.site, "1.1")
    before = timeless(snapshot(day.site))
    assert day.run("verify").code == 8  # it is not patched
    day.does("apply")
    day.does("verify")
    assert (day.package / "another.py").exists()
    assert (day.package / "answer.py").read_text().startswith('"""The right one."""')
    day.does("reverse")
    assert timeless(snapshot(day.site)) == before
