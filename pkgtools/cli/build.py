"""``pkgtools build``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pkgtools.catalog import Target, load_catalog
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.output import plain
from pkgtools.errors import EngineError, SourceUnavailableError, UsageError
from pkgtools.source import WheelSource

if TYPE_CHECKING:
    from pkgtools.build.image import BuiltImage, BuiltIndex
    from pkgtools.image.known import KnownFacts
    from pkgtools.image.model import Pushable


_attest_option = click.option(
    "--attest",
    type=common.PATH,
    help="Write SBOM, SLSA provenance and, for fixed CVEs, OpenVEX into this folder.",
)


@click.group(cls=common.Group, short_help="Build a patched wheel or container image.")
