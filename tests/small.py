"""A small upstream whose releases a test writes down, with wheels, a repository and a series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from commands import Result, call
from project import PREFIX, build_wheel, git, make_series, put

from pkgtools.blob import Blob
from pkgtools.catalog import load_catalog, load_series
from pkgtools.plan import plan_series
from pkgtools.source import WheelSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from project import Edit, Files

_TARGETS = """\
[[upstream]]
name = "widget"
git = "https://git.example.invalid/widget"
distribution = "widget-kit"
package = "widget"
prefix = "src/"

[[target]]
name = "one"
upstream = "widget"
series = "one"
release = { version = "1.0", tag = "v1.0" }
"""


@dataclass(frozen=True)
class Small:
    """Everything below one folder."""

    root: Path
    commits: Mapping[str, str]

    @property
    def catalog(self) -> Path:
        """The catalog's targets.toml."""
        return self.root / "catalog" / "targets.toml"

    @property
    def series(self) -> Path:
        """The series, which is for 1.0."""
        return self.root / "catalog" / "patches" / "widget" / "one"

    @property
    def repository(self) -> Path:
        """The upstream's repository; each release is a commit and a tag."""
        return self.root / "upstream"

    def wheel(self, version: str) -> Path:
        """Return a release's wheel."""
        return self.root / "wheels" / f"widget_kit-{version}-py3-none-any.whl"

    def port(self, *arguments: str | Path) -> Result:
        """Run ``pkgtools port`` with every wheel at hand."""
        wheels: list[str | Path] = []
        for path in sorted((self.root / "wheels").iterdir()):
            wheels += ["--wheel", path]
        return call("port", "--catalog", self.catalog, *wheels, *arguments)

    def made(self, series: Path, version: str) -> dict[str, bytes | None]:
        """Return what a series makes of a release's files: those that it changes."""
        source = WheelSource(self.wheel(version), load_catalog(self.catalog).upstreams[0])
        plan = plan_series(load_series(series).patches, source.read)
        assert plan.ok, plan.rejections
        return {c.path: c.after.data if c.after else None for c in plan.changes}


def make_small(
    root: Path,
    releases: Mapping[str, Mapping[str, str]],
    patches: Sequence[tuple[str, Mapping[str, str]]],
) -> Small:
    """Build it.

    Args:
        root: the folder.
        releases: by version, the package's files by name; the first is 1.0.
        patches: of the series, each with the files that it writes.

    """
    upstream = root / "upstream"
    upstream.mkdir(parents=True)
    git(upstream, "init", "--quiet", "--initial-branch", "main")
    commits = {}
    trees: dict[str, Files] = {}
    for version, named in releases.items():
        files: Files = {f"{PREFIX}widget/{n}": Blob(text.encode()) for n, text in named.items()}
        files.setdefault(f"{PREFIX}widget/__init__.py", Blob(b""))
        trees[version] = files
        for path in git(upstream, "ls-files", "-z").split("\0"):
            if path:
                (upstream / path).unlink()
        for path, blob in files.items():
            (upstream / path).parent.mkdir(parents=True, exist_ok=True)
            (upstream / path).write_bytes(blob.data)
        git(upstream, "add", "--all")
        git(upstream, "commit", "--quiet", "--allow-empty", "--message", version)
        git(upstream, "tag", f"v{version}")
        commits[version] = git(upstream, "rev-parse", "HEAD").strip()
        build_wheel(root / "wheels", files, version)
    steps: list[tuple[str, list[Edit]]] = [
        (subject, [put(f"{PREFIX}widget/{name}", text.encode()) for name, text in files.items()])
        for subject, files in patches
    ]
    folder = root / "catalog" / "patches" / "widget" / "one"
    make_series(upstream, commits["1.0"], trees["1.0"], steps, folder)
    git(upstream, "checkout", "--quiet", "main")
    (root / "catalog" / "targets.toml").write_text(_TARGETS)
    return Small(root, commits)
