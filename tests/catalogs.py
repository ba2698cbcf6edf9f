"""Catalogs of other teams, for the same synthetic package."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from silent import Silent

from pkgtools.authoring.lock import write_locks
from pkgtools.blob import Blob
from pkgtools.catalog import load_catalog
from pkgtools.source.at_hand import AtHand

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from project import Project

_TABLE = """\
{name}
[[upstream]]
name = "widget"
git = "https://git.example.invalid/widget"
distribution = "widget-kit"
package = "widget"
prefix = "src/"

[[target]]
name = "{target}"
upstream = "widget"
series = "s"
release = {{ version = "1.0", tag = "v1.0" }}
"""


def write_catalog(
    project: Project,
    where: Path,
    edits: Mapping[str, tuple[str, str]],
    *,
    target: str = "other-1.0",
    name: str | None = None,
    patch: str = "other.patch",
) -> Path:
    """Write a catalog whose one series replaces text in some files; return its targets.toml."""
    folder = where / "patches" / "widget" / "s"
    folder.mkdir(parents=True)
    diff = ""
    for path, (old, new) in edits.items():
        before = project.releases["1.0"].get(f"src/{path}", Blob(b"")).data.decode()
        after = before.replace(old, new) if old else new
        assert after != before
        lines = difflib.unified_diff(
            before.splitlines(keepends=True),
            after.splitlines(keepends=True),
            f"a/src/{path}" if before else "/dev/null",
            f"b/src/{path}",
        )
        diff += "".join(lines)
    (folder / patch).write_text(diff)
    (folder / "series").write_text(f"{patch}\n")
    table = where / "targets.toml"
    named = f'name = "{name}"\n' if name else ""
    table.write_text(_TABLE.format(name=named, target=target))
    write_locks(load_catalog(table).targets, AtHand(Silent(), [project.wheel("1.0")]))
    return table
