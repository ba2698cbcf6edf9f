"""A small upstream whose releases a test writes down, with wheels, a repository and a series."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from commands import Result, call
from project import PREFIX, build_wheel, git, make_series, put, remove, write_history
from silent import Silent

from pkgtools.authoring.lock import write_locks
from pkgtools.blob import Blob
from pkgtools.catalog import load_catalog, load_series
from pkgtools.plan import plan_series
from pkgtools.source import WheelSource
from pkgtools.source.at_hand import AtHand

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from project import Edit, Files

_UPSTREAM = """\
[[upstream]]
name = "widget"
git = "https://git.example.invalid/widget"
distribution = "widget-kit"
package = "widget"
prefix = "src/"
"""
_TARGET = """
[[target]]
name = "{name}"
upstream = "widget"
series = "{name}"
release = {{ version = "{version}", tag = "v{version}" }}
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

    def add_target(self, name: str, patch: str, version: str = "1.0") -> None:
        """Add a target with a series of one patch."""
        folder = self.series.with_name(name)
        folder.mkdir()
        (folder / f"{name}.patch").write_text(patch)
        (folder / "series").write_text(f"{name}.patch\n")
        with self.catalog.open("a") as table:
            table.write(_TARGET.format(name=name, version=version))

    def wheel(self, version: str) -> Path:
        """Return a release's wheel."""
        return self.root / "wheels" / f"widget_kit-{version}-py3-none-any.whl"

    def put_release(self, version: str, root: Path, kind: str) -> None:
        """Make a tree a release, as an upgrade, a checkout or an unpacked archive does.

        The tree is a ``site`` folder, a checkout of ``git``, or a ``plain`` folder with ``src``.
        """
        if kind == "git":
            if not root.exists():
                git(root.parent, "clone", "--quiet", self.repository, root)
            git(root, "checkout", "--quiet", "--force", f"v{version}")
            return
        with zipfile.ZipFile(self.wheel(version)) as wheel:
            if kind == "site":
                wheel.extractall(root)
            else:
                names = [name for name in wheel.namelist() if name.startswith("widget/")]
                wheel.extractall(root / "src", names)

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
    patches: Sequence[tuple[str, Mapping[str, str | None]]],
) -> Small:
    """Build it.

    Args:
        root: the folder.
        releases: by version, the package's files by name; the first is 1.0.
        patches: of the series, each with the files that it writes; None for one that it removes.

    """
    trees: dict[str, Files] = {}
    for version, named in releases.items():
        files: Files = {f"{PREFIX}widget/{n}": Blob(text.encode()) for n, text in named.items()}
        files.setdefault(f"{PREFIX}widget/__init__.py", Blob(b""))
        trees[version] = files
        build_wheel(root / "wheels", files, version)
    upstream = root / "upstream"
    tags = {version: f"v{version}" for version in trees}
    commits = write_history(upstream, trees, {version: version for version in trees}, tags)
    steps: list[tuple[str, list[Edit]]] = [
        (
            subject,
            [
                remove(f"{PREFIX}widget/{name}")
                if text is None
                else put(f"{PREFIX}widget/{name}", text.encode())
                for name, text in files.items()
            ],
        )
        for subject, files in patches
    ]
    folder = root / "catalog" / "patches" / "widget" / "one"
    make_series(upstream, commits["1.0"], trees["1.0"], steps, folder)
    (root / "catalog" / "targets.toml").write_text(
        _UPSTREAM + _TARGET.format(name="one", version="1.0")
    )
    return Small(root, commits)


KEEP = "".join(f"LINE_{n} = {n}\n" for n in range(20))
FIELDS = "class Args:\n    first: int = 1\n    last: int = 2\n"
MERGED = FIELDS.replace("    last", "    theirs: int = 7\n    last")
"""`FIELDS` as upstream changes it, beside what the stale series adds."""
HAS = "VALUE = 1\n"
FORGE = "https://github.com/acme/widget"


def stale(tmp_path: Path, last: str = FIELDS) -> Small:
    """Return a committed catalog whose series is of 1.0, where 1.1 and 1.2 are released."""
    first = {"keep.py": KEEP, "fields.py": FIELDS, "has.py": HAS}
    second = {**first, "keep.py": f"NEW = 0\n{KEEP}", "has.py": HAS.replace("1", "2")}
    third = {**second, "fields.py": last}
    small = make_small(
        tmp_path / "small",
        {"1.0": first, "1.1": second, "1.2": third},
        [
            ("keep: far down", {"keep.py": KEEP.replace("LINE_15 = 15", "LINE_15 = 0")}),
            (
                "fields: one more",
                {"fields.py": FIELDS.replace("    last", "    ours: int = 5\n    last")},
            ),
            ("has: a value that upstream will have", {"has.py": HAS.replace("1", "2")}),
        ],
    )
    table = small.catalog.read_text().replace("https://git.example.invalid/widget", FORGE)
    small.catalog.write_text(table)
    small.catalog.with_name("CHANGELOG.md").write_text(
        "# Changelog\n\n## Unreleased\n\n### Added\n\n"
        f"- `one`: for [1.0]({FORGE}/releases/tag/v1.0).\n"
    )
    write_locks(load_catalog(small.catalog).targets, AtHand(Silent(), [small.wheel("1.0")]))
    top = small.catalog.parent
    git(top, "init", "--quiet")
    git(top, "add", "--all")
    git(top, "commit", "--quiet", "--message", "all")
    return small
