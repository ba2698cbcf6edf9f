"""A series from patches that others made, and a series as one flat diff."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pkgtools.catalog.series import LISTING, load_patch, load_series
from pkgtools.errors import DoesNotApplyError, MalformedError, UsageError
from pkgtools.plan import plan_series
from pkgtools.port.gitdiff import diff_text
from pkgtools.port.model import FileChange
from pkgtools.port.series import refusal, write_series

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pkgtools.catalog import Series
    from pkgtools.patch import Patch
    from pkgtools.source import Source

_NUMBERED: Final = re.compile(r"\d+-")
_SUFFIX: Final = re.compile(r"\.(?:patch|diff)$")
_UNFIT: Final = re.compile(r"[^A-Za-z0-9._+-]+")


def import_patches(paths: Sequence[Path], output: Path, source: Source | None) -> list[str]:
    """Make a series of patch files or of folders of them, byte by byte as they are.

    A folder's own ``series`` file gives the order, else the names do. Files
    without a number get one.

    Raises:
        UsageError: there is no patch, or something at `output`.
        MalformedError: a patch is not well-formed.
        DoesNotApplyError: the series does not apply to `source`.

    """
    sources = [patch for path in paths for patch in _patches_in(path)]
    if not sources:
        raise UsageError(
            f"there is no .patch or .diff in {', '.join(map(str, paths))}",
            remedy="name the patch files, or the folder that they lie in",
        )
    patches: dict[str, Patch] = {}
    for number, patch in enumerate(sources, 1):
        stem = _UNFIT.sub("-", _SUFFIX.sub("", patch.name))
        name = f"{stem if _NUMBERED.match(stem) else f'{number:04}-{stem}'}.patch"
        if name in patches:
            raise UsageError(f"two patches would be called {name}", remedy="rename one of them")
        patches[name] = replace(patch, name=name, is_shared=False)
    if source is not None:
        plan = plan_series(list(patches.values()), source.read)
        if not plan.ok:
            raise DoesNotApplyError(
                f"the patches do not apply to {source.label}",
                remedy="give the source that they were made for with --from",
                refusal=refusal(source, plan),
            )
    write_series(output, list(patches.values()), None)
    return list(patches)


def _patches_in(path: Path) -> list[Patch]:
    if path.is_dir():
        if (path / LISTING).is_file():
            return list(load_series(path).patches)
        files = sorted(f for f in path.iterdir() if f.suffix in (".patch", ".diff"))
        return [load_patch(file) for file in files]
    if not path.is_file():
        raise MalformedError(f"{path} is neither a file nor a folder")
    return [load_patch(path)]


def export_series(series: Series, source: Source) -> bytes:
    """Return what a series does to a source, as one diff.

    Raises:
        DoesNotApplyError: it does not apply.

    """
    plan = plan_series(series.patches, source.read)
    if not plan.ok:
        raise DoesNotApplyError(
            f"{series.name} does not apply to {source.label}",
            remedy="port it with `pkgtools port`, or give the source that it is for",
            refusal=refusal(source, plan),
        )
    changes = [FileChange(c.path, c.path, c.before, c.after) for c in plan.changes]
    return diff_text(changes)
