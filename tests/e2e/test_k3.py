"""Kimi K3, dense and MoE: what is captured is what K3 defines, and what it has no hook for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from serving.k3 import CAPTURE, check_capture
from serving.process import NotReadyError
from serving.server import K3_ARGUMENTS, K3_ENVIRONMENT, Server

if TYPE_CHECKING:
    from pathlib import Path

    from serving.mooncake import Master, Reader

    from .trees import Trees

pytestmark = pytest.mark.server


@pytest.mark.parametrize("target", [*(f"v0.5.{n}" for n in range(17, 24)), "kimi-k3-ee560a2"])
def test_a_dense_k3(
    target: str, trees: Trees, k3_dense: Path, master: Master, reader: Reader, tmp_path: Path
) -> None:
    check_capture(trees.patched(target), k3_dense, master, reader, tmp_path, f"{target}-dense")


@pytest.mark.parametrize("target", ["v0.5.17", "v0.5.23", "kimi-k3-ee560a2"])
def test_an_moe_k3(
    target: str, trees: Trees, k3_moe: Path, master: Master, reader: Reader, tmp_path: Path
) -> None:
    check_capture(trees.patched(target), k3_moe, master, reader, tmp_path, f"{target}-moe")


def test_dflash_is_refused_where_k3_has_no_such_hook(
    trees: Trees, k3_dense: Path, master: Master, tmp_path: Path
) -> None:
    with pytest.raises(NotReadyError, match=r"has no set_dflash_layers_to_capture.*dspark"):
        Server(
            trees.patched("kimi-k3-ee560a2"),
            k3_dense,
            tmp_path,
            [*K3_ARGUMENTS, *(a.replace("dspark", "dflash") for a in CAPTURE[:-1])],
            {**K3_ENVIRONMENT, **master.environment()},
        ).close()
