"""Two packages, alpha and beta, each with a target of one catalog."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from commands import call
from project import age, record_row
from silent import Silent

from pkgtools.authoring.lock import write_locks
from pkgtools.catalog import Catalog, load_catalog
from pkgtools.source import find_tree
from pkgtools.source.at_hand import AtHand
from pkgtools.tree.apply import apply_targets

if TYPE_CHECKING:
    from pathlib import Path

    from commands import Result

    from pkgtools.catalog import Upstream
    from pkgtools.source import Tree

NAMES = ("alpha", "beta")


@dataclass(frozen=True)
class Two:
    """Two packages, each with a target."""

    targets: Path
    root: Path
    """A site-packages folder, a checkout, or a folder with a tree for each."""
    python: Path | None = None
    """Where the trees lie apart: an interpreter that knows both."""

    @property
    def catalog(self) -> Catalog:
        """Read the catalog."""
        return load_catalog(self.targets)

    def do(self, verb: str, *more: str) -> Result:
        """Call pkgtools."""
        where = ("--python", self.python) if self.python else ("--tree", self.root)
        return call(verb, *where, "--catalog", self.targets, *more)

    def tree(self, upstream: Upstream) -> Tree:
        """Find one of the trees."""
        return find_tree(self.root / upstream.name if self.python else self.root, upstream)

    def apply(self) -> None:
        """Apply both at once."""
        catalog = self.catalog
        wanted = [(target, self.tree(target.upstream)) for target in catalog.targets]
        apply_targets(catalog, wanted, Silent())


def write_table(where: Path, revision: str, prefixes: dict[str, str]) -> Path:
    lines = ['name = "both-teams"']
    for name, prefix in prefixes.items():
        lines += ["[[upstream]]", f'name = "{name}"', 'git = "x"', f'distribution = "{name}"']
        lines += [f'package = "{name}"', f'prefix = "{prefix}"']
        folder = where / "patches" / name / "s"
        folder.mkdir(parents=True)
        path = f"{prefix}{name}/__init__.py"
        new = f"--- /dev/null\n+++ b/{prefix}{name}/new/more.py\n@@ -0,0 +1 @@\n+NEW = 1\n"
        change = f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-A = 1\n+A = 2\n"
        (folder / "x.patch").write_text(change + new)
        (folder / "series").write_text("x.patch\n")
    for name in prefixes:
        lines += ["[[target]]", f'name = "{name}-1"', f'upstream = "{name}"', 'series = "s"']
        lines += [revision]
    (where / "targets.toml").write_text("\n".join(lines) + "\n")
    return where / "targets.toml"


def make_site(tmp_path: Path) -> Two:
    """Install two packages into one environment."""
    root = tmp_path / "site"
    wheels = []
    for name in NAMES:
        files = {
            f"{name}/__init__.py": b"A = 1\n",
            f"{name}-1.0.dist-info/METADATA": f"Name: {name}\nVersion: 1.0\n".encode(),
            f"{name}-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\n",
        }
        rows = b"".join(record_row(path, data) for path, data in files.items())
        files[f"{name}-1.0.dist-info/RECORD"] = rows + f"{name}-1.0.dist-info/RECORD,,\n".encode()
        wheels.append(tmp_path / f"{name}-1.0-py3-none-any.whl")
        with zipfile.ZipFile(wheels[-1], "w") as archive:
            for path, data in files.items():
                archive.writestr(path, data)
            archive.extractall(root)
    age(root)
    release = 'release = { version = "1.0", tag = "v1" }'
    targets = write_table(tmp_path / "catalog", release, dict.fromkeys(NAMES, ""))
    write_locks(load_catalog(targets).targets, AtHand(Silent(), wheels))
    return Two(targets, root)
