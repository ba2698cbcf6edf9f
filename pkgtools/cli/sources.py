"""Options that name a series and its sources."""

from __future__ import annotations

import click

from pkgtools.cli import common

series_option = click.option(
    "--series",
    type=common.TEXT,
    required=True,
    help="The series' folder, or a target that has it.",
)
from_option = click.option(
    "--from",
    "start_name",
    type=common.TEXT,
    metavar="SOURCE",
    help="What the series is for.  [default: the revision of --series' target]",
)
wheel_option = click.option(
    "--wheel", "wheels", type=common.EXISTING_PATH, multiple=True, help="A wheel; can be repeated."
)
git_option = click.option(
    "--git",
    "repositories",
    type=common.EXISTING_PATH,
    multiple=True,
    help="A git repository; can be repeated.",
)
