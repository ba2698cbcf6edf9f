"""One store for all tests of a worker, and each tree made once for all workers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from serving.models import write_k3, write_llama
from serving.mooncake import Master, Reader

from .trees import Trees

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Trees:
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    return Trees(shared / "trees")


@pytest.fixture(scope="session")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Master]:
    pytest.importorskip("mooncake.store", exc_type=ImportError)
    with Master(tmp_path_factory.mktemp("mooncake")) as running:
        yield running


@pytest.fixture(scope="session")
def reader(master: Master) -> Iterator[Reader]:
    client = Reader(master)
    yield client
    client.close()


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("models") / "llama")


@pytest.fixture(scope="session")
def k3_dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_k3(tmp_path_factory.mktemp("models") / "k3-dense", moe=False)


@pytest.fixture(scope="session")
def k3_moe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_k3(tmp_path_factory.mktemp("models") / "k3-moe", moe=True)
