"""The guarded files of every target's revisions, as they are and as pkgtools patches them."""

from __future__ import annotations

import atexit
import importlib.util
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from index import wheel_of

from guards.interpreter import Interpreter
from pkgtools.catalog import load_catalog
from pkgtools.plan import plan_series
from pkgtools.source import WheelSource
from pkgtools.source.git import Repository

if TYPE_CHECKING:
    from pkgtools.catalog import Revision, Target
    from pkgtools.source import Source

ATTN_RESIDUAL: Final = "python/sglang/srt/layers/attn_residual.py"
MARLIN_MOE: Final = "python/sglang/srt/layers/moe/fused_moe_triton/fused_marlin_moe.py"
ALL_REDUCE_FUSION: Final = "python/sglang/srt/layers/k3_ar_fusion.py"
ALL_REDUCE_FUSION_LATER: Final = "python/sglang/srt/layers/communication/k3_ar_fusion.py"
"""Where it is from 0.5.21 on."""
CAUSAL_CONV1D: Final = "python/sglang/kernels/ops/mamba/causal_conv1d_triton.py"

_CATALOG: Final = load_catalog(Path(__file__).parents[2] / "targets.toml")

REVISIONS: Final[dict[str, tuple[Target, Revision]]] = {
    f"{target.name}@{revision.name[:7]}": (target, revision)
    for target in _CATALOG.targets
    for revision in target.revisions
}
"""By the name that a test's id shows: the target's, and the release or the commit."""


@dataclass(frozen=True)
class Guarded:
    """One file before and after its series."""

    before: bytes
    after: bytes


@cache
def read(name: str, path: str) -> Guarded:
    """Return a guarded file of a revision; skip the test where there is none to be had."""
    target, revision = REVISIONS[name]
    source = (
        _commit(revision.commit)
        if revision.commit
        else WheelSource(wheel_of(target), target.upstream)
    )
    blob = source.read(path)
    if blob is None or (path == MARLIN_MOE and b"moe_topk_sum" not in blob.data):
        pytest.skip(f"{revision.name} has no such kernel in {path}: it is from before Kimi K3")
    plan = plan_series(target.series.patches, source.read)
    assert plan.ok, plan.rejections
    after = [change.after for change in plan.changes if change.path == path]
    assert len(after) <= 1
    patched = after[0] if after else blob
    assert patched is not None
    return Guarded(blob.data, patched.data)


def _commit(commit: str) -> Source:
    paths = [Path(p) for p in os.environ.get("PKGTOOLS_SGLANG_GIT", "").split(os.pathsep) if p]
    for path in paths:
        source = Repository(path).find(commit)
        if source is not None:
            return source
    pytest.skip(f"no git directory of PKGTOOLS_SGLANG_GIT ({len(paths)} named) holds {commit[:7]}")


@cache
def interpreter() -> Interpreter:
    """Return the process that runs the cases, one for all tests of this process."""
    if any(importlib.util.find_spec(name) is None for name in ("torch", "triton", "numpy")):
        reason = "the guards' proofs need torch, triton and numpy"
        # In CI the proofs are not optional.
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    started = Interpreter()
    atexit.register(started.__exit__, None, None, None)
    return started


def absorbs_offsets(name: str) -> bool:
    """Return whether the revision has the 64-bit offsets itself, as targets.toml says."""
    return any("64-bit" in patch.name for patch in REVISIONS[name][0].absorbed)
