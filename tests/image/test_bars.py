"""The bars of images in a registry, on a small base in the shape of the benchmark's of 15 GB."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import registry as benchmark

from .images import Entry, moved
from .registries import docker_registry
from .test_early_stop import LOCAL

if TYPE_CHECKING:
    from pathlib import Path

    from project import Project

_MB = 1_000_000


@pytest.mark.parametrize("order", ["usual", "chunked"])
def test_few_bytes_are_read_and_sent_and_little_memory_is_used(
    order: str, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    with docker_registry(tmp_path / "registry") as registry:
        total = benchmark.put_base(registry, order, 40 * _MB, moved(widget, LOCAL))
        counts = benchmark.Counts()
        with benchmark.counting(registry.address, counts) as address:
            base = f"docker://{address}/base:{order}"
            # A table of contents is read in windows of a megabyte, however large the layer is.
            for limit in (0.02 * total if order == "usual" else 1.5 * _MB, 20_000):
                counts.down = counts.up = 0
                new = f"{base}-{limit:.0f}"
                _, memory = benchmark.measure(project.targets, base, new, tmp_path / "cache")
                assert counts.down <= limit
                assert counts.up <= 5 * _MB
                assert memory < 200 * _MB
